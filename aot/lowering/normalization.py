"""Softmax and the normalisations: chains of reductions over the same rows.

Each is two or three nests (statistics, then the result); the scheduler makes one kernel of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aot.ir.dtypes import UINT8, DType
from aot.ir.scalar import Node, cast, const, reduce_
from aot.lowering import exprs as e
from aot.lowering.axes import widened, wrap_dim
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.matmul import rounded
from aot.lowering.pointwise import narrow
from aot.lowering.promotion import size_node
from aot.lowering.reductions import Domain, ElementAt, Moments, domain, moments, reduced
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.lowering.views import reshaped
from aot.symbolic import Expr, FloorDiv, as_expr

_EPSILON = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}
"""Machine epsilons: what rms_norm adds when it is given none."""


def _row_peak(builder: GraphBuilder, x: Tensor, over: Domain, compute: DType) -> Tensor:
    return reduced(builder, over, [(compute, lambda read: reduce_("max", cast(read(x), compute)))])[
        0
    ]


def softmax(call: Call, x: Tensor, dim: int, logarithm: bool, safe: bool = False) -> Tensor:
    """Softmax (or its logarithm) along `dim`: greatest element, sum of exponentials, result.

    x is first converted to the result's type, as in eager. `safe`: rows of nothing but -inf give 0
    instead of NaN.
    """
    builder, result = call.builder, call.result_type()
    x, compute = rounded(x, result.dtype), result.dtype.compute
    over = domain(x, wrap_dim(dim, x.rank)) if x.rank else domain(x, None)
    peak = _row_peak(builder, x, over, compute)

    def shifted(index: tuple[Expr, ...]) -> Node:
        top = peak.load(over.kept(index))
        if safe:
            top = e.select(e.eq(top, -float("inf")), 0.0, top)
        return e.sub(cast(x.load(index), compute), top)

    if logarithm:
        return _log_softmax(builder, over, compute, result.dtype, shifted)
    exponential = builder.pointwise(x.shape, compute, lambda at: e.exp(shifted(at)))

    def inverse_total(read: ElementAt) -> Node:
        total = reduce_("sum", read(exponential))
        inverse = e.reciprocal(total)
        return e.select(e.eq(total, 0.0), 0.0, inverse) if safe else inverse

    scale = reduced(builder, over, [(compute, inverse_total)])[0]

    def point(index: tuple[Expr, ...]) -> Node:
        share = e.mul(exponential.load(index), scale.load(over.kept(index)))
        return narrow(share, result.dtype)

    return builder.pointwise(x.shape, result.dtype, point)


def _log_softmax(
    builder: GraphBuilder,
    over: Domain,
    compute: DType,
    dtype: DType,
    shifted: Callable[[tuple[Expr, ...]], Node],
) -> Tensor:
    """X less its row's greatest element (`shifted`) less the logarithm of the exponentials' sum."""

    def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        return e.log(reduce_("sum", e.exp(shifted(over.position(index, rindex)))))

    total = builder.reduction(over.result, over.reduced, [(compute, body)])[0]

    def point(index: tuple[Expr, ...]) -> Node:
        return narrow(e.sub(shifted(index), total.load(over.kept(index))), dtype)

    return builder.pointwise(over.shape, dtype, point)


@REGISTRY.row("aten._softmax.default", "aten.softmax.int")
def softmax_(call: Call, x: Tensor, dim: int, *_: Any, **__: Any) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`."""
    return softmax(call, x, dim, logarithm=False)


@REGISTRY.row("aten._log_softmax.default", "aten.log_softmax.int")
def log_softmax(call: Call, x: Tensor, dim: int, *_: Any, **__: Any) -> Tensor:
    """log(exp(x) / sum(exp(x))) along `dim`."""
    return softmax(call, x, dim, logarithm=True)


@REGISTRY.row("aten._safe_softmax.default")
def safe_softmax(call: Call, x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Softmax whose fully masked rows are 0."""
    return softmax(call, x, dim, logarithm=False, safe=True)


def _affine(
    value: Node, weight: Tensor | None, bias: Tensor | None, at: Sequence[Expr], compute: DType
) -> Node:
    """value * weight[at] + bias[at], of those that are given."""
    if weight is not None:
        value = e.mul(value, cast(weight.load(at), compute))
    return value if bias is None else e.add(value, cast(bias.load(at), compute))


def row_statistics(
    builder: GraphBuilder, x: Tensor, over: Domain, eps: float
) -> tuple[Tensor, Tensor]:
    """(mean, 1 / sqrt(variance + eps)) over a domain, in the arithmetic type."""
    found = moments(builder, x, over)
    return found.mean, reduced(builder, over, [_deviation(builder, found, x, eps)])[0]


def _deviation(
    builder: GraphBuilder, found: Moments, x: Tensor, eps: float
) -> tuple[DType, Callable[[ElementAt], Node]]:
    """1 / sqrt(variance + eps), as an output of a reduction."""
    variance = found.variance(builder, x, 0.0)
    return x.dtype.compute, lambda read: e.rsqrt(e.add(variance(read), eps))


def _layer_norm(
    call: Call,
    x: Tensor,
    inner: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    *,
    keepdim: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    builder, compute = call.builder, x.dtype.compute
    over = domain(x, tuple(range(x.rank - inner, x.rank)), keepdim)
    mean, rstd = row_statistics(builder, x, over, eps)

    def point(index: tuple[Expr, ...]) -> Node:
        row = over.kept(index)
        centred = e.sub(widened(x, index), mean.load(row))
        scaled = e.mul(centred, rstd.load(row))
        return narrow(_affine(scaled, weight, bias, index[x.rank - inner :], compute), x.dtype)

    return builder.pointwise(x.shape, x.dtype, point), mean, rstd


@REGISTRY.row("aten.layer_norm.default")
def layer_norm(
    call: Call,
    x: Tensor,
    normalized_shape: tuple[Any, ...],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Rows over the last dimensions with mean 0 and variance 1, scaled and shifted."""
    return _layer_norm(call, x, len(normalized_shape), weight, bias, float(eps), keepdim=False)[0]


def _like_result(call: Call, position: int, x: Tensor) -> Tensor | None:
    """A statistic in the type that eager returns it in; None when the model does not use it."""
    if call.op.outputs[position] is None:
        return None
    result = call.result_type(position)
    if x.dtype == result.dtype and x.shape == result.shape:
        return x
    plain = reshaped(x, result.shape)
    return call.builder.pointwise(
        result.shape, result.dtype, lambda at: cast(plain.load(at), result.dtype)
    )


@REGISTRY.row("aten.native_layer_norm.default")
def native_layer_norm(
    call: Call,
    x: Tensor,
    normalized_shape: tuple[Any, ...],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor | None, ...]:
    """(layer norm, mean, reciprocal of the standard deviation)."""
    out, mean, rstd = _layer_norm(
        call, x, len(normalized_shape), weight, bias, float(eps), keepdim=True
    )
    return out, _like_result(call, 1, mean), _like_result(call, 2, rstd)


def _rms_norm(
    call: Call, x: Tensor, inner: int, weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    builder, compute = call.builder, x.dtype.compute
    added = _EPSILON[compute.name] if eps is None else float(eps)
    over = domain(x, tuple(range(x.rank - inner, x.rank)), keepdim=True)

    def scale(read: ElementAt) -> Node:
        value = cast(read(x), compute)
        total = reduce_("sum", e.mul(value, value))
        mean_square = e.div(total, size_node(builder, over.count, compute))
        return e.rsqrt(e.add(mean_square, added))

    rstd = reduced(builder, over, [(compute, scale)])[0]

    def point(index: tuple[Expr, ...]) -> Node:
        scaled = e.mul(widened(x, index), rstd.load(over.kept(index)))
        return narrow(_affine(scaled, weight, None, index[x.rank - inner :], compute), x.dtype)

    return builder.pointwise(x.shape, x.dtype, point), rstd


@REGISTRY.row("aten.rms_norm.default")
def rms_norm(
    call: Call,
    x: Tensor,
    normalized_shape: tuple[Any, ...],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Rows over the last dimensions divided by the root of their mean square, scaled."""
    return _rms_norm(call, x, len(normalized_shape), weight, eps)[0]


@REGISTRY.row("aten._fused_rms_norm.default")
def fused_rms_norm(
    call: Call,
    x: Tensor,
    normalized_shape: tuple[Any, ...],
    weight: Tensor | None,
    eps: float | None,
) -> tuple[Tensor | None, ...]:
    """(rms norm, reciprocal of the root mean square)."""
    out, rstd = _rms_norm(call, x, len(normalized_shape), weight, eps)
    return out, _like_result(call, 1, rstd)


def _scale_and_shift(
    builder: GraphBuilder, shape: Sequence[Expr], x: Tensor, scale: Tensor, shift: Tensor
) -> Tensor:
    """x * scale + shift, both of the shape of x's first dimensions (`shape`), or per channel."""

    def point(index: tuple[Expr, ...]) -> Node:
        at = index[1:2] if scale.rank == 1 else index[: len(shape)]
        value = e.add(e.mul(widened(x, index), scale.load(at)), shift.load(at))
        return narrow(value, x.dtype)

    return builder.pointwise(x.shape, x.dtype, point)


def _group_norm(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(result, mean, rstd), the statistics of shape (n, groups)."""
    builder, compute = call.builder, x.dtype.compute
    batch, channels = x.shape[0], x.shape[1]
    each = FloorDiv(channels, as_expr(groups))
    split = reshaped(x, (batch, as_expr(groups), each, *x.shape[2:]))
    over = domain(split, tuple(range(2, split.rank)))
    mean, rstd = row_statistics(builder, split, over, eps)

    def scale(at: tuple[Expr, ...]) -> Node:
        factor = rstd.load((at[0], FloorDiv(at[1], each)))
        return factor if weight is None else e.mul(factor, cast(weight.load(at[1:]), compute))

    factor = builder.pointwise((batch, channels), compute, scale)

    def offset(at: tuple[Expr, ...]) -> Node:
        moved = e.mul(mean.load((at[0], FloorDiv(at[1], each))), factor.load(at))
        return e.neg(moved) if bias is None else e.sub(cast(bias.load(at[1:]), compute), moved)

    shift = builder.pointwise((batch, channels), compute, offset)
    return _scale_and_shift(builder, (batch, channels), x, factor, shift), mean, rstd


@REGISTRY.row("aten.group_norm.default")
def group_norm(
    call: Call,
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Groups of channels with mean 0 and variance 1, scaled and shifted per channel."""
    return _group_norm(call, x, weight, bias, num_groups, float(eps))[0]


@REGISTRY.row("aten.native_group_norm.default")
def native_group_norm(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    n: Any,
    c: Any,
    hw: Any,
    group: int,
    eps: float,
) -> tuple[Tensor | None, ...]:
    """(group norm, mean, reciprocal of the standard deviation)."""
    out, mean, rstd = _group_norm(call, x, weight, bias, group, float(eps))
    return out, _like_result(call, 1, mean), _like_result(call, 2, rstd)


def _channel_affine(
    builder: GraphBuilder,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    compute: DType,
) -> tuple[Tensor, Tensor]:
    """(scale, shift) per channel; over weights alone they fold when the package is built."""

    def scale(at: tuple[Expr, ...]) -> Node:
        factor = cast(rstd.load(at), compute)
        return factor if weight is None else e.mul(factor, cast(weight.load(at), compute))

    factor = builder.pointwise(mean.shape, compute, scale)

    def offset(at: tuple[Expr, ...]) -> Node:
        moved = e.mul(cast(mean.load(at), compute), factor.load(at))
        return e.neg(moved) if bias is None else e.sub(cast(bias.load(at), compute), moved)

    return factor, builder.pointwise(mean.shape, compute, offset)


def batch_norm_inference(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
) -> Tensor:
    """x scaled and shifted per channel by running statistics."""
    builder, compute = call.builder, x.dtype.compute

    def deviation(at: tuple[Expr, ...]) -> Node:
        return e.rsqrt(e.add(cast(variance.load(at), compute), eps))

    rstd = builder.pointwise(mean.shape, compute, deviation)
    scale, shift = _channel_affine(builder, mean, rstd, weight, bias, compute)
    return _scale_and_shift(builder, mean.shape, x, scale, shift)


@REGISTRY.row("aten._native_batch_norm_legit_no_training.default")
def batch_norm(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor | None, ...]:
    """(batch norm with running statistics, empty, empty)."""
    out = batch_norm_inference(call, x, weight, bias, mean, variance, float(eps))

    def nothing(position: int) -> Tensor | None:
        if call.op.outputs[position] is None:
            return None
        zero = const(0, mean.dtype)
        return call.builder.pointwise((as_expr(0),), mean.dtype, lambda at: zero)

    return out, nothing(1), nothing(2)


@REGISTRY.row("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor | None, ...]:
    """(batch norm by the batch's own statistics, mean, rstd): instance norm comes as this."""
    over = domain(x, (0, *range(2, x.rank)))
    mean, rstd = row_statistics(call.builder, x, over, float(eps))
    out = _by_channel(call, x, mean, rstd, weight, bias)
    return out, _like_result(call, 1, mean), _like_result(call, 2, rstd)


def _by_channel(
    call: Call, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, bias: Tensor | None
) -> Tensor:
    compute = x.dtype.compute
    scale, shift = _channel_affine(call.builder, mean, rstd, weight, bias, compute)
    return _scale_and_shift(call.builder, mean.shape, x, scale, shift)


@REGISTRY.row("aten._native_batch_norm_legit_functional.default")
def batch_norm_functional(call: Call, *args: Any) -> tuple[Tensor | None, ...]:
    """(batch norm, mean, rstd, new running mean, new running variance)."""
    return _batch_norm_updating(call, (3, 4), *args)


@REGISTRY.row("aten._batch_norm_with_update_functional.default")
def batch_norm_with_update(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor | None, ...]:
    """(batch norm, mean, rstd, memory for gradients: none, new running mean and variance)."""
    statistics = (running_mean, running_var)
    rows = _batch_norm_updating(
        call, (4, 5), x, weight, bias, *statistics, training=True, momentum=momentum, eps=eps
    )
    reserve: Tensor | None = None
    if call.op.outputs[3] is not None:
        nothing = const(0, UINT8)
        reserve = call.builder.pointwise((as_expr(0),), UINT8, lambda at: nothing)
    return *rows[:3], reserve, *rows[3:]


def _batch_norm_updating(
    call: Call,
    places: tuple[int, int],
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor | None, ...]:
    """As `batch_norm_functional`; the new running values are the results at `places`."""
    if not training:
        out, *rest = batch_norm(
            call, x, weight, bias, running_mean, running_var, momentum, float(eps)
        )
        return out, *rest, running_mean, running_var
    builder, over = call.builder, domain(x, (0, *range(2, x.rank)))
    found = moments(builder, x, over)
    rstd = reduced(builder, over, [_deviation(builder, found, x, float(eps))])[0]
    variance = reduced(builder, over, [(found.mean.dtype, found.variance(builder, x, 1.0))])[0]
    out = _by_channel(call, x, found.mean, rstd, weight, bias)
    rows = (_like_result(call, 1, found.mean), _like_result(call, 2, rstd))
    means = _moving_average(call, places[0], running_mean, found.mean, float(momentum))
    variances = _moving_average(call, places[1], running_var, variance, float(momentum))
    return out, *rows, means, variances


def _moving_average(
    call: Call, position: int, running: Tensor, new: Tensor, momentum: float
) -> Tensor | None:
    """(1 - momentum) * running + momentum * new, in the running value's type."""
    if call.op.outputs[position] is None:
        return None
    compute = running.dtype.compute

    def point(at: tuple[Expr, ...]) -> Node:
        kept = e.mul(cast(running.load(at), compute), 1.0 - momentum)
        return cast(e.add(kept, e.mul(cast(new.load(at), compute), momentum)), running.dtype)

    return call.builder.pointwise(running.shape, running.dtype, point)


@REGISTRY.row("aten.instance_norm.default")
def instance_norm(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Each channel of each element of the batch normalised by its own or running statistics."""
    if not use_input_stats and running_mean is not None and running_var is not None:
        return batch_norm_inference(call, x, weight, bias, running_mean, running_var, float(eps))
    builder, compute = call.builder, x.dtype.compute
    mean, rstd = row_statistics(builder, x, domain(x, tuple(range(2, x.rank))), float(eps))

    def point(index: tuple[Expr, ...]) -> Node:
        row = index[:2]
        scaled = e.mul(e.sub(widened(x, index), mean.load(row)), rstd.load(row))
        return narrow(_affine(scaled, weight, bias, index[1:2], compute), x.dtype)

    return builder.pointwise(x.shape, x.dtype, point)
