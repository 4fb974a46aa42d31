"""Dependencies: which elements a nest reads and writes, who uses whose results, in what order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.ir.loops import Axis, LoopGraph, LoopNest, LoopOp, TemplateCall, reads, writes
from aot.ir.scalar import Access, loads
from aot.symbolic import Expr


@dataclass(frozen=True)
class MemoryDep:
    """Elements of a buffer that an operation touches: `index` for all points of `axes`.

    `index` is None for a whole-buffer dependency (a template call).
    """

    buffer: str
    index: tuple[Expr, ...] | None
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class Usage:
    """Who touches what. Positions are those of the operations in the sequence analysed.

    `writers`, `readers`: per buffer. `producers`: per operation, those it must follow (data, and
    the order of writes to one buffer). `ancestors`: the transitive closure, as bit masks.
    """

    writers: dict[str, tuple[int, ...]]
    readers: dict[str, tuple[int, ...]]
    producers: tuple[frozenset[int], ...]
    ancestors: tuple[int, ...]

    def last_use(self, buffer: str) -> int:
        """Position of the last operation that touches the buffer, -1 for none."""
        return max((*self.readers.get(buffer, ()), *self.writers.get(buffer, ())), default=-1)

    def depends(self, later: int, earlier: int) -> bool:
        """True when `later` must follow `earlier`."""
        return bool(self.ancestors[later] >> earlier & 1)


def read_deps(op: LoopOp) -> tuple[MemoryDep, ...]:
    """What an operation reads; each distinct access once."""
    if isinstance(op, TemplateCall):
        return tuple(MemoryDep(name, None, ()) for name in reads(op))
    axes = (*op.axes, *op.reduction)
    found = [n.attr for n in loads(op.roots)]
    deps = [MemoryDep(a.buffer, a.index, axes) for a in found if isinstance(a, Access)]
    return tuple(dict.fromkeys(deps))


def write_deps(op: LoopOp) -> tuple[MemoryDep, ...]:
    """What an operation writes."""
    if isinstance(op, LoopNest):
        return tuple(MemoryDep(s.buffer, s.index, op.axes) for s in op.stores)
    return (MemoryDep(op.output.buffer, None, ()),)


def analyse(touched: Sequence[tuple[tuple[str, ...], tuple[str, ...]]]) -> Usage:
    """Usage of a sequence of (buffers read, buffers written), in execution order."""
    writers: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    producers: list[frozenset[int]] = []
    ancestors: list[int] = []
    for position, (read, written) in enumerate(touched):
        needs: set[int] = set()
        for name in (*read, *written):
            needs.update(writers.get(name, ()))
        for name in written:  # a second writer (scatter) also follows the readers so far
            needs.update(readers.get(name, ()))
        for name in read:
            readers.setdefault(name, []).append(position)
        for name in written:
            writers.setdefault(name, []).append(position)
        needs.discard(position)
        mask = 0
        for p in needs:
            mask |= ancestors[p] | 1 << p
        producers.append(frozenset(needs))
        ancestors.append(mask)
    return Usage(
        {k: tuple(v) for k, v in writers.items()},
        {k: tuple(v) for k, v in readers.items()},
        tuple(producers),
        tuple(ancestors),
    )


def analyse_graph(graph: LoopGraph) -> Usage:
    """Usage of a loop graph's operations."""
    return analyse([(reads(op), writes(op)) for op in graph.ops])
