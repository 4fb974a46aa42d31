"""What packing a weight means, as a loop nest: `packing`'s functions point by point.

The functions there are the quick way when a package is built; the nests are compiled into packages
whose weights can be replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from aot.backends.cpp.packing import FILTERS, PANEL, even
from aot.ir.dtypes import FLOAT64, DType
from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import Node, binary, cast, const, index_value, load, where
from aot.symbolic import Expr, Symbol, integer, product, substitute, unravel, var

Params = Mapping[str, int]
Read = tuple[dict[Symbol, Expr], list[tuple[Expr, Expr]]]
"""Where a view's axes are for a point of the packed buffer, and (position, size) pairs: beyond the
size there is padding."""


def packing_nest(
    name: str,
    source: tuple[str, DType],
    view: View,
    recipe: str,
    shape: Sequence[int],
    params: Params,
) -> LoopNest:
    """The nest that writes the packed buffer `name` of `shape` from what `view` shows.

    Args:
        name: The packed buffer.
        source: The weight's buffer and its element type.
        view: How the recipe sees it.
        recipe: A key of `packing.RECIPES`.
        shape: Sizes of the packed buffer.
        params: The recipe's other arguments.
    """
    axes = tuple(Axis(var(f"i{k}"), integer(n)) for k, n in enumerate(shape))
    point = [a.symbol for a in axes]
    if recipe == "pack_winograd":
        value = _winograd(point, source, view, params)
    else:
        value = _loaded(source, view, *_READS[recipe](point, view.axes, params))
    return LoopNest(name, axes, (), (Store(name, tuple(point), value),), NO_ORIGIN)


def _loaded(
    source: tuple[str, DType],
    view: View,
    read: Mapping[Symbol, Expr],
    bounds: Sequence[tuple[Expr, Expr]],
) -> Node:
    mask: Node | None = None
    for position, size in bounds:
        inside = binary("lt", index_value(position), index_value(size))
        mask = inside if mask is None else binary("and", mask, inside)
    index = [substitute(e, read) for e in view.index]
    return load(source[0], source[1], index, mask=mask)


def _winograd(point: Sequence[Expr], source: tuple[str, DType], view: View, params: Params) -> Node:
    """The sum of the taps, each times what its row and its column give it at this matrix."""
    outputs, channels, down, across = view.axes
    matrix, panel, channel, within = point
    column = panel * PANEL + within
    rows = FILTERS[params["down"]][params["stride_down"]].rows
    columns = FILTERS[params["across"]][params["stride_across"]].rows
    row_of, column_of = unravel(matrix, [integer(len(rows)), integer(len(columns))])
    bounds = _beyond(channel, channels.extent, column, outputs.extent)

    def tap(i: int, j: int) -> Node:
        at = {outputs.symbol: column, channels.symbol: channel}
        at |= {down.symbol: integer(i), across.symbol: integer(j)}
        return cast(_loaded(source, view, at, bounds), FLOAT64)

    parts = [_weighted([tap(i, j) for i in range(3)], rows, row_of) for j in range(3)]
    return cast(_weighted(parts, columns, column_of), source[1])


def _weighted(parts: Sequence[Node], matrix: Sequence[Sequence[float]], row: Expr) -> Node:
    """The sum of the parts, each times its entry of the matrix' row."""
    total: Node = const(0.0, FLOAT64)
    for column, part in enumerate(parts):
        total = binary("add", total, binary("mul", _entry(matrix, row, column), part))
    return total


def _entry(matrix: Sequence[Sequence[float]], row: Expr, column: int) -> Node:
    """`matrix[row][column]`."""
    values = [line[column] for line in matrix]
    made: Node = const(values[-1], FLOAT64)
    for k in reversed(range(len(values) - 1)):
        here = binary("eq", index_value(row), index_value(integer(k)))
        made = where(here, const(values[k], FLOAT64), made)
    return made


def _matmul(point: Sequence[Expr], axes: Sequence[Axis], params: Params) -> Read:
    *batch, k, n = axes
    outer, rest = (point[:1], point[1:]) if batch else ((), point)
    row, column = _place(rest)
    read = _at(outer[0], batch) if batch else {}
    return {**read, k.symbol: row, n.symbol: column}, _beyond(row, k.extent, column, n.extent)


_PAIRED = 5
"""Dimensions of a packed convolution weight whose k's lie in pairs."""


def _conv(point: Sequence[Expr], axes: Sequence[Axis], params: Params) -> Read:
    outputs, channels, *kernel = axes
    per = integer(int(outputs.extent) // params["groups"])
    row, column = _place(point[1:])
    count = int(channels.extent)
    walked = even(count) if len(point) == _PAIRED else count
    read = _at(row, (*kernel, Axis(channels.symbol, integer(walked))))
    bounds = _beyond(row, product([a.extent for a in kernel]) * walked, column, per)
    if walked != count:
        bounds.append((read[channels.symbol], channels.extent))
    return {**read, outputs.symbol: point[0] * per + column}, bounds


def _depthwise(point: Sequence[Expr], axes: Sequence[Axis], params: Params) -> Read:
    outputs, channel, *kernel = axes
    zero = integer(0)
    return {**_at(point[0], kernel), outputs.symbol: point[1], channel.symbol: zero}, []


def _planes(point: Sequence[Expr], axes: Sequence[Axis], params: Params) -> Read:
    outputs, *depth = axes
    per = integer(int(outputs.extent) // params["groups"])
    return {**_at(point[1], depth), outputs.symbol: point[0] * per + point[2]}, []


def _rows(point: Sequence[Expr], axes: Sequence[Axis], params: Params) -> Read:
    outputs, channels, *kernel = axes
    row, column = point
    read = {a.symbol: integer(0) for a in kernel}
    return {**read, outputs.symbol: row, channels.symbol: column}, [(column, channels.extent)]


def _place(point: Sequence[Expr]) -> tuple[Expr, Expr]:
    """Row and column of the matrix at a point of its panels."""
    panel, row, within, *pair = point
    return 2 * row + pair[0] if pair else row, panel * PANEL + within


def _at(position: Expr, axes: Sequence[Axis]) -> dict[Symbol, Expr]:
    """The axes at a row-major linear position."""
    index = unravel(position, [a.extent for a in axes])
    return {a.symbol: e for a, e in zip(axes, index, strict=True)}


def _beyond(row: Expr, rows: Expr, column: Expr, columns: Expr) -> list[tuple[Expr, Expr]]:
    """Only the last pair of rows and the last panel reach beyond the matrix, if they do."""
    bounds = []
    if not row.is_Symbol and int(rows) % 2:
        bounds.append((row, rows))
    if int(columns) % PANEL:
        bounds.append((column, columns))
    return bounds


_READS: dict[str, Callable[[Sequence[Expr], Sequence[Axis], Params], Read]] = {
    "pack_matmul": _matmul,
    "pack_conv": _conv,
    "pack_depthwise": _depthwise,
    "pack_planes": _planes,
    "pack_rows": _rows,
}
