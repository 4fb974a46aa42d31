"""Operators that make tensors from numbers, and those that look at positions only."""

from __future__ import annotations

from typing import Any

from aot.ir.dtypes import FLOAT64, INT64
from aot.ir.scalar import Node, cast, const, where
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.pointwise import elementwise
from aot.lowering.promotion import TensorLike, element, size_node
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, as_expr


def filled(call: Call, value: TensorLike) -> Tensor:
    """A tensor of the result's type with one value everywhere."""
    result = call.result_type()

    def point(index: tuple[Expr, ...]) -> Node:
        return element(call.builder, value, index, result.dtype)

    return call.builder.pointwise(result.shape, result.dtype, point)


@REGISTRY.row("aten.full.default", "aten.full_like.default", "aten.fill.Scalar", "aten.fill.Tensor")
def full(call: Call, _: Any, value: TensorLike, **__: Any) -> Tensor:
    """`value` everywhere."""
    return filled(call, value)


@REGISTRY.row("aten.new_full.default")
def new_full(call: Call, _: Any, __: Any, value: TensorLike, **___: Any) -> Tensor:
    """`value` everywhere."""
    return filled(call, value)


@REGISTRY.row("aten.scalar_tensor.default")
def scalar_tensor(call: Call, value: TensorLike, **_: Any) -> Tensor:
    """A 0-d tensor."""
    return filled(call, value)


@REGISTRY.row(
    "aten.zeros.default",
    "aten.zeros_like.default",
    "aten.new_zeros.default",
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.new_empty.default",
    "aten.empty_permuted.default",
    "aten.new_empty_strided.default",
    "aten.empty_strided.default",
)
def zeros(call: Call, *_: Any, **__: Any) -> Tensor:
    """0 everywhere; memory that eager leaves unset is 0 too."""
    return filled(call, 0)


@REGISTRY.row("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(call: Call, *_: Any, **__: Any) -> Tensor:
    """1 everywhere."""
    return filled(call, 1)


def _arange(call: Call, start: Any, step: Any) -> Tensor:
    result, builder = call.result_type(), call.builder
    # For an integer result eager truncates start and step to integers first.
    truncated = (bool, float) if result.dtype.is_integral else bool
    start, step = (int(v) if isinstance(v, truncated) else v for v in (start, step))

    def point(index: tuple[Expr, ...]) -> Node:
        if any(isinstance(v, float) for v in (start, step)):
            count = cast(builder.index_node(index[0]), FLOAT64)
            value = e.add(e.mul(count, float(step)), float(start))
            return cast(value, result.dtype)
        return size_node(builder, as_expr(start) + index[0] * step, result.dtype)

    return builder.pointwise(result.shape, result.dtype, point)


@REGISTRY.row("aten.arange.default")
def arange(call: Call, end: Any, **_: Any) -> Tensor:
    """0, 1, … below `end`."""
    return _arange(call, 0, 1)


@REGISTRY.row("aten.arange.start", "aten.arange.start_step")
def arange_start(call: Call, start: Any, end: Any, step: Any = 1, **_: Any) -> Tensor:
    """start, start + step, … below `end`."""
    return _arange(call, start, step)


@REGISTRY.row(
    "aten.linspace.default",
    "aten.linspace.Tensor_Tensor",
    "aten.linspace.Tensor_Scalar",
    "aten.linspace.Scalar_Tensor",
)
def linspace(call: Call, start: TensorLike, end: TensorLike, steps: Any, **_: Any) -> Tensor:
    """`steps` numbers evenly from start to end, counted from the nearer end."""
    result, builder = call.result_type(), call.builder
    size = as_expr(steps)

    def point(index: tuple[Expr, ...]) -> Node:
        k = size_node(builder, index[0], FLOAT64)
        last = size_node(builder, size - 1, FLOAT64)
        ends = (element(builder, bound, (), result.dtype.compute) for bound in (start, end))
        from_, to = (cast(value, FLOAT64) for value in ends)
        width = e.div(e.sub(to, from_), e.maximum(last, 1.0))
        low = e.add(e.mul(k, width), from_)
        high = e.sub(to, e.mul(e.sub(last, k), width))
        middle = e.lt(e.mul(k, 2.0), e.add(last, 1.0))
        return cast(e.select(middle, low, high), result.dtype)

    return builder.pointwise(result.shape, result.dtype, point)


@REGISTRY.row("aten.eye.default", "aten.eye.m")
def eye(call: Call, *_: Any, **__: Any) -> Tensor:
    """1 on the diagonal."""
    result, builder = call.result_type(), call.builder

    def point(index: tuple[Expr, ...]) -> Node:
        row, column = (builder.index_node(i) for i in index)
        return cast(e.eq(row, column), result.dtype)

    return builder.pointwise(result.shape, result.dtype, point)


def _triangle(call: Call, x: Tensor, diagonal: Any, lower: bool) -> Tensor:
    builder = call.builder

    def point(index: tuple[Expr, ...]) -> Node:
        column = builder.index_node(index[-1])
        edge = builder.index_node(index[-2] + diagonal)
        kept = e.le(column, edge) if lower else e.ge(column, edge)
        return where(kept, x.load(index), const(0, x.dtype))

    return builder.pointwise(x.shape, x.dtype, point)


@REGISTRY.row("aten.tril.default")
def tril(call: Call, x: Tensor, diagonal: Any = 0) -> Tensor:
    """x up to a diagonal, 0 above."""
    return _triangle(call, x, diagonal, lower=True)


@REGISTRY.row("aten.triu.default")
def triu(call: Call, x: Tensor, diagonal: Any = 0) -> Tensor:
    """x from a diagonal on, 0 below."""
    return _triangle(call, x, diagonal, lower=False)


@REGISTRY.row("aten.one_hot.default")
def one_hot(call: Call, x: Tensor, num_classes: int = -1) -> Tensor:
    """1 at the place that x names, in a new last dimension."""
    result, builder = call.result_type(), call.builder

    def point(index: tuple[Expr, ...]) -> Node:
        place = builder.index_node(index[-1])
        return cast(e.eq(cast(x.load(index[:-1]), INT64), place), result.dtype)

    return builder.pointwise(result.shape, result.dtype, point)


@REGISTRY.row("aten.isin.Tensor_Scalar")
def isin_scalar(
    call: Call, x: Tensor, value: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element equals `value`."""
    body = e.ne if invert else e.eq
    return elementwise(call, (x, value), x.dtype, body)
