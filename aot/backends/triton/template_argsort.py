"""Positions in sorted order along the rows of a matrix, with a fused epilogue.

Elements become integers in the same order, NaN greatest. Rows that fit into a program are sorted by
a network. The first few of longer rows are kept while a program walks the row. Elsewhere an
element's place is found by counting those before it, which takes any type and any length, and keeps
a GPU busy with few rows. The functions are those of `device/argsort.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, TileDim, make_context
from aot.backends.triton.dot import finish_tile, open_batch
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks, places
from aot.backends.triton.kernel import EmittedKernel, line_grid, program_id
from aot.backends.triton.text import index_text
from aot.backends.triton.tiling import THREAD_POINTS, WARP
from aot.ir.dtypes import DType
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis
from aot.ir.scalar import Node, load
from aot.ir.templates.argsort import Argsort
from aot.symbolic import Symbol, ceil_div, integer, is_int, power_above, product, substitute, var

SORT_COLUMNS = 4096
"""Columns of the longest row that one program sorts."""

CHUNK = 16384
"""Columns that a program looks at together for the first few of a longer row."""

_CHUNK_POINTS = 64
"""Of them, each thread's."""

FEW = 512
"""So many are few."""

COUNT_COLUMNS = 128
"""Columns up to which counting is always as good."""

COUNT_WORK = 1 << 27
"""Comparisons up to which counting keeps the device for less time than sorting."""

_POINTS = 1024

_MANY_POINTS = 32
"""Points of a thread where there are many rows: a warp exchanges them without barriers."""

_COUNTED, _AGAINST = 128, 64
_ELEMENT, _OTHER = var("element"), var("other")


@dataclass(frozen=True)
class _Sort:
    """One argsort kernel, taken apart. `elements`: an axis over the elements of a row."""

    kernel: TemplateKernel
    call: Argsort
    context: KernelContext
    elements: Axis
    dtype: DType

    @property
    def rows(self) -> Axis:
        """The rows of the matrix."""
        return self.call.output.axes[0]

    @property
    def kept(self) -> Axis:
        """The places in sorted order that are wanted."""
        return self.call.output.axes[1]

    def element(self, symbol: Symbol) -> Node:
        """The element of the present row at an index."""
        view = self.call.x
        row, column = view.axes
        mapping = {row.symbol: self.rows.symbol, column.symbol: symbol}
        index = tuple(substitute(e, mapping) for e in view.index)
        return load(view.buffer, self.dtype, index)

    def write_key(self, body: Body, symbol: Symbol, dims: Sequence[str]) -> None:
        """Returns the key of an element: integers that are less where the element comes first."""
        value = body.value(self.element(symbol))
        text = body.spread(value, frozenset(dims))
        if self.dtype.is_float:
            text = f"float{8 * self.dtype.compute.itemsize}_key({text})"
        elif self.dtype.itemsize < 8:
            text = f"({text}).to(tl.int32)"
        body.writer.line(f"return {'~' if self.call.descending else ''}{text}")

    def has_rest(self, block: int) -> bool:
        """True when blocks of so many elements reach beyond the row."""
        return not TileDim("e", (self.elements,), block, 1).is_exact

    def sorted(self, rows: int, columns: int, kept: int) -> Hooks:
        """The key and the end of programs that sort: blocks of rows by elements, and by places."""
        hooks = Hooks(self.context)
        with hooks.function("key", "m", "e") as body:
            body.take_dim(TileDim("m", (self.rows,), rows, 0))
            body.take_dim(TileDim("e", (self.elements,), columns, 1))
            self.write_key(body, _ELEMENT, ("m", "e"))
        with hooks.function("finish", "m", "n", "place") as body:
            body.take_dim(TileDim("m", (self.rows,), rows, 0))
            body.take_dim(TileDim("n", (self.kept,), kept, 1))
            finish_tile(body, self.kernel, "place", frozenset(("m", "n")))
        return hooks


def emit_argsort(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of an argsort template and its epilogue."""
    call = template_call(kernel, Argsort)
    view = call.x
    extent = view.axes[1].extent
    context = make_context(kernel, graph, gpu)
    known = {**context.ranges.extents, _ELEMENT: extent, _OTHER: extent}
    context = replace(context, ranges=context.ranges.with_extents(known))
    dtype = graph.buffers[view.buffer].dtype
    sort = _Sort(kernel, call, context, Axis(_ELEMENT, extent), dtype)
    rows, columns = hints.value(sort.rows.extent), hints.value(extent)
    narrow = dtype.compute.itemsize < 8 and is_int(extent)
    few = is_int(sort.kept.extent) and 4 * int(sort.kept.extent) <= min(4 * FEW, columns)
    counted = columns <= COUNT_COLUMNS or rows * columns * columns <= COUNT_WORK
    if counted or not narrow or (columns > SORT_COLUMNS and not few):
        return _emit_counting(sort, hints)
    if columns > SORT_COLUMNS:
        return _emit_chunks(sort)
    return _emit_sorting(sort, hints, gpu)


def _emit_sorting(sort: _Sort, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """Rows that one program sorts, several at once when they are short."""
    columns = power_above(int(sort.elements.extent))
    rows = max(1, hints.value(sort.rows.extent))
    high = min(
        max(1, _POINTS // columns), power_above(max(1, rows // gpu.units)), power_above(rows)
    )
    kept = max(2, power_above(int(sort.kept.extent))) if is_int(sort.kept.extent) else columns
    kept = min(kept, columns)
    arguments = {
        "program": program_id(sort.context),
        "elements": str(sort.elements.extent),
        "ROWS": str(high),
        "COLUMNS": str(columns),
        "KEPT": str(kept),
        "MASKED": str(sort.has_rest(columns)),
    }
    each = _MANY_POINTS if rows >= high * gpu.units else THREAD_POINTS
    options = {"num_warps": max(1, min(16, high * columns // (WARP * each)))}
    grid = line_grid(ceil_div(sort.rows.extent, high))
    return sort.sorted(high, columns, kept).emit(sort.kernel, "sort_rows", arguments, grid, options)


def _emit_chunks(sort: _Sort) -> EmittedKernel:
    """The first few of long rows: chunk by chunk, keeping the best so far."""
    kept = max(16, power_above(int(sort.kept.extent)))
    chunk = min(CHUNK, power_above(int(sort.elements.extent)))
    # Groups, and elements of those that are looked into, are about as many.
    group = power_above(math.isqrt(chunk // kept))
    arguments = {
        "program": program_id(sort.context),
        "elements": str(sort.elements.extent),
        "CHUNK": str(chunk),
        "GROUP": str(group),
        "KEPT": str(kept),
        "MASKED": str(sort.has_rest(chunk)),
    }
    options = {"num_warps": chunk // (WARP * _CHUNK_POINTS)}
    hooks = sort.sorted(1, chunk, kept)
    with hooks.function("key_again", "m", "e") as body:
        body.take_dim(TileDim("m", (sort.rows,), 1, 0))
        body.take_dim(TileDim("e", (sort.elements,), kept * group, 1))
        sort.write_key(body, _ELEMENT, ("m", "e"))
    grid = line_grid(sort.rows.extent)
    return hooks.emit(sort.kernel, "sort_first", arguments, grid, options)


def _emit_counting(sort: _Sort, hints: Hints) -> EmittedKernel:
    """Each element's place is the number of those before it; the results are scattered."""
    context, extent = sort.context, sort.elements.extent
    long = hints.value(extent) >= _COUNTED
    against = min(_AGAINST, power_above(max(1, hints.value(extent))))
    blocks = ceil_div(extent, _COUNTED)
    batch = (sort.rows,) if long else ()
    programs = ceil_div(product((sort.rows.extent, extent)), _COUNTED)
    if long:
        programs = product((sort.rows.extent, blocks))
    mine = TileDim("m", (sort.elements,) if long else (sort.rows, sort.elements), _COUNTED, 0)
    other = TileDim("o", (Axis(_OTHER, extent),), against, 1)
    hooks = Hooks(context)
    with hooks.function("key", "batch", "m") as body:
        open_batch(body, batch, "batch")
        body.take_dim(mine)
        sort.write_key(body, _ELEMENT, ("m",))
    with hooks.function("other_key", "batch", "m", "o") as body:
        open_batch(body, batch, "batch")
        body.take_dim(mine)
        body.take_dim(other)
        sort.write_key(body, _OTHER, ("o",) if long else ("m", "o"))
    with hooks.function("finish", "batch", "m", "own", "rank") as body:
        open_batch(body, batch, "batch")
        body.take_dim(mine)
        _scatter(sort, body, mine)
    arguments = {
        **places(context, blocks if long else None),
        "elements": index_text(extent, context.names),
        "COUNTED": str(_COUNTED),
        "AGAINST": str(against),
        "FLAT": str(not long),
        "MASKED": str(sort.has_rest(against)),
    }
    grid = line_grid(programs)
    return hooks.emit(sort.kernel, "rank_by_counting", arguments, grid, {"num_warps": 4})


def _scatter(sort: _Sort, body: Body, mine: TileDim) -> None:
    """Evaluates the epilogue with each element's place as the output's index."""
    kept = index_text(sort.kept.extent, body.context.names)
    if body.context.wide:
        body.writer.line("rank = rank.to(tl.int64)")
    inside = f"(rank < {kept})"
    masks = body.masks((mine.name,))
    body.writer.line(f"{mine.name}_in = {' & '.join([inside, *masks])}")
    # A dimension of one point is never exact: what is masked are the places.
    body.declare_dim(TileDim(mine.name, (Axis(sort.kept.symbol, integer(1)),), mine.block, 0))
    body.name_axis(sort.kept.symbol, "rank", mine.name)
    finish_tile(body, sort.kernel, "own.to(tl.int64)", frozenset((mine.name,)))
