"""How much work is worth a thread of its own."""

from __future__ import annotations

from aot.ir.hints import body_weight, hints_of
from aot.ir.kernels import FusedKernel, KernelGraph, NestKernel, Stage
from aot.symbolic import Expr, integer

_BYTES_PER_OP = 1
"""An operation on one element is priced like this many bytes of memory traffic."""


def grain_of(kernel: FusedKernel, graph: KernelGraph, work: Expr, grain_bytes: int) -> Expr:
    """Least number of work units that are worth a thread, at the dims' example values."""
    hints = hints_of(graph.dims)
    units = max(hints.value(work), 1)
    total = sum(_stage_cost(stage, graph) for stage in kernel.stages)
    grain = max(1, -(-grain_bytes * units // total)) if total else 1
    if isinstance(kernel, NestKernel) and kernel.shares is not None:
        grain = max(grain, -(-units // kernel.shares.most))
    return integer(grain)


def _stage_cost(stage: Stage, graph: KernelGraph) -> int:
    hints = hints_of(graph.dims)
    cost = 0
    for nest in stage.nests:
        points = hints.volume((*nest.axes, *nest.reduction))
        cost += points * (_moved(stage) + _BYTES_PER_OP * body_weight(nest.roots))
    return cost


def _moved(stage: Stage) -> int:
    return 4 * sum(len(nest.stores) for nest in stage.nests) + 4
