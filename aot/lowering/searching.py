"""Binary searches, one step after the other: as many as the longest row can need."""

from __future__ import annotations

from collections.abc import Callable

from aot.ir.dtypes import INT64
from aot.ir.scalar import Node, const
from aot.lowering import exprs as e
from aot.lowering.builder import GraphBuilder
from aot.symbolic import Expr

MOST_STEPS = 40
"""Of a search in a row of which no greatest size is known."""


def search_steps(builder: GraphBuilder, count: Expr) -> int:
    """Halvings after which nothing is left of `count` elements, at any size."""
    most = builder.ranges.greatest(count)
    return MOST_STEPS if most is None else most.bit_length()


def first_where(builder: GraphBuilder, count: Expr, holds: Callable[[Expr], Node]) -> Node:
    """The least position of `count` at which `holds`, int64; `count` where it holds nowhere.

    `holds` must stay true once it is; a row for which it does not gives what halving finds, always
    within [0, count]. It is asked of positions that exist.
    """
    low, high = const(0, INT64), builder.index_node(count)
    for _ in range(search_steps(builder, count)):
        middle = e.shr(e.add(low, high), 1)
        searching = e.lt(low, high)
        place = builder.indirect(e.select(searching, middle, 0), count, wrap=False)
        found = holds(place)
        high = e.select(e.and_(searching, found), middle, high)
        low = e.select(e.and_(searching, e.not_(found)), e.add(middle, 1), low)
    return low
