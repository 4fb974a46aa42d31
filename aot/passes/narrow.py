"""Broadcasts are stored once: a buffer loses the dimensions along which its value does not vary.

Such buffers arise when a small producer was inlined into an expanded copy of it that a template
call reads: the mask of keys that a transformer expands to all queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aot.ir.loops import LoopGraph, bases, writes
from aot.ir.nests import LoopNest, View
from aot.ir.rewrite import with_roots
from aot.ir.scalar import (
    Access,
    IndexValue,
    Node,
    bind_map,
    load,
    mask_of,
    postorder,
    rebuild,
    with_args,
)
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.symbolic import Expr, Symbol, integer, is_int

Spare = frozenset[int]
"""Dimensions of a buffer of which one element is stored."""

_NONE: Spare = frozenset()


def narrow_broadcasts(graph: LoopGraph) -> LoopGraph:
    """The graph with one element in place of equal ones; the same object when there are none."""
    fixed = _fixed_dimensions(graph)
    spares: dict[str, Spare] = {}
    ops: list[LoopOp] = []
    for op in graph.ops:
        read = _reading(op, spares)
        if isinstance(read, LoopNest):
            spare = _spare(graph, read) - fixed.get(read.stores[0].buffer, _NONE)
            if spare:
                spares[read.stores[0].buffer] = spare
                read = _storing(read, spare)
        ops.append(read)
    if not spares:
        return graph
    buffers = dict(graph.buffers)
    for name, spare in spares.items():
        shape = tuple(integer(1) if d in spare else s for d, s in enumerate(buffers[name].shape))
        buffers[name] = replace(buffers[name], shape=shape)
    return replace(graph, ops=tuple(ops), buffers=buffers)


def _fixed_dimensions(graph: LoopGraph) -> dict[str, Spare]:
    """Dimensions that must stay, by buffer.

    Those of results, of buffers with several writers and of bases; those of templates' operands,
    but for the roles that may have stride 0 (`TemplateCall.broadcasts`); and those that are indexed
    by data, whose bound the index was checked against.
    """
    fixed: dict[str, Spare] = {name: _all(graph, name) for name in graph.results}
    written: set[str] = set()
    for op in graph.ops:
        for name in writes(op):
            if name in written:
                fixed[name] = _all(graph, name)
            written.add(name)
        for base in bases(op).values():  # the update's result takes over its memory
            fixed[base] = _all(graph, base)
        if isinstance(op, TemplateCall):
            for role, view in op.operands:
                last = frozenset((len(view.index) - 1,))
                kept = last if role in op.broadcasts else _all(graph, view.buffer)
                fixed[view.buffer] = fixed.get(view.buffer, _NONE) | kept
            continue
        for node in postorder(op.roots):
            if isinstance(node.attr, Access):
                bound = set(node.attr.binds)
                indirect = (d for d, e in enumerate(node.attr.index) if e.free_symbols & bound)
                name = node.attr.buffer
                fixed[name] = fixed.get(name, _NONE) | frozenset(indirect)
    return fixed


def _all(graph: LoopGraph, name: str) -> Spare:
    return frozenset(range(len(graph.buffers[name].shape)))


def _spare(graph: LoopGraph, nest: LoopNest) -> Spare:
    """Dimensions of the nest's only buffer that its value does not depend on."""
    store, axes = nest.stores[0], {a.symbol: a for a in nest.axes}
    if len(nest.stores) > 1 or store.mode != "set" or store.binds:
        return _NONE
    if graph.buffers[store.buffer].kind != "temp":
        return _NONE
    used: set[Symbol] = set()
    for node in postorder(nest.roots):
        for expr in _expressions(node):
            used |= expr.free_symbols
    symbols = [e for e in store.index if e.is_Symbol]
    fixed = used.union(s for s in symbols if symbols.count(s) > 1)
    return frozenset(
        d
        for d, e in enumerate(store.index)
        if e in axes and e not in fixed and _shrinks(axes[e].extent)
    )


def _shrinks(extent: Expr) -> bool:
    """Whether storing one element saves any; an extent of 0 has none to store."""
    return not is_int(extent, 0) and not is_int(extent, 1)


def _expressions(node: Node) -> tuple[Expr, ...]:
    if isinstance(node.attr, Access):
        return node.attr.index
    return (node.attr.expr,) if isinstance(node.attr, IndexValue) else ()


def _storing(nest: LoopNest, spare: Spare) -> LoopNest:
    store = nest.stores[0]
    gone = {store.index[d] for d in spare}
    axes = tuple(a for a in nest.axes if a.symbol not in gone)
    return replace(nest, axes=axes, stores=(replace(store, index=_pinned(store.index, spare)),))


def _pinned(index: tuple[Expr, ...], spare: Spare) -> tuple[Expr, ...]:
    return tuple(integer(0) if d in spare else e for d, e in enumerate(index))


def _reading(op: LoopOp, spares: Mapping[str, Spare]) -> LoopOp:
    """The operation with its reads of narrowed buffers at their only elements."""
    if isinstance(op, TemplateCall):
        return op.with_views(lambda _, view: _seen(view, spares))

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        fresh = with_args(node, args)
        attr = fresh.attr
        if not isinstance(attr, Access) or attr.buffer not in spares:
            return fresh
        index = _pinned(attr.index, spares[attr.buffer])
        return load(attr.buffer, fresh.dtype, index, bind_map(fresh), mask_of(fresh))

    return with_roots(op, rebuild(op.roots, visit))


def _seen(view: View, spares: Mapping[str, Spare]) -> View:
    spare = spares.get(view.buffer)
    return view if spare is None else replace(view, index=_pinned(view.index, spare))
