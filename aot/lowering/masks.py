"""Conditions on positions: index comparisons that vanish where the ranges decide them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aot.ir.scalar import Node
from aot.lowering import exprs as e
from aot.lowering.builder import GraphBuilder
from aot.symbolic import Expr, Ranges, as_expr

Bound = int | Expr


def known_ranges(builder: GraphBuilder, at: Sequence[Expr], shape: Sequence[Expr]) -> Ranges:
    """What is known of the loop variables `at` of a nest over `shape`."""
    extents = {i: size for i, size in zip(at, shape, strict=True) if i.is_Symbol}
    return builder.ranges.with_extents(extents)


def between(
    builder: GraphBuilder, ranges: Ranges, position: Expr, low: Bound, high: Bound
) -> list[Node]:
    """The conditions low <= position < high that are not always true, as bool nodes."""
    low, high = as_expr(low), as_expr(high)
    conditions = []
    if not ranges.nonnegative(position - low):
        conditions.append(e.ge(builder.index_node(position), builder.index_node(low)))
    if not ranges.less(position, high):
        conditions.append(e.lt(builder.index_node(position), builder.index_node(high)))
    return conditions


def conjunction(conditions: Iterable[Node]) -> Node | None:
    """All of the conditions; None when there is none."""
    result: Node | None = None
    for condition in conditions:
        result = condition if result is None else e.and_(result, condition)
    return result
