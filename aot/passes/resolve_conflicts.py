"""Conflicts: points of a nest that meet in one element of what it stores.

A worker that does such points in their order needs nothing more. On a device whose points come in
any order, values join memory by its atomic operations. The last writer of an element is found by
them, too: points leave their numbers there, of which the greatest stays, and then each stores the
value of the point that it finds; where there are few points, each looks for a later one instead.
What the device has no operation for is turned round: each element looks for the points that name
it, which costs the product of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from aot.ir.decisions import Decision
from aot.ir.dtypes import INT64
from aot.ir.kernel_facts import index_exprs
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import Axis, Buffer, LoopNest, Store, neutral, numbered_axes
from aot.ir.scalar import (
    Node,
    binary,
    bound_index,
    check_index,
    const,
    index_value,
    load,
    postorder,
    reduce_,
    substitute_index,
    where,
)
from aot.symbolic import Expr, Symbol, product, ravel, unravel, var

_REDUCTIONS = {"add": "sum", "mul": "prod", "maximum": "max", "minimum": "min"}
"""By the modes of stores that join."""

_LAST = var("last")
"""The number of the point whose value an element gets."""


def resolve_conflicts(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph whose nests with conflicts are such as the machine has, each with a decision."""
    if not any(isinstance(op, LoopNest) and op.conflicts for op in graph.ops):
        return graph
    resolver = _Resolver(graph, machine)
    ops = [
        made
        for op in graph.ops
        for made in (resolver.nests(op) if isinstance(op, LoopNest) and op.conflicts else [op])
    ]
    return replace(
        graph,
        buffers={**graph.buffers, **resolver.buffers},
        ops=tuple(ops),
        decisions=(*graph.decisions, *resolver.decisions),
    )


@dataclass
class _Resolver:
    """What has been decided so far, and the buffers that it takes."""

    graph: LoopGraph
    machine: Machine
    buffers: dict[str, Buffer] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)

    def nests(self, nest: LoopNest) -> list[LoopNest]:
        """The nests that do what `nest` does, in a way that the machine has."""
        (store,) = nest.stores
        dtype = self.graph.buffers[store.buffer].dtype
        if self.machine.in_order:
            self._decide(store, "in memory", "one worker does points that may meet, in order")
            return [nest]
        if store.mode == "last":
            return self._last_wins(nest, store)
        if self.machine.joins is None or (store.mode, dtype.name) in self.machine.joins:
            exact = not dtype.is_float or store.mode in ("maximum", "minimum")
            order = "which changes no result" if exact else "so last bits differ from run to run"
            self._decide(store, "atomic operations", f"points come in any order, {order}")
            return [nest]
        reason = f"the device has no atomic {store.mode} of {dtype}; in the order of the points"
        self._decide(store, "each element looks for its points", reason)
        return [_turned_round(nest, self.graph.buffers[store.buffer])]

    def _decide(self, store: Store, verdict: str, reason: str) -> None:
        self.decisions.append(Decision("conflict", (store.buffer,), verdict, reason))

    def _last_wins(self, nest: LoopNest, store: Store) -> list[LoopNest]:
        """Nests that find the last point of each element, and one that stores its value."""
        meeting = [axis for axis in nest.axes if axis not in nest.free_axes]
        count = product([axis.extent for axis in meeting])
        plain = replace(nest, stores=(replace(store, mode="set"),))
        same = not _symbols([store.value]) & {axis.symbol for axis in meeting}
        if count == 1 or same:
            return [plain]
        # Axes along which points never meet count only where they say which element is named.
        asked = _symbols(node for _, node in store.binds)
        axes = tuple(a for a in nest.axes if a in meeting or a.symbol in asked)
        number = ravel([axis.symbol for axis in meeting], [axis.extent for axis in meeting])
        if self._few(axes, meeting):
            found, last = self._searched(nest, store, axes, meeting, number)
            self._decide(store, "each point looks for the last", "there are few points")
        else:
            found, last = self._noted(nest, store, axes, number)
            reason = "points come in any order: elements note the last that names them"
            self._decide(store, "notes of the last point", reason)
        checked = check_index(last, count, wrap=False)
        at = unravel(_LAST, [axis.extent for axis in meeting])
        moved = dict(zip([axis.symbol for axis in meeting], at, strict=True))
        (value,) = substitute_index([store.value], moved, {_LAST: checked})
        return [*found, replace(plain, stores=(replace(store, mode="set", value=value),))]

    def _few(self, axes: Sequence[Axis], meeting: Sequence[Axis]) -> bool:
        """Whether comparing points costs no more than a note for each, at any size."""
        pairs = self.graph.ranges().greatest(product([a.extent for a in (*axes, *meeting)]))
        return pairs is not None and pairs <= self.machine.compared_points

    def _noted(
        self, nest: LoopNest, store: Store, axes: tuple[Axis, ...], number: Expr
    ) -> tuple[list[LoopNest], Node]:
        """Nests that note each element's last point; how a point reads it."""
        used = {axis.symbol for axis in axes}.union(symbol for symbol, _ in store.binds)
        kept = [k for k, expr in enumerate(store.index) if expr.free_symbols & used]
        shape = tuple(self.graph.buffers[store.buffer].shape[k] for k in kept)
        place, binds = bound_index([store.index[k] for k in kept], dict(store.binds))
        none, notes = (self._temp(f"{store.buffer}_{n}", shape) for n in ("unnoted", "notes"))
        elements = numbered_axes("i", shape)
        point = tuple(axis.symbol for axis in elements)
        cleared = Store(none, point, const(0, INT64))
        noted = Store(notes, place, index_value(number), "maximum", binds, none)
        clear = LoopNest(f"{nest.name}_clear", elements, (), (cleared,), nest.origin)
        note = LoopNest(f"{nest.name}_note", axes, (), (noted,), nest.origin)
        return [clear, note], load(notes, INT64, place, dict(binds))

    def _searched(
        self,
        nest: LoopNest,
        store: Store,
        axes: tuple[Axis, ...],
        meeting: Sequence[Axis],
        number: Expr,
    ) -> tuple[list[LoopNest], Node]:
        """A nest in which each point compares itself with all that it may meet."""
        others = tuple(Axis(var(f"other_{a.symbol}"), a.extent) for a in meeting)
        moved = {a.symbol: o.symbol for a, o in zip(meeting, others, strict=True)}
        places = [index_value(e, dict(store.binds)) for e in store.index]
        same: Node | None = None
        for own, other in zip(places, substitute_index(places, moved), strict=True):
            if own != other:
                equal = binary("eq", own, other)
                same = equal if same is None else binary("and", same, equal)
        (theirs,) = substitute_index([index_value(number)], moved)
        found = theirs if same is None else where(same, theirs, const(0, INT64))
        last = self._temp(f"{store.buffer}_last", tuple(axis.extent for axis in axes))
        point = tuple(axis.symbol for axis in axes)
        stored = Store(last, point, reduce_("max", found))
        search = LoopNest(f"{nest.name}_last", axes, others, (stored,), nest.origin)
        return [search], load(last, INT64, point)

    def _temp(self, name: str, shape: tuple[Expr, ...]) -> str:
        self.buffers[name] = Buffer(name, INT64, shape, None, "temp")
        return name


def _symbols(roots: Iterable[Node]) -> set[Symbol]:
    """Symbols in the indices that values depend on."""
    exprs = (e for node in postorder(roots) for e in index_exprs(node))
    return {symbol for expr in exprs for symbol in expr.free_symbols}


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
        value = reduce_(_REDUCTIONS[store.mode], value)
    point = tuple(axis.symbol for axis in elements)
    old = load(store.base, buffer.dtype, point)
    joined = Store(store.buffer, point, binary(store.mode, old, value))
    return replace(nest, axes=elements, reduction=reduction, stores=(joined,))
