"""Searches for positions (argmax, argmin) in two steps.

Each part gives the extreme that it found and where; the position is that of the first part with the
greatest of these. It is found by a nest of its own, since what it gives is an index.
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.dtypes import INT64
from aot.ir.nests import Axis, LoopNest, Store
from aot.ir.scalar import Node, binary, clamp_index, index_value, load, reduce_
from aot.symbolic import Expr, product, var

EXTREMES = {"argmax": "max", "argmin": "min"}
"""The reduction to the value by that to its position."""

_PART = var("best")


def extreme(search: Node) -> Node:
    """The reduction to the value whose position another one looks for."""
    return reduce_(EXTREMES[str(search.attr)], search.args[0])


def best_part(
    nest: LoopNest, search: Node, values: Store, buffer: str, chunk: Axis
) -> tuple[LoopNest, Node]:
    """The nest that finds the first part with the extreme value; how its results are read.

    Args:
        nest: The one that searches, with its axes.
        search: Its reduction to a position.
        values: Of the parts; the first index is the part's.
        buffer: Where the numbers of parts go.
        chunk: The parts.
    """
    point: tuple[Expr, ...] = tuple(a.symbol for a in nest.axes)
    value = load(values.buffer, values.value.dtype, (chunk.symbol, *point))
    found = Store(buffer, point, reduce_(str(search.attr), value))
    name = f"{nest.name}_{buffer}"
    best = LoopNest(name, nest.axes, (chunk,), (found,), nest.origin, nest.absorbed)
    return best, clamp_index(load(buffer, INT64, point), chunk.extent - 1, narrow=True)


def position(nest: LoopNest, places: Store, part: Node, inner: Sequence[Axis]) -> Node:
    """The position of the extreme in the whole row: before it are the parts ahead of its own.

    `places`: where each part found its extreme among the points of `inner`.
    """
    point: tuple[Expr, ...] = tuple(a.symbol for a in nest.axes)
    place = load(places.buffer, INT64, (_PART, *point), {_PART: part})
    points = index_value(product([a.extent for a in inner]))
    return binary("add", binary("mul", part, points), place)
