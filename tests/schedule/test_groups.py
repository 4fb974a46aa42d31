"""Groups: loop variables of their own, shared axes, and axes in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from aot.ir.templates import Matmul
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.groups import apart, rename_group, split_in_group, with_outer
from aot.symbolic import integer, var
from tests.schedule.graphs import BATCH, S0, matmul, reduce_op, unary_op
from tests.schedule.steps import check_groups, check_ops, groups, laid, text


def _two(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [unary_op("exp", x), reduce_op("sum", x, 1)]


def test_every_operation_gets_loop_variables_of_its_own() -> None:
    graph = laid(_two, {"x": (S0, 6)}, dims=(BATCH,))
    first, second = groups(graph)
    assert (
        text(*first.ops)
        == "n0 = nest(n0_i0<s0, n0_i1<6) { buf1[n0_i0, n0_i1] = exp(x[n0_i0, n0_i1]) }"
    )
    assert [str(a.symbol) for a in second.outer] == ["n1_i0"]
    assert [str(a.symbol) for a in second.nests[0].reduction] == ["n1_r0"]
    assert (second.reads, second.writes, second.name) == (("x",), ("buf2",), "n1")
    for size in (0, 3):
        check_ops(graph, (*first.ops, *second.ops), {"s0": size})


def _layers(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
    for _ in range(3):
        x = unary_op("exp", unary_op("neg", matmul(builder, x, w)))
    return [x]


def test_layers_that_are_alike_have_loops_of_the_same_names() -> None:
    made = groups(laid(_layers, {"x": (4, 6), "w": (6, 6)}))
    calls = [k for k, group in enumerate(made) if group.template is not None]
    layers = [made[first : first + 3] for first in calls]
    names = [[[str(a.symbol) for a in group.outer] for group in layer] for layer in layers]
    assert names == [[["n0_v0", "n0_v1"], ["n1_i0", "n1_i1"], ["n2_i0", "n2_i1"]]] * 3


def test_groups_of_the_same_names_are_taken_apart() -> None:
    graph = laid(_layers, {"x": (4, 6), "w": (6, 6)})
    product, first, second, other_product, other, *_ = groups(graph)
    assert apart(first, second) == (first, second)
    kept, renamed = apart(first, other)
    assert kept is first
    assert not kept.stems & renamed.stems
    assert [a.extent for a in renamed.outer] == [a.extent for a in other.outer]
    both = replace(first, nests=(*first.nests, *second.nests))
    # The larger one stays as it is, whichever comes first, and so does a template's.
    assert [apart(one, two)[at] for one, two, at in ((both, other, 0), (other, both, 1))] == [
        both
    ] * 2
    names = dict(
        zip((a.symbol for a in other.outer), (a.symbol for a in product.outer), strict=True)
    )
    third = rename_group(other, names)
    assert apart(third, product)[1] is product
    assert apart(product, third)[0] is product
    assert apart(product, other_product) == (product, other_product)
    check_ops(
        graph,
        (
            *(op for g in groups(graph)[:4] for op in g.ops),
            *renamed.ops,
            *(op for g in groups(graph)[5:] for op in g.ops),
        ),
    )


def test_a_split_axis_of_a_group_is_no_other_groups() -> None:
    (_, first, _, _, other, *_) = groups(laid(_layers, {"x": (4, 6), "w": (6, 6)}))
    parts = split_in_group(first, first.outer[1], (integer(3), integer(2)))
    assert {a.symbol for a in parts.outer}.isdisjoint(
        a.symbol for a in apart(parts, other)[1].outer
    )
    assert not parts.stems & apart(parts, other)[1].stems


def test_axes_that_are_not_shared_become_inner() -> None:
    graph = laid(lambda _, x: [unary_op("exp", x)], {"x": (2, 3, 4)})
    (group,) = groups(graph)
    kept = with_outer(group, group.outer[1:2])
    assert [str(a.symbol) for a in kept.nests[0].axes] == ["n0_i1", "n0_i0", "n0_i2"]
    assert with_outer(group, group.outer) is group
    (kernel,) = check_groups(graph, [kept]).kernels
    assert int(kernel.stages[0].order[-1].extent) == 4


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2), (1, 6)])
def test_an_axis_in_parts_visits_every_point(sizes: tuple[int, int]) -> None:
    graph = laid(lambda _, x: [unary_op("exp", x)], {"x": (4, 6)})
    (group,) = groups(graph)
    parts = split_in_group(group, group.outer[1], tuple(map(integer, sizes)))
    assert [int(a.extent) for a in parts.outer] == [4, *sizes]
    assert parts.nests[0].axes == parts.outer
    check_ops(graph, parts.ops)


def test_a_reduced_axis_in_parts_stays_reduced() -> None:
    graph = laid(lambda _, x: [reduce_op("sum", x, 1)], {"x": (4, 6)})
    (group,) = groups(graph)
    (axis,) = group.nests[0].reduction
    parts = split_in_group(group, axis, (integer(3), integer(2)))
    assert parts.outer == group.outer
    assert [int(a.extent) for a in parts.nests[0].reduction] == [3, 2]
    check_ops(graph, parts.ops)


def test_variables_are_renamed_everywhere() -> None:
    graph = laid(lambda _, x: [unary_op("exp", x)], {"x": (4, 6)})
    (group,) = groups(graph)
    renamed = rename_group(group, {group.outer[0].symbol: var("row")})
    assert (
        text(*renamed.ops) == "n0 = nest(row<4, n0_i1<6) { buf1[row, n0_i1] = exp(x[row, n0_i1]) }"
    )
    check_ops(graph, renamed.ops)


def test_a_template_shares_the_axes_of_its_output() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [matmul(builder, x, w)]

    graph = laid(body, {"x": (4, 8), "w": (8, 6)})
    group, copied = groups(graph)
    assert isinstance(group.template, Matmul)
    assert group.outer == group.template.output.axes
    assert group.template.output.index == tuple(a.symbol for a in group.outer)
    check_ops(graph, (*group.ops, *copied.ops))
