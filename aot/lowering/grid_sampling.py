"""grid_sample: an image read at coordinates that a tensor gives, interpolated between pixels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from aot.ir.dtypes import FLOAT64, INT32, INT64
from aot.ir.scalar import Node, cast, unary, where
from aot.lowering import exprs as e
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.pointwise import narrow
from aot.lowering.promotion import size_node
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr

_LINEAR, _NEAREST, _CUBIC = 0, 1, 2
_ZEROS, _REFLECTION = 0, 2  # 1, the border, is what is left
_SHARPNESS = -0.75
"""The cubic kernel's parameter (Keys 1981), as torch has it."""


@dataclass(frozen=True)
class _Tap:
    """A pixel position along one dimension: index, whether it is inside, and its weight."""

    index: Expr
    inside: Node
    weight: Node


@dataclass(frozen=True)
class _Axis:
    """One dimension of the image, and how coordinates are mapped to it."""

    builder: GraphBuilder
    size: Expr
    padding: int
    align: bool

    def pixels(self, coordinate: Node) -> Node:
        """A coordinate in [-1, 1] in units of pixels."""
        size = size_node(self.builder, self.size, coordinate.dtype)
        if self.align:
            return e.mul(e.div(e.add(coordinate, 1.0), 2.0), e.sub(size, 1.0))
        return e.div(e.sub(e.mul(e.add(coordinate, 1.0), size), 1.0), 2.0)

    def padded(self, place: Node) -> Node:
        """A place in pixels, moved inside as the padding mode says."""
        if self.padding == _ZEROS:
            return place
        size = size_node(self.builder, self.size, place.dtype)
        if self.padding == _REFLECTION:
            place = self._reflected(place, size)
        return e.clamp(place, 0.0, e.sub(size, 1.0))

    def _reflected(self, place: Node, size: Node) -> Node:
        low = 0.0 if self.align else -0.5
        span = e.sub(size, 1.0) if self.align else size
        distance = e.absolute(e.sub(place, low))
        rest = e.fmod(distance, span)
        odd = e.ne(e.fmod(e.floor(e.div(distance, span)), 2.0), 0.0)
        turned = e.add(e.select(odd, e.sub(span, rest), rest), low)
        return e.select(e.eq(span, 0.0), 0.0, turned)

    def tap(self, place: Node, weight: Node) -> _Tap:
        """The pixel at a whole place (NaN is outside)."""
        size = size_node(self.builder, self.size, place.dtype)
        inside = e.and_(e.ge(place, 0.0), e.lt(place, size))
        at = e.select(inside, place, 0.0)
        # float32 names no pixel beyond 32 bits, whose numbers processors convert by the vector.
        if at.dtype != FLOAT64:
            at = cast(at, INT32)
        index = self.builder.indirect(cast(at, INT64), self.size, wrap=False)
        return _Tap(index, inside, weight)


def _linear(axis: _Axis, coordinate: Node) -> list[_Tap]:
    place = axis.padded(axis.pixels(coordinate))
    low = e.floor(place)
    high = e.add(low, 1.0)
    return [axis.tap(low, e.sub(high, place)), axis.tap(high, e.sub(place, low))]


def _nearest(axis: _Axis, coordinate: Node) -> list[_Tap]:
    place = unary("round", axis.padded(axis.pixels(coordinate)))
    return [axis.tap(place, e.lift(1.0, place))]


def _cubic(axis: _Axis, coordinate: Node) -> list[_Tap]:
    place = axis.pixels(coordinate)
    low = e.floor(place)
    t = e.sub(place, low)
    s = e.sub(1.0, t)
    weights = [_far(e.add(t, 1.0)), _near(t), _near(s), _far(e.add(s, 1.0))]
    return [
        axis.tap(axis.padded(e.add(low, float(k - 1))), weight) for k, weight in enumerate(weights)
    ]


def _near(x: Node) -> Node:
    """The kernel at a distance of at most 1."""
    a = _SHARPNESS
    inner = e.sub(e.mul(x, a + 2.0), a + 3.0)
    return e.add(e.mul(e.mul(inner, x), x), 1.0)


def _far(x: Node) -> Node:
    """The kernel at a distance between 1 and 2."""
    a = _SHARPNESS
    inner = e.add(e.mul(e.sub(e.mul(x, a), 5.0 * a), x), 8.0 * a)
    return e.sub(e.mul(inner, x), 4.0 * a)


_MODES: dict[int, Callable[[_Axis, Node], list[_Tap]]] = {
    _LINEAR: _linear,
    _NEAREST: _nearest,
    _CUBIC: _cubic,
}


@REGISTRY.row("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sampler(
    call: Call, x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool
) -> Tensor:
    """x (n, c, …) at the places that grid (n, …, d) names, its last dimension from x to z.

    Raises:
        CannotLower: The interpolation is cubic and x a volume.
    """
    if x.rank == 5 and mode == _CUBIC:
        raise CannotLower("cubic interpolation of volumes")
    builder, result = call.builder, call.result_type()
    compute = x.dtype.compute
    axes = [_Axis(builder, size, padding, align_corners) for size in x.shape[2:]]

    def point(index: tuple[Expr, ...]) -> Node:
        n, channel, *places = index
        count = len(axes)

        def coordinate(k: int) -> Node:
            last = builder.zero + (count - 1 - k)
            return cast(grid.load((n, *places, last)), compute)

        taps = [_MODES[mode](axis, coordinate(k)) for k, axis in enumerate(axes)]
        terms = [_term(x, (n, channel), chosen) for chosen in itertools.product(*taps)]
        return narrow(reduce(e.add, terms), result.dtype)

    return builder.pointwise(result.shape, result.dtype, point)


def _term(x: Tensor, lead: tuple[Expr, ...], taps: Sequence[_Tap]) -> Node:
    inside = reduce(e.and_, (tap.inside for tap in taps))
    weight = reduce(e.mul, (tap.weight for tap in taps))
    value = cast(x.load((*lead, *(tap.index for tap in taps)), inside), x.dtype.compute)
    return where(inside, e.mul(value, weight), e.lift(0.0, weight))
