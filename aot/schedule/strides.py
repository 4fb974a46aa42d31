"""Strides of accesses along loops: the facts behind loop order, merging and vectorisation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aot.ir.loops import LoopGraph
from aot.ir.nests import JOINING, Axis, Buffer, LoopNest
from aot.ir.scalar import Access, IndexValue, Node, postorder
from aot.schedule.turns import can_turn, straightened
from aot.symbolic import Expr, Ranges, Symbol, coefficient_of, integer, product


@dataclass(frozen=True)
class StridedAccess:
    """One access: its element offset in the buffer, and whether it stores.

    `straight`: the offset along the longest part of each loop where it does not turn (`turns`).
    `indirect`: loop variables that values in the offset (read from memory) depend on. `guard`:
    those that decide whether the access happens at all. `joins`: a store that joins values in
    memory.
    """

    buffer: str
    offset: Expr
    straight: Expr
    store: bool
    indirect: frozenset[Symbol]
    guard: frozenset[Symbol] = frozenset()
    joins: bool = False

    def stride(self, symbol: Symbol) -> Expr | None:
        """Elements from a turn of that loop to the next, but where it bends; None: not constant."""
        return None if symbol in self.indirect else coefficient_of(self.straight, symbol)

    def even_stride(self, symbol: Symbol) -> Expr | None:
        """The same of the place that values in the offset are added to; None where it turns.

        Those values are of accesses of their own.
        """
        return coefficient_of(self.offset, symbol)


def strided_accesses(
    graph: LoopGraph, nest: LoopNest, *, straighten: bool = False
) -> tuple[StridedAccess, ...]:
    """Every distinct access of a nest; the buffers must have strides.

    `straighten`: loops will be cut where what is read turns.
    """
    axes = (*nest.axes, *nest.reduction)
    known = graph.ranges(*axes)
    found: list[StridedAccess] = []
    for node in postorder(nest.roots):
        if isinstance(node.attr, Access):
            access = node.attr
            offset = straight = buffer_offset(graph.buffers, access.buffer, access.index, known)
            if straighten and can_turn(offset):
                index, shorter = straightened(access.index, nest.axes)
                within = graph.ranges(*axes, *shorter)
                straight = buffer_offset(graph.buffers, access.buffer, index, within)
            bound = node.args[: len(access.binds)]
            guard = variables(node.args[-1:]) if access.masked else frozenset()
            found.append(
                StridedAccess(
                    access.buffer,
                    offset,
                    straight,
                    store=False,
                    indirect=variables(bound),
                    guard=guard,
                )
            )
    for store in nest.stores:
        offset = buffer_offset(graph.buffers, store.buffer, store.index, known)
        bound = tuple(n for _, n in store.binds)
        found.append(
            StridedAccess(
                store.buffer,
                offset,
                offset,
                store=True,
                indirect=variables(bound),
                joins=store.mode in JOINING,
            )
        )
    return tuple(dict.fromkeys(found))


def buffer_offset(
    buffers: Mapping[str, Buffer], name: str, index: Sequence[Expr], ranges: Ranges
) -> Expr:
    """Element offset of an index in a buffer, simplified.

    Raises:
        ValueError: The buffer has no strides yet.
    """
    strides = buffers[name].strides
    if strides is None:
        raise ValueError(f"buffer {name} has no strides yet; run the layout pass first")
    return ranges.offset(index, strides)


def variables(roots: Iterable[Node]) -> frozenset[Symbol]:
    """Loop variables (and sizes) that the indices below `roots` use."""
    found: set[Symbol] = set()
    for node in postorder(roots):
        if isinstance(node.attr, Access):
            for expr in node.attr.index:
                found |= expr.free_symbols
        elif isinstance(node.attr, IndexValue):
            found |= node.attr.expr.free_symbols
    return frozenset(found)


def symbols_as_values(roots: Iterable[Node]) -> frozenset[Symbol]:
    """Loop variables that bodies compute with (arange, bounds of concatenations)."""
    found: set[Symbol] = set()
    for node in postorder(roots):
        if isinstance(node.attr, IndexValue):
            found |= node.attr.expr.free_symbols
    return frozenset(found)


def adjacent(moves: Iterable[StridedAccess], a: Axis, b: Axis) -> bool:
    """True when the loops can be one: for every access, a step of `a` is as far as all of `b`."""
    for move in moves:
        left, right = move.even_stride(a.symbol), move.even_stride(b.symbol)
        if left is None or right is None:
            return False
        if left != right and product((right, b.extent)) != left:
            return False
        if left == right and left != 0 and b.extent != 1:
            return False
    return True


def are_pairs(a: StridedAccess, b: StridedAccess, symbol: Symbol) -> bool:
    """Whether two stores fill neighbours, every second one each, along a loop."""
    if not (a.store and b.store) or a.buffer != b.buffer or a.stride(symbol) != 2:
        return False
    return (a.offset - b.offset).expand() in (integer(1), integer(-1))
