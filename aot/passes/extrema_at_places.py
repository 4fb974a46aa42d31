"""Running extrema are read where they were met: one kernel of two results, not two kernels."""

from __future__ import annotations

from aot.ir.decisions import Decision
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import LoopNest, Store, View
from aot.ir.scalar import Node, clamp_index, load
from aot.ir.templates.base import TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.passes.change_calls import Replacement, change_calls
from aot.symbolic import Symbol, substitute, var

_PLACE = var("place")
_NARROW = 1 << 31


def take_extrema_at_places(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph without scans for extrema whose places another call of the graph finds.

    The element at such a place is the extremum, bit by bit. Reading it joins that call as an
    epilogue, so that rows go through the caches once. Only calls that stay templates by themselves
    (`Scan.alone`) are such: others find places from the extrema.
    """
    calls = [
        (op, found)
        for op in graph.ops
        if isinstance(op, TemplateCall)
        for found in [op.running_extrema]
        if found is not None
    ]
    plain = {found.same for _, found in calls if not found.places}
    pairs = {
        found.same: op
        for op, found in calls
        if found.places and found.alone and found.same in plain and _is_row(found.rows)
    }
    if not pairs:
        return graph
    done: set[tuple[View, str]] = set()

    def change(builder: NestBuilder, call: TemplateCall) -> Replacement | None:
        found = call.running_extrema
        if found is None or found.same not in pairs:
            return None
        place = pairs[found.same]
        decision = Decision("expand", (call.name,), "by places", f"{place.name} finds them")
        if found.places:
            return (decision, []) if call is place else None
        first = [] if found.same in done else [place]
        done.add(found.same)
        return decision, [*first, _read(builder, call, found.rows, place)]

    return change_calls(graph, machine, change)


def _is_row(rows: View) -> bool:
    """Whether the elements of a row are neighbours: those of columns are many lines apart."""
    column = rows.axes[1].symbol
    return rows.index[-1].free_symbols >= {column} and all(
        column not in e.free_symbols for e in rows.index[:-1]
    )


def _read(builder: NestBuilder, call: TemplateCall, rows: View, found: TemplateCall) -> LoopNest:
    """The nest that stores for each point the element at its place."""
    at = {a.symbol: e.symbol for a, e in zip(found.output.axes, call.output.axes, strict=True)}
    place = load(
        found.output.buffer,
        builder.dtype(found.output.buffer),
        tuple(substitute(e, at) for e in found.output.index),
    )
    value = _element(builder, call, rows, place)
    store = Store(call.output.buffer, call.output.index, value)
    return LoopNest(call.name, call.output.axes, (), (store,), call.origin)


def _element(builder: NestBuilder, call: TemplateCall, rows: View, place: Node) -> Node:
    row, column = rows.axes
    most = builder.ranges.greatest(column.extent)
    own = clamp_index(place, column.extent - 1, narrow=most is not None and most < _NARROW)
    own_row, _ = call.output.axes
    symbols: dict[Symbol, Symbol] = {row.symbol: own_row.symbol, column.symbol: _PLACE}
    index = tuple(substitute(e, symbols) for e in rows.index)
    return load(rows.buffer, builder.dtype(rows.buffer), index, {_PLACE: own})
