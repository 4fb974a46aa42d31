"""What one axis of a resize is: sizes, kernel, positions; and what follows for static sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aot.ir.dtypes import FLOAT64
from aot.ir.scalar import Node, const
from aot.ir.templates.windows import AxisWindows
from aot.lowering import exprs as e
from aot.lowering.builder import GraphBuilder
from aot.lowering.promotion import size_node
from aot.symbolic import Expr, Minimum, as_expr, ceil_div

Floats = NDArray[np.float64]

MAX_PRECISION = 22
"""Eager shifts weights of bytes up by at most so many bits."""

LEAST_TOO_BIG = 1 << 15
"""Weights of bytes stay below this."""

BYTE_OFFSET = 128
"""Bytes are summed as signed numbers, which saves a bit of float32's 24."""


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


def fits_float32(resize: Resize) -> bool:
    """True when sums of signed bytes times weights never need more than float32's 24 bits.

    Windows at the edges are covered: weights that fall on one pixel there are added up, so they are
    greater, and scaled by fewer bits.
    """
    scale = resize.scale_value()
    if scale is None or not (resize.size.is_Integer and resize.out.is_Integer):
        return False
    weights = _static_weights(resize, scale)
    greatest = float(weights.max(initial=0.0)) * (1.0 - 1e-12)
    bits = sum(greatest * (1 << (k + 1)) + 0.5 < LEAST_TOO_BIG for k in range(MAX_PRECISION))
    whole = np.floor(np.abs(weights) * (1 << bits) + 0.5)
    # Rounded weights may sum to a little more than 1. With 2 taps no weight is negative, and only
    # sums of inputs near -128 then lose their last bit; they lie half a step away from where the
    # result's rounding changes, so that it does not matter.
    slack = 1 << 12 if resize.filter.taps == 2 else 0
    return bool(BYTE_OFFSET * whole.sum(axis=1).max(initial=0.0) <= (1 << 24) + slack)


def _static_weights(resize: Resize, scale: float) -> Floats:
    """Weights of all taps of all outputs, (out, taps), as if the data had no edges."""
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


def windows_of(resize: Resize) -> AxisWindows:
    """The inputs that outputs read: exactly for static sizes, bounds otherwise."""
    scale, size, out = resize.scale_value(), resize.size, resize.out
    step = as_expr(math.ceil(scale)) if scale is not None else ceil_div(size, out)
    if resize.align and scale is None:  # (size - 1) / (out - 1) may be above size / out
        step = ceil_div(size, Minimum(out, as_expr(1 << 30))) * 2
    wide = resize.filter.taps
    reach = step * wide + 1 if resize.filter.antialias else as_expr(wide)
    each: tuple[tuple[int, int], ...] = ()
    if scale is not None and size.is_Integer and out.is_Integer:
        each = tuple(_window(resize, scale, int(size), k) for k in range(int(out)))
    return AxisWindows(size, step, reach, each)


def _window(resize: Resize, scale: float, size: int, at: int) -> tuple[int, int]:
    """[first, end) of the inputs that an output reads, rounded as the lowered nests round it."""
    wide = resize.filter.taps
    if resize.filter.antialias:
        center, support = scale * (at + 0.5), max(scale, 1.0) * (wide * 0.5)
        first, end = max(int(center - support + 0.5), 0), min(int(center + support + 0.5), size)
        return first, max(end, first)
    real = scale * at if resize.align else scale * (at + 0.5) - 0.5
    real = real if wide > 2 else max(real, 0.0)
    base = min(math.floor(np.float32(real)), size - 1) - (wide // 2 - 1)
    return min(max(base, 0), size - 1), min(max(base + wide, 1), size)
