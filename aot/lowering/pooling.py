"""Pooling: reductions over windows, of one to three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from aot.ir.dtypes import INT64, DType
from aot.ir.scalar import Node, binary, cast, const, reduce_
from aot.lowering import exprs as e
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.registry import Call, SeveralResults
from aot.lowering.resampling_back import spread_shares
from aot.lowering.rows import REGISTRY
from aot.symbolic import (
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    as_expr,
    ceil_div,
    is_int,
)

Shape = tuple[Expr, ...]
SizePerDim = Sequence[int | Expr] | int | Expr


@dataclass(frozen=True)
class Window:
    """Where one dimension's window lies: `kernel` taps, `dilation` apart, moving by `stride`."""

    size: Expr
    out: Expr
    kernel: Expr
    stride: Expr
    padding: Expr
    dilation: Expr

    def first(self, at: Expr) -> Expr:
        """Position of the first tap; before the data by up to `padding`."""
        return as_expr(0) - self.padding if is_int(self.out, 1) else at * self.stride - self.padding

    def position(self, at: Expr, tap: Expr) -> Expr:
        """Position of a tap."""
        return self.first(at) + tap * self.dilation

    def end(self, at: Expr) -> Expr:
        """Position after the last tap, in the data and its padding on both sides."""
        return Minimum(self.first(at) + self.kernel, self.size + self.padding)

    def inside(self, builder: GraphBuilder, position: Expr) -> Node | None:
        """Whether a tap's position is in the data; None when it always is."""
        return _both(
            None if is_int(self.padding, 0) else e.ge(builder.index_node(position), 0),
            None if self.fits(builder) else _below(builder, position, self.size),
        )

    def fits(self, builder: GraphBuilder) -> bool:
        """True when the last window ends within the data."""
        last = (self.out - 1) * self.stride - self.padding + (self.kernel - 1) * self.dilation
        return builder.ranges.less(last, self.size)


@dataclass(frozen=True)
class Adaptive:
    """One dimension's windows that divide the data into `out` parts, as equal as can be."""

    size: Expr
    out: Expr

    @property
    def kernel(self) -> Expr:
        """The most taps of a window."""
        return ceil_div(self.size, self.out) + 1

    def first(self, at: Expr) -> Expr:
        """Position of the first tap."""
        return FloorDiv(at * self.size, self.out)

    def position(self, at: Expr, tap: Expr) -> Expr:
        """Position of a tap."""
        return self.first(at) + tap

    def end(self, at: Expr) -> Expr:
        """Position after the last tap."""
        return ceil_div((at + 1) * self.size, self.out)


WindowPerDim = Sequence[Window | Adaptive]


def _both(a: Node | None, b: Node | None) -> Node | None:
    if a is None or b is None:
        return a or b
    return e.and_(a, b)


def _below(builder: GraphBuilder, position: Expr, limit: Expr) -> Node:
    return e.lt(builder.index_node(position), builder.index_node(limit))


def _tap(
    builder: GraphBuilder, windows: WindowPerDim, at: Shape, taps: Shape
) -> tuple[Shape, Node | None]:
    """The position of a tap of the windows at `at`, and whether it is one (None: always)."""
    index: list[Expr] = []
    mask: Node | None = None
    for window, a, t in zip(windows, at, taps, strict=True):
        place = window.position(a, t)
        index.append(place)
        if isinstance(window, Window):
            mask = _both(mask, window.inside(builder, place))
        else:
            mask = _both(mask, _below(builder, place, window.end(a)))
    return tuple(index), mask


def _windows(
    x: Tensor,
    shape: Shape,
    spatial: int,
    settings: tuple[SizePerDim, SizePerDim | None, SizePerDim, SizePerDim],
) -> list[Window]:
    """Settings: kernel, stride (None or empty: the kernel's), padding, dilation."""
    kernel, stride, padding, dilation = settings
    kernels = _spread(kernel, spatial)
    given = kernels if stride is None or stride == () else _spread(stride, spatial)
    pads, gaps = _spread(padding, spatial), _spread(dilation, spatial)
    sizes, outs = x.shape[x.rank - spatial :], shape[len(shape) - spatial :]
    parts = zip(sizes, outs, kernels, given, pads, gaps, strict=True)
    return [Window(*part) for part in parts]


def _spread(value: SizePerDim, spatial: int) -> Shape:
    """One size for each spatial dimension; a single one stands for all."""
    given = [as_expr(v) for v in value] if isinstance(value, (tuple, list)) else [as_expr(value)]
    return tuple(given * spatial) if len(given) == 1 else tuple(given)


def _adaptive_windows(x: Tensor, out: Shape) -> list[Window | Adaptive]:
    """Plain windows where the sizes divide."""
    one, zero = as_expr(1), as_expr(0)
    found: list[Window | Adaptive] = []
    for size, parts in zip(x.shape[x.rank - len(out) :], out, strict=True):
        share = FloorDiv(size, parts)
        if share.has(FloorDiv) or share * parts != size:
            found.append(Adaptive(size, parts))
        else:
            found.append(Window(size, parts, share, share, zero, one))
    return found


def _least(dtype: DType) -> Node:
    """What is below every value."""
    return const(dtype.ends[0], dtype)


def _plane(call: Call) -> Shape:
    """The shape of the results, of which the model may use the positions alone."""
    used = next(k for k, name in enumerate(call.op.outputs) if name is not None)
    return call.result_type(used).shape


def _max(call: Call, x: Tensor, shape: Shape, windows: WindowPerDim) -> SeveralResults:
    """The greatest value of each window, and its position in the plane when that is used."""
    builder = x.builder
    lead = x.rank - len(windows)
    sizes = x.shape[lead:]

    def value(at: Shape, taps: Shape) -> Node:
        index, mask = _tap(builder, windows, at[lead:], taps)
        loaded = x.load((*at[:lead], *index), mask)
        return loaded if mask is None else e.select(mask, loaded, _least(x.dtype))

    def greatest(at: Shape, taps: Shape) -> Node:
        return reduce_("max", value(at, taps))

    def where(at: Shape, taps: Shape) -> Node:
        chosen = reduce_("argmax", value(at, taps))
        return _plane_position(builder, windows, at[lead:], chosen, sizes)

    reduced = [w.kernel for w in windows]
    outputs: list[tuple[DType, Callable[[Shape, Shape], Node]]] = [(x.dtype, greatest)]
    if len(call.op.outputs) > 1 and call.op.outputs[1] is not None:
        outputs.append((INT64, where))
    made = builder.reduction(shape, reduced, outputs)
    return (*made, *(None for _ in call.op.outputs[len(made) :]))


def _plane_position(
    builder: GraphBuilder, windows: WindowPerDim, at: Shape, chosen: Node, sizes: Shape
) -> Node:
    """The row-major position in the plane of the chosen tap (a row-major number of the window)."""
    places: list[Node] = []
    for k in range(len(windows) - 1, -1, -1):
        window, kernel = windows[k], builder.index_node(windows[k].kernel)
        tap = chosen
        if k:  # it is no less than 0: a quotient that needs no look at signs gives both
            chosen = binary("truncdiv", chosen, kernel)
            tap = e.sub(tap, e.mul(chosen, kernel))
        gap = window.dilation if isinstance(window, Window) else as_expr(1)
        step = e.mul(tap, builder.index_node(gap))
        places.append(e.add(builder.index_node(window.first(at[k])), step))
    position = places[-1]
    for size, place in zip(sizes[1:], places[-2::-1], strict=True):
        position = e.add(e.mul(position, builder.index_node(size)), place)
    return position


def _mean(
    call: Call, x: Tensor, windows: WindowPerDim, divisor: Callable[[Shape], Node | None]
) -> Tensor:
    """Sums of the windows over `divisor(spatial position)`; None: over the kernel's size."""
    builder, dtype = x.builder, x.dtype
    lead = x.rank - len(windows)
    wide = dtype.compute

    def body(at: Shape, taps: Shape) -> Node:
        index, mask = _tap(builder, windows, at[lead:], taps)
        total = reduce_("sum", cast(x.load((*at[:lead], *index), mask), wide))
        by = divisor(at[lead:])
        if by is None:
            by = reduce(e.mul, [builder.index_node(w.kernel) for w in windows])
        rule = "div" if wide.is_float else "truncdiv"
        return cast(binary(rule, total, cast(by, wide)), dtype)

    kernels = [w.kernel for w in windows]
    return builder.reduction(call.result_type().shape, kernels, [(dtype, body)])[0]


@REGISTRY.row(
    "aten.max_pool1d.default",
    "aten.max_pool2d.default",
    "aten.max_pool3d.default",
    "aten.max_pool1d_with_indices.default",
    "aten.max_pool2d_with_indices.default",
    "aten.max_pool3d_with_indices.default",
)
def max_pool(
    call: Call,
    x: Tensor,
    kernel: SizePerDim,
    stride: SizePerDim | None = None,
    padding: SizePerDim = 0,
    dilation: SizePerDim = 1,
    ceil_mode: bool = False,
) -> SeveralResults | Tensor:
    """The greatest value of each window; padding never wins (the result's shape says ceil_mode)."""
    spatial = _spatial(call)
    settings = (kernel, stride, padding, dilation)
    shape = _plane(call)
    results = _max(call, x, shape, _windows(x, shape, spatial, settings))
    return results if len(call.op.outputs) > 1 else _only(results)


def _spatial(call: Call) -> int:
    """1, 2 or 3: from the operator's name."""
    name = call.op.target
    return next(k for k in (1, 2, 3) if f"{k}d" in name)


def _only(results: SeveralResults) -> Tensor:
    first = results[0]
    if first is None:
        raise ValueError("the operator has no result")
    return first


@REGISTRY.row("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(
    call: Call,
    x: Tensor,
    kernel: SizePerDim,
    stride: SizePerDim | None = None,
    padding: SizePerDim = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window; whether padding counts is the caller's choice."""
    builder = x.builder
    windows = _windows(x, call.result_type().shape, _spatial(call), (kernel, stride, padding, 1))
    whole = [w.fits(builder) and is_int(w.padding, 0) for w in windows]

    def divisor(at: Shape) -> Node | None:
        if divisor_override is not None:
            return const(int(divisor_override), INT64)
        if all(whole):
            return None
        counts = []
        for w, a in zip(windows, at, strict=True):
            first, end = w.first(a), w.end(a)
            if not count_include_pad:
                first, end = Maximum(first, as_expr(0)), Minimum(end, w.size)
            counts.append(builder.index_node(end - first))
        return reduce(e.mul, counts)

    return _mean(call, x, windows, divisor)


@REGISTRY.row(
    "aten.adaptive_avg_pool1d.default",
    "aten.adaptive_avg_pool2d.default",
    "aten.adaptive_avg_pool3d.default",
    "aten._adaptive_avg_pool2d.default",
    "aten._adaptive_avg_pool3d.default",
)
def adaptive_avg_pool(call: Call, x: Tensor, output_size: SizePerDim) -> Tensor:
    """The means of as many parts as `output_size` says."""
    shape = call.result_type().shape
    windows = _adaptive_windows(x, shape[len(shape) - _spatial(call) :])

    def divisor(at: Shape) -> Node | None:
        if all(isinstance(w, Window) for w in windows):
            return None
        counts = [
            w.kernel if isinstance(w, Window) else w.end(a) - w.first(a)
            for w, a in zip(windows, at, strict=True)
        ]
        return reduce(e.mul, [x.builder.index_node(c) for c in counts])

    return _mean(call, x, windows, divisor)


@REGISTRY.row(
    "aten._adaptive_avg_pool2d_backward.default", "aten._adaptive_avg_pool3d_backward.default"
)
def adaptive_avg_pool_back(call: Call, grad: Tensor, x: Tensor) -> Tensor:
    """What each element gets of the means that hold it, axis by axis."""
    dtype, given = grad.dtype, grad
    for position in range(grad.rank - _spatial(call), grad.rank):
        result = dtype if position == grad.rank - 1 else dtype.compute
        given = spread_shares(given, position, x.shape[position], result)
    return given


@REGISTRY.row(
    "aten.adaptive_max_pool1d.default",
    "aten.adaptive_max_pool2d.default",
    "aten.adaptive_max_pool3d.default",
)
def adaptive_max_pool(call: Call, x: Tensor, output_size: SizePerDim) -> SeveralResults:
    """The greatest values of as many parts as `output_size` says, and their positions."""
    shape = _plane(call)
    return _max(call, x, shape, _adaptive_windows(x, shape[len(shape) - _spatial(call) :]))
