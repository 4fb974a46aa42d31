"""Matrix products on tensor cores, with fused epilogues.

A program computes blocks of the product, walking the depth in a software-pipelined loop. Programs
of neighbouring numbers share operand blocks in the second-level cache ("grouped ordering",
Tillet et al., Triton, MAPL 2019). Where the GPU copies whole blocks by descriptors (TMA) and there
are many blocks, programs stay and take one block after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.backends.triton.body import Body
from aot.backends.triton.context import PROGRAM, KernelContext, TileDim, make_context
from aot.backends.triton.dot import (
    Operand,
    finish_tile,
    open_batch,
    operand,
    precision,
    with_ranges,
)
from aot.backends.triton.dot_tiling import DotTile, Size, dot_tile
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid, program_id
from aot.backends.triton.template_gemv import emit_gemv, is_vector_product
from aot.backends.triton.text import Writer, index_text
from aot.ir.dtypes import DType
from aot.ir.hints import Hints, is_dear
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis
from aot.ir.templates.matmul import Matmul
from aot.symbolic import (
    Expr,
    Minimum,
    Symbol,
    affine_coefficients,
    ceil_div,
    integer,
    product,
)

GROUP = 8
"""Blocks of rows that programs of neighbouring numbers take turns in."""

ALIGNED = 8
"""Elements of two bytes that a descriptor's strides and start are multiples of: 16 bytes."""


@dataclass(frozen=True)
class _Copied:
    """An operand as a descriptor sees it: a matrix of `rows` x `columns`, contiguous along these.

    `start`: elements before the first one. `flipped`: the depth is not its contiguous dimension.
    """

    rows: Expr
    columns: Expr
    stride: Expr
    start: Expr
    flipped: bool


def emit_matmul(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of a matmul template and its epilogue."""
    call = template_call(kernel, Matmul)
    left, right, context = _operands(kernel, graph, gpu)
    if is_vector_product(call, right, context):
        return emit_gemv(kernel, context, left, right, hints)
    *batch, row, column = call.output.axes
    dtype = graph.buffers[left.buffer].dtype
    size = Size(
        hints.value(row.extent),
        hints.value(column.extent),
        hints.value(left.depth.extent),
        hints.volume(batch),
        dtype,
    )
    dear = is_dear(n for s in kernel.stages for nest in s.nests for n in nest.roots)
    tile = dot_tile(size, gpu, dear=dear)
    down, across = ceil_div(row.extent, tile.rows), ceil_div(column.extent, tile.columns)
    blocks = product((*(a.extent for a in batch), down, across))
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    body = Body(context, Writer(), 2)
    many = hints.value(blocks) >= gpu.multiprocessors and tile.rows >= 64
    copied = _copied(call, left, right, context) if gpu.copies_blocks and many else None
    if copied is not None:
        seats = gpu.multiprocessors * tile.resident
        _stay(body, kernel, tile, copied, (left, right), seats)
        return finish(
            kernel, body, line_grid(Minimum(blocks, integer(seats))), options, early=False
        )
    body.writer.line(f"program = {program_id(context)}")
    _open_block(body, tuple(batch), row, column, tile)
    _walk_depth(body, left, right, tile, dtype)
    finish_tile(body, kernel, "acc", frozenset(("m", "n")))
    return finish(kernel, body, line_grid(blocks), options, early=False)


def fills_processors(kernel: TemplateKernel, graph: KernelGraph, gpu: Gpu) -> bool:
    """Whether a program takes a processor for itself: not where a vector is multiplied."""
    _, right, context = _operands(kernel, graph, gpu)
    return not is_vector_product(template_call(kernel, Matmul), right, context)


def _operands(
    kernel: TemplateKernel, graph: KernelGraph, gpu: Gpu
) -> tuple[Operand, Operand, KernelContext]:
    call = template_call(kernel, Matmul)
    left, right = operand(call, "a"), operand(call, "b")
    return left, right, with_ranges(make_context(kernel, graph, gpu), (left.depth, right.depth))


def _open_block(
    body: Body, batch: tuple[Axis, ...], row: Axis, column: Axis, tile: DotTile
) -> None:
    """Writes which block `program` is, and the indices of its rows and columns."""
    context, line = body.context, body.writer.line
    down = index_text(ceil_div(row.extent, tile.rows), context.names)
    across = index_text(ceil_div(column.extent, tile.columns), context.names)
    if batch:
        line(f"blocks = ({down}) * ({across})")
        open_batch(body, batch, "program // blocks")
        line("program = program % blocks")
    line(f"group = program // ({GROUP} * ({across}))")
    line(f"height = tl.minimum(({down}) - group * {GROUP}, {GROUP})")
    line(f"place = program % ({GROUP} * ({across}))")
    line(f"m_start = (group * {GROUP} + place % height) * {tile.rows}")
    line(f"n_start = place // height * {tile.columns}")
    body.open_dim(TileDim("m", (row,), tile.rows, 0), "m_start")
    body.open_dim(TileDim("n", (column,), tile.columns, 1), "n_start")


def _walk_depth(body: Body, left: Operand, right: Operand, tile: DotTile, dtype: DType) -> None:
    line = body.writer.line
    line(f"acc = tl.zeros([{tile.rows}, {tile.columns}], tl.float32)")
    end = index_text(left.depth.extent, body.context.names)
    with body.loop(f"for start in range(0, {end}, {tile.depth})"):
        body.open_dim(TileDim("ka", (left.depth,), tile.depth, 1), "start")
        body.open_dim(TileDim("kb", (right.depth,), tile.depth, 0), "start")
        line(f"left = {_block(body, left, ('m', 'ka'))}")
        line(f"right = {_block(body, right, ('kb', 'n'))}")
        line(f"acc = tl.dot(left, right, acc{precision(dtype)})")


def _block(body: Body, source: Operand, dims: tuple[str, str]) -> str:
    return body.padded(body.read(source.buffer, source.index), frozenset(dims))


def _copied(
    call: Matmul, left: Operand, right: Operand, context: KernelContext
) -> tuple[_Copied, _Copied] | None:
    """Both operands as descriptors see them; None where they cannot be copied by descriptors."""
    *batch, row, column = call.output.axes
    halves = all(context.buffers[o.buffer].dtype.itemsize == 2 for o in (left, right))
    if batch or context.wide or not halves:
        return None
    found = (_matrix(left, row, context), _matrix(right, column, context))
    return None if found[0] is None or found[1] is None else (found[0], found[1])


def _matrix(source: Operand, axis: Axis, context: KernelContext) -> _Copied | None:
    offset = context.offset(source.buffer, source.index)
    symbols: tuple[Symbol, ...] = (axis.symbol, source.depth.symbol)
    solved = affine_coefficients(offset, symbols)
    if solved is None:
        return None
    (along, deep), start = solved
    if deep == 1 and _is_aligned(along) and _is_aligned(start):
        return _Copied(axis.extent, source.depth.extent, along, start, flipped=False)
    if along == 1 and _is_aligned(deep) and _is_aligned(start):
        return _Copied(source.depth.extent, axis.extent, deep, start, flipped=True)
    return None


def _is_aligned(number: Expr) -> bool:
    return bool(number.is_Integer) and int(number) >= 0 and int(number) % ALIGNED == 0


def _stay(
    body: Body,
    kernel: TemplateKernel,
    tile: DotTile,
    copied: tuple[_Copied, _Copied],
    operands: tuple[Operand, Operand],
    seats: int,
) -> None:
    """Writes programs that take blocks in turn, their operands copied by descriptors."""
    call, line = template_call(kernel, Matmul), body.writer.line
    left, right = copied
    row, column = call.output.axes
    names = body.context.names
    _describe(body, "left", operands[0].buffer, left, tile.rows, tile.depth)
    _describe(body, "right", operands[1].buffer, right, tile.columns, tile.depth)
    down, across = ceil_div(row.extent, tile.rows), ceil_div(column.extent, tile.columns)
    blocks = index_text(product((down, across)), names)
    # Flattened, the loop over blocks fetches for the next one while this one's epilogue runs.
    head = f"for program in tl.range({PROGRAM}, {blocks}, {seats}, flatten=True)"
    with body.loop(head):
        _open_block(body, (), row, column, tile)
        line(f"acc = tl.zeros([{tile.rows}, {tile.columns}], tl.float32)")
        end = index_text(operands[0].depth.extent, names)
        with body.loop(f"for start in range(0, {end}, {tile.depth})"):
            first = (
                "left.load([start, m_start]).T" if left.flipped else "left.load([m_start, start])"
            )
            second = (
                "right.load([start, n_start])"
                if right.flipped
                else "right.load([n_start, start]).T"
            )
            line(f"acc = tl.dot({first}, {second}, acc)")
        finish_tile(body, kernel, "acc", frozenset(("m", "n")))


def _describe(body: Body, name: str, buffer: str, matrix: _Copied, width: int, depth: int) -> None:
    context = body.context
    rows, columns, stride, start = (
        index_text(e, context.names)
        for e in (matrix.rows, matrix.columns, matrix.stride, matrix.start)
    )
    block = f"[{depth}, {width}]" if matrix.flipped else f"[{width}, {depth}]"
    pointer = context.pointers[buffer]
    base = pointer if start == "0" else f"{pointer} + {start}"
    body.writer.line(
        f"{name} = tl.make_tensor_descriptor({base}, shape=[{rows}, {columns}], "
        f"strides=[{stride}, 1], block_shape={block})"
    )
