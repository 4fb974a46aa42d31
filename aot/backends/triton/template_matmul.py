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
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid, program_id
from aot.backends.triton.text import Writer, index_text
from aot.errors import InternalError
from aot.ir.dtypes import FLOAT32, DType
from aot.ir.hints import Hints
from aot.ir.kernels import Kernel, KernelGraph
from aot.ir.loops import Axis, Store, TemplateCall
from aot.ir.scalar import load
from aot.symbolic import Expr, ceil_div, product, substitute, var

GROUP = 8
"""Blocks of rows that programs of neighbouring numbers take turns in."""

FEW_ROWS = 16
"""Rows up to which a product is bound by reading its second operand."""


@dataclass(frozen=True)
class DotTile:
    """Block sizes of rows, columns and depth; warps, and loads in flight ahead of their use."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


_HALF = (
    (DotTile(128, 256, 64, 8, 4), 1.0),
    (DotTile(128, 128, 64, 8, 4), 0.85),
    (DotTile(64, 256, 64, 8, 4), 0.8),
    (DotTile(64, 128, 64, 4, 4), 0.7),
    (DotTile(64, 64, 64, 4, 4), 0.5),
    (DotTile(32, 64, 128, 4, 4), 0.35),
    (DotTile(32, 32, 128, 4, 4), 0.22),
)
_SINGLE = (
    (DotTile(128, 128, 16, 8, 3), 1.0),
    (DotTile(64, 128, 16, 8, 3), 0.9),
    (DotTile(64, 64, 32, 4, 3), 0.8),
    (DotTile(32, 64, 32, 4, 3), 0.6),
    (DotTile(32, 32, 32, 4, 3), 0.4),
)
"""Blocks, and the part of the peak rate that a multiprocessor reaches with them."""

_FLAT_BYTES = 512
"""Contiguous bytes of the second operand that one turn reads, where rows are few."""

_FLAT_COLUMNS = (16, 32, 64, 128)


def dot_tile(rows: int, columns: int, depth: int, batch: int, dtype: DType, gpu: Gpu) -> DotTile:
    """The block that should finish first, by the load of the busiest multiprocessor."""
    best = (
        _flat_tile(columns, batch, dtype, gpu)
        if rows <= FEW_ROWS
        else _block_tile(rows, columns, depth, batch, dtype, gpu)
    )
    deep = max(16, min(best.depth, 1 << max(0, depth - 1).bit_length()))
    stages = best.stages
    while stages > 1 and _shared(best, deep, stages, dtype) > gpu.shared_bytes - _RESERVED:
        stages -= 1
    return DotTile(best.rows, best.columns, deep, best.warps, stages)


_RESERVED = 2048
"""Shared memory left to barriers and to what the compiler adds."""


def _block_tile(rows: int, columns: int, depth: int, batch: int, dtype: DType, gpu: Gpu) -> DotTile:
    """By waves of programs and the rate of each kind of block."""

    def seconds(tile: DotTile, rate: float) -> float:
        programs = batch * -(-rows // tile.rows) * -(-columns // tile.columns)
        waves = -(-programs // gpu.multiprocessors)
        return waves * tile.rows * tile.columns * max(depth, tile.depth) / rate

    return min(_HALF if dtype.itemsize == 2 else _SINGLE, key=lambda entry: seconds(*entry))[0]


def _flat_tile(columns: int, batch: int, dtype: DType, gpu: Gpu) -> DotTile:
    """Reading the second operand is all the work: the columns are shared out evenly."""

    def load(width: int) -> float:
        programs = batch * -(-columns // width)
        return -(-programs // gpu.multiprocessors) * width * (1 + 2 / width)

    width = min(reversed(_FLAT_COLUMNS), key=load)
    depth = _FLAT_BYTES // dtype.itemsize if width <= 64 else _FLAT_BYTES // dtype.itemsize // 2
    return DotTile(FEW_ROWS, width, depth, 4, 4)


def _shared(tile: DotTile, depth: int, stages: int, dtype: DType) -> int:
    return (tile.rows + tile.columns) * depth * stages * dtype.itemsize


def emit_matmul(kernel: Kernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> EmittedKernel:
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
        gpu,
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
