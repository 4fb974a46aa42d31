"""Dead code: operations whose results nobody reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from aot.ir.loops import LoopGraph, reads, writes
from aot.ir.nests import Buffer, DerivedWeight, LoopNest
from aot.ir.templates.base import LoopOp


def remove_dead_code(graph: LoopGraph) -> LoopGraph:
    """The graph without stores, operations and buffers that no result depends on.

    Inputs stay declared even when unused. The same object when nothing is dead.
    """
    live = set(graph.results)
    kept: list[LoopOp] = []
    for op in reversed(graph.ops):
        trimmed = _live_part(op, live)
        if trimmed is not None:
            live.update(reads(trimmed))
            kept.append(trimmed)
    ops = tuple(reversed(kept))
    needed = _needed_derived(graph, live)
    derived = tuple(d for d in graph.derived if d.name in needed)
    used = live.union(
        graph.inputs, _states(graph), *(writes(op) for op in ops), _recipe_buffers(derived)
    )
    dropped = {d.name for d in graph.derived}.difference(d.name for d in derived)
    buffers = {
        name: _scratch(b) if name in dropped else b
        for name, b in graph.buffers.items()
        if name in used
    }
    if len(buffers) == len(graph.buffers) and ops == graph.ops and derived == graph.derived:
        return graph
    return replace(graph, buffers=buffers, ops=ops, derived=derived)


def _scratch(buffer: Buffer) -> Buffer:
    """What a derived weight becomes that nothing but the computation of others still reads."""
    return replace(buffer, kind="temp", fqn="")


def _live_part(op: LoopOp, live: set[str]) -> LoopOp | None:
    if not isinstance(op, LoopNest):
        return op if op.output.buffer in live else None
    stores = tuple(s for s in op.stores if s.buffer in live)
    if not stores:
        return None
    return op if len(stores) == len(op.stores) else replace(op, stores=stores)


def _states(graph: LoopGraph) -> set[str]:
    """States that change: they stay declared even when nothing reads their old value."""
    return {m.target for m in graph.mutations}


def _needed_derived(graph: LoopGraph, live: set[str]) -> set[str]:
    needed: set[str] = set()
    for weight in reversed(graph.derived):
        if weight.name in live or weight.name in needed:
            needed.add(weight.name)
            needed.update(weight.sources)
    return needed


def _recipe_buffers(derived: Iterable[DerivedWeight]) -> set[str]:
    """Buffers that computing the derived weights reads and writes, intermediate ones too."""
    names = {name for d in derived for nest in d.nests for name in (*reads(nest), *writes(nest))}
    return names.union(*((d.name, *d.sources) for d in derived))
