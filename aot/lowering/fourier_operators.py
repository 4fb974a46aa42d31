"""ATen's Fourier transforms: their axes, factors and directions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.scalar import Node, cast
from aot.lowering import exprs as e
from aot.lowering.axes import wrap_dim
from aot.lowering.builder import Tensor
from aot.lowering.fourier import Direction, Shape, Signal, joined, parts_of, transformed
from aot.lowering.real_fourier import of_real, to_real
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, FloorDiv, as_expr, is_int, product


def _scale(sizes: Sequence[Expr], normalization: int) -> float:
    """0: none, 1: by the root of the number of points, 2: by that number, as far as it is known."""
    points = math.prod(int(s) for s in sizes if is_int(s))
    return (1.0, 1.0 / math.sqrt(points), 1.0 / points)[normalization]


def _rescaled(x: Tensor, sizes: Sequence[Expr], normalization: int) -> Tensor:
    """What `_scale` leaves: the factor of the sizes that are known only when the package runs."""
    open_ = product([s for s in sizes if not is_int(s)])
    if normalization == 0 or is_int(open_):
        return x

    def body(at: Shape) -> Node:
        points = cast(x.builder.index_node(open_), FLOAT64)
        by = points if normalization == 2 else e.sqrt(points)
        return e.mul(x.load(at), cast(e.div(1.0, by), x.dtype))

    return x.builder.pointwise(x.shape, x.dtype, body)


def _checked(dtype: DType) -> None:
    if dtype not in (FLOAT32, FLOAT64):
        raise CannotLower(f"eager transforms no {dtype} on CPUs either: use float32")


def _along(x: Signal, axes: Sequence[int], direction: Direction) -> Tensor:
    """Along several axes, the last one first; the factor comes with the first of them."""
    for axis in reversed(axes[1:]):
        x = parts_of(transformed(x, axis, Direction(inverse=direction.inverse)))
    return transformed(x, axes[0], direction)


@REGISTRY.row("complex.aten._fft_c2c.default")
def fft_c2c(
    call: Call,
    x: tuple[Tensor, Tensor],
    dim: tuple[int, ...],
    normalization: int,
    forward: bool,
) -> Tensor:
    """Complex numbers to complex ones, both parts in a last dimension."""
    signal = Signal(*x)
    _checked(signal.re.dtype)
    axes = [wrap_dim(d, signal.re.rank) for d in dim]
    if not axes:
        return joined(signal)
    sizes = [signal.re.shape[a] for a in axes]
    direction = Direction(_scale(sizes, normalization), inverse=not forward)
    return _rescaled(_along(signal, axes, direction), sizes, normalization)


@REGISTRY.row("complex.aten._fft_r2c.default")
def fft_r2c(
    call: Call, x: Tensor, dim: tuple[int, ...], normalization: int, onesided: bool
) -> Tensor:
    """Real numbers to complex ones, along the last of `dim` to half as many where `onesided`."""
    _checked(x.dtype)
    axes = [wrap_dim(d, x.rank) for d in dim]
    sizes = [x.shape[a] for a in axes]
    scale = _scale(sizes, normalization)
    n = sizes[-1]
    count = FloorDiv(n, 2) + 1 if onesided else n
    made = of_real(x, axes[-1], scale if len(axes) == 1 else 1.0, count)
    if len(axes) > 1:
        made = _along(parts_of(made), axes[:-1], Direction(scale))
    return _rescaled(made, sizes, normalization)


@REGISTRY.row("complex.aten._fft_c2r.default")
def fft_c2r(
    call: Call,
    x: tuple[Tensor, Tensor],
    dim: tuple[int, ...],
    normalization: int,
    last_dim_size: Expr | int,
) -> Tensor:
    """Complex numbers to real ones, of which they are the transform's half along the last axis."""
    signal = Signal(*x)
    _checked(signal.re.dtype)
    axes = [wrap_dim(d, signal.re.rank) for d in dim]
    n = as_expr(last_dim_size)
    sizes = [*(signal.re.shape[a] for a in axes[:-1]), n]
    scale = _scale(sizes, normalization)
    if len(axes) > 1:
        signal = parts_of(_along(signal, axes[:-1], Direction(inverse=True)))
    return _rescaled(to_real(signal, axes[-1], n, scale), sizes, normalization)


@REGISTRY.row("aten.fft_fftfreq.default", "aten.fft_rfftfreq.default")
def fftfreq(call: Call, n: Expr | int, d: float = 1.0, **_: object) -> Tensor:
    """The frequencies of a transform's results, of samples that are d apart."""
    result, builder = call.result_type(), call.builder
    size = as_expr(n)

    def body(at: Shape) -> Node:
        here = builder.index_node(at[0])
        if "rfftfreq" not in call.op.target:
            count = builder.index_node(size)
            low = e.lt(here, e.floordiv(e.add(count, 1), 2))
            here = e.select(low, here, e.sub(here, count))
        whole = e.mul(builder.index_node(size), 1)
        step = e.div(1.0, e.mul(cast(whole, FLOAT64), float(d)))
        return cast(e.mul(cast(here, FLOAT64), step), result.dtype)

    return builder.pointwise(result.shape, result.dtype, body)
