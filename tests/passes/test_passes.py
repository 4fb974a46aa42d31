"""Each pass alone: what it must change, what it must leave, and that results stay the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from aot.ir.dtypes import BOOL, FLOAT32, INT64
from aot.ir.layouts import is_dense
from aot.ir.loops import LoopGraph, reads
from aot.ir.nests import LoopNest
from aot.ir.scalar import Access, binary, const, index_value, loads, postorder, unary, where
from aot.ir.templates.base import TemplateCall
from aot.ir.templates.conv import Conv
from aot.ir.templates.matmul import Matmul
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.passes.dead_code import remove_dead_code
from aot.passes.expand_templates import expand_templates
from aot.passes.fold_weights import fold_weights
from aot.passes.inline import inline_producers
from aot.passes.layout import choose_layouts, own_outputs
from aot.passes.normalize_axes import normalize_axes
from aot.symbolic import FloorDiv, Modulo, as_expr, row_major_strides
from tests.schedule.graphs import (
    BARE,
    BATCH,
    DEVICE,
    S0,
    attention,
    binary_op,
    check_same,
    concatenate,
    make_graph,
    matmul,
    pointwise,
    reduce_op,
    transpose,
    unary_op,
)


def nests(graph: LoopGraph) -> list[LoopNest]:
    return [op for op in graph.ops if isinstance(op, LoopNest)]


def templates(graph: LoopGraph) -> list[TemplateCall]:
    return [op for op in graph.ops if isinstance(op, TemplateCall)]


# ------------------------------------------------------------------------------- dead code
def test_dead_operations_and_their_buffers_go() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        unary_op("exp", unary_op("neg", x))
        return [unary_op("abs", x)]

    graph = make_graph(body, {"x": (4,)})
    clean = remove_dead_code(graph)
    assert len(clean.ops) == 1
    assert len(clean.buffers) == 2
    assert remove_dead_code(clean) is clean


def test_dead_stores_of_living_nests_go() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        both = builder.pointwise_many(
            x.shape,
            [(FLOAT32, lambda at: unary("exp", x.load(at))), (FLOAT32, x.load)],
        )
        return [both[1]]

    clean = remove_dead_code(make_graph(body, {"x": (4,)}))
    assert [len(n.stores) for n in nests(clean)] == [1]


# ------------------------------------------------------------------------------- inlining
def test_single_use_chain_becomes_one_nest() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        for op in ("exp", "tanh", "sin", "abs"):
            x = unary_op(op, x)
        return [x]

    graph = make_graph(body, {"x": (S0, 5)}, dims=(BATCH,))
    inlined = inline_producers(graph, DEVICE)
    assert len(inlined.ops) == 1
    for size in (0, 1, 3):
        check_same(graph, inlined, {"s0": size})


@pytest.mark.parametrize(
    ("op", "stored"), [("exp", True), ("erf", True), ("neg", False), ("abs", False)]
)
def test_dear_functions_with_two_users_are_stored(op: str, stored: bool) -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        y = unary_op(op, x)
        return [unary_op("sin", y), reduce_op("sum", y, 0)]

    graph = make_graph(body, {"x": (64, 64)})
    inlined = inline_producers(graph, DEVICE)
    assert len(inlined.ops) == (3 if stored else 2)
    check_same(graph, inlined, tolerance=1e-4)


def test_reductions_are_never_repeated() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [binary_op("sub", x, reduce_op("sum", x, 1, keep=True))]

    inlined = inline_producers(make_graph(body, {"x": (8, 8)}), DEVICE)
    assert len(inlined.ops) == 2


def test_results_of_the_model_stay_stored() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        y = unary_op("neg", x)
        return [y, unary_op("exp", y)]

    graph = make_graph(body, {"x": (8,)})
    inlined = inline_producers(graph, DEVICE)
    assert len(inlined.ops) == 2
    check_same(graph, inlined)


def test_value_of_a_nest_with_more_results_is_not_repeated() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        def dear(at):
            return unary("exp", x.load(at))

        first, second = builder.pointwise_many(
            x.shape, [(FLOAT32, dear), (FLOAT32, lambda at: unary("neg", dear(at)))]
        )
        return [second, unary_op("sin", first)]

    assert len(inline_producers(make_graph(body, {"x": (64,)}), DEVICE).ops) == 2


def test_views_compose_into_template_operands() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [matmul(builder, transpose(x, 0, 1), w)]

    graph = make_graph(body, {"x": (16, 8), "w": (16, 4)})
    inlined = inline_producers(graph, DEVICE)
    (call,) = templates(inlined)
    assert len(inlined.ops) == 1
    assert dict(call.operands)["a"].buffer == "x"
    check_same(graph, inlined)


def test_concatenation_reads_its_pieces_under_guards() -> None:
    def body(_: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        return [concatenate(unary_op("neg", x), unary_op("exp", y), 1)]

    graph = make_graph(body, {"x": (4, 3), "y": (4, 5)})
    inlined = inline_producers(graph, DEVICE)
    (nest,) = nests(inlined)
    assert all(isinstance(n.attr, Access) and n.attr.masked for n in loads(nest.roots))
    check_same(graph, inlined)


def test_gather_at_known_positions_needs_no_check() -> None:
    def body(builder: GraphBuilder, w: Tensor) -> Sequence[Tensor]:
        ids = builder.pointwise((as_expr(6),), INT64, lambda at: index_value(at[0] + 2))
        picked = [as_expr(6), w.shape[1]]
        return [
            builder.pointwise(
                picked,
                FLOAT32,
                lambda at: w.load((builder.indirect(ids.load(at[:1]), w.shape[0]), at[1])),
            )
        ]

    graph = make_graph(body, {"w": (10, 4)})
    inlined = inline_producers(graph, DEVICE)
    (nest,) = nests(inlined)
    (read,) = loads(nest.roots)
    assert not read.args
    check_same(graph, inlined)


# ------------------------------------------------------------------------------- axes
def test_reshaped_reads_become_affine() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        at = lambda i: (FloorDiv(i[0], as_expr(8)), Modulo(i[0], as_expr(8)))  # noqa: E731
        return [pointwise(builder, (32,), lambda i: unary("exp", x.load(at(i))))]

    graph = make_graph(body, {"x": (4, 8)})
    normal = normalize_axes(graph)
    (nest,) = nests(normal)
    assert [int(a.extent) for a in nest.axes] == [4, 8]
    (read,) = loads(nest.roots)
    assert isinstance(read.attr, Access)
    assert all(e.is_Symbol for e in read.attr.index)
    check_same(graph, normal)


def test_loops_of_one_turn_go() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [unary_op("exp", x), reduce_op("sum", x, 0)]

    graph = make_graph(body, {"x": (1, 8, 1)})
    normal = normalize_axes(graph)
    first, second = nests(normal)
    assert [int(a.extent) for a in first.axes] == [8]
    assert len(second.reduction) == 1
    check_same(graph, normal)


# ------------------------------------------------------------------------------- folding
def _scaled(_: GraphBuilder, x: Tensor, w: Tensor, g: Tensor) -> Sequence[Tensor]:
    scale = unary_op("exp", binary_op("mul", w, g))
    return [binary_op("mul", x, scale)]


def test_constant_parts_become_derived_weights() -> None:
    graph = make_graph(_scaled, {"x": (S0, 8)}, {"w": (8,), "g": (8,)}, (BATCH,))
    folded = fold_weights(graph)
    assert [d.recipe for d in folded.derived] == ["fold"]
    assert len(folded.ops) == 1
    (name,) = [d.name for d in folded.derived]
    assert folded.buffers[name].kind == "weight"
    check_same(graph, folded, {"s0": 3})
    check_same(graph, inline_producers(folded, DEVICE), {"s0": 3})


def test_a_derived_weight_that_only_recipes_read_is_their_scratch() -> None:
    """Two derived weights of one chain, of which the model reads the second."""

    def body(_: GraphBuilder, x: Tensor, w: Tensor, g: Tensor) -> Sequence[Tensor]:
        scaled = binary_op("mul", w, g)
        unused = binary_op("add", x, scaled)
        return [binary_op("add", x, unary_op("exp", scaled)), unused]

    graph = make_graph(body, {"x": (S0, 4)}, {"w": (4,), "g": (4,)}, (BATCH,))
    folded = fold_weights(graph)
    assert len(folded.derived) == 2
    read = remove_dead_code(replace(folded, outputs=folded.outputs[:1]))
    (left,) = [d.name for d in read.derived]
    weights = {b.name for b in read.buffers.values() if b.kind == "weight"}
    assert weights == {"w", "g", left}


def test_views_and_broadcasts_are_not_folded() -> None:
    def body(_: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [binary_op("add", x, transpose(w, 0, 1))]

    graph = make_graph(body, {"x": (8, 4)}, {"w": (4, 8)})
    assert fold_weights(graph).derived == ()


def test_what_positions_decide_is_neither_folded_nor_computed() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        place = builder.pointwise((as_expr(6),), INT64, lambda at: index_value(at[0]))
        moved = builder.pointwise(
            (as_expr(6),), INT64, lambda at: binary("add", place.load(at), const(3, INT64))
        )
        inside = builder.pointwise(
            (as_expr(6),), BOOL, lambda at: binary("ge", moved.load(at), const(0, INT64))
        )
        zero = const(0, FLOAT32)
        return [
            pointwise(
                builder, (6,), lambda at: where(inside.load(at), unary("neg", x.load(at)), zero)
            )
        ]

    graph = make_graph(body, {"x": (6,)})
    folded = fold_weights(graph)
    assert folded.derived == ()
    (nest,) = nests(inline_producers(folded, DEVICE))
    assert [n.op for n in postorder(nest.roots)] == ["load", "neg"]
    check_same(graph, inline_producers(folded, DEVICE))


def test_large_expansions_are_not_folded() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        table = pointwise(builder, (1024, 1024), lambda at: unary("exp", w.load(at[1:])))
        return [binary_op("add", x, table)]

    graph = make_graph(body, {"x": (1024, 1024)}, {"w": (1024,)})
    folded = fold_weights(graph)
    assert folded.derived == ()
    assert [d.verdict for d in folded.decisions if d.stage == "fold"] == ["computed at run time"]


def test_outputs_are_not_folded_away() -> None:
    def body(_: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [unary_op("exp", w), unary_op("neg", x)]

    graph = make_graph(body, {"x": (4,)}, {"w": (4,)})
    folded = fold_weights(graph)
    assert len(folded.ops) == 2
    check_same(graph, folded)


# ------------------------------------------------------------------------------- templates
@pytest.mark.parametrize("tiny", [True, False])
def test_small_products_become_nests(tiny: bool) -> None:
    size = 16 if tiny else 512

    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [matmul(builder, x, w)]

    graph = make_graph(body, {"x": (8, size)}, {"w": (size, size)})
    expanded = expand_templates(graph, DEVICE)
    assert bool(templates(expanded)) is not tiny
    check_same(graph, expanded, tolerance=1e-4)


def _conv(groups: int):
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        call = partial(
            Conv,
            x=identity_view(x),
            w=identity_view(w),
            stride=(2, 1),
            padding=(1, 0),
            dilation=(1, 2),
            groups=groups,
        )
        return [builder.template(call, [as_expr(s) for s in (2, 4, 4, 4)], x.dtype)]

    return body


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolution_expands_to_the_same(groups: int) -> None:
    graph = make_graph(_conv(groups), {"x": (2, 4, 7, 8)}, {"w": (4, 4 // groups, 3, 3)})
    expanded = expand_templates(graph, BARE)
    assert not templates(expanded)
    check_same(graph, expanded, tolerance=1e-4)


def test_attention_over_vectors_of_a_dynamic_length_expands() -> None:
    def body(builder: GraphBuilder, q: Tensor, k: Tensor) -> Sequence[Tensor]:
        return [attention(q, k, k)]

    graph = make_graph(body, {"q": (2, 4, 5, S0), "k": (2, 4, 7, S0)}, {}, (BATCH,))
    expanded = expand_templates(graph, DEVICE)
    assert "attention" not in [call.kind for call in templates(expanded)]
    check_same(graph, expanded, {"s0": 3}, tolerance=1e-4)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_expands_to_the_same(masked: bool) -> None:
    def body(builder: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Sequence[Tensor]:
        return [attention(q, k, v, m if masked else None, causal=not masked)]

    heads = {"q": (2, 4, 5, 8), "k": (2, 2, 5, 8), "v": (2, 2, 5, 8), "m": (2, 4, 5, 5)}
    graph = make_graph(body, heads)
    expanded = expand_templates(graph, BARE)
    check_same(graph, expanded, tolerance=1e-4)


# ------------------------------------------------------------------------------- layouts
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


def test_an_input_returned_is_copied() -> None:
    graph = make_graph(lambda _, x: [x, unary_op("neg", x)], {"x": (3, 4)})
    owned = own_outputs(graph)
    assert owned.buffers[owned.outputs[0]].kind == "temp"
    assert [reads(op) for op in owned.ops] == [("x",), ("x",)]
    check_same(graph, owned)


@pytest.mark.parametrize(
    ("shape", "strides", "dense"),
    [
        ((2, 3), (3, 1), True),
        ((2, 3), (1, 2), True),
        ((2, 3), (0, 1), False),
        ((2, 3), (6, 2), False),
        ((1, 3), (77, 1), True),
        ((), (), True),
    ],
)
def test_dense_strides(shape, strides, dense: bool) -> None:
    assert is_dense(tuple(map(as_expr, shape)), tuple(map(as_expr, strides))) is dense


def test_repeated_heads_are_read_without_the_repetition() -> None:
    def body(builder: GraphBuilder, q: Tensor, kv: Tensor) -> Sequence[Tensor]:
        wide = pointwise(
            builder,
            (1, 6, 5, 8),
            lambda at: kv.load((at[0], FloorDiv(at[1], as_expr(3)), at[2], at[3])),
        )
        return [attention(q, wide, wide, causal=True)]

    graph = make_graph(body, {"q": (1, 6, 5, 8), "kv": (1, 2, 5, 8)})
    inlined = inline_producers(graph, DEVICE)
    (call,) = templates(inlined)
    assert len(inlined.ops) == 1
    assert [int(a.extent) for a in dict(call.operands)["k"].axes] == [1, 2, 5, 8]
    check_same(graph, inlined, tolerance=1e-4)
