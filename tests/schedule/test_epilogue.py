"""Epilogues: pointwise nests on the output of a template call, and what is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from aot.ir.dtypes import INT32
from aot.ir.scalar import binary
from aot.ir.templates.linalg import ROUTINES
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.library import Matrices, call_routine
from aot.schedule.epilogue import attach_epilogue
from aot.schedule.groups import Group
from aot.symbolic import FloorDiv, Modulo, as_expr
from tests.schedule.graphs import binary_op, matmul, pointwise, reduce_op, transpose, unary_op
from tests.schedule.steps import check_groups, groups, laid, text

After = Callable[[GraphBuilder, Tensor], Tensor]
"""What follows a product of some rows and 6 columns."""


def attached(after: After, rows: int = 4) -> Group | str:
    """The product's group with all that follows; its kernel is run."""

    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [after(builder, matmul(builder, x, w))]

    graph = laid(body, {"x": (rows, 8), "w": (8, 6)})
    joined, *consumers = groups(graph)
    for consumer in consumers:
        found = attach_epilogue(graph, joined, consumer)
        if isinstance(found, str):
            return found
        joined = found
    (kernel,) = check_groups(graph, [joined]).kernels
    assert "buf2" in getattr(kernel, "local", ())
    return joined


def _relu(_: GraphBuilder, y: Tensor) -> Tensor:
    return unary_op("exp", unary_op("abs", y))


def _turned(_: GraphBuilder, y: Tensor) -> Tensor:
    return transpose(y, 0, 1)


def _heads(builder: GraphBuilder, y: Tensor) -> Tensor:
    return pointwise(builder, (2, 4, 3), lambda at: y.load((at[1], at[0] * 3 + at[2])))


def _flat(builder: GraphBuilder, y: Tensor) -> Tensor:
    at = lambda i: (FloorDiv(i[0], as_expr(6)), Modulo(i[0], as_expr(6)))  # noqa: E731
    return builder.pointwise([as_expr(24)], y.dtype, lambda i: y.load(at(i)))


@pytest.mark.parametrize(
    ("after", "nests"),
    [
        (
            _relu,
            "{ buf3[n0_v0, n0_v1] = abs(buf2[n0_v0, n0_v1]) }\n"
            "{ buf4[n0_v0, n0_v1] = exp(buf3[n0_v0, n0_v1]) }",
        ),
        (_turned, "{ buf3[n0_v1, n0_v0] = buf2[n0_v0, n0_v1] }"),
        (_heads, "{ buf3[(n0_v1 // 3), n0_v0, (n0_v1 % 3)] = buf2[n0_v0, n0_v1] }"),
    ],
)
def test_it_runs_over_the_axes_of_the_output(after: After, nests: str) -> None:
    group = attached(after)
    assert isinstance(group, Group)
    assert all(nest.axes == group.outer for nest in group.nests)
    lines = text(*group.nests).splitlines()
    assert "\n".join(line.partition(") ")[2] for line in lines) == nests


def test_a_reshape_that_loops_split_is_one_too() -> None:
    group = attached(_flat)
    assert isinstance(group, Group) and len(group.nests) == 1


def _sums(_: GraphBuilder, y: Tensor) -> Tensor:
    return reduce_op("sum", y, 1)


def _column(builder: GraphBuilder, y: Tensor) -> Tensor:
    return pointwise(builder, (4,), lambda at: y.load((at[0], as_expr(2))))


def _two_points(builder: GraphBuilder, y: Tensor) -> Tensor:
    def value(at):
        return binary("add", y.load(at), y.load((at[0], 5 - at[1])))

    return pointwise(builder, (4, 6), value)


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (_sums, "n1 reduces; an epilogue is pointwise"),
        (_column, "n1 covers a part of buf2"),
        (_two_points, "n1 does not cover buf2 point by point"),
    ],
)
def test_what_is_no_epilogue(after: After, reason: str) -> None:
    assert attached(after) == reason


def test_a_nest_that_reads_nothing_of_it_is_none() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [
            matmul(builder, x, w),
            pointwise(builder, (4, 6), lambda at: x.load((at[0], at[1]))),
        ]

    graph = laid(body, {"x": (4, 8), "w": (8, 6)})
    product = next(g for g in groups(graph) if g.template)
    other = next(g for g in groups(graph) if g.reads == ("x",))
    assert attach_epilogue(graph, product, other) == (
        f"{other.name} reads nothing that the template computes"
    )


def test_turned_twice_is_one_point() -> None:
    def after(builder: GraphBuilder, y: Tensor) -> Tensor:
        turned = transpose(unary_op("exp", y), 0, 1)
        return pointwise(builder, (4, 6), lambda at: turned.load((at[1], at[0])))

    assert isinstance(attached(after), Group)


def test_elements_of_two_points_are_refused() -> None:
    def after(_: GraphBuilder, y: Tensor) -> Tensor:
        return binary_op("add", unary_op("exp", y), transpose(y, 0, 1))

    assert attached(after, rows=6) == "n3 reads buf4 at several points"


def test_parts_of_records_are_stored_by_the_kernel_of_their_routine() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        found = call_routine(ROUTINES["lu"], Matrices(x))
        return [found.part("lu"), found.part("pivots", INT32), found.part("info", INT32)]

    graph = laid(body, {"x": (2, 3, 4, 4)})
    joined, *consumers = groups(graph)
    assert isinstance(attach_epilogue(graph, joined, consumers[0]), str)
    for consumer in consumers:
        found = attach_epilogue(graph, joined, consumer, parts=True)
        assert isinstance(found, Group)
        joined = found
    (kernel,) = check_groups(graph, [joined]).kernels
    assert getattr(kernel, "local", ()) == ("buf1",)
    extents = [tuple(str(a.extent) for a in nest.axes) for nest in joined.nests]
    assert extents == [("6", "16"), ("6", "4"), ("6", "1")]


def test_what_mixes_rows_with_columns_is_no_part() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        records = call_routine(ROUTINES["lu"], Matrices(x)).records
        return [pointwise(builder, (3,), lambda at: records.load((at[0], at[0])))]

    graph = laid(body, {"x": (3, 4, 4)})
    joined, consumer = groups(graph)
    assert isinstance(attach_epilogue(graph, joined, consumer, parts=True), str)
