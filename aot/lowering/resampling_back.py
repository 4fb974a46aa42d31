"""Gradients along one axis of resizing and of means of shares: resizes by the same weights, turned.

An input element gets something of every result whose window holds it. Windows move along the axis
in even steps, so these results are neighbours, and few: as many as a window is wide, in steps. So
the gradient is itself a weighted sum of neighbours. Where its run of results starts is computed
from the sizes; its weights are those by which the results read it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from aot.ir.dtypes import FLOAT64, INT64, DType
from aot.ir.scalar import Node, cast, const
from aot.ir.templates.resample import Resample
from aot.ir.templates.windows import AxisWindows
from aot.lowering import exprs as e
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.lowering.interpolation import Resize
from aot.lowering.promotion import size_node
from aot.lowering.resampling import ResampledAxis, tables
from aot.symbolic import Expr, FloorDiv, as_expr, ceil_div

Shape = tuple[Expr, ...]

_SLACK = 1e-3
"""Results that a rounded start may be off by: a run begins so much earlier, and is longer by it."""


def spread(grad: Tensor, axis: ResampledAxis, position: int, result: DType) -> Tensor:
    """What the inputs of an antialiased resize get of its results `grad`, along one axis.

    Args:
        grad: What each result was given; along `position` it has the resize's outputs.
        axis: The tables of the resize.
        position: The axis of `grad` that was resized.
        result: The element type of the gradient, whose size along `position` is the resize's.
    """
    builder, resize = grad.builder, axis.resize
    starts, weights = tables(builder, axis)
    taps = axis.windows.taps

    def weight(reader: Expr, at: Expr) -> Node:
        place = e.sub(builder.index_node(at), starts.load((reader,)))
        held = e.and_(e.ge(place, 0), e.lt(place, builder.index_node(taps)))
        within = e.clamp(place, 0, builder.index_node(taps - 1))
        found = weights.load((reader, builder.indirect(within, taps, wrap=False)))
        return e.select(held, found, 0.0)

    first = partial(_first_reader, builder, resize)
    return _gathered(grad, position, resize.size, _readers(resize), (first, weight), result)


def spread_shares(grad: Tensor, position: int, size: Expr, result: DType) -> Tensor:
    """What the inputs of a mean of shares get of its results `grad`, along one axis of `size`.

    A share s holds the elements from floor(s * size / shares) up to ceil((s + 1) * size / shares),
    so an element is held by the shares from floor(i * shares / size) up to
    ceil((i + 1) * shares / size): the same of the other sizes.
    """
    builder, shares = grad.builder, grad.shape[position]
    wide = grad.dtype.compute

    def first(at: Expr) -> Node:
        return builder.index_node(FloorDiv(at * shares, size))

    def weight(share: Expr, at: Expr) -> Node:
        begin, end = FloorDiv(share * size, shares), ceil_div((share + 1) * size, shares)
        low, high, here = (builder.index_node(x) for x in (begin, end, at))
        held = e.and_(e.le(low, here), e.lt(here, high))
        return e.select(held, e.div(const(1.0, wide), cast(e.sub(high, low), wide)), 0.0)

    reach = ceil_div(shares, size)
    windows = AxisWindows(shares, reach, reach + 1)
    return _gathered(grad, position, size, windows, (first, weight), result)


TurnedWeights = tuple[Callable[[Expr], Node], Callable[[Expr, Expr], Node]]
"""Of an input: the first result that may read it. Of a result and an input: how much it takes."""


def _gathered(
    grad: Tensor, position: int, size: Expr, windows: AxisWindows, how: TurnedWeights, result: DType
) -> Tensor:
    """The weighted sums, for each of `size` inputs over a run of results."""
    builder, (first, weigh) = grad.builder, how
    limit = builder.index_node(windows.size - windows.taps)
    starts = builder.pointwise((size,), INT64, lambda at: e.clamp(first(at[0]), 0, limit))

    def weight(at: Shape) -> Node:
        place = e.add(starts.load(at[:1]), builder.index_node(at[1]))
        return weigh(builder.indirect(place, windows.size, wrap=False), at[0])

    weights = builder.pointwise((size, windows.taps), grad.dtype.compute, weight)
    call = partial(
        Resample,
        x=identity_view(grad),
        starts=identity_view(starts),
        weights=identity_view(weights),
        axis=position,
        windows=windows,
    )
    shape = (*grad.shape[:position], size, *grad.shape[position + 1 :])
    return builder.template(call, shape, result)


def _first_reader(builder: GraphBuilder, resize: Resize, at: Expr) -> Node:
    """No later than the first result that reads an input, and by less than two earlier.

    A result r reads what lies less than the support away from its center, scale * (r + 1/2).
    """
    scale = resize.scale(builder)
    support = e.mul(e.maximum(scale, 1.0), resize.filter.taps * 0.5)
    low = e.sub(e.add(size_node(builder, at, FLOAT64), 0.5), support)
    # A scale of 0: corners that are one point, from which all results read.
    some = e.gt(scale, 0.0)
    first = e.sub(e.div(low, e.select(some, scale, 1.0)), 0.5 + _SLACK)
    return cast(e.select(some, e.floor(first), 0.0), INT64)


def _readers(resize: Resize) -> AxisWindows:
    """Which results read each input, as bounds: a window's width in steps, and the rounding."""
    scale, size, out = resize.scale_value(), resize.size, resize.out
    wide = resize.filter.taps
    if scale is not None and scale > 0:
        step = as_expr(math.ceil(1 / scale))
        reach = as_expr(math.ceil(wide * max(1.0, 1 / scale)) + 2)
    elif scale is not None:
        step = reach = out
    else:
        step = ceil_div(out, size)
        if resize.align:  # (out - 1) / (size - 1) may be above out / size
            step = step * 2
        reach = step * wide + 2
    return AxisWindows(out, step, reach)
