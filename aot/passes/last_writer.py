"""The last writer of an element, where points come in any order.

Points leave their numbers in the elements that they name, of which the greatest stays. Then each
element takes the value of the point that it finds; where elements are many more than points, each
point stores the value of the one that it finds. Few points look for a later one instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from aot.ir.dtypes import INT32, INT64
from aot.ir.kernel_facts import index_exprs
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import Axis, Buffer, LoopNest, Store, numbered_axes
from aot.ir.scalar import (
    Node,
    binary,
    bound_index,
    cast,
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

_LAST = var("last")
"""The number of the point whose value an element gets."""

_SPARSE = 4
"""Elements a point from which points store, not elements."""

_LARGE = 1 << 31
"""Numbers of points from which do not fit into 32 bits."""


@dataclass(frozen=True)
class Resolved:
    """Nests without the conflict, what was decided ("": nothing to tell) and why, new buffers."""

    nests: tuple[LoopNest, ...]
    verdict: str = ""
    reason: str = ""
    buffers: tuple[Buffer, ...] = ()


def last_wins(nest: LoopNest, graph: LoopGraph, machine: Machine) -> Resolved:
    """Nests that find the last point of each element, and one that stores its value."""
    (store,) = nest.stores
    meeting = tuple(axis for axis in nest.axes if axis not in nest.free_axes)
    count = product([axis.extent for axis in meeting])
    plain = replace(nest, stores=(replace(store, mode="set"),))
    same = not _symbols([store.value]) & {axis.symbol for axis in meeting}
    if count == 1 or same:
        return Resolved((plain,))
    # Axes along which points never meet count only where they say which element is named.
    asked = _symbols(node for _, node in store.binds)
    axes = tuple(a for a in nest.axes if a in meeting or a.symbol in asked)
    conflict = _Conflict(nest, store, graph, axes, meeting)
    if conflict.few(machine):
        search, last = conflict.searched()
        told = ("each point looks for the last", "there are few points")
        return Resolved((search, conflict.by_points(last)), *told, (conflict.found,))
    told = ("notes of the last point", "points come in any order: elements note the last")
    notes = conflict.noted()
    end = conflict.by_elements() if conflict.dense else conflict.by_points(conflict.own_note())
    return Resolved((*notes, end), *told, (conflict.unnoted, conflict.notes))


@dataclass(frozen=True)
class _Conflict:
    """A nest with a store of mode "last".

    Attributes:
        axes: Loops over the points that have to be told apart.
        meeting: Loops along which points may meet.
    """

    nest: LoopNest
    store: Store
    graph: LoopGraph
    axes: tuple[Axis, ...]
    meeting: tuple[Axis, ...]

    @property
    def number(self) -> Expr:
        """Of a point: the greatest of an element is its last."""
        return ravel([a.symbol for a in self.meeting], [a.extent for a in self.meeting])

    @property
    def count(self) -> Expr:
        """Points that may meet."""
        return product([axis.extent for axis in self.meeting])

    def few(self, machine: Machine) -> bool:
        """Whether comparing points costs no more than a note for each, at any size."""
        extents = [axis.extent for axis in (*self.axes, *self.meeting)]
        pairs = self.graph.ranges().greatest(product(extents))
        return pairs is not None and pairs <= machine.compared_points

    # Searching -----------------------------------------------------------------------------------

    @property
    def found(self) -> Buffer:
        """The last point for each point."""
        shape = tuple(axis.extent for axis in self.axes)
        return Buffer(f"{self.store.buffer}_last", INT64, shape, None, "temp")

    def searched(self) -> tuple[LoopNest, Node]:
        """A nest in which each point compares itself with all that it may meet."""
        others = tuple(Axis(var(f"other_{a.symbol}"), a.extent) for a in self.meeting)
        moved = {a.symbol: o.symbol for a, o in zip(self.meeting, others, strict=True)}
        places = [index_value(e, dict(self.store.binds)) for e in self.store.index]
        same: Node | None = None
        for own, other in zip(places, substitute_index(places, moved), strict=True):
            if own != other:
                equal = binary("eq", own, other)
                same = equal if same is None else binary("and", same, equal)
        (theirs,) = substitute_index([index_value(self.number)], moved)
        chosen = theirs if same is None else where(same, theirs, const(0, INT64))
        point = tuple(axis.symbol for axis in self.axes)
        stored = Store(self.found.name, point, reduce_("max", chosen))
        nest = LoopNest(f"{self.nest.name}_last", self.axes, others, (stored,), self.nest.origin)
        return nest, load(self.found.name, INT64, point)

    # Notes ---------------------------------------------------------------------------------------

    @property
    def _kept(self) -> tuple[int, ...]:
        """Dimensions of the buffer that tell points apart."""
        used = {axis.symbol for axis in self.axes}
        used.update(symbol for symbol, _ in self.store.binds)
        return tuple(k for k, e in enumerate(self.store.index) if e.free_symbols & used)

    @property
    def notes(self) -> Buffer:
        """The number of each element's last point, -1 for none."""
        return self._per_element("notes")

    @property
    def unnoted(self) -> Buffer:
        """Notes before there are any."""
        return self._per_element("unnoted")

    def _per_element(self, name: str) -> Buffer:
        of = self.graph.buffers[self.store.buffer]
        most = self.graph.ranges().greatest(self.count)
        dtype = INT32 if most is not None and most < _LARGE else INT64
        shape = tuple(of.shape[k] for k in self._kept)
        return Buffer(f"{self.store.buffer}_{name}", dtype, shape, None, "temp")

    def _place(self) -> tuple[tuple[Expr, ...], tuple[tuple[Symbol, Node], ...]]:
        """Where a point's note is, and what the index binds."""
        return bound_index([self.store.index[k] for k in self._kept], dict(self.store.binds))

    def noted(self) -> tuple[LoopNest, LoopNest]:
        """Nests that clear the notes and take them."""
        origin, name, notes = self.nest.origin, self.nest.name, self.notes
        elements = numbered_axes("i", notes.shape)
        point = tuple(axis.symbol for axis in elements)
        cleared = Store(self.unnoted.name, point, const(-1, notes.dtype))
        place, binds = self._place()
        own = cast(index_value(self.number), notes.dtype)
        noted = Store(notes.name, place, own, "maximum", binds, self.unnoted.name)
        clear = LoopNest(f"{name}_clear", elements, (), (cleared,), origin)
        return clear, LoopNest(f"{name}_note", self.axes, (), (noted,), origin)

    def own_note(self) -> Node:
        """The number that a point finds in the element that it names."""
        place, binds = self._place()
        return cast(load(self.notes.name, self.notes.dtype, place, dict(binds)), INT64)

    # The values ----------------------------------------------------------------------------------

    def _value_of(self, last: Node, others: dict[Symbol, Expr]) -> Node:
        """The value of the point of that number; `others`: its place along the other axes."""
        at = unravel(_LAST, [axis.extent for axis in self.meeting])
        moved = others | dict(zip([axis.symbol for axis in self.meeting], at, strict=True))
        checked = check_index(last, self.count, wrap=False)
        (value,) = substitute_index([self.store.value], moved, {_LAST: checked})
        return value

    def by_points(self, last: Node) -> LoopNest:
        """Each point stores the value of the last one that names its element."""
        value = self._value_of(last, {})
        return replace(self.nest, stores=(replace(self.store, mode="set", value=value),))

    @property
    def dense(self) -> bool:
        """Whether each element may take its value: it knows its points, and there are as many."""
        shape, index = self.graph.buffers[self.store.buffer].shape, self.store.index
        extents = {axis.symbol: axis.extent for axis in self.nest.free_axes}
        free = [k for k in range(len(shape)) if k not in self._kept or index[k] in extents]
        known = all(extents.get(index[k]) == shape[k] for k in free)
        once = len({index[k] for k in free}) == len(free) == len(extents)
        ranges, points = self.graph.ranges(), product([axis.extent for axis in self.axes])
        elements = product(self.notes.shape)
        return (
            known
            and once
            and ranges.nonnegative(_SPARSE * points - elements)
            and ranges.nonnegative(self.count - 1)
        )

    def by_elements(self) -> LoopNest:
        """Each element takes the value of the point that it has a note of, or stays as it was."""
        buffer, notes = self.graph.buffers[self.store.buffer], self.notes
        elements = numbered_axes("i", buffer.shape)
        point = tuple(axis.symbol for axis in elements)
        note = load(notes.name, notes.dtype, tuple(point[k] for k in self._kept))
        named = binary("ge", note, const(0, notes.dtype))
        last = where(named, cast(note, INT64), const(0, INT64))
        free = {axis.symbol for axis in self.nest.free_axes}
        places = zip(self.store.index, point, strict=True)
        value = self._value_of(last, {e: at for e, at in places if e in free})
        old = load(self.store.base, buffer.dtype, point)
        stored = Store(buffer.name, point, where(named, value, old))
        return replace(self.nest, axes=elements, stores=(stored,))


def _symbols(roots: Iterable[Node]) -> set[Symbol]:
    """Symbols in the indices that values depend on."""
    exprs = (e for node in postorder(roots) for e in index_exprs(node))
    return {symbol for expr in exprs for symbol in expr.free_symbols}
