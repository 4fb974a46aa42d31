"""From fused kernels to sources, as the driver goes: `prepare`, then `emit`."""

from __future__ import annotations

from aot.backends.base import Backend, EmittedGraph
from aot.ir.kernels import KernelGraph
from aot.options import Target


def emit(backend: Backend, graph: KernelGraph, target: Target) -> EmittedGraph:
    """Sources of what `prepare` makes of the graph."""
    return backend.emit(backend.prepare(graph, target), target)
