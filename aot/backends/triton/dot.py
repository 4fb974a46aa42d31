"""What templates on tensor cores share: operands, batches, and the end of a tile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, Value
from aot.backends.triton.text import index_text
from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.kernels import TemplateKernel
from aot.ir.nests import Axis, Store
from aot.ir.scalar import load
from aot.ir.templates.matmul import Matmul
from aot.symbolic import Expr, substitute, var


@dataclass(frozen=True)
class Operand:
    """A view of an operand over the output's axes and a depth axis of its own."""

    buffer: str
    index: tuple[Expr, ...]
    depth: Axis


def operand(call: Matmul, role: str) -> Operand:
    """The operand's view with axes that mean the same as elsewhere in the kernel."""
    is_left = role == "a"
    view, output = call.a if is_left else call.b, call.output.axes
    own = view.axes[-1] if is_left else view.axes[-2]
    depth = Axis(var(f"depth_{role}"), own.extent)
    last = (output[-2], depth) if is_left else (depth, output[-1])
    names = (*output[:-2], *last)
    mapping = {a.symbol: n.symbol for a, n in zip(view.axes, names, strict=True)}
    return Operand(view.buffer, tuple(substitute(e, mapping) for e in view.index), depth)


def with_ranges(context: KernelContext, axes: Iterable[Axis]) -> KernelContext:
    """The context that knows more axes."""
    known = {**context.ranges.extents, **{a.symbol: a.extent for a in axes}}
    return replace(context, ranges=context.ranges.with_extents(known))


def open_batch(body: Body, batch: tuple[Axis, ...], number: str) -> None:
    """Names the batch axes from the number of the batch's element."""
    rest = number
    for k in range(len(batch) - 1, -1, -1):
        name = f"b{k}"
        extent = index_text(batch[k].extent, body.context.names)
        body.writer.line(f"{name} = {rest}" + (f" % ({extent})" if k else ""))
        body.name_axis(batch[k].symbol, name, None)
        rest = f"{rest} // ({extent})"


def precision(dtype: DType, *, split: bool = False, rounded: str | None = None) -> str:
    """tl.dot's `input_precision`, such that float32 products are as exact as eager's.

    `split`: they are three products of numbers of 11 bits, whose sum is off by 2^-22 of itself.
    `rounded`: the `precision` of a call whose float32 operands may lose digits.
    """
    if dtype != FLOAT32:
        return "None"
    if rounded is not None:
        return f'"{rounded}"'
    return '"tf32x3"' if split else '"ieee"'


def sums_type(dtype: DType) -> str:
    """The type of sums of products."""
    return "tl.float64" if dtype == FLOAT64 else "tl.float32"


def finish_tile(body: Body, kernel: TemplateKernel, text: str, dims: frozenset[str]) -> None:
    """Stores a template's tile where it is wanted, and evaluates the epilogue on it."""
    call = kernel.template
    view = call.output
    dtype = body.context.buffers[view.buffer].dtype
    body.define_buffer(view.buffer, Value(text, dtype, dims))
    if view.buffer in kernel.writes:
        body.store(Store(view.buffer, view.index, load(view.buffer, dtype, view.index)))
    for stage in kernel.stages:
        for nest in stage.nests:
            for store in nest.stores:
                body.store(store)
