"""Matrix products: what they cost, and when they are nests everywhere."""

from __future__ import annotations

import pytest

from aot.ir.hints import Hints
from aot.ir.origin import NO_ORIGIN
from aot.ir.templates.matmul import Matmul, MatmulSupport
from aot.symbolic import Expr, dim
from tests.ir.templates.views import view

HINTS = Hints({dim("s0"): 10})


def product(rows: int | Expr, depth: int | Expr, columns: int) -> Matmul:
    return Matmul("m", view(rows, columns), NO_ORIGIN, view(rows, depth), view(depth, columns))


def test_each_step_of_the_depth_is_two_operations() -> None:
    assert int(product(10, 3, 5).flops()) == 2 * 10 * 5 * 3


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "nests"),
    [
        (8, 16, 16, True),
        (dim("s0"), 16, 16, True),
        (8, 512, 512, False),
        (1024, 16, 16, False),
        (8, dim("s0"), 16, False),
    ],
    ids=["tiny", "tiny at the example", "large weight", "much work", "unknown depth"],
)
def test_tiny_second_operands_are_better_as_nests(rows, depth, columns, nests) -> None:
    support = MatmulSupport(Matmul)
    assert bool(product(rows, depth, columns).better_as_nests(support, HINTS)) is nests


def test_what_is_tiny_is_for_the_device_to_say() -> None:
    support = MatmulSupport(Matmul, tiny_weight=255)
    assert product(8, 16, 16).better_as_nests(support, HINTS) == ""
