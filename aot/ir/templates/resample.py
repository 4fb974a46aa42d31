"""Resizing along one axis: weighted sums of neighbours, with weights in tables.

As loop nests, devices that read vectors of neighbours do the innermost axis in panels of outputs. A
panel reads one contiguous run of inputs, `span` long, and its weights are a small dense band (span,
panel): each input is a scalar that meets a panel of weights, contiguous in memory. That is several
times more multiplications than taps, and still far cheaper than gathering each tap of each output.
Devices that gather at the cost of any read do so, and have only the multiplications that count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from aot.ir.dtypes import FLOAT32, FLOAT64, INT32, INT64, DType
from aot.ir.nests import Axis, LoopNest, Store, View, numbered_axes
from aot.ir.scalar import (
    Node,
    binary,
    cast,
    check_index,
    clamp_index,
    const,
    index_value,
    load,
    reduce_,
    unary,
)
from aot.ir.templates.base import Array, LoopOp, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.windows import AxisWindows
from aot.symbolic import (
    Expr,
    FloorDiv,
    Modulo,
    Symbol,
    as_expr,
    ceil_div,
    integer,
    is_int,
    product,
    substitute,
    var,
)

SIGNED_LOW, SIGNED_HIGH = -128.0, 127.0
"""What signed bytes are clamped to."""

_SPARSE = 9
"""Inputs of a panel for each of an output's, above which gathering these takes less. Antialiased
windows overlap: they have fewer. At 10 and 12 gathers took 0.54 and 0.58 with AVX2, 1.02 and 0.96
with AVX-512; at 13 to 48 0.3 to 0.7."""

_RUN = var("run")
"""Stands for the value of a start table in an index."""


@dataclass(frozen=True)
class Resample(TemplateCall):
    """x (*lead, size, *rest), starts (out,), weights (out, taps) -> output (*lead, out, *rest).

    Sums of x[starts[o] + t] * weights[o, t] in the weights' type.

    Attributes:
        axis: Of `size`.
        windows: Which inputs the outputs read.
        subtract: What turns bytes into signed numbers before they are multiplied.
        add: What turns results back.
        bits: (): results are bytes, and weights are scaled by 2^bits (integers) or rounded to so
            many bits (float32, for bytes as signed numbers).
    """

    kind: ClassVar[str] = "resample"
    by_layout: ClassVar[bool] = True
    follows: ClassVar[str] = "x"

    x: View
    starts: View
    weights: View
    axis: int
    windows: AxisWindows
    subtract: int = 0
    add: int = 0
    bits: View | None = None

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """Weighted sums of neighbours along the axis; for bytes in eager's fixed point."""
        starts, weights = operands["starts"], operands["weights"]
        total = weighted_sums(operands["x"] - self.subtract, starts, weights, self.axis)
        if "bits" in operands:
            last = np.moveaxis(total, self.axis, -1)
            if np.issubdtype(weights.dtype, np.integer):
                bits = int(operands["bits"])
                last = np.clip((last + (1 << (bits - 1))) >> bits, 0, 255)
            else:  # signed bytes, and 128 for what their weights are more than 1
                shift = 0.5 + 128.0 * (weights.sum(axis=1) - 1.0)
                last = np.clip(np.floor(last + shift), -128.0, 127.0) + self.add
            total = np.moveaxis(last, -1, self.axis)
        return np.asarray(total)

    def flops(self) -> Expr:
        """A multiplication and an addition for each output and tap."""
        return flops_of_taps(self.output, self.weights)

    @property
    def taps(self) -> Expr:
        """Inputs of an output."""
        return self.weights.axes[1].extent

    def no_walk(self, least: int) -> str:
        """Why nests are better than a kernel that slides along the axis; "" when they are not.

        `least`: taps from which keeping the overlap of neighbouring windows pays.
        """
        if self.bits is not None:
            return "the device's template takes no bytes"
        if not self.taps.is_Integer or int(self.taps) < least:
            return f"it has {self.taps} taps, and a walk pays from {least} on"
        if self.axis == len(self.output.axes) - 1:
            return "its taps are neighbours in memory"
        return ""

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """Gathers, or panels along the innermost axis."""
        resample = _Resample(builder, self)
        near = self._reads_neighbours(builder)
        if builder.lanes is None or (near and self._is_sparse(builder, builder.lanes)):
            resample.gathers(checked=False)
        elif near:
            resample.panels(self.windows.panel(builder.lanes))
        else:
            resample.gathers(checked=True)
        return resample.ops

    def _reads_neighbours(self, builder: NestBuilder) -> bool:
        """Whether taps are neighbours in memory, or nearer to each other than a vector."""
        if self.axis != len(self.output.axes) - 1:
            return False
        strides = builder.strides_of(self.x)
        step = None if strides is None else strides[self.axis]
        return step is None or builder.lanes is None or builder.hints.value(step) < builder.lanes

    def _is_sparse(self, builder: NestBuilder, lanes: int) -> bool:
        """Whether panels read so much between windows that gathering each tap takes less."""
        panel = self.windows.panel(lanes)
        span, taps = (builder.hints.value(e) for e in (self.windows.span(panel), self.taps))
        return self.bits is None and span > _SPARSE * taps


def flops_of_taps(output: View, *weights: View) -> Expr:
    """A multiplication and an addition for each output and tap of these tables (outputs, taps)."""
    taps = sum((table.axes[1].extent for table in weights), integer(0))
    return product((*(axis.extent for axis in output.axes), taps, integer(2)))


def weighted_sums(x: Array, starts: Array, weights: Array, axis: int) -> Array:
    """Sums of x[starts[o] + t] * weights[o, t] along an axis."""
    taps = starts[:, None] + np.arange(weights.shape[1])
    total = (np.moveaxis(x, axis, -1)[..., taps] * weights).sum(axis=-1)
    return np.moveaxis(total, -1, axis)


@dataclass(frozen=True)
class _Resample:
    """One call's expansion; `ops` collects the nests."""

    builder: NestBuilder
    call: Resample
    ops: list[LoopOp] = field(default_factory=list)

    @property
    def sums(self) -> DType:
        """The type that products are added in."""
        return self.builder.dtype(self.call.weights.buffer)

    @property
    def result(self) -> DType:
        """The result's element type."""
        return self.builder.dtype(self.call.output.buffer)

    def gathers(self, *, checked: bool) -> None:
        """Each output by itself, as a loop over its taps.

        `checked`: starts are checked as any index from data is; otherwise they are clamped.
        """
        call, position = self.call, self.call.axis
        axes = numbered_axes("i", [a.extent for a in call.output.axes])
        at = [a.symbol for a in axes]
        taps = Axis(var("r0"), call.weights.axes[1].extent)
        out = call.output.axes[position].extent
        table = call.weights.buffer
        if not checked:
            table = self._transposed(table, out, taps.extent)
        begin = self.at(call.starts, (at[position],))
        last = self._last_start(taps.extent)
        if checked:
            begin = check_index(begin, last + 1, wrap=False)
        else:
            narrow = last.is_Integer and int(last) < 2**31
            begin = clamp_index(begin, last, narrow=bool(narrow))
        index = (*at[:position], _RUN + taps.symbol, *at[position + 1 :])
        value = self.operand(self.at(call.x, index, begin))
        pair = (at[position], taps.symbol)
        weight = self._read(table, pair if checked else pair[::-1])
        shifts = self._shifts(call.weights.buffer, (out, taps.extent), 1)
        shift = self._read(shifts, (at[position],)) if shifts else None
        total = self.finished(binary("mul", value, weight), shift)
        self.ops.append(self._loop(call.name, axes, (taps,), call.output.buffer, total))

    def panels(self, panel: int) -> None:
        """The innermost axis in panels: (..., panels, outputs of a panel), then as whole rows."""
        call = self.call
        span, lanes = call.windows.span(panel), as_expr(panel)
        out, taps = (a.extent for a in call.weights.axes)
        panels, limit = ceil_div(out, lanes), self._last_start(span)
        first = _minimum(self.at(call.starts, (_I * lanes,)), limit)
        starts = self._nest("starts", INT64, (panels,), first)
        band = self._band(starts, (panels, span, lanes), out, taps)
        shifts = self._shifts(band, (panels, span, lanes), 1)
        rows = [a.extent for a in call.output.axes[:-1]]
        tap = Axis(var("r0"), span)
        axes = numbered_axes("i", (*rows, panels, lanes))
        *lead, at, lane = (a.symbol for a in axes)
        value = self._input(starts, limit, (*lead, at), tap.symbol)
        if self.builder.dtype(call.x.buffer) != self.sums:
            # Each input is converted once, in vectors, and not for every output that reads it.
            point = [a.symbol for a in numbered_axes("i", (*rows, panels, span))]
            run = self._input(starts, limit, point[:-1], point[-1])
            runs = self._nest("runs", self.sums, (*rows, panels, span), run)
            value = self._read(runs, (*lead, at, tap.symbol))
        weight = self._read(band, (at, tap.symbol, lane))
        shift = self._read(shifts, (at, lane)) if shifts else None
        total = self.finished(binary("mul", value, weight), shift)
        shape = (*rows, panels, lanes)
        panelled = self.builder.temp(f"{call.name}_panels", self.result, shape)
        self.ops.append(self._loop(f"{call.name}_panels", axes, (tap,), panelled, total))
        axes = numbered_axes("i", (*rows, out))
        *lead, last = (a.symbol for a in axes)
        place = (*lead, FloorDiv(last, lanes), Modulo(last, lanes))
        copied = self._read(panelled, place)
        self.ops.append(self._loop(call.name, axes, (), call.output.buffer, copied))

    def _input(self, starts: str, limit: Expr, at: Sequence[Expr], tap: Expr) -> Node:
        """Input `tap` of a panel's run, as it is multiplied."""
        begin = check_index(self._read(starts, at[-1:]), limit + 1, wrap=False)
        return self.operand(self.at(self.call.x, (*at[:-1], _RUN + tap), begin))

    def _band(self, starts: str, shape: Sequence[Expr], out: Expr, taps: Expr) -> str:
        """The weights of a panel's outputs for its inputs; 0 for inputs outside of a window."""
        panel, tap, lane = (a.symbol for a in numbered_axes("i", shape))
        output = panel * shape[2] + lane
        inside: Node | None = None
        if not is_int(Modulo(out, shape[2]), 0):
            inside = binary("lt", index_value(output), index_value(out))
        begin = load(*self._named(self.call.starts), (output,), mask=inside)
        place = binary("add", self._read(starts, (panel,)), index_value(tap))
        place = binary("sub", place, begin)
        for op, bound in (("ge", const(0, INT64)), ("lt", index_value(taps))):
            test = binary(op, place, bound)
            inside = test if inside is None else binary("and", inside, test)
        weights = self._named(self.call.weights)
        weight = load(*weights, (output, _RUN), {_RUN: place}, mask=inside)
        return self._nest("band", self.sums, shape, weight)

    # ---- arithmetic ----

    @property
    def _bits(self) -> Node | None:
        return None if self.call.bits is None else self.at(self.call.bits, ())

    def operand(self, value: Node) -> Node:
        """An input element as it is multiplied."""
        value, less = cast(value, self.sums), self.call.subtract
        return binary("sub", value, const(less, self.sums)) if less else value

    def finished(self, term: Node, shift: Node | None) -> Node:
        """The sum of the terms in the result type; for bytes rounded and clamped."""
        total, bits = reduce_("sum", term), self._bits
        if bits is None:
            return cast(total, self.result)
        if shift is None:
            half = binary("shl", const(1, INT32), binary("sub", bits, const(1, INT32)))
            whole = binary("shr", binary("add", total, half), bits)
            whole = binary("maximum", whole, const(0, INT32))
            return cast(binary("minimum", whole, const(255, INT32)), self.result)
        floored = unary("floor", binary("add", total, shift))
        floored = binary("maximum", floored, const(SIGNED_LOW, FLOAT32))
        floored = binary("minimum", floored, const(SIGNED_HIGH, FLOAT32))
        more = self.call.add
        if more:
            floored = binary("add", floored, const(more, FLOAT32))
        return cast(floored, self.result)

    def _shifts(self, table: str, shape: Sequence[Expr], taps: int) -> str:
        """What is added to sums of signed bytes before rounding down; "" where there are none.

        1/2, and 128 * (the sum of the output's weights - 1) for the 128 that inputs are less.
        """
        if self._bits is None or self.sums != FLOAT32:
            return ""
        kept = [*shape[:taps], *shape[taps + 1 :]]
        axes, tap = numbered_axes("i", kept), Axis(var("r0"), shape[taps])
        at = [a.symbol for a in axes]
        weight = self._read(table, (*at[:taps], tap.symbol, *at[taps:]))
        total = reduce_("sum", cast(weight, FLOAT64))
        surplus = binary("sub", total, const(1.0, FLOAT64))
        surplus = binary("mul", surplus, const(-SIGNED_LOW, FLOAT64))
        shift = cast(binary("add", surplus, const(0.5, FLOAT64)), FLOAT32)
        name = self.builder.temp(f"{self.call.name}_shifts", FLOAT32, tuple(kept))
        self.ops.append(self._loop(name, axes, (tap,), name, shift))
        return name

    # ---- nests and reads ----

    def at(self, view: View, index: Sequence[Expr], run: Node | None = None) -> Node:
        """An element of an operand; `run`: what _RUN in the index stands for."""
        place = index_at(view, index)
        binds = {_RUN: run} if run is not None else None
        return load(view.buffer, self.builder.dtype(view.buffer), place, binds)

    def _named(self, view: View) -> tuple[str, DType]:
        return view.buffer, self.builder.dtype(view.buffer)

    def _read(self, buffer: str, index: Sequence[Expr]) -> Node:
        return load(buffer, self.builder.dtype(buffer), index)

    def _last_start(self, length: Expr) -> Expr:
        return self.call.x.axes[self.call.axis].extent - length

    def _transposed(self, table: str, out: Expr, taps: Expr) -> str:
        """The table as (taps, out), computed so: neighbouring outputs read neighbouring weights."""
        name = self.builder.temp(f"{self.call.name}_table", self.sums, (taps, out))
        nest = self.builder.nests[table]
        stores = tuple(Store(name, s.index[::-1], s.value) for s in nest.stores)
        self.ops.append(replace(nest, name=name, stores=stores))
        return name

    def _nest(self, part: str, dtype: DType, shape: Sequence[Expr], value: Node) -> str:
        """A buffer of its own for `value` at each point of `shape` (variables i0, i1, …)."""
        name = self.builder.temp(f"{self.call.name}_{part}", dtype, tuple(shape))
        self.ops.append(self._loop(name, numbered_axes("i", shape), (), name, value))
        return name

    def _loop(
        self, name: str, axes: Sequence[Axis], over: tuple[Axis, ...], buffer: str, value: Node
    ) -> LoopNest:
        store = Store(buffer, tuple(a.symbol for a in axes), value)
        return LoopNest(name, tuple(axes), over, (store,), self.call.origin)


_I = var("i0")


def index_at(view: View, index: Sequence[Expr]) -> list[Expr]:
    """A view's index where its axes are at `index`."""
    at: dict[Symbol, Expr] = dict(zip([a.symbol for a in view.axes], index, strict=True))
    return [substitute(e, at) for e in view.index]


def _minimum(a: Node, limit: Expr) -> Node:
    return binary("minimum", a, index_value(limit))
