"""Rewriting of loop operations: their buffers, axes, indices and bodies. The only place for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import overload

from aot.ir.conditions import index_of
from aot.ir.dtypes import INT64
from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.scalar import (
    Access,
    IndexCheck,
    IndexValue,
    Node,
    index_value,
    load,
    make,
    mask_of,
    postorder,
    rebuild,
    substitute_index,
    with_args,
)
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.symbolic import Expr, Ranges, Symbol, expand, substitute, var


def with_roots(nest: LoopNest, roots: Iterable[Node]) -> LoopNest:
    """The nest with other roots, in the order of `LoopNest.roots`; the same object if equal."""
    fresh = tuple(roots)
    if all(a is b for a, b in zip(fresh, nest.roots, strict=True)):
        return nest
    stores: list[Store] = []
    position = 0
    for store in nest.stores:
        value = fresh[position]
        count = len(store.binds)
        bound = fresh[position + 1 : position + 1 + count]
        binds = tuple((s, n) for (s, _), n in zip(store.binds, bound, strict=True))
        stores.append(replace(store, value=value, binds=binds))
        position += 1 + count
    return replace(nest, stores=tuple(stores))


def substitute_axes(
    nest: LoopNest,
    mapping: Mapping[Symbol, Expr],
    axes: tuple[Axis, ...],
    reduction: tuple[Axis, ...],
) -> LoopNest:
    """The nest with loop variables replaced everywhere, over the given new axes."""
    rewritten = with_roots(nest, substitute_index(nest.roots, mapping))
    stores = tuple(
        replace(s, index=tuple(substitute(e, mapping) for e in s.index)) for s in rewritten.stores
    )
    return replace(rewritten, axes=axes, reduction=reduction, stores=stores)


def split_axis(nest: LoopNest, axis: Axis, parts: tuple[Axis, ...]) -> LoopNest:
    """The nest with an axis, or one that it reduces, in `parts`, outermost first.

    The product of their extents must be its own. The same object if it has not this axis.
    """
    if axis not in nest.axes and axis not in nest.reduction:
        return nest
    total: Expr = parts[0].symbol
    for part in parts[1:]:
        total = total * part.extent + part.symbol
    mapping = {axis.symbol: expand(total)}
    return substitute_axes(
        nest, mapping, in_parts(nest.axes, axis, parts), in_parts(nest.reduction, axis, parts)
    )


def in_parts(axes: Iterable[Axis], axis: Axis, parts: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The axes with `parts` in the place of `axis`."""
    return tuple(p for a in axes for p in (parts if a == axis else (a,)))


def map_indices(roots: Iterable[Node], change: Callable[[Expr, Node], Expr]) -> list[Node]:
    """Applies `change(expression, node)` to every index expression of loads and index values.

    The node given is the one being rewritten, with its new arguments.
    """

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        fresh = with_args(node, args)
        attr = fresh.attr
        if isinstance(attr, IndexValue):
            changed = change(attr.expr, fresh)
            binds = dict(zip(attr.binds, args, strict=True))
            return fresh if changed is attr.expr else index_value(changed, binds)
        if isinstance(attr, Access):
            index = tuple(change(e, fresh) for e in attr.index)
            if index == attr.index:
                return fresh
            binds = dict(zip(attr.binds, args, strict=False))
            return load(attr.buffer, fresh.dtype, index, binds, mask_of(fresh))
        return fresh

    return rebuild(roots, visit)


@overload
def rename_buffers(op: LoopNest, names: Mapping[str, str]) -> LoopNest: ...


@overload
def rename_buffers(op: LoopOp, names: Mapping[str, str]) -> LoopOp: ...


def rename_buffers(op: LoopOp, names: Mapping[str, str]) -> LoopOp:
    """The operation with the buffers `names[old]` in place of `old`; others keep their names."""

    def view(old: View) -> View:
        return replace(old, buffer=names.get(old.buffer, old.buffer))

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        attr = node.attr
        if not isinstance(attr, Access) or attr.buffer not in names:
            return with_args(node, args)
        return make(node.op, node.dtype, *args, attr=replace(attr, buffer=names[attr.buffer]))

    if isinstance(op, TemplateCall):
        return replace(op.with_views(lambda _, v: view(v)), output=view(op.output))
    renamed = with_roots(op, rebuild(op.roots, visit))
    stores = tuple(
        replace(s, buffer=names.get(s.buffer, s.buffer), base=names.get(s.base, s.base))
        for s in renamed.stores
    )
    return replace(renamed, stores=stores)


def simplify_indices(nest: LoopNest, ranges: Ranges) -> LoopNest:
    """The nest with every index simplified by what is known of its axes (`graph.ranges`)."""

    def change(expr: Expr, node: Node) -> Expr:
        attr = node.attr
        assert isinstance(attr, (Access, IndexValue))
        if expr.is_Symbol or expr.is_Integer:
            return expr
        known = with_bind_ranges(ranges, attr.binds, node.args) if attr.binds else ranges
        return known.simplify(expr)

    nest = with_roots(nest, direct_indices(map_indices(nest.roots, change), ranges))
    stores = tuple(
        replace(s, index=tuple(ranges.simplify(e) for e in s.index)) for s in nest.stores
    )
    return nest if stores == nest.stores else replace(nest, stores=stores)


def direct_indices(roots: Iterable[Node], ranges: Ranges) -> list[Node]:
    """Replaces indirect symbols whose values are plain index expressions within their bounds.

    Sums of index expressions are index expressions too.
    """

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        fresh = with_args(node, args)
        if fresh.op in ("add", "sub") and fresh.dtype == INT64:
            return _added(fresh, ranges)
        attr = fresh.attr
        if not isinstance(attr, (Access, IndexValue)) or not attr.binds:
            return fresh
        known: dict[Symbol, Expr] = {}
        for symbol, value in zip(attr.binds, args, strict=False):
            expr = _known_index(value, ranges)
            if expr is not None:
                known[symbol] = expr
        if not known:
            return fresh
        left = {s: v for s, v in zip(attr.binds, args, strict=False) if s not in known}
        if isinstance(attr, IndexValue):
            return index_value(ranges.simplify(substitute(attr.expr, known)), left)
        index = [ranges.simplify(substitute(e, known)) for e in attr.index]
        return load(attr.buffer, fresh.dtype, index, left, mask_of(fresh))

    return rebuild(roots, visit)


def _added(node: Node, ranges: Ranges) -> Node:
    a, b = (index_of(arg) for arg in node.args)
    if a is None or b is None:
        return node
    return index_value(ranges.simplify(a + b if node.op == "add" else a - b))


def _known_index(value: Node, ranges: Ranges) -> Expr | None:
    """The expression of a checked index that provably needs no check; None otherwise."""
    check, inner = value.attr, value
    if isinstance(check, IndexCheck):
        inner = value.args[0]
    expr = index_of(inner)
    if expr is None or not isinstance(check, IndexCheck):
        return expr
    if not ranges.nonnegative(expr) or not ranges.less(expr, check.size):
        return None
    return expr


def with_bind_ranges(ranges: Ranges, binds: tuple[Symbol, ...], args: tuple[Node, ...]) -> Ranges:
    """`ranges` plus those of indirect symbols whose values were checked against a size."""
    known = dict(ranges.extents)
    for symbol, node in zip(binds, args, strict=False):
        if isinstance(node.attr, IndexCheck):
            known[symbol] = node.attr.size
    return ranges.with_extents(known)


def fresh_binds(node: Node, tag: str) -> tuple[dict[Symbol, Expr], dict[Symbol, Node]]:
    """Renames a load's local indirect symbols so that they can leave the node.

    Returns (local symbol -> global symbol, global symbol -> value node).
    """
    attr = node.attr
    assert isinstance(attr, Access)
    renaming: dict[Symbol, Expr] = {}
    values: dict[Symbol, Node] = {}
    for symbol, value in zip(attr.binds, node.args, strict=False):
        outer = var(f"{tag}_{symbol}")
        renaming[symbol] = outer
        values[outer] = value
    return renaming, values


def index_nodes(nest: LoopNest) -> Iterable[Expr]:
    """Every index expression of the nest: of loads, index values and stores."""
    for node in postorder(nest.roots):
        if isinstance(node.attr, Access):
            yield from node.attr.index
        elif isinstance(node.attr, IndexValue):
            yield node.attr.expr
    for store in nest.stores:
        yield from store.index
