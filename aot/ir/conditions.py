"""Conditions on loop variables that their ranges decide: guards of padding and concatenation."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aot.ir.dtypes import BOOL
from aot.ir.scalar import (
    Access,
    IndexValue,
    Node,
    const,
    load,
    mask_of,
    rebuild,
    where,
    with_args,
)
from aot.symbolic import Expr, Ranges, integer, is_int, substitute

_TRUE, _FALSE = const(True, BOOL), const(False, BOOL)


def fold_conditions(roots: Iterable[Node], ranges: Ranges) -> list[Node]:
    """The nodes without comparisons, selections and guards that `ranges` decides."""

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        fresh = with_args(node, args)
        if fresh.op in _COMPARISONS or fresh.op == "eq":
            return _decided(fresh, ranges)
        if fresh.op == "and":
            return _both(fresh)
        if fresh.op == "where":
            return _selected(fresh, ranges)
        if isinstance(fresh.attr, Access) and fresh.attr.masked:
            return _unguarded(fresh)
        return fresh

    return rebuild(roots, visit)


def index_of(node: Node) -> Expr | None:
    """The index expression that an integer node is, if it is one."""
    if isinstance(node.attr, IndexValue) and not node.args:
        return node.attr.expr
    if node.op == "const" and isinstance(node.attr, int) and node.dtype.is_integral:
        return integer(node.attr)
    return None


def changes(node: Node) -> tuple[Expr, ...]:
    """The expressions that are negative on one side of where a comparison changes."""
    found = at_least(node)
    if found is not None:
        return (found[0],)
    difference = _difference(node)
    return () if difference is None else (difference, difference - 1)


def at_least(node: Node) -> tuple[Expr, bool] | None:
    """(e, sense) when the comparison is `e >= 0` (sense true) or its opposite; None otherwise."""
    if node.op not in _COMPARISONS:
        return None
    left, right = (index_of(a) for a in node.args)
    if left is None or right is None:
        return None
    return _COMPARISONS[node.op](left, right)


_COMPARISONS: dict[str, Callable[[Expr, Expr], tuple[Expr, bool]]] = {
    "ge": lambda a, b: ((a - b).expand(), True),
    "lt": lambda a, b: ((a - b).expand(), False),
    "le": lambda a, b: ((b - a).expand(), True),
    "gt": lambda a, b: ((b - a).expand(), False),
}


def _difference(node: Node) -> Expr | None:
    """Left without right of an equation of indices; None for another node."""
    if node.op != "eq":
        return None
    left, right = (index_of(a) for a in node.args)
    return None if left is None or right is None else (left - right).expand()


def _decided(node: Node, ranges: Ranges) -> Node:
    difference = _difference(node)
    if difference is not None:
        if all(ranges.nonnegative(e) for e in (difference, -difference)):
            return _TRUE
        apart = (difference - 1, -difference - 1)
        return _FALSE if any(ranges.nonnegative(e.expand()) for e in apart) else node
    found = at_least(node)
    if found is None:
        return node
    expr, sense = found
    if ranges.nonnegative(expr):
        return _TRUE if sense else _FALSE
    if ranges.nonnegative((-expr - 1).expand()):
        return _FALSE if sense else _TRUE
    return node


def _both(node: Node) -> Node:
    a, b = node.args
    if a is _FALSE or b is _FALSE:
        return _FALSE
    if a is _TRUE or a is b:
        return b
    return a if b is _TRUE else node


def _selected(node: Node, ranges: Ranges) -> Node:
    condition, a, b = node.args
    if condition is _TRUE:
        return a
    if condition is _FALSE:
        return b
    return _one_of_two(condition, a, b, ranges) or where(condition, a, b)


def _one_of_two(condition: Node, a: Node, b: Node, ranges: Ranges) -> Node | None:
    """The load that is `a` where a variable is 0 and `b` where it is 1, which it is at most.

    So parts of complex numbers, which lie a fixed distance apart, are read in one loop.
    """
    bit, one, other = _difference(condition), a.attr, b.attr
    if bit is None or ranges.extents.get(bit) != 2:
        return None
    if not (isinstance(one, Access) and isinstance(other, Access)) or one.buffer != other.buffer:
        return None
    if one.binds or other.binds or mask_of(a) not in (None, condition):
        return None
    mask = mask_of(b)
    if mask is not None and _difference(mask) != bit - 1:
        return None
    first = [substitute(e, {bit: integer(0)}) for e in one.index]
    second = [substitute(e, {bit: integer(1)}) for e in other.index]
    apart = [(q - p).expand() for p, q in zip(first, second, strict=True)]
    if not all(is_int(step) for step in apart):
        return None
    index = [(p + bit * step).expand() for p, step in zip(first, apart, strict=True)]
    return load(one.buffer, a.dtype, index)


def _unguarded(node: Node) -> Node:
    mask = node.args[-1]
    access = node.attr
    assert isinstance(access, Access)
    if mask is _FALSE:
        return const(0, node.dtype)
    if mask is not _TRUE:
        return node
    binds = dict(zip(access.binds, node.args, strict=False))
    return load(access.buffer, node.dtype, access.index, binds)
