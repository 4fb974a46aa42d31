"""Positions in sorted order along the rows of a matrix, with a fused epilogue.

Elements become integers in the same order, NaN greatest. Rows that fit into a program are sorted by
a bitonic network of 64-bit numbers: the key above, the position below, which makes the order
stable (Batcher, Sorting networks and their applications, AFIPS 1968). The first few of longer rows
are kept while a program walks the row. Elsewhere an element's place is found by counting those
before it, which takes any type and any length, and keeps a GPU busy with few rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aot.backends.triton.body import Body
from aot.backends.triton.context import TileDim, make_context
from aot.backends.triton.dot import finish_tile, open_batch
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid, program_id
from aot.backends.triton.text import Writer, index_text
from aot.backends.triton.tiling import THREAD_POINTS, WARP, power_above
from aot.ir.dtypes import DType
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis
from aot.ir.scalar import Node, load
from aot.ir.templates.argsort import Argsort
from aot.symbolic import Symbol, ceil_div, integer, is_int, product, substitute, var

SORT_COLUMNS = 4096
"""Columns of the longest row that one program sorts."""

CHUNK = 2048
"""Columns that a program looks at together for the first few of a longer row."""

COUNT_COLUMNS = 128
"""Columns up to which counting is always as good."""

COUNT_WORK = 1 << 27
"""Comparisons up to which counting keeps the device for less time than sorting."""

_POINTS = 1024

_MANY_POINTS = 32
"""Points of a thread where there are many rows: a warp exchanges them without barriers."""

_COUNTED, _AGAINST = 128, 64
_ELEMENT, _OTHER = var("element"), var("other")
_LEAST, _GREATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class _Sort:
    """One argsort kernel, taken apart. `elements`: an axis over the elements of a row."""

    kernel: TemplateKernel
    call: Argsort
    body: Body
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

    def key(self, symbol: Symbol, dims: Sequence[str]) -> str:
        """Writes the key of an element: integers that are less where the element comes first."""
        body = self.body
        value = body.value(self.element(symbol))
        text = body.spread(value, frozenset(dims))
        if self.dtype.is_float:
            text = f"float{8 * self.dtype.compute.itemsize}_key({text})"
        elif self.dtype.itemsize < 8:
            text = f"({text}).to(tl.int32)"
        name = body.fresh("key")
        body.writer.line(f"{name} = {'~' if self.call.descending else ''}{text}")
        return name


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
    sort = _Sort(kernel, call, Body(context, Writer(), 2), Axis(_ELEMENT, extent), dtype)
    rows, columns = hints.value(sort.rows.extent), hints.value(extent)
    narrow = dtype.compute.itemsize < 8 and is_int(extent)
    few = is_int(sort.kept.extent) and 4 * int(sort.kept.extent) <= min(CHUNK, columns)
    counted = columns <= COUNT_COLUMNS or rows * columns * columns <= COUNT_WORK
    if counted or not narrow or (columns > SORT_COLUMNS and not few):
        return _emit_counting(sort, hints)
    if columns > SORT_COLUMNS:
        return _emit_chunks(sort)
    return _emit_sorting(sort, hints, gpu)


def _packed(sort: _Sort, *, reverse: bool) -> None:
    """Writes `packed`: key and position of the present elements; beyond the row, the last ones."""
    key = sort.key(_ELEMENT, ("m", "e"))
    line = sort.body.writer.line
    line(f"packed = ({key}.to(tl.int64) << 32) | e.to(tl.int64)")
    masks = sort.body.masks(("e",))
    if masks:
        line(f"packed = tl.where({masks[0]}, packed, tl.full([], {_GREATEST}, tl.int64))")
    if reverse:
        line("packed = ~packed")


def _emit_sorting(sort: _Sort, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """Rows that one program sorts, several at once when they are short."""
    body, line = sort.body, sort.body.writer.line
    columns = power_above(int(sort.elements.extent))
    rows = max(1, hints.value(sort.rows.extent))
    high = min(
        max(1, _POINTS // columns), power_above(max(1, rows // gpu.units)), power_above(rows)
    )
    body.open_dim(TileDim("m", (sort.rows,), high, 0), f"{program_id(body.context)} * {high}")
    body.open_dim(TileDim("e", (sort.elements,), columns, 1), "0")
    kept = max(2, power_above(int(sort.kept.extent))) if is_int(sort.kept.extent) else columns
    few = kept < columns
    _packed(sort, reverse=few)
    line(f"packed = ~tl.topk(packed, {kept})" if few else "packed = tl.sort(packed)")
    body.open_dim(TileDim("n", (sort.kept,), min(kept, columns), 1), "0")
    _finish_sorted(sort)
    each = _MANY_POINTS if rows >= high * gpu.units else THREAD_POINTS
    warps = max(1, min(16, high * columns // (WARP * each)))
    programs = ceil_div(sort.rows.extent, high)
    return finish(sort.kernel, body, line_grid(programs), {"num_warps": warps})


def _emit_chunks(sort: _Sort) -> EmittedKernel:
    """The first few of long rows: chunk by chunk, keeping the best so far."""
    body, line = sort.body, sort.body.writer.line
    kept = max(16, power_above(int(sort.kept.extent)))
    body.open_dim(TileDim("m", (sort.rows,), 1, 0), program_id(body.context))
    line(f"best = tl.full([1, {kept}], {_LEAST}, tl.int64)")
    end = index_text(sort.elements.extent, body.context.names)
    with body.loop(f"for start in range(0, {end}, {CHUNK})"):
        body.open_dim(TileDim("e", (sort.elements,), CHUNK, 1), "start")
        _packed(sort, reverse=True)
        line(f"part = tl.topk(packed, {kept})")
        line(f"best = tl.topk(tl.reshape(tl.join(best, part), [1, {2 * kept}]), {kept})")
    line("packed = ~best")
    body.open_dim(TileDim("n", (sort.kept,), kept, 1), "0")
    _finish_sorted(sort)
    options = {"num_warps": CHUNK // (WARP * THREAD_POINTS)}
    return finish(sort.kernel, body, line_grid(sort.rows.extent), options)


def _finish_sorted(sort: _Sort) -> None:
    sort.body.writer.line("place = packed & tl.full([], 0xFFFFFFFF, tl.int64)")
    finish_tile(sort.body, sort.kernel, "place", frozenset(("m", "n")))


def _emit_counting(sort: _Sort, hints: Hints) -> EmittedKernel:
    """Each element's place is the number of those before it; the results are scattered."""
    body, line = sort.body, sort.body.writer.line
    context = body.context
    extent = sort.elements.extent
    end = index_text(extent, context.names)
    long = hints.value(extent) >= _COUNTED
    against = min(_AGAINST, power_above(max(1, hints.value(extent))))
    line(f"program = {program_id(context)}")
    if long:
        blocks = ceil_div(extent, _COUNTED)
        text = index_text(blocks, context.names)
        open_batch(body, (sort.rows,), f"program // ({text})")
        mine = TileDim("m", (sort.elements,), _COUNTED, 0)
        body.open_dim(mine, f"program % ({text}) * {_COUNTED}")
        programs = product((sort.rows.extent, blocks))
    else:
        mine = TileDim("m", (sort.rows, sort.elements), _COUNTED, 0)
        body.open_dim(mine, f"program * {_COUNTED}")
        programs = ceil_div(product((sort.rows.extent, extent)), _COUNTED)
    own, _ = body.index(_ELEMENT, {})
    line(f"own = {own} + tl.zeros([{_COUNTED}, 1], {context.index_type})")
    key = sort.key(_ELEMENT, ("m",))
    line(f"before = tl.zeros([{_COUNTED}], tl.int32)")
    with body.loop(f"for start in range(0, {end}, {against})"):
        body.open_dim(TileDim("o", (Axis(_OTHER, extent),), against, 1), "start")
        other = sort.key(_OTHER, ("o",) if long else ("m", "o"))
        line(f"first = ({other} < {key}) | (({other} == {key}) & (o < own))")
        masks = body.masks(("o",))
        if masks:
            line(f"first = first & {masks[0]}")
        line("before += tl.sum(first.to(tl.int32), 1)")
    line(f"rank = before[:, None]{'.to(tl.int64)' if context.wide else ''}")
    _scatter(sort, mine)
    return finish(sort.kernel, body, line_grid(programs), {"num_warps": 4})


def _scatter(sort: _Sort, mine: TileDim) -> None:
    """Evaluates the epilogue with each element's place as the output's index."""
    body = sort.body
    kept = index_text(sort.kept.extent, body.context.names)
    inside = f"(rank < {kept})"
    masks = body.masks((mine.name,))
    body.writer.line(f"{mine.name}_in = {' & '.join([inside, *masks])}")
    # A dimension of one point is never exact: what is masked are the places.
    body.declare_dim(TileDim(mine.name, (Axis(sort.kept.symbol, integer(1)),), mine.block, 0))
    body.name_axis(sort.kept.symbol, "rank", mine.name)
    finish_tile(body, sort.kernel, "own.to(tl.int64)", frozenset((mine.name,)))
