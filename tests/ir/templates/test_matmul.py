"""Matrix products: what they cost, and when they are nests everywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aot.ir.dtypes import BFLOAT16, FLOAT32, FLOAT64, DType
from aot.ir.hints import Hints
from aot.ir.nests import Buffer, LoopNest
from aot.ir.origin import NO_ORIGIN
from aot.ir.templates.base import Split
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.matmul import AlignedRows, Matmul, MatmulSupport
from aot.ir.tensors import Dim
from aot.symbolic import Expr, dim, integer, is_int
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


def in_parts(call: Matmul, parts: int = 8) -> Split | None:
    buffers = {"b": Buffer("b", BFLOAT16, (), None, "temp")}
    asked = []

    def price(*problem: object, each: int) -> int:
        assert not each
        asked.append(problem)
        return parts

    support = MatmulSupport(Matmul, parts=price)
    found = call.split(NestBuilder(buffers, {}), support, 64, HINTS)
    assert asked in ([], [(1, 16 if is_int(call.a.axes[0].extent) else 10, 16, 8000, BFLOAT16)])
    return found


@pytest.mark.parametrize(
    ("rows", "depth", "parts", "cut"),
    [
        (16, 8000, 8, True),
        (dim("s0"), 8000, 8, True),
        (16, 8000, 1, False),
        (16, dim("s1"), 8, False),
    ],
    ids=["worth it", "at the example", "not worth it", "unknown"],
)
def test_deep_products_are_cut_as_the_device_prices_it(rows, depth, parts, cut) -> None:
    found = in_parts(product(rows, depth, 16), parts)
    assert (found.choice if found else "") == (f"{parts} parts of the depth" if cut else "")


@pytest.mark.parametrize(
    ("role", "depth_last", "strides", "order"),
    [
        ("b", True, (16, 1), [16, 8000]),
        ("b", True, (1, 8000), None),
        ("b", False, (16, 1), None),
        ("a", True, (1, 16), None),
    ],
    ids=["stored anew", "is so", "does not matter", "first operand"],
)
def test_weights_are_stored_with_the_depth_last_where_that_is_faster(
    role, depth_last, strides, order
) -> None:
    support = MatmulSupport(Matmul, depth_last=depth_last)
    found = product(16, 8000, 16).stored_walk(role, support, {role: [integer(s) for s in strides]})
    assert (None if found is None else [int(a.extent) for a in found]) == order


def test_what_types_want_of_memory() -> None:
    rows = AlignedRows(bytes=16, least_uses=1, least_work=1)
    support = MatmulSupport(Matmul, rows=rows, depth_last_of=("float32",))
    call = product(16, 8000, 16)
    assert [
        call.row_bytes("a", support.of_type(t), HINTS) for t in (BFLOAT16, FLOAT32, FLOAT64)
    ] == [*(16, 16, 1)]
    assert [support.of_type(t).depth_last for t in (BFLOAT16, FLOAT32)] == [False, True]


def test_whole_words_of_few_columns_are_read_where_they_lie() -> None:
    """Halves are not: plain loads of two bytes cannot be copied ahead of their use."""
    rows = AlignedRows(bytes=16, least_uses=1, least_work=1, words=4, narrow=16)
    support = MatmulSupport(Matmul, rows=rows)
    few, more = product(16, 8000, 16), product(16, 8000, 17)
    wanted = [
        call.row_bytes(role, support.of_type(t), HINTS)
        for call, role, t in ((few, "a", FLOAT32), (few, "b", FLOAT32), (more, "a", FLOAT32))
    ]
    assert wanted == [1, 16, 16]
    assert few.row_bytes("a", support.of_type(BFLOAT16), HINTS) == 16


def test_nothing_is_priced_as_one() -> None:
    """The example of a size that is known when the program runs may be 0."""
    asked = []
    support = MatmulSupport(Matmul, parts=lambda *problem, **_: asked.append(problem) or 1)
    builder = NestBuilder({"b": Buffer("b", BFLOAT16, (), None, "temp")}, {})
    product(dim("s0"), 8000, 16).split(builder, support, 64, Hints({dim("s0"): 0}))
    assert asked == [(1, 1, 16, 8000, BFLOAT16)]


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
    call, buffers = product(16, 8003, 16), {"b": Buffer("b", BFLOAT16, (), None, "temp")}
    support = MatmulSupport(Matmul, parts=lambda *_, **__: 8)
    found = call.split(NestBuilder(buffers, {}), support, 64, HINTS)
    assert found is not None
    *copies, products, sums = found.ops
    assert isinstance(products, Matmul)
    assert isinstance(sums, LoopNest)
    assert [[int(a.extent) for a in nest.axes] for nest in copies] == [[16, 8192], [16, 8192]]
    assert [int(a.extent) for a in products.a.axes] == [8, 16, 1024]
    assert [int(a.extent) for a in products.b.axes] == [8, 1024, 16]


@pytest.mark.parametrize(("depth", "each"), [(14336, 1024), (14000, 1024), (13874, 1024)])
def test_parts_are_whole_blocks_where_the_device_cares_for_rows(depth: int, each: int) -> None:
    """14,000 are 14 times 1000, which are no whole blocks of 64; 13,874 not even whole vectors."""
    call, buffers = product(16, depth, 16), {"b": Buffer("b", FLOAT32, (), None, "temp")}
    rows = AlignedRows(bytes=16, least_uses=32, least_work=1 << 26)
    support = MatmulSupport(Matmul, parts=lambda *_, **__: 14, rows=rows)
    found = call.split(NestBuilder(buffers, {}), support, 64, HINTS)
    assert found is not None
    *copies, products, _ = found.ops
    assert isinstance(products, Matmul)
    assert [int(a.extent) for a in products.a.axes] == [14, 16, each]
    assert len(copies) == (0 if depth % each == 0 else 2)


ODD = AlignedRows(bytes=16, least_uses=32, least_work=1 << 26, words=4, span=128, copy=3)


def batch(count: int, rows: int, depth: int, columns: int, *, shared: bool = False) -> Matmul:
    """`shared`: all products have the second operand in common."""
    b = view(count, depth, columns)
    b = replace(b, index=(integer(0), *b.index[1:])) if shared else b
    return Matmul("m", view(count, rows, columns), NO_ORIGIN, view(count, rows, depth), b)


def wanted_rows(call: Matmul, dtype: DType = FLOAT32) -> list[int]:
    support = MatmulSupport(Matmul, rows=ODD).of_type(dtype)
    return [call.row_words(role, support, HINTS) for role in ("a", "b")]


def test_rows_of_a_batch_are_copied_where_blocks_read_them_again() -> None:
    assert wanted_rows(batch(74, 480, 83, 1024)) == [16, 16]
    assert wanted_rows(batch(74, 480, 83, 128)) == [1, 1]
    # Of an operand so slight a copy is nothing.
    assert wanted_rows(batch(8, 32, 2048, 3169)) == [16, 1]
    assert wanted_rows(batch(2, 160, 83, 160)) == [1, 1]


def test_an_operand_that_products_share_is_not_copied_for_each() -> None:
    assert wanted_rows(batch(74, 480, 83, 1024, shared=True)) == [16, 1]


def test_whole_words_of_a_batch_are_read_where_blocks_read_them_seldom() -> None:
    assert wanted_rows(batch(128, 329, 92, 282), BFLOAT16) == [4, 4]
    assert wanted_rows(batch(8, 3792, 126, 2048), BFLOAT16) == [16, 16]
    assert wanted_rows(batch(128, 329, 92, 282)) == [16, 16]


TURNED = replace(ODD, turned_rows=512)


@pytest.mark.parametrize(
    ("sizes", "strides", "dtype", "copied"),
    [
        ((20, 4096, 320, 128), {"a": (1, 4096), "b": (128, 1)}, FLOAT32, True),
        ((20, 4096, 320, 128), {"a": (320, 1), "b": (128, 1)}, FLOAT32, False),
        ((20, 4096, 320, 128), {"a": (1, 4096), "b": (1, 320)}, FLOAT32, False),
        ((20, 511, 320, 128), {"a": (1, 511), "b": (128, 1)}, FLOAT32, False),
        ((20, 4096, 321, 128), {"a": (1, 4096), "b": (128, 1)}, FLOAT32, False),
        ((1, 512, 320, 128), {"a": (1, 512), "b": (128, 1)}, FLOAT32, False),
        ((20, 4096, 320, 128), {"a": (1, 4096), "b": (128, 1)}, FLOAT64, False),
        ((20, 4096, 320, 128), {"a": (1, 4096), "b": (128, 1)}, BFLOAT16, False),
    ],
    ids=["both", "one", "the first", "few rows", "odd", "little", "float64", "halves"],
)
def test_a_second_operand_is_turned_where_the_first_is_no_better(
    sizes, strides, dtype, copied
) -> None:
    call = batch(*sizes)
    support = MatmulSupport(Matmul, rows=TURNED, depth_last_of=("float32", "float64"))
    known = {role: [integer(0), *map(integer, s)] for role, s in strides.items()}
    assert bool(call.misfit("b", support.of_type(dtype), known, HINTS)) is copied
    assert call.misfit("a", support.of_type(dtype), known, HINTS) == ""
    walk = call.walk("b", support.of_type(dtype), known)
    # What is copied for its rows is turned in any case where that helps.
    turned = copied or sizes[1] == 511 or sizes[2] == 321 or sizes[0] == 1 or dtype == FLOAT64
    assert walk == ((call.b.axes[0], call.b.axes[2], call.b.axes[1]) if turned else None)
    assert call.walk("b", support.of_type(dtype), {}) is None


def test_results_want_two_vectors_and_operands_whole_lines() -> None:
    support = MatmulSupport(Matmul, rows=replace(ODD, line=128, line_rows=17))
    call = product(100, 4096, 67)
    assert [call.line_bytes(role, support, HINTS) for role in ("a", "b", "output")] == [
        128,
        128,
        32,
    ]
    few, vector = product(16, 4096, 67), product(1, 4096, 67)
    assert [few.line_bytes(role, support, HINTS) for role in ("a", "b", "output")] == [1, 128, 1]
    assert vector.line_bytes("b", support, HINTS) == 1
    # Which descriptors copy, though blocks are read by the element.
    wide = support.of_type(FLOAT64)
    assert [call.line_bytes(role, wide, HINTS) for role in ("a", "b", "output")] == [128, 128, 1]


def whole_rows(
    rows: int, depth: int, columns: int, *, weight: bool = True, run: int = 1, few: int = 0
) -> str:
    """What is done with rows of an input, by the kind of the second operand and the strides."""
    call = product(rows, depth, columns)
    x = Buffer("x", BFLOAT16, (), tuple(integer(s) for s in (depth * run, run)), "input")
    w = Buffer("w", BFLOAT16, (), (integer(1), integer(depth)), "weight" if weight else "temp")
    call = replace(call, a=replace(call.a, buffer="x"), b=replace(call.b, buffer="w"))
    rows_wanted = replace(ODD, line_rows=few)
    support = MatmulSupport(Matmul, parts=lambda *_, **__: 1, rows=rows_wanted)
    found = call.split(NestBuilder({"x": x, "w": w}, {}), support, 64, HINTS)
    return found.choice if found else ""


def test_odd_rows_that_are_copied_have_whole_vectors() -> None:
    assert whole_rows(4096, 6027, 72) == "a depth of 6032"
    assert whole_rows(4096, 6032, 72) == ""
    assert whole_rows(4096, 6027, 16) == ""
    assert whole_rows(4096, 6027, 72, weight=False) == ""
    assert whole_rows(4096, 6027, 72, run=2) == ""


def test_few_odd_rows_have_whole_vectors_where_weights_take_the_time() -> None:
    """Copying them is nothing beside reading an odd weight by the element."""
    assert whole_rows(9, 7005, 8192, few=17) == "a depth of 7008"
    assert whole_rows(9, 7005, 8192, weight=False, few=17) == ""
    assert whole_rows(9, 7008, 8192, few=17) == whole_rows(1, 70051, 8192, few=17) == ""


def test_rows_of_words_are_copied_where_blocks_read_them_often() -> None:
    assert whole_rows(14555, 12978, 80) == ""
    assert whole_rows(14555, 12978, 512) == "a depth of 12984"
    assert whole_rows(100, 4098, 4096) == "a depth of 4104"


@pytest.mark.parametrize(
    ("rows", "columns", "asked"), [(9977, 24, [1, 0]), (9976, 24, [0]), (9977, 4096, [0])]
)
def test_few_columns_by_a_turned_operand_in_odd_rows_read_it_where_it_lies(
    rows: int, columns: int, asked: list[int]
) -> None:
    call = product(rows, 16384, columns)
    x = Buffer("x", BFLOAT16, (), (integer(1), integer(rows)), "input")
    w = Buffer("w", BFLOAT16, (), (integer(columns), integer(1)), "weight")
    call = replace(call, a=replace(call.a, buffer="x"), b=replace(call.b, buffer="w"))
    found: list[int] = []

    def parts(*_: object, each: int) -> int:
        found.append(each)
        return 1

    support = MatmulSupport(Matmul, parts=parts, rows=ODD)
    call.split(NestBuilder({"x": x, "w": w}, {}), support, 64, HINTS)
    assert found == asked
