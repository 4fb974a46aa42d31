"""Resizing along one axis as a weighted sum of neighbours, with all weights in small tables.

A resize is separable: the innermost axis first, then the others, each a pass of its own over the
data. What a pass needs for each output position, where its taps begin and their weights, is
computed in nests over (positions, taps) that read no data. With static sizes they depend on nothing
and are folded when the package is built; no pixel ever computes a weight.

The innermost axis is done in panels of up to LANES outputs. A panel reads one contiguous run of
inputs, `span` long, and its weights are a small dense band (span, panel): each input is a scalar
that meets a panel of weights, contiguous in memory. That is several times more multiplications than
taps, and still far cheaper than gathering each tap of each output.

Tables are computed in float64, as eager does for bytes; floats get weights rounded once. Bytes use
eager's fixed point: weights scaled by a power of two that their maximum just allows in 16 bits, and
results equal eager's to the last bit. Where all sums fit in float32's 24 bits they are computed
there, exactly: machines multiply floats faster than integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aot.ir.dtypes import FLOAT32, FLOAT64, INT32, INT64, UINT8, DType
from aot.ir.scalar import Node, cast, const, reduce_
from aot.lowering import exprs as e
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.promotion import size_node
from aot.symbolic import Expr, FloorDiv, Minimum, Modulo, as_expr, ceil_div, is_int

Shape = tuple[Expr, ...]
Floats = NDArray[np.float64]

LANES = 16
"""Greatest panel: one vector of float32 on the widest machines."""

LEAST_PANEL = 8
"""Least panel of a size that it divides; other sizes are padded to whole panels of LANES."""

_MAX_PRECISION = 22
_LEAST_TOO_BIG = 1 << 15


@dataclass(frozen=True)
class Filter:
    """An interpolation kernel: `taps` neighbours at scale 1; cubic ones have the parameter `a`."""

    taps: int
    antialias: bool
    a: float = 0.0

    def values(self, x: Floats) -> Floats:
        """The kernel at distances x, for deciding at packaging time."""
        x, a = np.abs(x), self.a
        if self.taps == 2:
            return np.where(x < 1.0, 1.0 - x, 0.0)
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x < 1.0, ((a + 2) * x - (a + 3)) * x * x + 1, np.where(x < 2.0, far, 0.0))

    def weight(self, x: Node) -> Node:
        """The kernel at distance x, float64."""
        x = e.absolute(x)
        if self.taps == 2:
            return e.select(e.lt(x, 1.0), e.sub(1.0, x), 0.0)
        a = self.a
        near = e.add(e.mul(e.mul(e.sub(e.mul(x, a + 2), a + 3), x), x), 1.0)
        far = e.sub(e.mul(e.add(e.mul(e.sub(e.mul(x, a), 5 * a), x), 8 * a), x), 4 * a)
        return e.select(e.lt(x, 1.0), near, e.select(e.lt(x, 2.0), far, 0.0))


@dataclass(frozen=True)
class Resize:
    """One axis's resize: sizes, kernel, and how output positions map to input positions.

    `given`: the caller's scale factor (output over input), which counts instead of the sizes.
    """

    size: Expr
    out: Expr
    filter: Filter
    align: bool
    given: float | None

    @property
    def identity(self) -> bool:
        """True when the axis stays as it is."""
        same = self.filter.antialias or self.filter.taps == 2 or self.scale_value() in (None, 1.0)
        return self.size == self.out and same

    def scale_value(self) -> float | None:
        """Input steps for an output step; None when it depends on an input's size."""
        if not self.align and self.given is not None and self.given > 0:
            return 1.0 / self.given
        if not (self.size.is_Integer and self.out.is_Integer):
            return None
        size, out = int(self.size), int(self.out)
        if self.align:
            return (size - 1) / (out - 1) if out > 1 else 0.0
        return size / out

    @property
    def panel(self) -> int:
        """Outputs of a panel: the divisor of the size that wastes least, or LANES with padding.

        Panels that divide the size let later passes go panel by panel too. A panel of d outputs
        costs as many vectors as its run has inputs, about d * scale + taps.
        """
        scale = self.scale_value()
        if scale is None or not self.out.is_Integer:
            return LANES
        sizes = [d for d in range(LEAST_PANEL, LANES + 1) if int(self.out) % d == 0]
        taps = self.filter.taps * max(scale, 1.0)
        return min(sizes, key=lambda d: (d * scale + taps) / d, default=LANES)

    def scale(self, builder: GraphBuilder) -> Node:
        """The same as a node, float64."""
        known = self.scale_value()
        if known is not None:
            return const(known, FLOAT64)
        size = size_node(builder, self.size, FLOAT64)
        out = size_node(builder, self.out, FLOAT64)
        if not self.align:
            return e.div(size, out)
        return e.select(e.gt(out, 1.0), e.div(e.sub(size, 1.0), e.sub(out, 1.0)), 0.0)

    def source(self, builder: GraphBuilder, at: Expr) -> Node:
        """The input position of an output position, without antialiasing; float64."""
        position = size_node(builder, at, FLOAT64)
        if self.align:
            return e.mul(self.scale(builder), position)
        real = e.sub(e.mul(self.scale(builder), e.add(position, 0.5)), 0.5)
        return real if self.filter.taps > 2 else e.maximum(real, 0.0)


@dataclass(frozen=True)
class Axis:
    """The tables of one axis. Weights beyond a window are 0, and runs always lie in the data.

    `first`: (out,), the first input of each output's window. `weigh`: the weight of an input
    position for an output position, float64. `taps`, `span`: inputs that one output, or one panel
    of outputs, reads at most. `bits`: () for bytes, the power of two of the weights. `sums`: the
    type that products are added in.
    """

    resize: Resize
    first: Tensor
    weigh: Callable[[Node, Expr, Node | None], Node]
    taps: Expr
    span: Expr
    bits: Tensor | None
    sums: DType

    def quantised(self, weight: Node) -> Node:
        """A weight as it is multiplied: for bytes rounded to a fraction of `bits` bits.

        In int32 that is the fraction's numerator; in float32 the fraction itself, which is exact.
        """
        if self.bits is None:
            return cast(weight, self.sums)
        power = cast(e.shl(const(1, INT32), self.bits.load(())), FLOAT64)
        scaled = e.mul(weight, power)
        whole = e.trunc(e.add(scaled, e.copysign(0.5, scaled)))
        return cast(whole if self.sums == INT32 else e.div(whole, power), self.sums)

    def finished(self, term: Node, result: DType) -> Node:
        """The sum of the terms in the pass's result type; for bytes rounded and clamped."""
        total = reduce_("sum", term)
        if self.bits is None:
            return cast(total, result)
        if self.sums == INT32:
            bits = self.bits.load(())
            half = e.shl(const(1, INT32), e.sub(bits, 1))
            return cast(e.clamp(e.shr(e.add(total, half), bits), 0, 255), result)
        return cast(e.clamp(e.floor(e.add(total, 0.5)), 0.0, 255.0), result)


def make_axis(builder: GraphBuilder, resize: Resize, dtype: DType) -> Axis:
    """The tables of an axis for data of `dtype`."""
    made = _antialiased(builder, resize) if resize.filter.antialias else _plain(builder, resize)
    first, weigh, greatest = made
    taps, span = extents(resize)
    if dtype != UINT8:
        return Axis(resize, first, weigh, taps, span, None, dtype.compute)
    bits = _precision(builder, greatest(taps))
    sums = FLOAT32 if _fits_float32(resize) else INT32
    return Axis(resize, first, weigh, taps, span, bits, sums)


Weigh = Callable[[Node, Expr, Node | None], Node]
Greatest = Callable[[Expr], Tensor]


def _plain(builder: GraphBuilder, resize: Resize) -> tuple[Tensor, Weigh, Greatest]:
    """Without antialiasing: `taps` neighbours; those outside of the data stand for the edge."""
    taps = resize.filter.taps
    last = builder.index_node(resize.size - 1)

    def base(at: Shape) -> Node:
        # Eager's floorf narrows to float32 first; what that moves, the fraction makes good.
        whole = e.floor(cast(resize.source(builder, at[0]), FLOAT32))
        return e.sub(e.minimum(cast(whole, INT64), last), taps // 2 - 1)

    def fraction(at: Shape) -> Node:
        index = cast(e.add(base(at), taps // 2 - 1), FLOAT64)
        return e.clamp(e.sub(resize.source(builder, at[0]), index), 0.0, 1.0)

    def clamped(at: Shape) -> Node:
        return e.clamp(base(at), 0, last)

    outputs = [(INT64, base), (FLOAT64, fraction), (INT64, clamped)]
    bases, fractions, first = builder.pointwise_many((resize.out,), outputs)

    def taps_at(at: Expr, mask: Node | None) -> list[tuple[Node, Node]]:
        """(position in the data, weight) of each tap."""
        begin, part = bases.load((at,), mask), fractions.load((at,), mask)
        found = []
        for j in range(taps):
            distance = e.sub(float(j + 1 - taps // 2), part)
            place = e.clamp(e.add(begin, j), 0, last)
            found.append((place, resize.filter.weight(distance)))
        return found

    def weigh(position: Node, at: Expr, mask: Node | None) -> Node:
        total = const(0.0, FLOAT64)
        for place, weight in taps_at(at, mask):
            total = e.add(total, e.select(e.eq(place, position), weight, 0.0))
        return total

    def greatest(_: Expr) -> Tensor:
        def body(at: Shape, r: Shape) -> Node:
            found = taps_at(r[0], None)
            best = const(0.0, FLOAT64)
            for j, (place, _) in enumerate(found):  # eager looks at sums as they grow
                terms = [e.select(e.eq(p, place), w, 0.0) for p, w in found[: j + 1]]
                total = terms[0]
                for term in terms[1:]:
                    total = e.add(total, term)
                best = e.maximum(best, total)
            return reduce_("max", best)

        return builder.reduction((), (resize.out,), [(FLOAT64, body)])[0]

    return first, weigh, greatest


def _antialiased(builder: GraphBuilder, resize: Resize) -> tuple[Tensor, Weigh, Greatest]:
    """With antialiasing: the kernel is stretched by the scale, cut off at the edges, normalised."""
    scale = resize.scale(builder)
    stretch = e.maximum(scale, 1.0)
    support = e.mul(stretch, resize.filter.taps * 0.5)
    inverse = e.div(1.0, stretch)
    size = builder.index_node(resize.size)

    def center(at: Expr) -> Node:
        return e.mul(scale, e.add(size_node(builder, at, FLOAT64), 0.5))

    def first_of(at: Shape) -> Node:
        low = cast(e.add(e.sub(center(at[0]), support), 0.5), INT64)
        return e.maximum(low, 0)

    def end_of(at: Shape) -> Node:
        high = cast(e.add(e.add(center(at[0]), support), 0.5), INT64)
        return e.minimum(high, size)

    outputs = [(INT64, first_of), (INT64, end_of)]
    first, end = builder.pointwise_many((resize.out,), outputs)

    def raw(position: Node, at: Expr, mask: Node | None) -> Node:
        away = e.add(e.sub(cast(position, FLOAT64), center(at)), 0.5)
        inside = e.and_(
            e.ge(position, first.load((at,), mask)), e.lt(position, end.load((at,), mask))
        )
        return e.select(inside, resize.filter.weight(e.mul(away, inverse)), 0.0)

    def summed(at: Shape, r: Shape) -> Node:
        position = e.add(first.load(at), builder.index_node(r[0]))
        return reduce_("sum", raw(position, at[0], None))

    taps, _ = extents(resize)
    total = builder.reduction((resize.out,), (taps,), [(FLOAT64, summed)])[0]

    def weigh(position: Node, at: Expr, mask: Node | None) -> Node:
        by = total.load((at,), mask)
        plain = raw(position, at, mask)
        return e.select(e.ne(by, 0.0), e.div(plain, by), plain)

    def greatest(taps: Expr) -> Tensor:
        def body(at: Shape, r: Shape) -> Node:
            position = e.add(first.load((r[0],)), builder.index_node(r[1]))
            return reduce_("max", e.maximum(weigh(position, r[0], None), 0.0))

        return builder.reduction((), (resize.out, taps), [(FLOAT64, body)])[0]

    return first, weigh, greatest


def _precision(builder: GraphBuilder, greatest: Tensor) -> Tensor:
    """How many bits a weight may be shifted up, so that the greatest still fits in 16 bits."""

    def body(at: Shape) -> Node:
        total = const(0, INT32)
        for bits in range(_MAX_PRECISION):
            next_ = cast(e.add(e.mul(greatest.load(()), float(1 << (bits + 1))), 0.5), INT64)
            total = e.add(total, cast(e.lt(next_, _LEAST_TOO_BIG), INT32))
        return total

    return builder.pointwise((), INT32, body)


def _fits_float32(resize: Resize) -> bool:
    """True when sums of bytes times weights are exact in float32: below 24 bits, always.

    Edges need no look: weights that meet there are added up, which only lowers the precision.
    """
    scale = resize.scale_value()
    if scale is None or not (resize.size.is_Integer and resize.out.is_Integer):
        return False
    weights = _static_weights(resize, scale)
    greatest = float(weights.max(initial=0.0)) * (1.0 - 1e-12)
    bits = sum(greatest * (1 << (k + 1)) + 0.5 < _LEAST_TOO_BIG for k in range(_MAX_PRECISION))
    whole = np.ceil(np.abs(weights) * (1 << bits))
    return bool(255.0 * whole.sum(axis=1).max(initial=0.0) + (1 << bits) < 1 << 24)


def _static_weights(resize: Resize, scale: float) -> Floats:
    """Weights of all taps of all outputs: (out, taps), before the edges are seen to."""
    at = np.arange(int(resize.out), dtype=np.float64)[:, None]
    wide = resize.filter.taps
    if resize.filter.antialias:
        stretch = max(scale, 1.0)
        center = scale * (at + 0.5)
        steps = np.arange(math.ceil(stretch * wide) + 2)
        places = np.floor(center - stretch * wide / 2) + steps
        weights = resize.filter.values((places - center + 0.5) / stretch)
        total: Floats = weights.sum(axis=1, keepdims=True)
        return np.divide(weights, total)
    real = scale * at if resize.align else scale * (at + 0.5) - 0.5
    real = real if wide > 2 else np.maximum(real, 0.0)
    return resize.filter.values(np.arange(wide) + 1 - wide // 2 - (real - np.floor(real)))


def extents(resize: Resize) -> tuple[Expr, Expr]:
    """(taps, span): exact for static sizes, upper bounds otherwise; never more than the data."""
    scale = resize.scale_value()
    if scale is not None and resize.size.is_Integer and resize.out.is_Integer:
        taps, span = _static_extents(resize, scale)
        return as_expr(taps), as_expr(span)
    whole = as_expr(math.ceil(scale)) if scale is not None else ceil_div(resize.size, resize.out)
    if resize.align and scale is None:  # (size - 1) / (out - 1) may be above size / out
        whole = ceil_div(resize.size, Minimum(resize.out, as_expr(1 << 30))) * 2
    wide = resize.filter.taps
    bound = whole * wide + 1 if resize.filter.antialias else as_expr(wide)
    span = whole * resize.panel + bound
    return Minimum(bound, resize.size), Minimum(span, resize.size)


def _static_extents(resize: Resize, scale: float) -> tuple[int, int]:
    size, out = int(resize.size), int(resize.out)
    windows = [_window(resize, scale, size, k) for k in range(out)]
    taps = max((end - first for first, end in windows), default=1)
    panels = [windows[k : k + resize.panel] for k in range(0, out, resize.panel)]
    span = max((max(e for _, e in p) - p[0][0] for p in panels), default=1)
    return min(max(taps, 1), size), min(max(span, 1), size)


def _window(resize: Resize, scale: float, size: int, at: int) -> tuple[int, int]:
    """First input and the one after the last that an output reads: the nodes' arithmetic."""
    wide = resize.filter.taps
    if resize.filter.antialias:
        center, support = scale * (at + 0.5), max(scale, 1.0) * (wide * 0.5)
        first, end = max(int(center - support + 0.5), 0), min(int(center + support + 0.5), size)
        return first, max(end, first)
    real = scale * at if resize.align else scale * (at + 0.5) - 0.5
    real = real if wide > 2 else max(real, 0.0)
    base = min(math.floor(np.float32(real)), size - 1) - (wide // 2 - 1)
    return min(max(base, 0), size - 1), min(max(base + wide, 1), size)


def inner_pass(x: Tensor, axis: Axis, result: DType) -> Tensor:
    """x resized along its last axis, in panels: (..., panels, outputs of a panel)."""
    builder, out = x.builder, axis.resize.out
    lanes = axis.resize.panel
    panels = ceil_div(out, lanes)
    limit = axis.resize.size - axis.span
    padded = not is_int(Modulo(out, as_expr(lanes)), 0)

    def start(at: Shape) -> Node:
        return e.minimum(axis.first.load((at[0] * lanes,)), builder.index_node(limit))

    starts = builder.pointwise((panels,), INT64, start)

    def weight(at: Shape) -> Node:
        panel, tap, lane = at
        position = e.add(starts.load((panel,)), builder.index_node(tap))
        output = panel * lanes + lane
        if not padded:
            return axis.quantised(axis.weigh(position, output, None))
        mask = e.lt(builder.index_node(output), builder.index_node(out))
        return axis.quantised(e.select(mask, axis.weigh(position, output, mask), 0.0))

    band = builder.pointwise((panels, axis.span, as_expr(lanes)), axis.sums, weight)

    def input_of(rows: Shape, panel: Expr, tap: Expr) -> Node:
        run = builder.indirect(starts.load((panel,)), limit + 1, wrap=False)
        return cast(x.load((*rows, run + tap)), axis.sums)

    rows = x.shape[:-1]
    if x.dtype != axis.sums:  # converted once, by vectors, not again for each panel's lane
        shape = (*rows, panels, axis.span)
        runs = builder.pointwise(shape, axis.sums, lambda at: input_of(at[:-2], at[-2], at[-1]))

    def body(at: Shape, r: Shape) -> Node:
        panel, lane = at[-2:]
        same = x.dtype == axis.sums
        value = input_of(at[:-2], panel, r[0]) if same else runs.load((*at[:-1], r[0]))
        return axis.finished(e.mul(value, band.load((panel, r[0], lane))), result)

    shape = (*rows, panels, as_expr(lanes))
    return builder.reduction(shape, (axis.span,), [(result, body)])[0]


def outer_pass(x: Tensor, axis: Axis, position: int, result: DType) -> Tensor:
    """x resized along the axis at `position`."""
    builder = x.builder
    resize = axis.resize
    limit = resize.size - axis.taps

    def start(at: Shape) -> Node:
        return e.minimum(axis.first.load(at), builder.index_node(limit))

    starts = builder.pointwise((resize.out,), INT64, start)

    def weight(at: Shape) -> Node:
        place = e.add(starts.load(at[:1]), builder.index_node(at[1]))
        return axis.quantised(axis.weigh(place, at[0], None))

    table = builder.pointwise((resize.out, axis.taps), axis.sums, weight)

    def body(at: Shape, r: Shape) -> Node:
        here = at[position]
        run = builder.indirect(starts.load((here,)), limit + 1, wrap=False)
        index = (*at[:position], run + r[0], *at[position + 1 :])
        value = cast(x.load(index), axis.sums)
        return axis.finished(e.mul(value, table.load((here, r[0]))), result)

    shape = (*x.shape[:position], resize.out, *x.shape[position + 1 :])
    return builder.reduction(shape, (axis.taps,), [(result, body)])[0]


def unpanelled(x: Tensor, out: Expr, dtype: DType) -> Tensor:
    """The rows of panels (..., panels, lanes) as rows of `out` elements, in `dtype`."""
    shape, lanes = (*x.shape[:-2], out), x.shape[-1]

    def body(at: Shape) -> Node:
        return cast(x.load((*at[:-1], FloorDiv(at[-1], lanes), Modulo(at[-1], lanes))), dtype)

    return x.builder.pointwise(shape, dtype, body)
