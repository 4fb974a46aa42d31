"""The order of kernels."""

from __future__ import annotations

from collections.abc import Sequence

from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.fusion import fuse
from aot.schedule.order import order_kernels
from tests.launches import calls_of
from tests.schedule.graphs import (
    DEVICE,
    binary_op,
    check_same,
    make_graph,
    matmul,
    reduce_op,
    run_passes,
)


def _wide_then_narrow(builder: GraphBuilder, x: Tensor, w: Tensor, v: Tensor) -> Sequence[Tensor]:
    """Four wide products, each needed only for a narrow one, all wide ones written first."""
    wide = [matmul(builder, x, w) for _ in range(4)]
    narrow = [matmul(builder, t, v) for t in wide]
    total = narrow[0]
    for t in narrow[1:]:
        total = binary_op("add", total, t)
    return [total]


def test_wide_temporaries_are_used_up_one_after_another() -> None:
    graph = make_graph(_wide_then_narrow, {"x": (64, 64)}, {"w": (64, 2048), "v": (2048, 64)})
    laid = run_passes(graph)
    ordered = fuse(laid, DEVICE)
    check_same(graph, ordered, tolerance=1e-3)
    sizes = [int(call.output.axes[1].extent) for call in calls_of(ordered)]
    assert sizes == [2048, 64] * 4
    assert [d.stage for d in ordered.decisions].count("order") == 1


def test_order_stays_when_nothing_is_gained() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [matmul(builder, x, w), reduce_op("sum", x, 1)]

    fused = fuse(run_passes(make_graph(body, {"x": (64, 64)}, {"w": (64, 2048)})), DEVICE)
    assert order_kernels(fused) is fused
