"""Resizing along one axis as a weighted sum of neighbours, with all weights in small tables.

A resize is separable: the innermost axis first, then the others, each a pass of its own over the
data. What a pass needs for each output position, where its taps begin and their weights, is
computed in nests over (positions, taps) that read no data. With static sizes they depend on nothing
and are folded when the package is built; no pixel ever computes a weight.

A pass is a template call of kind resample. What nests it becomes depends on the device.

Tables are computed in float64, as eager does for bytes; floats get weights rounded once. Bytes use
eager's fixed point: weights scaled by a power of two that their maximum just allows in 16 bits, and
results equal eager's to the last bit. Where all sums fit in float32's 24 bits they are computed
there, exactly: machines multiply floats faster than integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from aot.ir.dtypes import FLOAT32, FLOAT64, INT32, INT64, UINT8, DType
from aot.ir.scalar import Node, cast, const, reduce_
from aot.ir.templates.resample import Resample
from aot.ir.templates.windows import AxisWindows
from aot.lowering import exprs as e
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.lowering.interpolation import (
    BYTE_OFFSET,
    LEAST_TOO_BIG,
    MAX_PRECISION,
    Resize,
    fits_float32,
    windows_of,
)
from aot.lowering.promotion import size_node
from aot.symbolic import Expr

Shape = tuple[Expr, ...]


@dataclass(frozen=True)
class ResampledAxis:
    """The tables of one axis. Weights beyond a window are 0, and runs always lie in the data.

    `first`: (out,), the first input of each output's window. `weigh`: the weight of an input
    position for an output position, float64. `windows`: the inputs that outputs read. `bits`: ()
    for bytes, the power of two of the weights. `sums`: the type that products are added in.
    """

    resize: Resize
    first: Tensor
    weigh: Callable[[Node, Expr, Node | None], Node]
    windows: AxisWindows
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

    @property
    def signed(self) -> bool:
        """True for bytes in float32: they are summed, and passed on, less BYTE_OFFSET."""
        return self.bits is not None and self.sums == FLOAT32


def sums_of(resizes: Iterable[Resize], dtype: DType) -> DType:
    """The type that products are added in along all axes of a resize of `dtype`.

    One for all: a device's template that walks two axes at once has weights of one type.
    """
    if dtype != UINT8:
        return dtype.compute
    return FLOAT32 if all(map(fits_float32, resizes)) else INT32


def make_axis(builder: GraphBuilder, resize: Resize, dtype: DType, sums: DType) -> ResampledAxis:
    """The tables of an axis for data of `dtype`, whose products are added in `sums`."""
    made = _antialiased(builder, resize) if resize.filter.antialias else _plain(builder, resize)
    first, weigh, greatest = made
    windows = windows_of(resize)
    if dtype != UINT8:
        return ResampledAxis(resize, first, weigh, windows, None, sums)
    bits = _precision(builder, greatest(windows.taps))
    return ResampledAxis(resize, first, weigh, windows, bits, sums)


Weigh = Callable[[Node, Expr, Node | None], Node]
Greatest = Callable[[Expr], Tensor]


def _plain(builder: GraphBuilder, resize: Resize) -> tuple[Tensor, Weigh, Greatest]:
    """Without antialiasing: `taps` neighbours; those outside of the data stand for the edge."""
    taps = resize.filter.taps
    last = builder.index_node(resize.size - 1)

    def base(at: Shape) -> Node:
        # Eager rounds to float32 before the floor; where that reaches the next integer, the
        # fraction below, of the unrounded position, is clamped to 0.
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
            for j, (place, _) in enumerate(found):  # as eager: the greatest partial sum
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

    taps = windows_of(resize).taps
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
        for bits in range(MAX_PRECISION):
            next_ = cast(e.add(e.mul(greatest.load(()), float(1 << (bits + 1))), 0.5), INT64)
            total = e.add(total, cast(e.lt(next_, LEAST_TOO_BIG), INT32))
        return total

    return builder.pointwise((), INT32, body)


def resample(x: Tensor, axis: ResampledAxis, position: int, result: DType) -> Tensor:
    """x resized along the axis at `position`."""
    builder, resize = x.builder, axis.resize
    starts, weights = tables(builder, axis)
    call = partial(
        Resample,
        x=identity_view(x),
        starts=identity_view(starts),
        weights=identity_view(weights),
        axis=position,
        windows=axis.windows,
        subtract=BYTE_OFFSET if axis.signed and x.dtype == UINT8 else 0,
        add=BYTE_OFFSET if axis.signed and result == UINT8 else 0,
        bits=None if axis.bits is None else identity_view(axis.bits),
    )
    shape = (*x.shape[:position], resize.out, *x.shape[position + 1 :])
    return builder.template(call, shape, result)


def tables(builder: GraphBuilder, axis: ResampledAxis) -> tuple[Tensor, Tensor]:
    """Where each output's run of inputs starts, (out,) int64, and its weights, (out, taps)."""
    resize = axis.resize
    limit = resize.size - axis.windows.taps

    def start(at: Shape) -> Node:
        return e.minimum(axis.first.load(at), builder.index_node(limit))

    starts = builder.pointwise((resize.out,), INT64, start)

    def weight(at: Shape) -> Node:
        place = e.add(starts.load(at[:1]), builder.index_node(at[1]))
        return axis.quantised(axis.weigh(place, at[0], None))

    return starts, builder.pointwise((resize.out, axis.windows.taps), axis.sums, weight)
