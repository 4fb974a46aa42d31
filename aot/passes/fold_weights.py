"""Constant folding: what depends on weights alone, or on nothing, is computed at build time.

A chain of nests becomes one derived weight when its result is not much larger than what it is
computed from. Plain views and constants are left alone: inlining gives them for free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aot.ir.decisions import Decision
from aot.ir.hints import Hints, body_weight, hints_of
from aot.ir.loops import LoopGraph, reads, writes
from aot.ir.nests import Buffer, DerivedWeight, LoopNest
from aot.ir.rewrite import index_nodes
from aot.ir.scalar import Access, loads
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.passes.compose import Inlined, compose_views
from aot.passes.dead_code import remove_dead_code
from aot.passes.inline import free_values
from aot.passes.precise import with_precise_functions
from aot.symbolic import row_major_strides

SMALL_BYTES = 1 << 20
"""Results up to this size are folded whatever their sources' sizes."""

GROWTH = 2
"""Larger results may have this many times the bytes of their sources."""

FREE_WEIGHT = 2
"""Bodies without loads up to this price are computed where they are used."""


@dataclass(frozen=True)
class _Constants:
    """The operations that depend on no input.

    `writer`: buffer -> its only operation. `free`: those that are views of something, positions or
    constants, which inlining gives for free.
    """

    writer: Mapping[str, LoopNest]
    free: Mapping[str, Inlined]
    graph: LoopGraph


def fold_weights(graph: LoopGraph) -> LoopGraph:
    """The graph with its constant parts as derived weights."""
    writer = constant_writers(graph)
    if not writer:
        return graph
    free = free_values(dict.fromkeys(writer.values()), graph)
    constants = _Constants(writer, free, graph)
    hints = hints_of(graph.dims)
    derived: list[DerivedWeight] = []
    decisions: list[Decision] = []
    buffers = dict(graph.buffers)
    for name in _boundary(constants):
        chain, sources = _chain(constants, name)
        verdict, reason = _worth(constants, hints, name, chain, sources)
        word = "folded" if verdict else "computed at run time"
        decisions.append(Decision("fold", (name, *sources), word, reason))
        if verdict:
            derived.append(DerivedWeight(name, "fold", sources, (), chain))
            buffers[name] = _as_weight(graph.buffers[name])
    folded = {d.name for d in derived}
    trimmed = [_without(op, folded) for op in graph.ops]
    ops = tuple(op for op in trimmed if op is not None)
    merged = replace(
        graph,
        ops=ops,
        buffers=buffers,
        derived=(*graph.derived, *derived),
        decisions=(*graph.decisions, *decisions),
    )
    return remove_dead_code(merged)


def _as_weight(buffer: Buffer) -> Buffer:
    strides = row_major_strides(buffer.shape)
    return replace(buffer, kind="weight", fqn=buffer.name, strides=strides)


def _without(op: LoopOp, folded: set[str]) -> LoopOp | None:
    """The operation without stores to folded buffers; None when nothing is left."""
    if isinstance(op, TemplateCall):
        return op
    stores = tuple(s for s in op.stores if s.buffer not in folded)
    if len(stores) == len(op.stores):
        return op
    return replace(op, stores=stores) if stores else None


def constant_writers(graph: LoopGraph) -> dict[str, LoopNest]:
    """By buffer, in their order: the only nests that write what follows from weights alone."""
    counts: dict[str, int] = {}
    for op in graph.ops:
        for name in writes(op):
            counts[name] = counts.get(name, 0) + 1
    constant = {n for n, b in graph.buffers.items() if b.kind == "weight"}
    found: dict[str, LoopNest] = {}
    for op in graph.ops:
        if isinstance(op, TemplateCall) or not all(name in constant for name in reads(op)):
            continue
        written = writes(op)
        if any(counts[n] > 1 or n in graph.results for n in written) or not _static(graph, op):
            continue
        constant.update(written)
        found.update(dict.fromkeys(written, op))
    return found


def _static(graph: LoopGraph, nest: LoopNest) -> bool:
    """True when no dynamic size occurs in the nest or in the shapes that it writes."""
    own = {a.symbol for a in (*nest.axes, *nest.reduction)}
    shapes = [size for name in writes(nest) for size in graph.buffers[name].shape]
    extents = [a.extent for a in (*nest.axes, *nest.reduction)]
    dims = {d.name for d in graph.dims}
    used = {str(s) for e in (*shapes, *extents) for s in e.free_symbols}
    used |= {str(s) for e in index_nodes(nest) for s in e.free_symbols - own}
    return not used & dims


def _boundary(constants: _Constants) -> list[str]:
    """Constant buffers that the rest of the graph reads, views seen through, in computing order."""
    graph = constants.graph
    wanted: set[str] = set()
    by_template: set[str] = set()
    for op in graph.ops:
        if isinstance(op, LoopNest) and all(name in constants.writer for name in writes(op)):
            continue
        if isinstance(op, TemplateCall):
            # It sees through views that are plain strides; others would be copied at run time.
            own = reads(compose_views(constants.graph, op, constants.free))
            by_template.update(name for name in own if name in constants.writer)
            continue
        sources = (_through_views(constants, name) for name in reads(op))
        wanted.update(source for source in sources if source is not None)
    wanted |= by_template
    return [n for n in constants.writer if n in wanted and _computes(constants, n, by_template)]


def _through_views(constants: _Constants, name: str) -> str | None:
    """The computed constant that a buffer is or views; None for weights and plain constants."""
    while name in constants.free:
        sources = loads((constants.free[name].value,))
        if not sources:
            return None
        access = sources[0].attr
        assert isinstance(access, Access)
        name = access.buffer
    return name if name in constants.writer else None


def _computes(constants: _Constants, name: str, by_template: set[str]) -> bool:
    nest = constants.writer[name]
    value = next(s.value for s in nest.stores if s.buffer == name)
    cheap = not reads(nest) and not nest.reduction and body_weight((value,)) <= FREE_WEIGHT
    return name in by_template or not cheap


def _chain(constants: _Constants, name: str) -> tuple[tuple[LoopNest, ...], tuple[str, ...]]:
    """The nests that compute `name`, in order, and the weights that they start from."""
    needed = {name}
    sources: list[str] = []
    chain: list[LoopNest] = []
    order = list(dict.fromkeys(constants.writer.values()))
    for nest in reversed(order):
        stores = tuple(s for s in nest.stores if s.buffer in needed)
        if not stores:
            continue
        chain.append(with_precise_functions(replace(nest, stores=stores)))
        for source in reads(chain[-1]):
            if source in constants.writer:
                needed.add(source)
            elif source not in sources:
                sources.append(source)
    return tuple(reversed(chain)), tuple(sources)


def _worth(
    constants: _Constants,
    hints: Hints,
    name: str,
    chain: tuple[LoopNest, ...],
    sources: tuple[str, ...],
) -> tuple[bool, str]:
    def size(buffer: str) -> int:
        made = constants.graph.buffers[buffer]
        return hints.elements(made.shape) * made.dtype.itemsize

    result, given = size(name), sum(size(s) for s in sources)
    if result <= SMALL_BYTES:
        return True, f"{len(chain)} operations on weights alone; {result} bytes are small"
    # float8 is for memory: a model that keeps weights in it wants their bytes.
    dense = any(constants.graph.buffers[s].dtype.is_float8 for s in sources)
    if result <= (1 if dense else GROWTH) * given:
        return True, f"{len(chain)} operations on weights alone; no more bytes than they read"
    return False, f"it would store {result} bytes in place of {given}"
