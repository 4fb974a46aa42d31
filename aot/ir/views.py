"""Views of buffers by template calls: when they are plain strides, and the layout they want."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.nests import Axis, View
from aot.symbolic import (
    Expr,
    FloorDiv,
    Modulo,
    Ranges,
    Symbol,
    affine_coefficients,
    integer,
    product,
)


def strides_of_order(shape: Sequence[Expr], order: Sequence[int]) -> tuple[Expr, ...]:
    """Dense strides of `shape` with its dimensions laid out in `order`, outermost first."""
    strides: list[Expr] = [integer(1)] * len(shape)
    running: Expr = integer(1)
    for k in reversed(order):
        strides[k] = running
        running = product((running, shape[k]))
    return tuple(strides)


def view_strides(
    view: View, strides: Sequence[Expr], ranges: Ranges
) -> tuple[tuple[Expr, ...], Expr] | None:
    """(stride per axis of the view, offset), in elements; None when the view is not affine.

    `ranges` must know the view's axes. The stride of an axis of extent 1 is 0.
    """
    linear = linear_offset(view.index, strides, ranges)
    return affine_coefficients(linear, [a.symbol for a in view.axes])


def linear_offset(index: Sequence[Expr], strides: Sequence[Expr], ranges: Ranges) -> Expr:
    """The position in elements of `index` in a buffer of these strides, simplified."""
    return ranges.offset(index, strides)


def wanted_order(
    view: View, shape: Sequence[Expr], axis_order: Sequence[Axis]
) -> tuple[int, ...] | None:
    """The order of the buffer's dimensions that makes the view dense in the order `axis_order`.

    None when a dimension's index is no piece (quotient or remainder) of one axis.
    """
    positions: list[tuple[tuple[int, int], int]] = []
    rank_of = {a.symbol: k for k, a in enumerate(axis_order)}
    for k, (expr, size) in enumerate(zip(view.index, shape, strict=True)):
        if size == 1 or expr.is_Integer:
            positions.append(((-1, k), k))
            continue
        found = piece(expr)
        if found is None or found[0] not in rank_of:
            return None
        positions.append(((rank_of[found[0]], -found[1]), k))
    return tuple(k for _, k in sorted(positions))


def piece(expr: Expr) -> tuple[Symbol, int] | None:
    """(symbol, rank of the divisor) when `expr` is s, s // d, s % m or (s // d) % m; else None.

    Ranks order the pieces of one symbol: 0 is the lowest (no division).
    """
    if isinstance(expr, Modulo):
        expr = expr.args[0]
    rank = 0
    if isinstance(expr, FloorDiv):
        divisor = expr.args[1]
        rank = int(divisor) if divisor.is_Integer else len(divisor.free_symbols) + 1_000_000
        expr = expr.args[0]
    return (expr, rank) if expr.is_Symbol else None
