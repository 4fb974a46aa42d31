"""Nothing to compute: operations over no points become the plainest nests that there are.

The other passes and the code generators may then take it that whatever an index reads exists.
Dynamic sizes of 0 are a matter of the runtime, which starts no kernel for them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from aot.ir.loops import LoopGraph, bases, writes
from aot.ir.nests import LoopNest, Store, numbered_axes
from aot.ir.scalar import const, load
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.symbolic import is_int


def settle_empty(graph: LoopGraph) -> LoopGraph:
    """The graph whose operations over no points read nothing; the same object without such."""
    writers = Counter(name for op in graph.ops for name in writes(op))
    ops: list[LoopOp] = []
    for op in graph.ops:
        if not _is_empty(op):
            ops.append(op)
        else:
            ops += (
                _plain(graph, op, name, bases(op).get(name, ""))
                for name in writes(op)
                if writers[name] == 1  # else it only adds to what another operation has written
            )
    return graph if tuple(ops) == graph.ops else replace(graph, ops=tuple(ops))


def _is_empty(op: LoopOp) -> bool:
    axes = op.output.axes if isinstance(op, TemplateCall) else op.axes
    return any(is_int(a.extent, 0) for a in axes)


def _plain(graph: LoopGraph, op: LoopOp, name: str, base: str) -> LoopNest:
    """A nest that fills the buffer with zeros, or with the base that no point changes."""
    buffer = graph.buffers[name]
    axes = numbered_axes("i", buffer.shape)
    point = tuple(a.symbol for a in axes)
    value = load(base, buffer.dtype, point) if base else const(0, buffer.dtype)
    return LoopNest(f"{op.name}.{name}", axes, (), (Store(name, point, value),), op.origin)
