"""Points that may meet: which loops are parallel, what workers share, and that results stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.kernels import NestKernel, Shares, Stage
from aot.ir.scalar import binary, cast, const, unary
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.conflicts import in_order, leading_free, shares_of
from aot.schedule.fusion import fuse
from aot.schedule.groups import with_outer
from aot.schedule.stages import form_stages
from aot.symbolic import Expr
from tests.schedule.graphs import BATCH, DEVICE, S0, check_same
from tests.schedule.steps import groups, laid, scheduler


def _added(dimension: int):
    """Slices of v along a dimension, added to those of x that i names."""

    def body(builder: GraphBuilder, x: Tensor, i: Tensor, v: Tensor) -> Sequence[Tensor]:
        def place(at: tuple[Expr, ...]) -> Sequence[Expr]:
            last = builder.index_node(x.shape[dimension] - 1)
            # Of any number: tests run on random values.
            row = cast(binary("mul", unary("abs", i.load((at[dimension],))), _FOUR), INT64)
            named = builder.indirect(binary("minimum", row, last), x.shape[dimension])
            return (*at[:dimension], named, *at[dimension + 1 :])

        return [builder.update(x, v.shape, place, v.load, "add")]

    return body


_FOUR = const(4.0, FLOAT32)


def _kernel(dimension: int, x, i, v, dims=()) -> NestKernel:
    """The kernel that joins; values are checked."""
    graph = laid(_added(dimension), {"x": x, "i": i, "v": v}, dims=dims)
    fused = fuse(graph, DEVICE)
    check_same(graph, fused, {d.name: 5 for d in dims})
    (kernel,) = (k for k in fused.kernels if isinstance(k, NestKernel) and _meets(k))
    return kernel


def _meets(kernel: NestKernel) -> bool:
    return any(nest.conflicts for stage in kernel.stages for nest in stage.nests)


def test_workers_share_the_rows_that_are_joined() -> None:
    kernel = _kernel(0, (7, 64), (50,), (50, 64))
    assert kernel.shares == Shares(0, 7)
    assert kernel.outer == ()
    assert kernel.strip is None


def test_few_loops_outside_are_not_worth_as_much_as_shares() -> None:
    kernel = _kernel(1, (2, 7, 64), (50,), (2, 50, 64))
    assert kernel.shares == Shares(1, 7)
    (stage,) = kernel.stages
    assert [int(a.extent) for a in stage.order] == [50, 2, 64]


def test_many_loops_outside_are_parallel() -> None:
    kernel = _kernel(1, (8, 7, 64), (50,), (8, 50, 64))
    assert kernel.shares is None
    assert [int(a.extent) for a in kernel.outer] == [8]


@pytest.mark.parametrize(
    ("x", "i", "v"), [((7,), (50,), (50,)), ((7, 2), (50,), (50, 2)), ((3, 64), (50,), (50, 64))]
)
def test_little_to_do_at_a_point_is_left_to_one_worker(x, i, v) -> None:
    """To pass by takes as long; nor is it worth it for few shares."""
    assert _kernel(0, x, i, v).shares is None


def test_points_without_loops_inside_are_not_shared_however_dear() -> None:
    graph = laid(_added(0), {"x": (7,), "i": (50,), "v": (50,)})
    fused = fuse(graph, replace(DEVICE, passing_bytes=1))
    check_same(graph, fused, {})
    (kernel,) = (k for k in fused.kernels if isinstance(k, NestKernel) and _meets(k))
    assert kernel.shares is None


def test_a_dimension_that_may_be_empty_is_not_shared() -> None:
    """Nothing would run for it, and nobody see that its indices are wrong."""
    assert _kernel(0, (S0, 64), (50,), (50, 64), dims=(BATCH,)).shares is None


def test_short_rows_are_vectors_all_the_same() -> None:
    """Joining lanes one by one takes longer than vectors that are half empty."""
    (stage,) = _kernel(0, (7, 4), (50,), (50, 4)).stages
    assert [int(a.extent) for a in stage.order] == [50, 4]
    assert stage.vector == stage.order[-1]


def test_steps() -> None:
    graph = laid(_added(1), {"x": (2, 7, 64), "i": (50,), "v": (2, 50, 64)})
    (group,) = groups(graph)
    (nest,) = group.nests
    head, meeting, row = nest.axes
    assert leading_free(group) == (head,)
    (draft,) = form_stages(graph, with_outer(group, ()))
    ordered, candidates = in_order(draft, [row, head, meeting])
    assert ordered == [meeting, row, head]
    assert candidates == (meeting, row, head)
    stage = Stage(draft.inner, (), tuple(ordered), head, draft.nests)
    assert shares_of(scheduler(graph), stage) == Shares(1, 7)
    stage = replace(stage, order=(row, head, meeting), vector=meeting)
    assert shares_of(scheduler(graph), stage) == Shares(2, 64)  # by a loop outside of the others
