"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aot.ir.scalar import Node
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.pointwise import elementwise, narrow, promote, unary_rows
from aot.lowering.promotion import element
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, FloorDiv

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def elu(x: Node, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Node:
    """scale * x above 0, scale * alpha * (exp(input_scale * x) - 1) below."""
    scaled = x if input_scale == 1.0 else e.mul(x, input_scale)
    below = e.mul(e.expm1(scaled), alpha * scale)
    return e.select(e.le(x, 0.0), below, x if scale == 1.0 else e.mul(x, scale))


def softplus(x: Node, beta: float = 1.0, threshold: float = 20.0) -> Node:
    """log(1 + exp(beta * x)) / beta, x itself where beta * x is above `threshold`."""
    scaled = x if beta == 1.0 else e.mul(x, beta)
    soft = e.log1p(e.exp(scaled))
    return e.select(e.gt(scaled, threshold), x, soft if beta == 1.0 else e.div(soft, beta))


def log_sigmoid(x: Node) -> Node:
    """log(sigmoid(x)), stable on both sides."""
    return e.sub(e.minimum(x, 0.0), e.log1p(e.exp(e.neg(e.absolute(x)))))


def gelu_erf(x: Node) -> Node:
    """x * Phi(x)."""
    return e.mul(e.mul(x, 0.5), e.add(e.erf(e.mul(x, math.sqrt(0.5))), 1.0))


def gelu_tanh(x: Node) -> Node:
    """The tanh approximation of gelu."""
    cubic = e.mul(e.mul(e.mul(x, x), x), 0.044715)
    inner = e.mul(e.add(x, cubic), math.sqrt(2.0 / math.pi))
    return e.mul(e.mul(x, 0.5), e.add(e.tanh(inner), 1.0))


def _six(x: Node) -> Node:
    return e.clamp(e.add(x, 3.0), 0.0, 6.0)


TABLE: dict[str, Callable[[Node], Node]] = {
    "relu": lambda x: e.maximum(x, 0),
    "relu6": lambda x: e.clamp(x, 0, 6),
    "silu": lambda x: e.mul(x, e.sigmoid(x)),
    "selu": lambda x: elu(x, _SELU_ALPHA, _SELU_SCALE),
    "mish": lambda x: e.mul(x, e.tanh(softplus(x))),
    "hardsigmoid": lambda x: e.mul(_six(x), 1.0 / 6.0),
    "hardswish": lambda x: e.mul(e.mul(x, _six(x)), 1.0 / 6.0),
    "log_sigmoid": log_sigmoid,
}

unary_rows(TABLE, promote)


@REGISTRY.row("aten.log_sigmoid_forward.default")
def log_sigmoid_forward(call: Call, x: Tensor) -> tuple[Tensor, None]:
    """(log sigmoid, a buffer that only the gradient uses)."""
    return elementwise(call, (x,), x.dtype, log_sigmoid), None


@REGISTRY.row("aten.silu_backward.default")
def silu_backward(call: Call, grad: Tensor, x: Tensor) -> Tensor:
    """The gradient: grad * s * (1 + x * (1 - s)), s the sigmoid of x."""

    def body(g: Node, v: Node) -> Node:
        s = e.sigmoid(v)
        return e.mul(g, e.mul(s, e.add(e.mul(v, e.sub(1.0, s)), 1.0)))

    return elementwise(call, (grad, x), x.dtype, body)


@REGISTRY.row("aten.mish_backward.default")
def mish_backward(call: Call, grad: Tensor, x: Tensor) -> Tensor:
    """The gradient: grad * (t + x * s * (1 - t * t)), t the hyperbolic tangent of softplus(x)."""

    def body(g: Node, v: Node) -> Node:
        t = e.tanh(softplus(v))
        slope = e.mul(e.mul(v, e.sigmoid(v)), e.sub(1.0, e.mul(t, t)))
        return e.mul(g, e.add(t, slope))

    return elementwise(call, (grad, x), x.dtype, body)


@REGISTRY.row("aten.gelu.default")
def gelu(call: Call, x: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x), with erf ("none") or its tanh approximation."""
    body = gelu_tanh if approximate == "tanh" else gelu_erf
    return elementwise(call, (x,), x.dtype, body)


@REGISTRY.row("aten.hardtanh.default")
def hardtanh(call: Call, x: Tensor, low: Any = -1, high: Any = 1) -> Tensor:
    """x limited to [low, high]."""
    return elementwise(call, (x,), x.dtype, lambda v: e.clamp(v, low, high))


@REGISTRY.row("aten.leaky_relu.default")
def leaky_relu(call: Call, x: Tensor, slope: Any = 0.01) -> Tensor:
    """x above 0, slope * x below."""
    return elementwise(call, (x,), x.dtype, lambda v: e.select(e.gt(v, 0.0), v, e.mul(v, slope)))


@REGISTRY.row("aten.elu.default")
def elu_(call: Call, x: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Tensor:
    """See `elu`."""
    parameters = float(alpha), float(scale), float(input_scale)
    return elementwise(call, (x,), x.dtype, lambda v: elu(v, *parameters))


@REGISTRY.row("aten.celu.default")
def celu(call: Call, x: Tensor, alpha: Any = 1.0) -> Tensor:
    """x above 0, alpha * (exp(x / alpha) - 1) below."""
    a = float(alpha)
    return elementwise(call, (x,), x.dtype, lambda v: elu(v, a, 1.0, 1.0 / a))


@REGISTRY.row("aten.softplus.default")
def softplus_(call: Call, x: Tensor, beta: Any = 1, threshold: Any = 20) -> Tensor:
    """See `softplus`."""
    return elementwise(call, (x,), x.dtype, lambda v: softplus(v, float(beta), float(threshold)))


@REGISTRY.row("aten.hardshrink.default")
def hardshrink(call: Call, x: Tensor, lambd: Any = 0.5) -> Tensor:
    """0 within [-lambd, lambd], x outside."""

    def body(v: Node) -> Node:
        inside = e.and_(e.ge(v, -float(lambd)), e.le(v, float(lambd)))
        return e.select(inside, 0.0, v)

    return elementwise(call, (x,), x.dtype, body)


@REGISTRY.row("aten.softshrink.default")
def softshrink(call: Call, x: Tensor, lambd: Any = 0.5) -> Tensor:
    """x moved towards 0 by lambd, 0 within [-lambd, lambd]."""
    width = float(lambd)

    def body(v: Node) -> Node:
        middle = e.select(e.isnan(v), v, 0.0)
        low = e.select(e.lt(v, -width), e.add(v, width), middle)
        return e.select(e.gt(v, width), e.sub(v, width), low)

    return elementwise(call, (x,), x.dtype, body)


@REGISTRY.row("aten.threshold.default")
def threshold(call: Call, x: Tensor, limit: Any, value: Any) -> Tensor:
    """`value` up to `limit`, x above."""
    return elementwise(call, (x,), x.dtype, lambda v: e.select(e.le(v, limit), value, v))


@REGISTRY.row("aten.prelu.default", "aten._prelu_kernel.default")
def prelu(call: Call, x: Tensor, weight: Tensor) -> Tensor:
    """x above 0, weight * x below; `prelu` has one weight for all or one per channel (dim 1)."""
    result, builder = call.result_type(), call.builder
    of_channels = call.op.target == "aten.prelu.default"

    def point(index: tuple[Expr, ...]) -> Node:
        v = element(builder, x, index, x.dtype.compute)
        # Without a dimension of channels there is one weight, which may have a dimension itself.
        at = (index[1:2] or (builder.zero,)) if of_channels else index
        w = element(builder, weight, at, x.dtype.compute)
        return narrow(e.select(e.gt(v, 0.0), v, e.mul(v, w)), result.dtype)

    return builder.pointwise(result.shape, result.dtype, point)


@REGISTRY.row("aten.glu.default")
def glu(call: Call, x: Tensor, dim: int = -1) -> Tensor:
    """The first half of x along `dim` times the sigmoid of the second."""
    axis = dim % x.rank
    half = FloorDiv(x.shape[axis], 2)
    result = call.result_type()

    def point(index: tuple[Expr, ...]) -> Node:
        other = [i + half if k == axis else i for k, i in enumerate(index)]
        a = element(call.builder, x, index, x.dtype.compute)
        b = element(call.builder, x, other, x.dtype.compute)
        return narrow(e.mul(a, e.sigmoid(b)), result.dtype)

    return call.builder.pointwise(result.shape, result.dtype, point)
