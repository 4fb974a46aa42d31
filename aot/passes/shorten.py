"""Results of template calls end where their readers do: what a slice cuts off is not computed.

Convolutions that are padded on both sides while only what lies before is meant (causal ones) have
more results than anyone reads, and so have the phases of transposed ones. A nest that moves into
its readers computes what these read; a template computes whatever its output has. So extents go
backwards from slices through pointwise nests, as a bias, to the calls whose last places may be
left out (`TemplateCall.shortens`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from aot.ir.decisions import Decision
from aot.ir.loops import LoopGraph, bases
from aot.ir.nests import Axis, LoopNest, View
from aot.ir.scalar import Access, loads
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.symbolic import Expr, Ranges, Symbol, expand

_Ends = Mapping[Symbol, Expr]
"""Extents that suffice, by the symbols of axes."""


def shorten_results(graph: LoopGraph) -> LoopGraph:
    """The graph with calls that end where they are read last; itself where none may end earlier."""
    reading = _Reading(graph, _dimensions(graph))
    if not reading.dimensions:
        return graph
    ops, buffers, decisions = list[LoopOp](), dict(graph.buffers), list[Decision]()
    for op in reversed(graph.ops):
        ends = reading.ends(op)
        shorter = _with_ends(op, ends)
        reading.note(shorter)
        ops.append(shorter)
        if shorter is op:
            continue
        for result in _results(op):
            shape = zip(result.index, buffers[result.buffer].shape, strict=True)
            cut = tuple(ends.get(i, e) if i.is_Symbol else e for i, e in shape)
            buffers[result.buffer] = replace(buffers[result.buffer], shape=cut)
        if isinstance(op, TemplateCall):
            decisions.append(_decision(op, ends))
    if not decisions:
        return graph
    made = (*graph.decisions, *reversed(decisions))
    return replace(graph, ops=tuple(reversed(ops)), buffers=buffers, decisions=made)


def _dimensions(graph: LoopGraph) -> dict[str, frozenset[int]]:
    """Dimensions that may end earlier, by buffer: of calls' results and what follows pointwise.

    Not of what the caller sees, nor of what an update takes over.
    """
    fixed = set(graph.results).union(*(bases(op).values() for op in graph.ops))
    found: dict[str, frozenset[int]] = {}
    for op in graph.ops:
        free = _free_symbols(op, found)
        for result in _results(op) if free else ():
            dims = frozenset(d for d, i in enumerate(result.index) if i in free)
            if dims and result.buffer not in fixed:
                found[result.buffer] = dims
    return found


def _free_symbols(op: LoopOp, dimensions: Mapping[str, frozenset[int]]) -> set[Symbol]:
    """Symbols of axes that may end earlier: those by which such a dimension is read.

    Each must by itself be an index of every store, so that no other element depends on it.
    """
    if isinstance(op, TemplateCall):
        free = {op.output.axes[k].symbol for k in op.shortens}
    else:
        reads = [a for a in _accesses(op) if a.buffer in dimensions]
        free = {s for a in reads for d in dimensions[a.buffer] for s in a.index[d].free_symbols}
        free &= {axis.symbol for axis in op.axes}
        if any(s.conflicts or s.base for s in op.stores):
            return set()
    for result in _results(op):
        free &= {i for i in result.index if i.is_Symbol and result.index.count(i) == 1}
        free -= {s for i in result.index if not i.is_Symbol for s in i.free_symbols}
    return free


@dataclass(frozen=True)
class _Reading:
    """How far dimensions that may end earlier are read; filled from the last operation on.

    `read`: extents up to which, by buffer and dimension.
    """

    graph: LoopGraph
    dimensions: Mapping[str, frozenset[int]]
    read: dict[tuple[str, int], Expr] = field(default_factory=dict)

    def note(self, op: LoopOp) -> None:
        """Adds what an operation reads."""
        for name, index, axes in _read_places(op):
            dims = self.dimensions.get(name, ())
            ranges = self.graph.ranges(*axes) if dims else Ranges()
            for dim in dims:
                size = self.graph.buffers[name].shape[dim]
                end = _end(index[dim], size, ranges)
                known = self.read.get((name, dim), end)
                self.read[name, dim] = _later(known, end, size, ranges)

    def ends(self, op: LoopOp) -> _Ends:
        """Axes of an operation that may end earlier, and where: every result must say so."""
        extents = {axis.symbol: axis.extent for axis in _kept_axes(op)}
        found: dict[Symbol, list[Expr]] = {}
        results = _results(op)
        for result in results:
            for dim in self.dimensions.get(result.buffer, ()):
                read = self.read.get((result.buffer, dim))
                if read is not None:
                    found.setdefault(result.index[dim], []).append(read)
        ranges = self.graph.ranges()
        ends: dict[Symbol, Expr] = {}
        for symbol, reads in found.items():
            end = reads[0]
            for other in reads[1:]:
                end = _later(end, other, extents[symbol], ranges)
            if len(reads) == len(results) and end != extents[symbol]:
                ends[symbol] = end
        return ends


def _end(index: Expr, size: Expr, ranges: Ranges) -> Expr:
    """The extent up to which an index reads a dimension; all of it where that is not known."""
    bounds = ranges.bounds(index)
    if bounds is None:
        return size
    end = expand(bounds[1] + 1)
    return end if end != size and ranges.less(end, size) else size


def _later(a: Expr, b: Expr, size: Expr, ranges: Ranges) -> Expr:
    """The greater one of two extents; all of a dimension where that is not known."""
    if a == b or ranges.at_most(b, a):
        return a
    return b if ranges.at_most(a, b) else size


def _with_ends(op: LoopOp, ends: _Ends) -> LoopOp:
    """The operation with axes that end earlier; itself where none does."""
    if not ends:
        return op
    axes = tuple(replace(a, extent=ends.get(a.symbol, a.extent)) for a in _kept_axes(op))
    if isinstance(op, LoopNest):
        return replace(op, axes=axes)
    return replace(op, output=replace(op.output, axes=axes))


def _decision(call: TemplateCall, ends: _Ends) -> Decision:
    changes = [f"{ends[a.symbol]} of {a.extent}" for a in call.output.axes if a.symbol in ends]
    reason = "nobody reads what lies behind"
    return Decision("shorten", (call.name,), f"{', '.join(changes)} places", reason)


def _results(op: LoopOp) -> Sequence[View]:
    """What an operation stores, as views by the axes of its results."""
    if isinstance(op, TemplateCall):
        return (op.output,)
    return [View(s.buffer, op.axes, s.index) for s in op.stores]


def _kept_axes(op: LoopOp) -> tuple[Axis, ...]:
    return op.axes if isinstance(op, LoopNest) else op.output.axes


def _read_places(op: LoopOp) -> Iterator[tuple[str, tuple[Expr, ...], tuple[Axis, ...]]]:
    """Buffers, the indices of their dimensions, and the axes that these are numbered by.

    Operands of a call may number theirs by the same symbols, to other extents.
    """
    if isinstance(op, TemplateCall):
        yield from ((view.buffer, view.index, view.axes) for _, view in op.operands)
    else:
        axes = (*op.axes, *op.reduction)
        yield from ((access.buffer, access.index, axes) for access in _accesses(op))


def _accesses(nest: LoopNest) -> list[Access]:
    return [n.attr for n in loads(nest.roots) if isinstance(n.attr, Access)]
