"""Epilogues: pointwise nests rewritten onto the output axes of a template call."""

from __future__ import annotations

from dataclasses import replace

from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis, LoopNest
from aot.ir.rewrite import substitute_axes, with_roots
from aot.ir.scalar import Access, Node, load, loads, mask_of, rebuild, with_args
from aot.schedule.groups import Group
from aot.schedule.matching import invert, invert_turned, mixed_radix
from aot.schedule.stages import form_stages
from aot.symbolic import Expr, Symbol, integer, product, substitute, var


def attach_epilogue(
    graph: LoopGraph, group: Group, consumer: Group, *, parts: bool = False, clips: bool = False
) -> Group | str:
    """The template's group with the consumer's nests as an epilogue, or why that cannot be.

    Every nest must read all that the template computes, at points that determine all its loop
    variables, so that each can be expressed by the template's output axes (through quotients and
    remainders where it reshapes); or, where `parts`, a part of each row (`attach_part`), or, where
    `clips`, a part of all points, each once (`attach_clipped`).
    """
    assert group.template is not None
    if parts and group.template.by_parts and len(consumer.nests) == 1:
        joined = attach_part(graph, group, consumer.nests[0])
        if joined is not None:
            return joined
    if clips and group.template.clips and len(consumer.nests) == 1:
        joined = attach_clipped(graph, group, consumer.nests[0])
        if joined is not None:
            return joined
    stores = _stored_index(group)
    points = product([a.extent for a in group.template.output.axes])
    nests = list(group.nests)
    for nest in consumer.nests:
        if nest.reduction:
            return f"{nest.name} reduces; an epilogue is pointwise"
        if product([a.extent for a in nest.axes]) != points:
            return f"{nest.name} covers a part of {group.template.output.buffer}"
        mapping = _onto_template(graph, nest, stores)
        if isinstance(mapping, str):
            return mapping
        moved = _at_own_point(substitute_axes(nest, mapping, group.outer, ()), stores)
        nests.append(moved)
        stores.update(_own_points(moved))
    joined = replace(group, nests=tuple(nests), position=group.position)
    whole = tuple(nest for nest in nests if nest.axes == group.outer)
    if len(form_stages(graph, replace(joined, outer=(), nests=whole))) > 1:
        return "a nest of the epilogue reads elements that other points compute"
    return joined


def attach_part(graph: LoopGraph, group: Group, nest: LoopNest) -> Group | None:
    """The group with a nest that reads the columns [start, start + count) of each row alone.

    Its axes become the template's rows and an axis of `count` points. None where it is no such
    nest, or where values decide what it reads.
    """
    assert group.template is not None
    output = group.template.output
    rows, columns = output.axes
    accesses = [node.attr for node in loads(nest.roots)]
    own = {a for a in accesses if isinstance(a, Access) and a.buffer == output.buffer}
    made = {s.buffer for n in group.nests for s in n.stores}
    apart = any(isinstance(a, Access) and a.buffer in made for a in accesses)
    if nest.reduction or apart or len(own) != 1 or output.index != (rows.symbol, columns.symbol):
        return None
    (access,) = own
    row, column = (graph.ranges(*nest.axes).simplify(e) for e in access.index)
    if access.binds or column.free_symbols & row.free_symbols & {a.symbol for a in nest.axes}:
        return None
    start = substitute(column, {axis.symbol: integer(0) for axis in nest.axes})
    count = product([a.extent for a in nest.axes if a.symbol in column.free_symbols])
    if product([a.extent for a in nest.axes]) != product((rows.extent, count)):
        return None
    part = Axis(var(f"{columns.symbol}_{len(group.nests)}"), count)
    within = (column - start).expand()
    mapping = invert(nest.axes, (row, within), (rows.symbol, part.symbol))
    if mapping is None:
        return None
    moved = substitute_axes(nest, mapping, (rows, part), ())
    place = (rows.symbol, (start + part.symbol).expand())
    return replace(group, nests=(*group.nests, _at_own_point(moved, {output.buffer: place})))


def attach_clipped(graph: LoopGraph, group: Group, nest: LoopNest) -> Group | None:
    """The group with a nest that reads a part of its points, of which the others store nothing.

    None where it is no such nest: it has one access to what the template computes, which tells each
    of its loop variables (`invert_turned`), and one store, outside of which points lie that are
    none of its own.
    """
    assert group.template is not None
    stores = _stored_index(group)
    found = [node.attr for node in loads(nest.roots)]
    own = {a for a in found if isinstance(a, Access) and a.buffer in stores}
    points = product([a.extent for a in group.template.output.axes])
    if nest.reduction or len(own) != 1 or len(nest.stores) != 1:
        return None
    if product([a.extent for a in nest.axes]) == points:
        return None
    (access,), (store,) = own, nest.stores
    point = stores[access.buffer]
    if (
        point is None
        or access.binds
        or access.masked
        or store.binds
        or store.conflicts
        or store.base
    ):
        return None
    index = tuple(graph.ranges(*nest.axes).simplify(e) for e in access.index)
    mapping = invert_turned(nest.axes, index, point)
    if mapping is None or not _stays_own(graph, group, nest, mapping):
        return None
    moved = _at_own_point(substitute_axes(nest, mapping, group.outer, ()), stores)
    kept = replace(moved, stores=(replace(moved.stores[0], clipped=True),))
    return replace(group, nests=(*group.nests, kept))


def _stays_own(graph: LoopGraph, group: Group, nest: LoopNest, mapping: dict[Symbol, Expr]) -> bool:
    """Whether points outside of the nest's loops are outside of what it stores, and load nothing.

    They are where each dimension of the store is a mixed-radix number, of which the highest digit
    alone may be beyond its loop.
    """
    ranges = graph.ranges(*group.outer)
    extents = {a.symbol: a.extent for a in nest.axes}
    beyond = {
        symbol
        for symbol, told in mapping.items()
        if not (ranges.nonnegative(told) and ranges.nonnegative(extents[symbol] - 1 - told))
    }
    (store,) = nest.stores
    for place in store.index:
        digits = mixed_radix(place, extents)
        if digits is None or beyond & {symbol for symbol, _ in digits[1:]}:
            return False
    template = _stored_index(group)
    others = [n.attr for n in loads(nest.roots) if isinstance(n.attr, Access)]
    read = {s for a in others if a.buffer not in template for e in a.index for s in e.free_symbols}
    return not beyond & read


_Stores = dict[str, tuple[Expr, ...] | None]
"""Buffer -> where its elements are stored; None where values decide (a scatter)."""


def _own_points(nest: LoopNest) -> _Stores:
    scattered = {s.buffer for s in nest.stores if s.binds or s.conflicts or s.clipped}
    return {s.buffer: None if s.buffer in scattered else s.index for s in nest.stores}


def _at_own_point(nest: LoopNest, stores: _Stores) -> LoopNest:
    """The nest with the stores' own indices in loads of what the group computes.

    Both mean the same element, but a loop of extent 1 may be a variable in one and 0 in the other;
    values pass in registers only where the expressions are equal.
    """

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        fresh = with_args(node, args)
        access = fresh.attr
        if not isinstance(access, Access):
            return fresh
        point = stores.get(access.buffer)
        if point is None:
            return fresh
        return load(access.buffer, fresh.dtype, point, None, mask_of(fresh))

    return with_roots(nest, rebuild(nest.roots, visit))


def _stored_index(group: Group) -> _Stores:
    assert group.template is not None
    view = group.template.output
    found: _Stores = {view.buffer: view.index}
    for nest in group.nests:
        whole = nest.axes == group.outer
        found.update(_own_points(nest) if whole else dict.fromkeys(s.buffer for s in nest.stores))
    return found


def _onto_template(graph: LoopGraph, nest: LoopNest, stores: _Stores) -> dict[Symbol, Expr] | str:
    found: dict[Symbol, Expr] | None = None
    ranges = graph.ranges(*nest.axes)
    for node in loads(nest.roots):
        access = node.attr
        assert isinstance(access, Access)
        if access.buffer not in stores:
            continue
        if access.binds:
            return f"{nest.name} gathers from {access.buffer}"
        point = stores[access.buffer]
        if point is None:
            return f"{nest.name} reads {access.buffer}, which is scattered"
        index = tuple(ranges.simplify(e) for e in access.index)
        solved = invert(nest.axes, index, point)
        if solved is None:
            return f"{nest.name} does not cover {access.buffer} point by point"
        if found is not None and found != solved:
            return f"{nest.name} reads {access.buffer} at several points"
        found = solved
    if found is None:
        return f"{nest.name} reads nothing that the template computes"
    return found
