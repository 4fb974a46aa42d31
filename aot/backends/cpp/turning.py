"""Loads across lines by turned tiles: what lies along the loop around the vectors is loaded first.

A vector of elements that lie a stride apart takes a load for each lane. Where the loop around the
vector loop runs along memory, as in a transposition, square tiles are loaded along it, turned in
registers, and read as vectors from the first level of cache. So does a reduction of short rows, of
which a vector has one in each lane: there it is the loop within that runs along memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.text import index_text, lane_type
from aot.backends.cpp.values import Body
from aot.backends.cpp.width import TURNED_LEAST, Width
from aot.ir.dtypes import BOOL
from aot.ir.kernels import Stage
from aot.ir.nests import Axis
from aot.ir.scalar import Access, Node, loads
from aot.symbolic import Expr, coefficient_of, depends_on, integer, is_int, substitute


@dataclass(frozen=True)
class TurnedLoad:
    """A load whose neighbours along the loop around the vectors are neighbours in memory.

    `start`: the offset of the first one of that loop's; `stride`: from lane to lane.
    """

    node: Node
    access: Access
    start: Expr
    stride: Expr


def turned_loads(
    body: Body, stage: Stage, width: Width, around: Axis, vector: Axis
) -> tuple[TurnedLoad, ...]:
    """The loads of a stage that go by tiles, where `around` is the loop around the vector loop."""
    if width.unroll > 1 or stage.reduction:
        return ()
    return _of_stage(body.context, stage, width, around, vector)


def loads_of_rows(
    context: KernelContext, stage: Stage, width: Width
) -> tuple[Axis, tuple[TurnedLoad, ...]] | None:
    """The innermost loop of a stage's reduction and what goes by tiles of it and the vector loop.

    None where nothing does.
    """
    vector, reduced = stage.vector, {a.symbol for a in stage.reduction}
    inside = [a for a in stage.order if a.symbol in reduced]
    if vector is None or vector.symbol in reduced or not inside:
        return None
    found = _of_stage(context, stage, width, inside[-1], vector)
    return (inside[-1], found) if found else None


def narrowed(context: KernelContext, stage: Stage, width: Width) -> Width:
    """The width, of single vectors where loads of a reduction go by tiles, as those are squares."""
    turns = width.unroll > 1 and loads_of_rows(context, stage, width) is not None
    return replace(width, unroll=1, wide=width.single) if turns else width


def _of_stage(
    context: KernelContext, stage: Stage, width: Width, around: Axis, vector: Axis
) -> tuple[TurnedLoad, ...]:
    short = any(is_int(a.extent) and int(a.extent) < TURNED_LEAST for a in (around, vector))
    nests = stage.nests
    if short or any(n.conflicts for n in nests):
        return ()
    found = (
        _turned(context, node, width, around, vector)
        for node in loads(root for nest in nests for root in nest.roots)
    )
    return tuple(load for load in found if load is not None)


def _turned(
    context: KernelContext, node: Node, width: Width, around: Axis, vector: Axis
) -> TurnedLoad | None:
    access = node.attr
    assert isinstance(access, Access)
    if access.binds or access.masked or node.dtype == BOOL or access.buffer in context.written:
        return None
    if not width.fits(lane_type(node.dtype)):
        return None
    offset = context.offset(access.buffer, access.index)
    stride = coefficient_of(offset, vector.symbol)
    if coefficient_of(offset, around.symbol) != 1 or stride is None or stride in (0, 1):
        return None
    if depends_on(stride, [around.symbol, vector.symbol]):
        return None
    return TurnedLoad(node, access, substitute(offset, {around.symbol: integer(0)}), stride)


@contextmanager
def tile_columns(body: Body, around: Axis, lanes: str) -> Iterator[tuple[str, str]]:
    """Opens a loop over the loop around in steps of a tile; a step's first one, and how many."""
    extent = index_text(around.extent, body.context.names)
    first, count = body.fresh("block"), body.fresh("columns")
    with body.scope(f"for (int64_t {first} = 0; {first} < {extent}; {first} += {lanes})"):
        body.writer.line(f"const int64_t {count} = aot::imin({extent} - {first}, {lanes});")
        yield first, count


@contextmanager
def turned_points(
    body: Body, found: Sequence[TurnedLoad], around: Axis, columns: tuple[str, str]
) -> Iterator[None]:
    """Opens the loop around for the `columns` of a tile, with the loads' values.

    It is within the vector loop, of whose last lanes only those that exist are loaded.
    """
    vector = body.vector
    assert vector is not None
    (first, count), lanes, tiles = columns, vector.lanes, list[tuple[Node, str, str]]()
    for load in found:
        tile, lane = body.fresh("tile"), lane_type(load.node.dtype)
        body.writer.line(f"alignas(64) {lane} {tile}[{lanes} * {lanes}];")
        start = body.address(body.context.pointers[load.access.buffer], load.start, {})
        stride = index_text(load.stride, body.context.names)
        size = f"{vector.count or lanes}, {count}"
        call = f"aot::load_tile<{lane}, {lanes}>"
        body.writer.line(f"{call}({start} + {first}, {stride}, {size}, {tile});")
        tiles.append((load.node, tile, lane))
    name = body.context.names[around.symbol]
    with body.scope(f"for (int64_t {name} = {first}; {name} < {first} + {count}; ++{name})"):
        for node, tile, lane in tiles:
            text = f"aot::load<{lane}, {lanes}>({tile} + ({name} - {first}) * {lanes})"
            body.define(node, body.name(text, node.dtype, lanes))
        yield
