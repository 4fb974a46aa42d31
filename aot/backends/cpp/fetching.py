"""Fetching ahead: rows that loaded indices name are asked for some iterations before their turn.

Where a row's place is data, the processor cannot guess the next one, and each row waits for memory
by itself. An index that lies in memory can be read ahead, and a fetch of any address is harmless:
the kernel's own check of the index stays where it is.

Rows at even distances the processor guesses, but only within a page: where each row of a matrix is
on another one, sums along its columns wait for every row too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from aot.backends.cpp.indexing import Value
from aot.backends.cpp.text import index_text
from aot.backends.cpp.values import Body
from aot.ir.dtypes import INT64
from aot.ir.kernels import Stage
from aot.ir.nests import JOINING, Axis, Buffer
from aot.ir.scalar import Access, IndexCheck, Node, loads
from aot.symbolic import (
    Expr,
    Symbol,
    coefficient_of,
    integer,
    is_int,
    product,
    substitute,
    var,
)

_ITERATIONS = 16
"""So far ahead: memory answers while about as many rows are worked on."""

_ROW_BYTES = 256
"""Of a row that are fetched; what comes behind the processor sees coming."""

_ROWS_AHEAD = 12
"""Rows of a matrix at even distances: fewer lines each, in turn."""

_FAR_BYTES = 512
"""From row to row, that leave a page within a few."""

_WHOLE = 4
"""Bytes of elements whose loads ask for lines early enough by themselves."""

_CACHED_BYTES = 1 << 19
"""A buffer of so many is in the cache that answers at once."""

_AHEAD = var("ahead")


@dataclass(frozen=True)
class _Row:
    """A contiguous row of a buffer, at an index whose one bound value a load gives.

    `check`: what holds the value within bounds; `source`: the load.
    """

    buffer: str
    index: tuple[Expr, ...]
    symbol: Symbol
    check: IndexCheck
    source: Access


def fetch_ahead(
    body: Body, stage: Stage, axes: Collection[Symbol], inner: Collection[Symbol]
) -> None:
    """Writes the fetches of rows that the innermost open loop's next iterations name.

    `axes`: the variables that the loop counts up; `inner`: those of the loops inside.
    """
    for row in _rows(stage):
        _fetch(body, stage, row, axes, inner)


def fetch_far_rows(body: Body, stage: Stage, axis: Axis) -> None:
    """Writes the fetches of rows to come of the innermost loop, over `axis`, of a reduction.

    The vector loop is outside of it: what a turn reads of a row is a line or two. Of elements that
    are widened alone: loads of whole floats ask for twice the lines in as many instructions, and
    are on their way early enough (a sum of float32 took 1.15 of its time with fetches, one of
    bfloat16 0.5).
    """
    vector, context = body.vector, body.context
    if vector is None or vector.lanes == "1":
        return
    seen: set[tuple[str, Expr]] = set()
    for node in loads([n for nest in stage.nests for n in nest.roots]):
        access = node.attr
        if not isinstance(access, Access) or access.binds or access.buffer in context.locals_:
            continue
        buffer = context.buffers[access.buffer]
        place = context.offset(access.buffer, access.index)
        step = coefficient_of(place, axis.symbol)
        near = coefficient_of(place, vector.axis.symbol) == 1
        if step is None or not is_int(step) or not near or _is_cached(buffer):
            continue
        size = buffer.dtype.itemsize
        if size >= _WHOLE:
            continue
        if int(step) * size < _FAR_BYTES or (access.buffer, place) in seen:
            continue
        seen.add((access.buffer, place))
        ahead = substitute(place, {axis.symbol: axis.symbol + _ROWS_AHEAD})
        at = f"{context.pointers[access.buffer]} + ({index_text(ahead, context.names)})"
        body.writer.line(f"aot::fetch<{vector.lanes} * {size}>({at});")


def _rows(stage: Stage) -> Iterator[_Row]:
    seen: set[_Row] = set()
    for nest in stage.nests:
        named = [
            (n.attr.buffer, n.attr.index, tuple(zip(n.attr.binds, n.args, strict=False)))
            for n in loads(nest.roots)
            if isinstance(n.attr, Access)
        ]
        named += [(s.buffer, s.index, s.binds) for s in nest.stores if s.mode in JOINING]
        for buffer, index, binds in named:
            found = _named(binds[0][1]) if len(binds) == 1 else None
            if found is not None:
                row = _Row(buffer, index, binds[0][0], *found)
                if row not in seen:
                    seen.add(row)
                    yield row


def _named(node: Node) -> tuple[IndexCheck, Access] | None:
    """The check and the load of a checked value that is loaded from a known place."""
    if not isinstance(node.attr, IndexCheck):
        return None
    source = node.args[0]
    while source.op == "cast" and not source.args[0].dtype.is_float:
        source = source.args[0]
    plain = isinstance(source.attr, Access) and not source.args
    return (node.attr, source.attr) if plain else None  # type: ignore[return-value]


def _fetch(
    body: Body, stage: Stage, row: _Row, axes: Collection[Symbol], inner: Collection[Symbol]
) -> None:
    """Nothing where the loop's iterations name the same row, or rows that need no fetch."""
    context, vector, names = body.context, stage.vector, body.context.names
    buffer = context.buffers[row.buffer]
    if vector is None or vector.symbol not in inner or _is_cached(buffer):
        return
    if context.buffers[row.source.buffer].kind == "weight":
        return  # a table of the package's, such as that of a resizing, names neighbours in turn
    place = context.offset(row.source.buffer, row.source.index)
    start = context.offset(row.buffer, row.index)
    steps = [c for s in axes if (c := coefficient_of(place, s)) is not None and c.is_positive]
    last = context.ranges.bounds(place)
    fixed = last is not None and all(is_int(s) for s in steps)
    if not steps or not fixed or place.free_symbols & {*inner}:
        return
    if coefficient_of(start, vector.symbol) != 1:
        return
    assert last is not None
    far = index_text(place + _ITERATIONS * min(int(s) for s in steps), names)
    within = f"aot::imin({far}, {index_text(last[1], names)})"
    size, wrap = index_text(row.check.size, names), "true" if row.check.wrap else "false"
    ahead = body.fresh("ahead")
    source = f"{context.pointers[row.source.buffer]} + {within}"
    body.writer.line(f"const int64_t {ahead} = aot::index_at<{wrap}>({source}, {size});")
    start = substitute(start, {row.symbol: _AHEAD, **dict.fromkeys(inner, integer(0))})
    at = body.address(
        context.pointers[row.buffer], start, {_AHEAD: Value(ahead, INT64, "1", constant=True)}
    )
    body.writer.line(f"aot::fetch<{_row_bytes(buffer, vector.extent)}>({at});")


def _is_cached(buffer: Buffer) -> bool:
    size = product(buffer.shape) * buffer.dtype.itemsize
    return is_int(size) and int(size) <= _CACHED_BYTES


def _row_bytes(buffer: Buffer, extent: Expr) -> int:
    if not is_int(extent):
        return _ROW_BYTES
    return min(int(extent) * buffer.dtype.itemsize, _ROW_BYTES)
