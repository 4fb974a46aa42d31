"""Matrix products on tensor cores, with fused epilogues.

A program computes one block of the product, walking the depth in a software-pipelined loop.
Programs of neighbouring numbers share operand blocks in the second-level cache ("grouped ordering",
Tillet et al., Triton, MAPL 2019).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, TileDim, Value, make_context
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid, program_id
from aot.backends.triton.text import Writer, index_text
from aot.errors import InternalError
from aot.ir.dtypes import FLOAT32, DType
from aot.ir.hints import Hints
from aot.ir.kernels import Kernel, KernelGraph
from aot.ir.loops import Axis, Store, TemplateCall
from aot.ir.scalar import load
from aot.symbolic import Expr, ceil_div, product, substitute, var

MULTIPROCESSORS = 132
"""Of the GPUs that the heuristics are made for."""

GROUP = 8
"""Blocks of rows that programs of neighbouring numbers take turns in."""

SHARED_BYTES = 96 * 1024
"""Shared memory that the operand blocks in flight may take on every architecture."""


@dataclass(frozen=True)
class DotTile:
    """Block sizes of rows, columns and depth; warps, and loads in flight ahead of their use."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


_HALF = (
    (DotTile(128, 256, 64, 8, 2), 1.0),
    (DotTile(128, 128, 64, 8, 3), 0.85),
    (DotTile(64, 256, 64, 8, 2), 0.8),
    (DotTile(64, 128, 64, 4, 4), 0.7),
    (DotTile(64, 64, 64, 4, 4), 0.5),
    (DotTile(32, 64, 128, 4, 4), 0.35),
    (DotTile(32, 32, 128, 4, 4), 0.22),
    (DotTile(16, 128, 128, 4, 3), 0.3),
    (DotTile(16, 64, 128, 4, 4), 0.22),
    (DotTile(16, 32, 256, 4, 4), 0.14),
    (DotTile(16, 16, 256, 4, 4), 0.08),
)
_SINGLE = (
    (DotTile(128, 128, 16, 8, 3), 1.0),
    (DotTile(64, 128, 16, 8, 3), 0.9),
    (DotTile(64, 64, 32, 4, 3), 0.8),
    (DotTile(32, 64, 32, 4, 3), 0.6),
    (DotTile(32, 32, 32, 4, 3), 0.4),
    (DotTile(16, 64, 64, 4, 3), 0.4),
    (DotTile(16, 32, 64, 4, 3), 0.25),
    (DotTile(16, 16, 64, 2, 3), 0.15),
)
"""Blocks, and the part of the peak rate that a multiprocessor reaches with them."""


def dot_tile(rows: int, columns: int, depth: int, batch: int, dtype: DType) -> DotTile:
    """The block that should finish first: by waves of programs and the rate of each."""
    table = _HALF if dtype.itemsize == 2 else _SINGLE

    def seconds(tile: DotTile, rate: float) -> float:
        programs = batch * -(-rows // tile.rows) * -(-columns // tile.columns)
        waves = -(-programs // MULTIPROCESSORS)
        return waves * tile.rows * tile.columns * max(depth, tile.depth) / rate

    best = min(table, key=lambda entry: seconds(*entry))[0]
    deep = max(16, min(best.depth, 1 << max(0, depth - 1).bit_length()))
    stages = best.stages
    while stages > 1 and _shared(best, deep, stages, dtype) > SHARED_BYTES:
        stages -= 1
    return DotTile(best.rows, best.columns, deep, best.warps, stages)


def _shared(tile: DotTile, depth: int, stages: int, dtype: DType) -> int:
    return (tile.rows + tile.columns) * depth * stages * dtype.itemsize


def emit_matmul(kernel: Kernel, graph: KernelGraph, hints: Hints, units: int) -> EmittedKernel:
    """The kernel of a matmul template and its epilogue."""
    call = kernel.template
    if call is None:
        raise InternalError(f"{kernel.name} has no template")
    left, right = _operand(call, "a"), _operand(call, "b")
    context = _with_ranges(make_context(kernel, graph), (left.depth, right.depth))
    *batch, row, column = call.output.axes
    dtype = graph.buffers[call.operand("a").buffer].dtype
    tile = dot_tile(
        hints.value(row.extent),
        hints.value(column.extent),
        hints.value(left.depth.extent),
        hints.volume(batch),
        dtype,
    )
    body = Body(context, Writer(), 2)
    _open_block(body, tuple(batch), row, column, tile)
    _walk_depth(body, left, right, tile, dtype)
    finish_tile(body, kernel, "acc", frozenset(("m", "n")))
    blocks = product((ceil_div(row.extent, tile.rows), ceil_div(column.extent, tile.columns)))
    programs = product((*(a.extent for a in batch), blocks))
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    return finish(kernel, body, line_grid(programs), options)


def _open_block(
    body: Body, batch: tuple[Axis, ...], row: Axis, column: Axis, tile: DotTile
) -> None:
    """Writes which block this program computes, and the indices of its rows and columns."""
    context, line = body.context, body.writer.line
    down = index_text(ceil_div(row.extent, tile.rows), context.names)
    across = index_text(ceil_div(column.extent, tile.columns), context.names)
    line(f"program = {program_id(context)}")
    if batch:
        line(f"blocks = ({down}) * ({across})")
        open_batch(body, batch, "program // blocks")
        line("program = program % blocks")
    line(f"group = program // ({GROUP} * ({across}))")
    line(f"height = tl.minimum(({down}) - group * {GROUP}, {GROUP})")
    line(f"place = program % ({GROUP} * ({across}))")
    body.open_dim(
        TileDim("m", (row,), tile.rows, 0), f"(group * {GROUP} + place % height) * {tile.rows}"
    )
    body.open_dim(TileDim("n", (column,), tile.columns, 1), f"place // height * {tile.columns}")


def open_batch(body: Body, batch: tuple[Axis, ...], number: str) -> None:
    """Names the batch axes from the number of the batch's element."""
    rest = number
    for k in range(len(batch) - 1, -1, -1):
        name = f"b{k}"
        extent = index_text(batch[k].extent, body.context.names)
        body.writer.line(f"{name} = {rest}" + (f" % ({extent})" if k else ""))
        body.name_axis(batch[k].symbol, name, None)
        rest = f"{rest} // ({extent})"


@dataclass(frozen=True)
class _Operand:
    """A view of an operand over the output's axes and a depth axis of its own."""

    buffer: str
    index: tuple[Expr, ...]
    depth: Axis


def _operand(call: TemplateCall, role: str) -> _Operand:
    """The operand's view with axes that mean the same as elsewhere in the kernel."""
    view, output = call.operand(role), call.output.axes
    is_left = role == "a"
    own = view.axes[-1] if is_left else view.axes[-2]
    depth = Axis(var(f"depth_{role}"), own.extent)
    last = (output[-2], depth) if is_left else (depth, output[-1])
    names = (*output[:-2], *last)
    mapping = {a.symbol: n.symbol for a, n in zip(view.axes, names, strict=True)}
    return _Operand(view.buffer, tuple(substitute(e, mapping) for e in view.index), depth)


def _with_ranges(context: KernelContext, axes: Iterable[Axis]) -> KernelContext:
    known = {**context.ranges.extents, **{a.symbol: a.extent for a in axes}}
    return replace(context, ranges=context.ranges.with_extents(known))


def _walk_depth(body: Body, left: _Operand, right: _Operand, tile: DotTile, dtype: DType) -> None:
    line = body.writer.line
    line(f"acc = tl.zeros([{tile.rows}, {tile.columns}], tl.float32)")
    end = index_text(left.depth.extent, body.context.names)
    with body.loop(f"for start in range(0, {end}, {tile.depth})"):
        body.open_dim(TileDim("ka", (left.depth,), tile.depth, 1), "start")
        body.open_dim(TileDim("kb", (right.depth,), tile.depth, 0), "start")
        line(f"left = {_block(body, left, ('m', 'ka'))}")
        line(f"right = {_block(body, right, ('kb', 'n'))}")
        line(f"acc = tl.dot(left, right, acc{precision(dtype)})")


def precision(dtype: DType) -> str:
    """The argument of tl.dot that keeps float32 products whole."""
    return ', input_precision="ieee"' if dtype == FLOAT32 else ""


def _block(body: Body, operand: _Operand, dims: tuple[str, str]) -> str:
    return body.spread(body.read(operand.buffer, operand.index), frozenset(dims))


def finish_tile(body: Body, kernel: Kernel, text: str, dims: frozenset[str]) -> None:
    """Stores a template's tile where it is wanted, and evaluates the epilogue on it."""
    call = kernel.template
    if call is None:
        raise InternalError(f"{kernel.name} has no template")
    view = call.output
    dtype = body.context.buffers[view.buffer].dtype
    body.define_buffer(view.buffer, Value(text, dtype, dims))
    if view.buffer in kernel.writes:
        body.store(Store(view.buffer, view.index, load(view.buffer, dtype, view.index)))
    for stage in kernel.stages:
        for nest in stage.nests:
            for store in nest.stores:
                body.store(store)
