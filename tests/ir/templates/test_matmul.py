"""Matrix products: what they cost, and when they are nests everywhere."""

from __future__ import annotations

import pytest

from aot.ir.dtypes import BFLOAT16
from aot.ir.hints import Hints
from aot.ir.nests import Buffer, LoopNest
from aot.ir.origin import NO_ORIGIN
from aot.ir.templates.base import Parts, Split
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.matmul import Matmul, MatmulSupport
from aot.ir.tensors import Dim
from aot.symbolic import Expr, dim
from tests.ir.templates.views import view

HINTS = Hints({dim("s0"): 10})
BUILDER = NestBuilder({}, {}, (Dim("s0", 0, 64, 10, (0, 0, 0, 0), "rows"),))


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
    assert bool(product(rows, depth, columns).better_as_nests(support, BUILDER)) is nests


def test_what_is_tiny_is_for_the_device_to_say() -> None:
    support = MatmulSupport(Matmul, tiny_weight=255)
    assert product(8, 16, 16).better_as_nests(support, BUILDER) == ""


def in_parts(call: Matmul, units: int = 64) -> Split | None:
    buffers = {"b": Buffer("b", BFLOAT16, (), None, "temp")}
    support = MatmulSupport(Matmul, deep=Parts(longest=4096, least=1000, room=1))
    return call.split(NestBuilder(buffers, {}), support, units, HINTS)


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "parts"),
    [
        (16, 8000, 16, 8),
        (dim("s0"), 8000, 16, 8),
        (16, 64000, 16, 64),
        (64, 64000, 64, 4),
        (16, 8003, 16, 8),
        (16, 4096, 16, 0),
        (16, dim("s1"), 16, 0),
        (256, 64000, 256, 0),
    ],
    ids=["least", "at the example", "room", "tiles", "prime", "short", "unknown", "busy"],
)
def test_deep_products_of_few_tiles_are_cut(rows, depth, columns, parts) -> None:
    found = in_parts(product(rows, depth, columns))
    assert (found.choice if found else "") == (f"{parts} parts of the depth" if parts else "")


def test_parts_are_products_whose_sums_are_taken_in_order() -> None:
    found = in_parts(product(16, 8000, 16))
    assert found is not None
    products, sums = found.ops
    assert isinstance(products, Matmul)
    assert isinstance(sums, LoopNest)
    assert [int(a.extent) for a in products.output.axes] == [8, 16, 16]
    assert [int(a.extent) for a in products.a.axes] == [8, 16, 1000]
    assert [int(a.extent) for a in products.b.axes] == [8, 1000, 16]
    assert [str(e) for e in products.a.index] == ["v0", "1000*part + v1"]
    assert [str(e) for e in products.b.index] == ["1000*part + v0", "v1"]
    assert [int(a.extent) for a in sums.reduction] == [8]
    assert sums.stores[0].buffer == "b"


def test_a_depth_that_nothing_divides_gets_zeros_behind_it() -> None:
    found = in_parts(product(16, 8003, 16))
    assert found is not None
    *copies, products, sums = found.ops
    assert isinstance(products, Matmul)
    assert isinstance(sums, LoopNest)
    assert [[int(a.extent) for a in nest.axes] for nest in copies] == [[16, 8192], [16, 8192]]
    assert [int(a.extent) for a in products.a.axes] == [8, 16, 1024]
    assert [int(a.extent) for a in products.b.axes] == [8, 1024, 16]
