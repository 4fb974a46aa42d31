"""What templates on tensor cores share: operands, batches, and the end of a tile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, Value
from aot.backends.triton.text import index_text
from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.kernels import TemplateKernel
from aot.ir.nests import Axis, Buffer, Store
from aot.ir.scalar import Access, load, loads
from aot.ir.templates.matmul import Matmul
from aot.symbolic import Expr, integer, is_int, substitute, var


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


ROOM = 8
"""Columns of a thread, which stores them at once if all of them are stored."""


def columns_with_room(kernel: TemplateKernel, column: Axis, context: KernelContext) -> Expr:
    """Columns that a kernel may store: some more where that makes whole vectors of them.

    Rows of all that it touches along them must be longer in memory. Nobody reads what is there.
    """
    whole = integer(-(-int(column.extent) // ROOM) * ROOM) if is_int(column.extent) else None
    if whole is None or whole == column.extent:
        return column.extent
    view, nests = kernel.template.output, [n for stage in kernel.stages for n in stage.nests]
    stores = [store for nest in nests for store in nest.stores]
    reads = [node.attr for node in loads([root for nest in nests for root in nest.roots])]
    # What is stored is new memory: an update would change what is behind its rows.
    if any(s.base or s.binds or s.conflicts for s in stores):
        return column.extent
    if not all(isinstance(read, Access) and not read.binds for read in reads):
        return column.extent
    written = [(view.buffer, view.index)] if view.buffer in kernel.writes else []
    written += [(s.buffer, s.index) for s in stores]
    # A single column may be in no index: others would be stored in its place.
    if not all(_is_along(index, column) for b, index in written if b not in kernel.local):
        return column.extent
    places = written + [(read.buffer, read.index) for read in reads if isinstance(read, Access)]
    touched = [(context.buffers[b], index) for b, index in places if b not in kernel.local]
    return whole if all(_has_room(b, i, column, int(whole)) for b, i in touched) else column.extent


def _is_along(index: Sequence[Expr], column: Axis) -> bool:
    return any(column.symbol in e.free_symbols for e in index)


def _has_room(source: Buffer, index: Sequence[Expr], column: Axis, whole: int) -> bool:
    """Whether so many columns of a buffer's index are in its rows."""
    own = [k for k, e in enumerate(index) if column.symbol in e.free_symbols]
    if len(own) != 1:
        return not own
    (k,) = own
    length, step = source.shape[k], (source.strides or ())[k : k + 1]
    plain = index[k] == column.symbol and step == (1,) and source.kind == "temp"
    return plain and is_int(length) and int(length) >= whole


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
