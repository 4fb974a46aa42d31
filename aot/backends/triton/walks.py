"""Walks along rows that begin anywhere: from the vector on in which the first element lies.

A row of odd length begins within a vector, in which the compiler sees no neighbours: each element
is a load of its own. From that vector on all turns read and write whole vectors, also those before
the row's first element, which lie in the buffer. Elements behind the last whole vector, and those
before the first one that is written, have a tile of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from aot.backends.triton.body import Body
from aot.backends.triton.context import Masked, TileDim, Walk, WalkTurn, Whole
from aot.backends.triton.text import index_text
from aot.ir.nests import Store
from aot.ir.scalar import Access, Node, loads
from aot.symbolic import Expr, Symbol, is_multiple

VECTOR_BYTES = 16
"""What a thread reads at once."""


def find_walk(
    body: Body,
    rows: TileDim,
    columns: TileDim,
    values: Iterable[Node],
    stores: Sequence[Store] = (),
) -> Walk | None:
    """How a row of a program's own is walked; None where it begins with a vector, or is short.

    Names of where it begins are written. `values`: what is computed along it; `stores`: what is
    written, all of it in rows that begin as those do that are read.
    """
    points = columns.points
    long = points.is_Integer and int(points) >= 2 * columns.block
    if len(columns.axes) != 1 or rows.block > 1 or not long:
        return None
    (axis,) = columns.axes
    found = list(_read(body, axis.symbol, values))
    if not found or is_multiple(*found[0]):
        return None
    base, _ = found[0]
    written = [_written(body, axis.symbol, store) for store in stores]
    vector = max(v for b, v in (*found, *written) if b == base)
    if any(b is None or not is_multiple(b - base, vector) for b, _ in written):
        return None
    low, shift = body.fresh("low"), body.fresh("shift")
    first, last = body.fresh("first"), body.fresh("last")
    text, _ = body.index(base, {})
    body.writer.line(f"{low} = ({text}) // {vector} * {vector}")
    body.writer.line(f"{shift} = ({text}) - {low}")
    body.writer.line(f"{first} = ({shift} + {vector - 1}) // {vector} * {vector}")
    body.writer.line(f"{last} = ({shift} + {int(points)}) // {vector} * {vector}")
    return Walk(axis.symbol, base, low, shift, vector, first, last)


def _read(body: Body, axis: Symbol, values: Iterable[Node]) -> Iterator[tuple[Expr, int]]:
    """Where rows begin that are read from memory, and the elements of a vector of theirs."""
    for node in loads(values):
        access = node.attr
        assert isinstance(access, Access)
        if access.binds or access.buffer not in body.context.pointers:
            continue
        base = body.context.offset(access.buffer, access.index) - axis
        vector = _vector(body, access.buffer)
        if vector > 1 and axis not in base.free_symbols:
            yield base, vector


def _written(body: Body, axis: Symbol, store: Store) -> tuple[Expr | None, int]:
    """The same of what a store writes; None where that is no row, or points meet in it."""
    base = body.context.offset(store.buffer, store.index) - axis
    plain = not (store.binds or store.conflicts or store.clipped)
    row = plain and axis not in base.free_symbols
    return (base if row else None), _vector(body, store.buffer)


def _vector(body: Body, buffer: str) -> int:
    return VECTOR_BYTES // body.context.buffers[buffer].dtype.itemsize


def ranges(body: Body, columns: TileDim) -> Iterator[tuple[TileDim, str]]:
    """The turns from a row's first element on: those that need no mask, and the last one."""
    block, points = columns.block, columns.points
    end = index_text(points, body.context.names)
    if columns.is_exact or not points.is_Integer:
        yield columns, f"range(0, {end}, {block})"
        return
    full = int(points) // block * block
    if full:
        yield Whole(**vars(columns)), f"range(0, {full}, {block})"
    yield columns, f"range({full}, {end}, {block})"


def turns(
    body: Body, columns: TileDim, walk: Walk, *, ordered: bool = False, back: bool = False
) -> Iterator[None]:
    """A walk's turns, each while its loop is open.

    `ordered`: all elements are in them, as those behind the last vector would come too late.
    `back`: from the end to the beginning.
    """
    block, points = columns.block, int(columns.points)
    full, behind = points // block * block, points + walk.vector - 1
    parts = [(0, block), (block, full), (full, behind)]
    for begin, stop in reversed(parts) if back else parts:
        start = body.fresh("start")
        # Counted upwards, else the compiler does not see that turns begin with vectors.
        ends = begin + (stop - begin - 1) // block * block + begin
        with body.loop(f"for {start} in range({begin}, {stop}, {block})"):
            origin = f"{ends} - {start}" if back else start
            head, tail = begin == 0, stop == behind
            _open(body, columns, walk, origin, head=head, tail=tail, ordered=ordered)
            yield
    body.take_turn(None)
    body.declare_dim(columns)


def _open(
    body: Body, columns: TileDim, walk: Walk, start: str, *, head: bool, tail: bool, ordered: bool
) -> None:
    """Writes the index of a turn's tile; `head`, `tail`: it may have a row's begin or end."""
    place, wide = body.fresh("t"), body.context.wide
    lanes = f"{start} + tl.arange(0, {columns.block})[None, :]"
    lanes += f".to({body.context.index_type})" if wide else ""
    body.writer.line(f"{place} = {lanes}")
    body.writer.line(f"{columns.name} = {place} - {walk.shift}")
    end = f"({place} < {walk.last})"
    if ordered:
        end = f"({columns.name} < {columns.points})"
    reads = (end,) if tail else ()
    inside = (*((f"({columns.name} >= 0)",) if head else ()), *reads)
    writes = (*((f"({place} >= {walk.first})",) if head else ()), *reads)
    dim = Masked(**vars(columns)) if inside else Whole(**vars(columns))
    if inside:
        body.writer.line(f"{columns.name}_in = {' & '.join(inside)}")
    body.take_turn(WalkTurn(walk, dim, place, reads, writes))


def rest_of(columns: TileDim) -> str:
    """The name of the dimension that `beside` opens."""
    return f"{columns.name}_rest"


@contextmanager
def beside(body: Body, columns: TileDim, walk: Walk, *, begins: bool = False) -> Iterator[None]:
    """A tile of what is behind a row's last whole vector; `begins`: and before its first one."""
    vector, lane = walk.vector, body.fresh("e")
    size = 2 * vector if begins else vector
    dim = Masked(rest_of(columns), columns.axes, size, columns.position)
    with body.block():
        lanes = f"tl.arange(0, {size})[None, :]"
        lanes += f".to({body.context.index_type})" if body.context.wide else ""
        body.writer.line(f"{lane} = {lanes}")
        begin, end = (f"({name} - {walk.shift})" for name in (walk.first, walk.last))
        index, inside = f"{end} + {lane}", f"{dim.name} < {columns.points}"
        if begins:
            index = f"tl.where({lane} < {vector}, {lane}, {end} + {lane} - {vector})"
            inside = f"tl.where({lane} < {vector}, {dim.name} < {begin}, {inside})"
        body.writer.line(f"{dim.name} = {index}")
        body.writer.line(f"{dim.name}_in = {inside}")
        body.take_written(dim)
        yield
    body.forget_dim(dim)
