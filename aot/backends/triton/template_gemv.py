"""Products of a matrix and a vector: bound by reading the matrix, so without tensor cores."""

from __future__ import annotations

from aot.backends.triton.context import KernelContext, TileDim
from aot.backends.triton.dot import Operand, finish_tile, open_batch, sums_type
from aot.backends.triton.hooks import Hooks, places
from aot.backends.triton.kernel import EmittedKernel, line_grid
from aot.backends.triton.text import index_text
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import TemplateKernel
from aot.ir.templates.matmul import Matmul
from aot.symbolic import ceil_div, coefficient_of, product

TILE_BYTES = 8192
"""Bytes of the matrix that one turn of a program reads."""

MOST_AHEAD = 4
"""Turns whose part of the matrix may be on its way before the kernel ahead has ended."""

MOST_DEPTH = 1024
"""Elements of a row that one turn reads: each of 128 threads takes 16 bytes of half elements."""


def is_vector_product(call: Matmul, right: Operand, context: KernelContext) -> bool:
    """True for products with one row whose matrix is contiguous along the depth."""
    if call.output.axes[-2].extent != 1:
        return False
    return coefficient_of(context.offset(right.buffer, right.index), right.depth.symbol) == 1


def emit_gemv(
    kernel: TemplateKernel, context: KernelContext, left: Operand, right: Operand, hints: Hints
) -> EmittedKernel:
    """The kernel of a product with one row: a few columns a program, summed along the depth."""
    call = template_call(kernel, Matmul)
    *batch, row, column = call.output.axes
    size = context.buffers[right.buffer].dtype.itemsize
    deep = 1 << max(0, hints.value(right.depth.extent) - 1).bit_length()
    depth = max(32, min(MOST_DEPTH, deep))
    width = max(1, min(64, TILE_BYTES // size // depth))
    blocks = ceil_div(column.extent, width)
    columns = TileDim("n", (column,), width, 0)
    turn = TileDim("k", (right.depth,), depth, 1)
    hooks = Hooks(context)
    with hooks.function("load_matrix", "batch", "n", "k") as body:
        open_batch(body, tuple(batch), "batch")
        body.take_dim(columns)
        body.take_dim(turn)
        body.writer.line(f"return {body.read(right.buffer, right.index).text}")
    with hooks.function("load_vector", "batch", "k") as body:
        open_batch(body, tuple(batch), "batch")
        body.name_axis(row.symbol, "0", None)
        body.take_dim(turn)
        body.name_axis(left.depth.symbol, "k", "k")
        body.writer.line(f"return {body.read(left.buffer, left.index).text}")
    with hooks.function("finish", "batch", "n", "total") as body:
        open_batch(body, tuple(batch), "batch")
        body.name_axis(row.symbol, "0", None)
        body.take_dim(columns)
        finish_tile(body, kernel, "total", frozenset(("n",)))
    arguments = {
        **places(context, blocks if batch else None),
        "depth": index_text(right.depth.extent, context.names),
        "COLUMNS": str(width),
        "DEPTH": str(depth),
        "AHEAD": str(_turns_ahead(right, context, depth)),
        "WAITS": str(context.early),
        "SUMS": sums_type(context.buffers[right.buffer].dtype),
    }
    programs = product((*(a.extent for a in batch), blocks))
    options = {"num_warps": 4, "num_stages": 2}
    return hooks.emit(kernel, "gemv", arguments, line_grid(programs), options, waits=True)


def _turns_ahead(right: Operand, context: KernelContext, depth: int) -> int:
    """How many turns' part of the matrix is read before the kernel waits: that of weights alone."""
    extent = right.depth.extent
    constant = context.buffers[right.buffer].kind == "weight"
    if not (context.early and constant and extent.is_Integer):
        return 0
    return min(MOST_AHEAD, -(-int(extent) // depth))
