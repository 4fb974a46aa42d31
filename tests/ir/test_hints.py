"""Numbers for cost models: sizes at the example's values, and at others."""

from __future__ import annotations

import pytest

from aot.ir.hints import LARGER, Hints, at_scale, hints_of, larger_hints
from aot.ir.nests import Axis
from aot.ir.tensors import Dim
from aot.symbolic import FloorDiv, Maximum, Minimum, dim, integer, var

N, M = dim("n"), dim("m")


def size(hint: int, least: int = 0, most: int | None = None, multiple: int = 1) -> Dim:
    return Dim("n", least, most, hint, (0, 0, 1, 0), multiple_of=multiple)


def test_sizes_have_their_values_at_the_hints() -> None:
    hints = Hints({N: 7, M: 3})
    assert hints.value(N * M + 1) == 22
    assert hints.value(FloorDiv(N, integer(2))) == 3
    axes = [Axis(var("i"), N), Axis(var("j"), integer(4))]
    assert (hints.volume(axes), hints.volume([])) == (28, 1)
    assert hints.elements((N, M)) == 21


def test_what_is_there_for_other_sizes_counts_as_if_it_were() -> None:
    there = Maximum(integer(0), Minimum(integer(1), N - 256))
    assert Hints({N: 8, M: 3}).value(M * there) == Hints({N: 300, M: 3}).value(M * there) == 3
    assert Hints({N: 0}).value(N) == 0


def test_what_may_be_nothing_counts_as_something() -> None:
    nothing = [Axis(var("i"), N)]
    assert (Hints({N: 0}).some(nothing), Hints({N: 0}).volume(nothing)) == (1, 0)


@pytest.mark.parametrize(
    ("of", "times", "part", "wanted"),
    [
        (size(10), 16, 1, 160),
        (size(10), 1, 16, 1),  # never nothing
        (size(100), 1, 16, 6),
        (size(10, most=40), 16, 1, 40),
        (size(10, least=8), 1, 16, 8),
        (size(24, least=8, multiple=8), 1, 2, 8),
        (size(0), 16, 1, 1),
    ],
)
def test_other_sizes_are_as_near_as_the_dim_allows(
    of: Dim, times: int, part: int, wanted: int
) -> None:
    assert at_scale(of, times, part) == wanted


def test_larger_sizes_are_those_of_all_dims() -> None:
    dims = (size(10), Dim("m", 1, 20, 4, (0, 1, 1, 0)))
    assert (hints_of(dims).value(N), hints_of(dims).value(M)) == (10, 4)
    assert (larger_hints(dims).value(N), larger_hints(dims).value(M)) == (10 * LARGER, 20)
