"""What taking apart an operator with results of measured sizes needs: names, types, dims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aot.errors import wrongly_traced
from aot.frontend.context import Context
from aot.ir.dtypes import BOOL, INT64, UINT8, DType
from aot.ir.origin import Origin
from aot.ir.tensors import SizeRead, TensorType, ValueRef
from aot.symbolic import Expr, integer, is_int, product, row_major_strides

_HINT = 64
"""Of a measured size of which nothing is known, for cost models."""

_TRUE = 2
"""One of so many elements is true, for cost models."""


@dataclass(frozen=True)
class MeasuredCall:
    """A call that makes a size: `name` of its result, and torch's symbol with its range.

    The symbol is "" when torch knows the size: the same mask was measured before, or is empty.
    """

    name: str
    args: tuple[Any, ...]
    result: Any
    symbol: str
    bounds: tuple[Any, Any]
    origin: Origin


def bind_dim(
    context: Context,
    call: MeasuredCall,
    value: str,
    low: int,
    high: int | None,
    hint: int = _HINT,
) -> Expr:
    """A new dim, read from an int64 without dimensions. `hint`: about what it will be."""
    hint = max(low, min(hint, hint if high is None else high))
    label = f"{call.origin.operator.removeprefix('aten.').partition('.')[0]} of {call.name}"
    size = context.measured.add(low, high, hint, label)
    context.ops.add(SizeRead(str(size), value, call.origin))
    return size


def name_size(context: Context, call: MeasuredCall, size: Expr) -> Expr:
    """`size` is what torch's symbol stands for from now on."""
    if call.symbol:
        context.sizes.measure(call.symbol, size)
    return size


def emit(
    context: Context,
    call: MeasuredCall,
    target: str,
    args: tuple[Any, ...],
    name: str,
    type_: TensorType,
) -> ValueRef:
    """One more operator, whose result is `name` of that type."""
    return context.ops.call(target, args, name, type_, call.origin)


def dense(dtype: Any, *shape: Expr) -> TensorType:
    """The type of a contiguous tensor."""
    return TensorType(dtype, shape, row_major_strides(shape))


def check_traced(type_: TensorType, dtype: DType) -> None:
    """Check that torch says the type that results have, as some versions do not.

    Raises:
        ValueError: It says another.
    """
    if type_.dtype != dtype:
        raise ValueError(wrongly_traced(dtype, type_.dtype))


def flattened(context: Context, call: MeasuredCall, x: ValueRef) -> ValueRef:
    """A tensor's elements in one dimension."""
    type_ = context.ops.types[x.name]
    if len(type_.shape) == 1:  # what a view before the count and a read after it share is stored
        return x
    count = product(type_.shape)
    flat = dense(type_.dtype, count)
    return emit(context, call, "aten.view.default", (x, (count,)), f"{call.name}.flat", flat)


def is_mask(context: Context, index: Any) -> bool:
    """Whether an index says of each element if it is meant."""
    return isinstance(index, ValueRef) and context.ops.types[index.name].dtype in (BOOL, UINT8)


def true_count(context: Context, call: MeasuredCall, mask: ValueRef, name: str) -> Expr:
    """The dim that counts the mask's true elements; `name` begins that of what is read."""
    known = context.bindings.true_counts.get(mask.name)
    if known is not None:
        return known
    most = product(context.ops.types[mask.name].shape)
    if is_int(most, 0):
        return integer(0)
    count = emit(context, call, "aot.true_count.default", (mask,), f"{name}.count", dense(INT64))
    high = int(most) if is_int(most) else None
    hint = _HINT if high is None else -(-high // _TRUE)
    size = bind_dim(context, call, count.name, 0, high, hint)
    context.bindings.bind_true_count(mask.name, size)
    return size


def true_places(context: Context, call: MeasuredCall, mask: ValueRef, name: str) -> ValueRef:
    """Indices of the true elements, a row each; `name` begins those of what computes them."""
    known = context.bindings.true_places.get(mask.name)
    if known is None:
        rank = len(context.ops.types[mask.name].shape)
        type_ = dense(INT64, true_count(context, call, mask, name), integer(rank))
        name = f"{name}.indices"
        known = emit(context, call, "aot.true_places.default", (mask,), name, type_)
        context.bindings.bind_true_places(mask.name, known)
    return known
