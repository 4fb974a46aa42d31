"""Layouts: which buffers take whose, what is copied, and that results stay the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from aot.backends.triton.backend import TritonBackend
from aot.ir.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, DType
from aot.ir.loops import LoopGraph, reads
from aot.ir.scalar import Node, binary, reduce_, unary
from aot.ir.templates.attention import Attention, AttentionSupport, MaskRows
from aot.ir.templates.conv import Conv
from aot.ir.templates.matmul import AlignedRows, Matmul, MatmulSupport
from aot.ir.tensors import Dim
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.options import Target
from aot.passes.inline import inline_producers
from aot.passes.layout import choose_layouts, own_outputs
from aot.symbolic import Expr, FloorDiv, Modulo, as_expr, dim, row_major_strides
from tests.passes.parts import nests, templates
from tests.schedule.graphs import (
    DEVICE,
    attention,
    check_same,
    make_graph,
    matmul,
    pointwise,
    unary_op,
)


def test_convolution_chains_stay_channels_last() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        geometry = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}

        def conv(t: Tensor) -> Tensor:
            call = partial(Conv, x=identity_view(t), w=identity_view(w), **geometry)
            return builder.template(call, x.shape, x.dtype)

        return [conv(unary_op("tanh", conv(x)))]

    graph = make_graph(body, {"x": (1, 16, 9, 9)}, {"w": (16, 16, 3, 3)})
    laid = choose_layouts(inline_producers(graph, DEVICE), DEVICE)
    inner = [laid.buffers[v.buffer] for c in templates(laid) for r, v in c.operands if r == "x"]
    strides = [tuple(int(s) for s in b.strides or ()) for b in inner]
    assert strides == [(1296, 81, 9, 1), (1296, 1, 144, 16)]
    # The promise to the caller is kept by a copy that will be an epilogue.
    (result,) = laid.outputs
    assert laid.buffers[result].strides == row_major_strides(laid.buffers[result].shape)
    check_same(graph, laid, tolerance=1e-4)


def test_what_sums_read_again_and_again_lies_as_they_run() -> None:
    """A vector of the results reads neighbours, though the buffer's own source has them apart."""

    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        turned = builder.pointwise(
            (as_expr(5), as_expr(64)), x.dtype, lambda at: unary("tanh", x.load(at[::-1]))
        )

        def product_of(at: tuple[Expr, ...], over: tuple[Expr, ...]) -> Node:
            left, right = (turned.load((over[0], k)) for k in at)
            return reduce_("sum", binary("mul", left, right))

        return builder.reduction((as_expr(64), as_expr(64)), (as_expr(5),), [(x.dtype, product_of)])

    graph = make_graph(body, {"x": (64, 5)})
    laid = choose_layouts(graph, DEVICE)
    first, _ = nests(laid)
    (store,) = first.stores
    assert laid.buffers[store.buffer].strides == row_major_strides(laid.buffers[store.buffer].shape)
    check_same(graph, laid, tolerance=1e-4)


def test_operand_that_no_layout_makes_plain_is_copied() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        view = builder.view(
            x, [as_expr(8), as_expr(6)], lambda at: (Modulo(at[0] + at[1], as_expr(8)), at[1])
        )
        shape = (as_expr(8), as_expr(64))
        return [builder.template(partial(Matmul, a=view, b=identity_view(w)), shape, x.dtype)]

    graph = make_graph(body, {"x": (8, 6)}, {"w": (6, 64)})
    laid = choose_layouts(graph, DEVICE)
    copies = [d for d in laid.decisions if d.verdict == "copied"]
    assert len(copies) == 1
    check_same(graph, laid, tolerance=1e-4)


def test_a_weight_that_no_layout_makes_plain_is_stored_anew() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        view = builder.view(
            w, [as_expr(8), as_expr(6)], lambda at: (Modulo(at[0] + at[1], as_expr(8)), at[1])
        )
        call = partial(Matmul, a=view, b=identity_view(x))
        return [builder.template(call, (as_expr(8), as_expr(64)), x.dtype)]

    graph = make_graph(body, {"x": (6, 64)}, {"w": (8, 6)})
    laid = choose_layouts(graph, DEVICE)
    assert [d.verdict for d in laid.decisions if d.verdict == "copied"] == ["copied"]
    (stored,) = laid.derived
    assert laid.buffers[stored.name].kind == "weight" and stored.sources == ("w",)
    assert not nests(laid)[:-1]  # only the copy to the result is left at run time
    check_same(graph, laid, tolerance=1e-4)


def test_a_part_of_a_weight_whose_size_a_run_decides_is_no_weight() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        view = builder.view(w, [as_expr(96), dim("s0")], lambda at: (at[0], at[1] + 1))
        call = partial(Matmul, a=identity_view(x), b=view)
        return [builder.template(call, (as_expr(64), dim("s0")), x.dtype)]

    sizes = (Dim("s0", 0, 199, 0, (0, 0, 0, 0)),)
    graph = make_graph(body, {"x": (64, 96)}, {"w": (96, 200)}, sizes)
    laid = choose_layouts(graph, TritonBackend().machine(Target("cuda", ("sm_90",))))
    assert not laid.derived
    check_same(graph, laid, {"s0": 7}, tolerance=1e-4)


def test_attention_result_takes_the_layout_of_the_product_that_reads_it() -> None:
    def body(builder: GraphBuilder, q: Tensor, w: Tensor) -> Sequence[Tensor]:
        mixed = attention(q, q, q)
        merged = pointwise(
            builder,
            (5, 32),
            lambda at: mixed.load(
                (as_expr(0), FloorDiv(at[1], as_expr(8)), at[0], Modulo(at[1], as_expr(8)))
            ),
        )
        return [matmul(builder, merged, w)]

    graph = make_graph(body, {"q": (1, 4, 5, 8)}, {"w": (32, 64)})
    laid = choose_layouts(inline_producers(graph, DEVICE), DEVICE)
    first, second = templates(laid)
    assert dict(second.operands)["a"].buffer == first.output.buffer
    strides = laid.buffers[first.output.buffer].strides or ()
    assert [int(s) for s in strides[1:]] == [8, 32, 1]
    check_same(graph, laid, tolerance=1e-4)


MASK_ROWS = MaskRows(bytes=16, words=4, least_uses=4, least_scores=200)
WORDS = replace(DEVICE, templates=(AttentionSupport(Attention, mask_rows=MASK_ROWS),))


def _masked(heads: int, keys: int, dtype: DType, kind: str = "m") -> tuple[LoopGraph, LoopGraph]:
    """Attention of 5 queries under a mask that heads share, before and after its layout."""

    def body(builder: GraphBuilder, q: Tensor, k: Tensor, m: Tensor) -> Sequence[Tensor]:
        shape = [as_expr(n) for n in (2, heads, 5, keys)]
        mask = builder.view(m, shape, lambda at: (at[0], as_expr(0), at[2], at[3]))
        views = {"q": identity_view(q), "k": identity_view(k), "v": identity_view(k)}
        call = partial(Attention, **views, mask=mask, scale=0.5, causal=False)
        return [builder.template(call, q.shape, q.dtype)]

    shapes = {"q": (2, heads, 5, 8), "k": (2, heads, keys, 8)}
    masks = {"m": (2, 1, 5, keys)}
    graph = make_graph(
        body,
        {**shapes, **(masks if kind == "m" else {})},
        {} if kind == "m" else masks,
        dtypes={"m": dtype},
    )
    return graph, choose_layouts(graph, WORDS)


@pytest.mark.parametrize(
    ("keys", "dtype", "row"), [(7, BOOL, 16), (18, BOOL, 32), (7, BFLOAT16, 8), (21, FLOAT16, 24)]
)
def test_masks_of_odd_rows_are_copied_into_whole_words(keys: int, dtype: DType, row: int) -> None:
    """Once for all heads: what they share stays shared."""
    graph, laid = _masked(8, keys, dtype)
    copy = next(nest for nest in nests(laid) if nest.name.endswith("_mask"))
    (store,) = copy.stores
    strides = laid.buffers[store.buffer].strides or ()
    assert [int(s) for s in strides] == [5 * row, row, 1]
    (call,) = templates(laid)
    assert dict(call.operands)["mask"].buffer == store.buffer
    check_same(graph, laid, tolerance=1e-4)


@pytest.mark.parametrize(
    ("heads", "keys", "dtype"),
    [(8, 20, BOOL), (8, 18, BFLOAT16), (8, 21, FLOAT32), (2, 27, BOOL), (4, 3, BOOL)],
    ids=("words", "words of halves", "floats", "few uses", "few scores"),
)
def test_masks_that_are_read_in_words_or_seldom_stay(heads: int, keys: int, dtype: DType) -> None:
    _, laid = _masked(heads, keys, dtype)
    assert not [d for d in laid.decisions if d.verdict == "copied"]


def test_a_mask_that_is_a_weight_is_stored_in_whole_words() -> None:
    graph, laid = _masked(8, 7, BFLOAT16, "weight")
    (stored,) = laid.derived
    assert [int(s) for s in laid.buffers[stored.name].shape] == [2, 5, 8]
    check_same(graph, laid, tolerance=1e-4)


def test_operands_of_dynamic_strides_are_read_where_they_lie() -> None:
    keys = Dim("s0", 1, None, 600, (0, 1, 2, 0))
    shapes = {"q": (1, 4, 3, 8), "k": (1, 4, dim("s0"), 8)}
    graph = make_graph(lambda _, q, k: [attention(q, k, k)], shapes, {}, (keys,))
    laid = choose_layouts(graph, DEVICE)
    assert not [d for d in laid.decisions if d.verdict == "copied"]
    for size in (1, 70):
        check_same(graph, laid, {"s0": size}, tolerance=1e-4)


@pytest.mark.parametrize(("hint", "copied"), [(8, True), (1, False)])
def test_rows_of_any_length_are_copied_where_they_may_be_read_often(
    hint: int, copied: bool
) -> None:
    """A copy costs a small size a launch, and saves one 16 times as large most of its time."""
    rows = AlignedRows(bytes=16, least_uses=16, least_work=1 << 17)
    machine = replace(DEVICE, templates=(MatmulSupport(Matmul, rows=rows),))
    shapes = {"x": (40, dim("s0")), "w": (dim("s0"), 64)}
    depth = Dim("s0", 1, None, hint, (0, 0, 1, 0))
    graph = make_graph(lambda builder, x, w: [matmul(builder, x, w)], shapes, {}, (depth,))
    laid = choose_layouts(graph, machine)
    assert [d.subject[0] for d in laid.decisions if d.verdict == "copied"] == ["x"] * copied
    for size in (1, 7, 16):
        check_same(graph, laid, {"s0": size}, tolerance=1e-4)


def test_an_input_returned_is_copied() -> None:
    graph = make_graph(lambda _, x: [x, unary_op("neg", x)], {"x": (3, 4)})
    owned = own_outputs(graph)
    assert owned.buffers[owned.outputs[0]].kind == "temp"
    assert [reads(op) for op in owned.ops] == [("x",), ("x",)]
    check_same(graph, owned)
