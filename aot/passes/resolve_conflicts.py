"""Conflicts: points of a nest that meet in one element of what it stores.

A worker that does such points in their order needs nothing more. On a device whose points come in
any order, values join memory by its atomic operations; where elements are few, they join private
copies, which are joined at the end, so that fewer wait for each other. The last writer of an
element is found by notes (`last_writer`). What the device has no operation for is turned round:
each element looks for the points that name it, which costs the product of both.
"""

from __future__ import annotations

from dataclasses import replace

from aot.ir.decisions import Decision
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import REDUCTIONS, Axis, Buffer, LoopNest, Store, neutral, numbered_axes
from aot.ir.scalar import (
    Node,
    binary,
    const,
    index_value,
    load,
    reduce_,
    substitute_index,
    where,
)
from aot.ir.templates.base import LoopOp
from aot.passes.last_writer import Resolved, last_wins
from aot.symbolic import Expr, Modulo, Symbol, integer, product, ravel, var

_FEW_WAIT = 8
"""So many points for an element of a copy wait for each other in less time than copies take."""


def resolve_conflicts(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph whose nests with conflicts are such as the machine has, each with a decision."""
    ops: list[LoopOp] = []
    buffers: dict[str, Buffer] = {}
    decisions: list[Decision] = []
    for op in graph.ops:
        if not isinstance(op, LoopNest) or not op.conflicts:
            ops.append(op)
            continue
        made = _resolved(op, graph, machine)
        ops += made.nests
        buffers |= {buffer.name: buffer for buffer in made.buffers}
        if made.verdict:
            (store,) = op.stores
            decisions.append(Decision("conflict", (store.buffer,), made.verdict, made.reason))
    if tuple(ops) == graph.ops and not decisions:
        return graph
    return replace(
        graph,
        buffers={**graph.buffers, **buffers},
        ops=tuple(ops),
        decisions=(*graph.decisions, *decisions),
    )


def _resolved(nest: LoopNest, graph: LoopGraph, machine: Machine) -> Resolved:
    """The nests that do what `nest` does, in a way that the machine has."""
    (store,) = nest.stores
    dtype = graph.buffers[store.buffer].dtype
    if machine.in_order:
        reason = "one worker does the points of an element, in order"
        return Resolved((nest,), "in memory", reason)
    if store.mode == "last":
        return last_wins(nest, graph, machine)
    if machine.joins is None or (store.mode, dtype.name) in machine.joins:
        exact = not dtype.is_float or store.mode in ("maximum", "minimum")
        order = "which changes no result" if exact else "so last bits differ from run to run"
        copies = _copies(nest, graph, machine)
        if copies > 1:
            reason = f"{copies} copies of few elements; points come in any order, {order}"
            return _private(nest, graph.buffers[store.buffer], copies, reason)
        return Resolved((nest,), "atomic operations", f"points come in any order, {order}")
    reason = f"the device has no atomic {store.mode} of {dtype}; in the order of the points"
    turned = _turned_round(nest, graph.buffers[store.buffer])
    return Resolved((turned,), "each element looks for its points", reason)


def _copies(nest: LoopNest, graph: LoopGraph, machine: Machine) -> int:
    """Private copies of the elements that keep points from waiting, a power of 2; 1: none."""
    (store,) = nest.stores
    ranges = graph.ranges()
    elements = ranges.greatest(product(graph.buffers[store.buffer].shape))
    if not elements:
        return 1
    most = machine.private_points // elements
    points = ranges.greatest(product([axis.extent for axis in nest.axes]))
    if points is not None:
        most = min(most, points // (_FEW_WAIT * elements))
    return 1 << max(most.bit_length() - 1, 0)


def _private(nest: LoopNest, buffer: Buffer, copies: int, reason: str) -> Resolved:
    """Points in turn join copies of the elements, which are joined with what was there."""
    (store,) = nest.stores
    meeting = [axis for axis in nest.axes if axis not in nest.free_axes]
    number = ravel([axis.symbol for axis in meeting], [axis.extent for axis in meeting])
    shape = (*buffer.shape, integer(copies))
    none, held = (
        Buffer(f"{buffer.name}_{name}", buffer.dtype, shape, None, "temp")
        for name in ("uncopied", "copies")
    )
    everywhere = numbered_axes("i", shape)
    point = tuple(axis.symbol for axis in everywhere)
    nothing = const(neutral(store.mode, buffer.dtype), buffer.dtype)
    clear = replace(
        _bare(nest, "clear"), axes=everywhere, stores=(Store(none.name, point, nothing),)
    )
    place = (*store.index, Modulo(number, copies))
    joined = replace(
        _bare(nest, "copies"),
        axes=nest.axes,
        stores=(replace(store, buffer=held.name, index=place, base=none.name),),
    )
    *elements, along = everywhere
    of_copies = reduce_(REDUCTIONS[store.mode], load(held.name, buffer.dtype, point))
    old = load(store.base, buffer.dtype, point[:-1])
    total = Store(buffer.name, point[:-1], binary(store.mode, old, of_copies))
    last = replace(nest, axes=tuple(elements), reduction=(along,), stores=(total,))
    return Resolved((clear, joined, last), "private copies", reason, (none, held))


def _bare(nest: LoopNest, suffix: str) -> LoopNest:
    """A nest of the same origin, without loops and stores yet."""
    return LoopNest(f"{nest.name}_{suffix}", (), (), (), nest.origin)


def _turned_round(nest: LoopNest, buffer: Buffer) -> LoopNest:
    """The nest over the elements of its buffer, reducing over the points that name each.

    A loop that is an index by itself becomes that index; the others are reduced.
    """
    (store,) = nest.stores
    elements = numbered_axes("i", buffer.shape)
    inner = {axis.symbol: var(f"r{k}") for k, axis in enumerate(nest.axes)}
    moved: dict[Symbol, Expr] = dict(inner)
    matched: set[int] = set()
    for k, (element, expr) in enumerate(zip(elements, store.index, strict=True)):
        axis = next((a for a in nest.axes if a.symbol == expr), None)
        if axis is None or axis.extent != element.extent:
            continue
        if moved[axis.symbol] == inner[axis.symbol]:
            moved[axis.symbol] = element.symbol
            matched.add(k)
    reduction = tuple(
        Axis(inner[a.symbol], a.extent) for a in nest.axes if moved[a.symbol] == inner[a.symbol]
    )
    places = [index_value(expr, dict(store.binds)) for expr in store.index]
    value, *places = substitute_index([store.value, *places], moved)
    hit: Node | None = None
    for k, (element, place) in enumerate(zip(elements, places, strict=True)):
        if k not in matched:
            same = binary("eq", place, index_value(element.symbol))
            hit = same if hit is None else binary("and", hit, same)
    if hit is not None:
        value = where(hit, value, const(neutral(store.mode, buffer.dtype), buffer.dtype))
    if reduction:
        value = reduce_(REDUCTIONS[store.mode], value)
    point = tuple(axis.symbol for axis in elements)
    old = load(store.base, buffer.dtype, point)
    joined = Store(store.buffer, point, binary(store.mode, old, value))
    return replace(nest, axes=elements, reduction=reduction, stores=(joined,))
