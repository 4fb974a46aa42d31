"""Results that are stored past the caches.

A store to memory that no cache holds first fetches the line that it changes. Where whole lines are
written that is in vain, and takes a core with far memory as long as writing them; and what nobody
reads soon drives from the caches what is read.
"""

from __future__ import annotations

from aot.ir.hints import hints_of
from aot.ir.kernels import FusedKernel, KernelGraph
from aot.symbolic import product

_FAR_BYTES = 24 << 20
"""Of a result from which on its caller does not find it in a cache either, or no more than the end
of it."""


def streamed_buffers(kernel: FusedKernel, graph: KernelGraph) -> frozenset[str]:
    """The buffers that the kernel stores past the caches: large results that no kernel reads."""
    results = frozenset(kernel.writes) & frozenset(graph.outputs)
    if not results:
        return results
    read = {name for k in graph.kernels for name in k.reads}
    hints = hints_of(graph.dims)
    return frozenset(
        name
        for name in results - read
        if hints.value(product(graph.buffers[name].shape)) * graph.buffers[name].dtype.itemsize
        >= _FAR_BYTES
    )
