"""Where indices turn, and what they are between these places."""

from __future__ import annotations

import pytest

from aot.ir.nests import Axis
from aot.schedule.turns import longest_part, straightened, turns
from aot.symbolic import Expr, Maximum, Minimum, Modulo, Ranges, integer, var

AT = var("i")
ROLLED = Modulo(AT + 125, integer(128))
REFLECTED = Minimum(Maximum(AT - 3, 3 - AT), 257 - AT)
REPEATED = Minimum(Maximum(AT - 3, integer(0)), integer(127))


@pytest.mark.parametrize(
    ("index", "extent", "places"),
    [
        (ROLLED, 128, [3]),
        (ROLLED, 134, [3, 131]),
        (Modulo(5 - AT, integer(8)), 8, [6]),
        (REFLECTED, 134, [3, 130]),
        (REPEATED, 134, [3, 130]),
        (2 * AT + 1, 134, []),
        (Modulo(AT, integer(2)), 512, []),
        (Modulo(2 * AT, integer(128)), 128, [64]),
        (Maximum(AT - 90, 90 - AT), 100, [90]),
    ],
)
def test_turns(index: Expr, extent: int, places: list[int]) -> None:
    found = turns([index], Axis(AT, integer(extent)))
    assert found == places
    values = [int(index.subs(AT, k)) for k in range(extent)]
    for begin, end in zip([0, *places], [*places, extent], strict=True):
        if places:
            steps = {
                b - a for a, b in zip(values[begin:end], values[begin + 1 : end], strict=False)
            }
            assert len(steps) <= 1, "straight between the places"


def test_a_loop_of_unknown_length_has_no_known_turns() -> None:
    assert turns([ROLLED], Axis(AT, var("s0"))) == []


@pytest.mark.parametrize(("index", "length"), [(ROLLED, 128), (REFLECTED, 127)])
def test_an_index_along_its_longest_part_is_straight(index: Expr, length: int) -> None:
    axis = Axis(AT, integer(134))
    assert longest_part([3, 131], axis) == (3, 131)
    (moved,), (shorter,) = straightened([index], [axis])
    assert shorter == Axis(AT, integer(length))
    assert Ranges({AT: shorter.extent}).simplify(moved) == AT
