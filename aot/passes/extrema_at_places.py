"""Running extrema are read where they were met: one kernel of two results, not two kernels."""

from __future__ import annotations

from aot.ir.decisions import Decision
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import LoopNest, Store, View
from aot.ir.scalar import Node, clamp_index, load
from aot.ir.templates.base import TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.scan import Scan
from aot.passes.change_calls import Replacement, change_calls
from aot.symbolic import Symbol, substitute, var

_Key = tuple[View, str]

_PLACE = var("place")
_NARROW = 1 << 31


def take_extrema_at_places(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph without scans for extrema whose places another call of the graph finds.

    The element at such a place is the extremum, bit by bit. Reading it joins that call as an
    epilogue, so that rows go through the caches once. Only calls that stay templates by themselves
    (`Scan.alone`) are such: others find places from the extrema.
    """
    calls = [op for op in graph.ops if isinstance(op, Scan) and op.part is None]
    places = {_key(op): op for op in calls if op.places and op.found is None}
    plain = {_key(op) for op in calls if not op.places and op.combine in ("max", "min")}
    pairs = {key: op for key, op in places.items() if key in plain and _is_row(graph, op)}
    if not pairs:
        return graph
    done: set[_Key] = set()

    def change(builder: NestBuilder, call: TemplateCall) -> Replacement | None:
        if not isinstance(call, Scan) or call.part is not None or _key(call) not in pairs:
            return None
        found = pairs[_key(call)]
        decision = Decision("expand", (call.name,), "by places", f"{found.name} finds them")
        if call.places:
            return (decision, []) if call is found else None
        first = [] if _key(call) in done else [found]
        done.add(_key(call))
        return decision, [*first, _read(builder, call, found)]

    return change_calls(graph, machine, change)


def _key(call: Scan) -> _Key:
    return call.x, call.combine


def _is_row(graph: LoopGraph, call: Scan) -> bool:
    """Whether the elements of a row are neighbours: those of columns are many lines apart."""
    column = call.x.axes[1].symbol
    return call.x.index[-1].free_symbols >= {column} and all(
        column not in e.free_symbols for e in call.x.index[:-1]
    )


def _read(builder: NestBuilder, call: Scan, found: Scan) -> LoopNest:
    """The nest that stores for each point the element at its place."""
    at = {a.symbol: e.symbol for a, e in zip(found.output.axes, call.output.axes, strict=True)}
    place = load(
        found.output.buffer,
        builder.dtype(found.output.buffer),
        tuple(substitute(e, at) for e in found.output.index),
    )
    value = _element(builder, call, place)
    store = Store(call.output.buffer, call.output.index, value)
    return LoopNest(call.name, call.output.axes, (), (store,), call.origin)


def _element(builder: NestBuilder, call: Scan, place: Node) -> Node:
    row, column = call.x.axes
    most = builder.ranges.greatest(column.extent)
    own = clamp_index(place, column.extent - 1, narrow=most is not None and most < _NARROW)
    own_row, _ = call.output.axes
    symbols: dict[Symbol, Symbol] = {row.symbol: own_row.symbol, column.symbol: _PLACE}
    index = tuple(substitute(e, symbols) for e in call.x.index)
    return load(call.x.buffer, builder.dtype(call.x.buffer), index, {_PLACE: own})
