"""Kernels of tiles: what is fused, what is computed again, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.kernels import KernelGraph
from aot.ir.loops import reads
from aot.ir.scalar import Node, binary, cast, const, index_value, postorder, unary, where
from aot.ir.verify import verify_kernels
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.fusion import fuse
from aot.symbolic import Expr, as_expr
from tests.schedule.graphs import (
    TILES,
    Body,
    binary_op,
    make_graph,
    reduce_op,
    run_passes,
    unary_op,
)


def fused(body: Body, **inputs: Sequence[int]) -> KernelGraph:
    kernels = fuse(run_passes(make_graph(body, inputs)), TILES)
    verify_kernels(kernels)
    return kernels


def _softmax(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    shifted = unary_op("exp", binary_op("sub", x, reduce_op("max", x, -1, keep=True)))
    return [binary_op("div", shifted, reduce_op("sum", shifted, -1, keep=True))]


def test_only_reduced_values_are_passed_on() -> None:
    (kernel,) = fused(_softmax, x=(512, 300)).kernels
    assert [a.extent for a in kernel.outer] == [512]
    local = {b for n in kernel.local for b in (n,)}
    read = {b for s in kernel.stages for n in s.nests for b in reads(n)}
    reduced = {s.buffer for st in kernel.stages for n in st.nests if n.reduction for s in n.stores}
    assert read & local <= reduced


def test_stages_of_one_space_share_loop_variables() -> None:
    (kernel,) = fused(_softmax, x=(512, 300)).kernels
    assert len({stage.order for stage in kernel.stages}) == 1


def test_a_pointwise_kernel_has_outer_loops_alone() -> None:
    def body(_: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        return [binary_op("add", unary_op("exp", x), y)]

    (kernel,) = fused(body, x=(64, 48), y=(48,)).kernels
    assert all(not stage.order for stage in kernel.stages)
    assert kernel.strip is None


def test_reductions_over_different_rows_stay_apart() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [reduce_op("sum", reduce_op("max", x, -1), -1)]

    kernels = fused(body, x=(256, 64, 128)).kernels
    assert len(kernels) == 2


def test_a_small_result_is_not_taken_into_a_large_kernel() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [binary_op("sub", x, reduce_op("max", x, 0))]

    kernels = fused(body, x=(1 << 18, 4)).kernels
    assert len(kernels) >= 2


def test_a_search_does_not_compute_what_it_searches() -> None:
    """Each of its steps would hold the step before it twice: a sort of 16,384 did not end."""

    def body(builder: GraphBuilder, x: Tensor, edges: Tensor) -> Sequence[Tensor]:
        dear = unary_op("exp", edges)

        def found(at: tuple[Expr, ...]) -> Node:
            place: Expr = as_expr(0)
            for _ in range(24):
                below = binary("lt", dear.load((place,)), x.load(at))
                place = builder.indirect(cast(below, INT64), edges.shape[0])
            return dear.load((place,))

        return [dear, builder.pointwise(x.shape, FLOAT32, found)]

    kernels = fused(body, x=(4096,), edges=(4096,)).kernels
    assert len(kernels) == 2
    verdicts = [d.reason for d in fused(body, x=(4096,), edges=(4096,)).decisions]
    assert any("decide where" in reason for reason in verdicts)


def _recurrence(steps: int) -> Body:
    """A value for every step from the one before, and all of them side by side."""

    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        rows = x.shape[0]
        made: list[Tensor] = []
        for at in range(steps):

            def step(i: tuple[Expr, ...], at: int = at) -> Node:
                own = x.load((*i, as_expr(at)))
                return unary("exp", binary("sub", own, made[at - 1].load(i))) if at else own

            made.append(builder.pointwise((rows,), FLOAT32, step))

        def piece(i: tuple[Expr, ...]) -> Node:
            value = const(0, FLOAT32)
            for at, each in enumerate(made):
                here = binary("eq", index_value(i[1]), const(at, INT64))
                value = where(here, each.load(i[:1], here), value)
            return value

        return [builder.pointwise((rows, as_expr(steps)), FLOAT32, piece)]

    return body


def _operations(kernels: KernelGraph) -> int:
    """Of all kernels; what nests of one share counts once."""
    bodies = [[r for s in k.stages for n in s.nests for r in n.roots] for k in kernels.kernels]
    return sum(len(postorder(roots)) for roots in bodies)


def test_what_a_concatenation_repeats_of_a_recurrence_is_bounded() -> None:
    """A piece would compute all steps before it: Triton took minutes for 40."""
    few, many = (_operations(fused(_recurrence(n), x=(8, n))) for n in (10, 40))
    assert many < 4 * few


def test_a_few_pieces_of_a_recurrence_are_one_kernel() -> None:
    assert len(fused(_recurrence(6), x=(8, 6)).kernels) == 1
