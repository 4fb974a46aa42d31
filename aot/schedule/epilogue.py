"""Epilogues: pointwise nests rewritten onto the output axes of a template call."""

from __future__ import annotations

from dataclasses import replace

from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.ir.rewrite import substitute_axes, with_roots
from aot.ir.scalar import Access, Node, load, loads, mask_of, rebuild, with_args
from aot.schedule.groups import Group
from aot.schedule.matching import invert
from aot.schedule.stages import form_stages
from aot.symbolic import Expr, Symbol, product


def attach_epilogue(graph: LoopGraph, group: Group, consumer: Group) -> Group | str:
    """The template's group with the consumer's nests as an epilogue, or why that cannot be.

    Every nest must read all that the template computes, at points that determine all its loop
    variables, so that each can be expressed by the template's output axes (through quotients and
    remainders where it reshapes).
    """
    assert group.template is not None
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
    if len(form_stages(graph, replace(joined, outer=()))) > 1:
        return "a nest of the epilogue reads elements that other points compute"
    return joined


_Stores = dict[str, tuple[Expr, ...] | None]
"""Buffer -> where its elements are stored; None where values decide (a scatter)."""


def _own_points(nest: LoopNest) -> _Stores:
    return {s.buffer: None if s.binds or s.conflicts else s.index for s in nest.stores}


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
        found.update(_own_points(nest))
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
