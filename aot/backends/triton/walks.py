"""Walks along rows that begin anywhere: from the vector on in which the first element lies.

A row of odd length begins within a vector, in which the compiler sees no neighbours: each element
is a load of its own. From the vector on all turns but the first and the last read whole vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aot.backends.triton.body import Body
from aot.backends.triton.context import First, Last, TileDim, Walk, Whole
from aot.backends.triton.text import index_text
from aot.ir.scalar import Access, Node, loads
from aot.symbolic import is_multiple

VECTOR_BYTES = 16
"""What a thread reads at once."""


def find_walk(body: Body, rows: TileDim, columns: TileDim, values: Iterable[Node]) -> Walk | None:
    """How a row of a program's own is walked; None where it begins with a vector, or is short.

    Names of where it begins are written. `values`: what is reduced along it.
    """
    points, (axis, *more) = columns.points, columns.axes
    long = points.is_Integer and int(points) >= 2 * columns.block
    if more or rows.block > 1 or not long:
        return None
    for node in loads(values):
        access = node.attr
        assert isinstance(access, Access)
        if access.binds or access.buffer not in body.context.pointers:
            continue
        base = body.context.offset(access.buffer, access.index) - axis.symbol
        vector = VECTOR_BYTES // body.context.buffers[access.buffer].dtype.itemsize
        if vector < 2 or axis.symbol in base.free_symbols:
            continue
        if is_multiple(base, vector):
            return None
        low, shift = body.fresh("low"), body.fresh("shift")
        text, _ = body.index(base, {})
        body.writer.line(f"{low} = ({text}) // {vector} * {vector}")
        body.writer.line(f"{shift} = ({text}) - {low}")
        return Walk(axis.symbol, base, low, shift, vector)
    return None


def turns(body: Body, columns: TileDim, walk: Walk | None) -> Iterator[tuple[TileDim, str]]:
    """The turns that need no mask, and those around them that do, each with its dimension."""
    block, points = columns.block, columns.points
    end = index_text(points, body.context.names)
    if walk is None and (columns.is_exact or not points.is_Integer):
        yield columns, f"range(0, {end}, {block})"
        return
    full, begin = int(points) // block * block, 0
    if walk is not None:
        begin, end = block, str(int(points) + walk.vector - 1)
        yield First(**vars(columns)), f"range(0, {block}, {block})"
    if full > begin:
        yield Whole(**vars(columns)), f"range({begin}, {full}, {block})"
    last = columns if walk is None else Last(**vars(columns))
    yield last, f"range({full}, {end}, {block})"


def open_turn(body: Body, columns: TileDim, start: str, walk: Walk | None) -> None:
    """Writes the index of a turn's tile."""
    if walk is None:
        body.open_dim(columns, start)
    else:
        body.open_turn(walk, columns, start)
