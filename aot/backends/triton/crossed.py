"""Emission of kernels that reduce one tile along both of its axes.

A program has all rows of its tile and walks the columns. Results of rows accumulate over the walk:
each thread combines neighbouring columns first, so that accumulators are a part of the tile.
Results of columns are complete in every turn and are stored at once.
"""

from __future__ import annotations

from aot.backends.triton.body import Body
from aot.backends.triton.context import PROGRAM, KernelContext, TileDim, Value
from aot.backends.triton.ops import conversion
from aot.backends.triton.reduction import Accumulator, Reduction, operand, reductions_of
from aot.backends.triton.text import Writer, index_text, value_type
from aot.backends.triton.tiling import WARP
from aot.ir.hints import Hints
from aot.ir.kernels import NestKernel, Stage
from aot.ir.nests import Axis, LoopNest
from aot.symbolic import Expr, power_above, product

COLUMNS = 512
"""Columns of a tile: four warps beside each other, each loading 16 bytes a thread of float32."""

LANES = 4
"""Neighbouring columns of one thread."""

POINTS = 8192
"""Points of a tile: 64 for each of 128 threads."""

ARG_POINTS = 1024
"""Points of a tile where values have positions beside them, of 64 bits."""

THREAD_POINTS = 32
"""Points from which a thread has enough to do."""

WARPS = 4


def is_crossed(kernel: NestKernel) -> bool:
    """True when some nest keeps what its stage reduces."""
    return any(_crosses(s, n) for s in kernel.stages for n in s.nests)


def _crosses(stage: Stage, nest: LoopNest) -> bool:
    return bool(nest.reduction) and set(nest.reduction) != set(stage.reduction)


def _finds_positions(kernel: NestKernel) -> bool:
    nests = [n for s in kernel.stages for n in s.nests if n.reduction]
    return any(r.is_arg for n in nests for r in reductions_of(n))


def emit_crossed(
    kernel: NestKernel, context: KernelContext, hints: Hints
) -> tuple[Body, Expr, int]:
    """The statements of such a kernel, its programs, and warps for each."""
    body = Body(context, Writer(), 2)
    _name_outer(body, kernel.outer)
    stage = next(s for s in kernel.stages if any(_crosses(s, n) for n in s.nests))
    high = power_above(hints.volume(stage.inner))
    rows = TileDim("x", stage.inner, high, 0)
    points = power_above(hints.volume(stage.reduction))
    most = ARG_POINTS if _finds_positions(kernel) else POINTS
    wide = max(LANES, min(COLUMNS, most // high, points))
    columns = TileDim("r0", stage.reduction, wide, 1)
    body.open_dim(rows, "0")
    warps = max(1, min(WARPS, high * wide // (THREAD_POINTS * WARP)))
    for member in kernel.stages:
        walk = _Walk(body, member, rows, columns)
        if set(member.order) == set(stage.inner):
            walk.rows_only()
        else:
            walk.emit()
    return body, product([a.extent for a in kernel.outer]), warps


def _name_outer(body: Body, outer: tuple[Axis, ...]) -> None:
    """The outer loop variables, from the program's number."""
    rest = body.fresh("program")
    wide = ".to(tl.int64)" if body.context.wide else ""
    body.writer.line(f"{rest} = {PROGRAM}{wide}")
    for axis in reversed(outer[1:]):
        extent = index_text(axis.extent, body.context.names)
        inner, more = body.fresh("i"), body.fresh("i")
        body.writer.line(f"{inner} = {rest} % ({extent})")
        body.writer.line(f"{more} = {rest} // ({extent})")
        body.name_axis(axis.symbol, inner, None)
        rest = more
    if outer:
        body.name_axis(outer[0].symbol, rest, None)


class _Walk:
    """Writes one stage. Use once: `emit`, or `rows_only` for a stage without columns."""

    def __init__(self, body: Body, stage: Stage, rows: TileDim, columns: TileDim) -> None:
        self._body = body
        self._stage = stage
        self._columns = columns
        self._tile = frozenset((rows.name, columns.name))
        along = [n for n in stage.nests if n.reduction and not _crosses(stage, n)]
        self._accumulators = {
            r.node: RowAccumulator(r, rows, columns) for n in along for r in reductions_of(n)
        }

    def rows_only(self) -> None:
        """What rows compute of their own results."""
        for nest in self._stage.nests:
            self._store_rows(nest)

    def emit(self) -> None:
        """The walk over the columns, then the results of rows."""
        body = self._body
        body.declare_dim(self._columns)
        for accumulator in self._accumulators.values():
            accumulator.declare(body)
        end = index_text(self._columns.points, body.context.names)
        start = body.fresh("start")
        with body.loop(f"for {start} in range(0, {end}, {self._columns.block})"):
            body.open_dim(self._columns, start)
            for nest in self._stage.nests:
                if not nest.reduction:
                    for store in nest.stores:
                        body.store(store)
                elif _crosses(self._stage, nest):
                    self._store_columns(nest)
            for accumulator in self._accumulators.values():
                accumulator.step(body)
        for node, accumulator in self._accumulators.items():
            body.define(node, accumulator.finish(body))
        for nest in self._stage.nests:
            if nest.reduction and not _crosses(self._stage, nest):
                self._store_rows(nest)

    def _store_rows(self, nest: LoopNest) -> None:
        for store in nest.stores:
            self._body.define_buffer(store.buffer, self._body.value(store.value))
            if store.buffer in self._body.context.pointers:
                self._body.store(store)

    def _store_columns(self, nest: LoopNest) -> None:
        """Reduces the present tile along its rows."""
        body = self._body
        for r in reductions_of(nest):
            tile = body.name(operand(body, r, self._tile), r.dtype, self._tile)
            text = f"{reduced(r, tile.text, 0)}[None, :]"
            found = body.name(text, r.dtype, frozenset((self._columns.name,)))
            body.define(r.node, _as_result(body, r, found))
        for store in nest.stores:
            body.store(store)


class RowAccumulator:
    """A reduction along the columns, combined over the walk."""

    def __init__(self, reduction: Reduction, rows: TileDim, columns: TileDim) -> None:
        self._r = reduction
        self._rows = rows
        self._tile = frozenset((rows.name, columns.name))
        self._width = columns.block // LANES
        self._positions = Accumulator(reduction, rows.name, columns.name, looped=True)
        self._name = ""

    def declare(self, body: Body) -> None:
        """Writes the accumulator's start, before the walk."""
        if self._r.is_arg:
            self._positions.declare(body)
            return
        self._name = body.fresh("acc")
        shape, kind = f"[{self._rows.block}, {self._width}]", value_type(self._r.dtype)
        body.writer.line(f"{self._name} = tl.full({shape}, {self._r.neutral()}, {kind})")

    def step(self, body: Body) -> None:
        """Combines the present tile's neighbours, then adds them."""
        if self._r.is_arg:
            self._positions.step(body)
            return
        r = self._r
        text = operand(body, r, self._tile)
        shape = f"[{self._rows.block}, {self._width}, {LANES}]"
        part = body.name(reduced(r, f"tl.reshape({text}, {shape})", 2), r.dtype, self._tile).text
        if r.combine in ("plus", "times"):
            combined = f"{self._name} {'+' if r.combine == 'plus' else '*'} {part}"
        else:
            combined = f"{r.combine}({self._name}, {part})"
        body.writer.line(f"{self._name} = {combined}")

    def finish(self, body: Body) -> Value:
        """The reduced value, one for each row."""
        if self._r.is_arg:
            return self._positions.finish(body)
        dims = frozenset((self._rows.name,))
        text = f"{reduced(self._r, self._name, 1)}[:, None]"
        return _as_result(body, self._r, body.name(text, self._r.dtype, dims))


def reduced(r: Reduction, text: str, axis: int) -> str:
    """The reduction of a tile along an axis."""
    if r.kind == "sum":
        return f"tl.sum({text}, {axis})"
    if r.kind in ("min", "max") and not r.dtype.is_float:
        return f"tl.{r.kind}({text}, {axis})"
    return f"tl.reduce({text}, {axis}, {r.combine})"


def _as_result(body: Body, r: Reduction, found: Value) -> Value:
    if r.node.dtype.compute == r.dtype:
        return Value(found.text, r.node.dtype, found.dims)
    converted = conversion(found.text, r.dtype, r.node.dtype)
    return body.name(converted, r.node.dtype, found.dims)
