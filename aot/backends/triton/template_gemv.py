"""Products of a matrix and a vector: bound by reading the matrix, so without tensor cores."""

from __future__ import annotations

from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, TileDim
from aot.backends.triton.dot import Operand, finish_tile, open_batch
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid, program_id
from aot.backends.triton.text import Writer, index_text
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
    body = Body(context, Writer(), 2)
    line = body.writer.line
    across = ceil_div(column.extent, width)
    line(f"program = {program_id(context)}")
    if batch:
        blocks = index_text(across, context.names)
        open_batch(body, tuple(batch), f"program // ({blocks})")
        line(f"program = program % ({blocks})")
    body.name_axis(row.symbol, "0", None)
    body.open_dim(TileDim("n", (column,), width, 0), f"program * {width}")
    line(f"acc = tl.zeros([{width}, {depth}], tl.float32)")
    _walk_depth(body, left, right, depth)
    line("total = tl.sum(acc, 1)[:, None]")
    finish_tile(body, kernel, "total", frozenset(("n",)))
    programs = product((*(a.extent for a in batch), across))
    return finish(kernel, body, line_grid(programs), {"num_warps": 4, "num_stages": 2})


def _walk_depth(body: Body, left: Operand, right: Operand, depth: int) -> None:
    """Adds the products to `acc`."""
    context, line = body.context, body.writer.line
    ahead = _turns_ahead(right, context, depth)
    for k in range(ahead):
        body.open_dim(TileDim(f"turn{k}", (right.depth,), depth, 1), str(k * depth))
        line(f"matrix{k} = {body.read(right.buffer, right.index).text}")
    body.wait()
    for k in range(ahead):
        body.name_axis(left.depth.symbol, f"turn{k}", f"turn{k}")
        vector = body.read(left.buffer, left.index)
        line(f"acc += matrix{k}.to(tl.float32) * {vector.text}.to(tl.float32)")
    if right.depth.extent.is_Integer and int(right.depth.extent) <= ahead * depth:
        return
    end = index_text(right.depth.extent, context.names)
    with body.loop(f"for start in range({ahead * depth}, {end}, {depth})"):
        body.open_dim(TileDim("k", (right.depth,), depth, 1), "start")
        body.name_axis(left.depth.symbol, "k", "k")
        vector = body.read(left.buffer, left.index)
        matrix = body.read(right.buffer, right.index)
        line(f"acc += {matrix.text}.to(tl.float32) * {vector.text}.to(tl.float32)")


def _turns_ahead(right: Operand, context: KernelContext, depth: int) -> int:
    """How many turns' part of the matrix is read before the kernel waits: that of weights alone."""
    extent = right.depth.extent
    constant = context.buffers[right.buffer].kind == "weight"
    if not (context.early and constant and extent.is_Integer):
        return 0
    return min(MOST_AHEAD, -(-int(extent) // depth))
