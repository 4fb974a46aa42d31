"""Upsampling and downsampling: nearest, linear, cubic, with and without antialiasing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from aot.ir.dtypes import FLOAT32, FLOAT64, INT64, UINT8, DType
from aot.ir.scalar import Node, cast, const
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.interpolation import Filter, Resize
from aot.lowering.promotion import size_node
from aot.lowering.registry import Call
from aot.lowering.resampling import make_axis, resample, sums_of
from aot.lowering.resampling_back import spread
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, FloorDiv, as_expr

Shape = tuple[Expr, ...]
Scales = Sequence[float | None]

FILTERS = {
    "linear1d": Filter(2, antialias=False),
    "bilinear2d": Filter(2, antialias=False),
    "trilinear3d": Filter(2, antialias=False),
    "bicubic2d": Filter(4, antialias=False, a=-0.75),
    "bilinear2d_aa": Filter(2, antialias=True),
    "bicubic2d_aa": Filter(4, antialias=True, a=-0.5),
}
"""Interpolation kernels by the operator's name; eager's two cubics differ on purpose."""


@REGISTRY.row(
    "aten.upsample_linear1d.vec",
    "aten.upsample_bilinear2d.vec",
    "aten.upsample_trilinear3d.vec",
    "aten.upsample_bicubic2d.vec",
    "aten._upsample_bilinear2d_aa.vec",
    "aten._upsample_bicubic2d_aa.vec",
)
def upsample_vec(
    call: Call,
    x: Tensor,
    output_size: Sequence[int | Expr] | None,
    align_corners: bool,
    scale_factors: Sequence[float] | None = None,
) -> Tensor:
    """Linear and cubic kernels; scale factors, when given, count instead of the sizes."""
    spatial = x.rank - 2
    return _resample(call, x, align_corners, scale_factors or [None] * spatial)


@REGISTRY.row(
    "aten.upsample_linear1d.default",
    "aten.upsample_bilinear2d.default",
    "aten.upsample_trilinear3d.default",
    "aten.upsample_bicubic2d.default",
    "aten._upsample_bilinear2d_aa.default",
    "aten._upsample_bicubic2d_aa.default",
)
def upsample(
    call: Call,
    x: Tensor,
    output_size: Sequence[int | Expr],
    align_corners: bool,
    *scales: float | None,
    **named: float | None,
) -> Tensor:
    """The same with one scale argument for each dimension."""
    return _resample(call, x, align_corners, _scales(x, scales, named))


def _scales(x: Tensor, scales: Scales, named: dict[str, float | None]) -> Scales:
    order = ("scales_d", "scales_h", "scales_w", "scales")
    given = [*scales, *(named[name] for name in order if name in named)]
    return given + [None] * (x.rank - 2 - len(given))


def _resample(call: Call, x: Tensor, align: bool, scales: Scales) -> Tensor:
    name = call.op.target.split(".")[1].removeprefix("_").removeprefix("upsample_")
    shape, dtype = call.result_type().shape, x.dtype
    resizes = {
        2 + k: Resize(x.shape[2 + k], shape[2 + k], FILTERS[name], align, given)
        for k, given in enumerate(scales)
    }
    changing = [k for k in sorted(resizes, reverse=True) if not resizes[k].identity]
    # Outer axes first: a row of sums stays in the cache for the next axis. Bytes are rounded
    # between axes, so they go in eager's order, the innermost axis first.
    if dtype != UINT8:
        changing = changing[::-1]
    builder, y = x.builder, x
    sums = sums_of((resizes[k] for k in changing), dtype)
    axes = {k: make_axis(builder, resizes[k], dtype, sums) for k in changing}
    # Whole numbers for bytes, as in eager; floats are not rounded.
    between = UINT8 if dtype == UINT8 and sums != FLOAT32 else sums
    for position, axis in axes.items():
        y = resample(y, axis, position, dtype if position == changing[-1] else between)
    return y if changing else builder.pointwise(shape, dtype, y.load)


@REGISTRY.row(
    "aten._upsample_bilinear2d_aa_backward.default",
    "aten._upsample_bicubic2d_aa_backward.default",
)
def upsample_back(
    call: Call,
    grad: Tensor,
    output_size: Sequence[int | Expr],
    input_size: Sequence[int | Expr],
    align_corners: bool,
    *scales: float | None,
    **named: float | None,
) -> Tensor:
    """What each input element gets of the results whose windows hold it, axis by axis."""
    name = call.op.target.split(".")[1].removeprefix("_upsample_").removesuffix("_backward")
    shape, dtype, builder = call.result_type().shape, grad.dtype, grad.builder
    resizes = {
        2 + k: Resize(shape[2 + k], grad.shape[2 + k], FILTERS[name], align_corners, given)
        for k, given in enumerate(_scales(grad, scales, named))
    }
    changing = [k for k in resizes if not resizes[k].identity]
    given = grad
    for k in changing:
        result = dtype if k == changing[-1] else dtype.compute
        given = spread(given, make_axis(builder, resizes[k], dtype, dtype.compute), k, result)
    return given if changing else builder.pointwise(shape, dtype, given.load)


@REGISTRY.row(
    "aten.upsample_nearest1d.vec",
    "aten.upsample_nearest2d.vec",
    "aten.upsample_nearest3d.vec",
    "aten._upsample_nearest_exact1d.vec",
    "aten._upsample_nearest_exact2d.vec",
    "aten._upsample_nearest_exact3d.vec",
)
def nearest_vec(
    call: Call,
    x: Tensor,
    output_size: Sequence[int | Expr] | None,
    scale_factors: Sequence[float] | None = None,
) -> Tensor:
    """Copies of the nearest input elements."""
    return _nearest(call, x, scale_factors or [None] * (x.rank - 2))


@REGISTRY.row(
    "aten.upsample_nearest1d.default",
    "aten.upsample_nearest2d.default",
    "aten.upsample_nearest3d.default",
    "aten._upsample_nearest_exact1d.default",
    "aten._upsample_nearest_exact2d.default",
    "aten._upsample_nearest_exact3d.default",
)
def nearest(
    call: Call,
    x: Tensor,
    output_size: Sequence[int | Expr],
    *scales: float | None,
    **named: float | None,
) -> Tensor:
    """The same with one scale argument for each dimension."""
    return _nearest(call, x, _scales(x, scales, named))


def _nearest(call: Call, x: Tensor, scales: Scales) -> Tensor:
    exact = "_exact" in call.op.target
    shape, builder = call.result_type().shape, x.builder
    tables: list[Tensor | int] = []
    for size, out, given in zip(x.shape[2:], shape[2:], scales, strict=True):
        factor = _whole_factor(size, out, given, exact)
        tables.append(factor or _nearest_table(x, size, out, given, exact))

    def body(at: Shape) -> Node:
        index = list(at[:2])
        for i, size, table in zip(at[2:], x.shape[2:], tables, strict=True):
            if isinstance(table, int):
                index.append(FloorDiv(i, as_expr(table)))
            else:
                index.append(builder.indirect(table.load((i,)), size, wrap=False))
        return x.load(index)

    return builder.pointwise(shape, x.dtype, body)


def _whole_factor(size: Expr, out: Expr, given: float | None, exact: bool) -> int | None:
    """F when each input is simply repeated f times: then the resize is a view."""
    if size == out and given in (None, 1.0):
        return 1
    ratio = FloorDiv(out, size)
    if not ratio.is_Integer or ratio * size != out or (given is not None and given != int(ratio)):
        return None
    factor = int(ratio)
    if factor & (factor - 1) == 0:
        return factor  # eager's float arithmetic is exact
    if not size.is_Integer:
        return None
    positions = np.arange(int(out), dtype=np.float32)
    scale = np.float32(1.0 / factor) if given else np.float32(int(size)) / np.float32(int(out))
    found = np.floor((positions + np.float32(0.5)) * scale if exact else positions * scale)
    wanted = np.arange(int(out)) // factor
    return factor if bool((found == wanted).all()) else None


def _nearest_table(x: Tensor, size: Expr, out: Expr, given: float | None, exact: bool) -> Tensor:
    """The input position of each output position, in eager's own float arithmetic."""
    builder = x.builder
    wide: DType = FLOAT64 if x.dtype == FLOAT64 else FLOAT32
    if given is not None and given > 0 and math.isfinite(given):
        scale = const(1.0 / given, FLOAT64)
        scale = cast(scale, wide)
    else:
        scale = e.div(size_node(builder, size, wide), size_node(builder, out, wide))

    def body(at: Shape) -> Node:
        position = size_node(builder, at[0], wide)
        if exact:
            real = e.sub(e.mul(scale, e.add(position, 0.5)), 0.5)
            floored = e.floor(cast(e.add(cast(e.maximum(real, 0.0), FLOAT64), 0.5), FLOAT32))
        else:
            floored = e.floor(cast(e.mul(scale, position), FLOAT32))
        return e.minimum(cast(floored, INT64), builder.index_node(size - 1))

    return builder.pointwise((out,), INT64, body)
