"""PyTorch's type promotion, and operands of elementwise bodies as nodes of one type."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT8S,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
)
from aot.ir.scalar import Node, cast, const
from aot.lowering.builder import GraphBuilder, Tensor
from aot.symbolic import Expr, is_int

Scalar = bool | int | float
TensorLike = Tensor | Expr | Scalar
"""What an elementwise operator takes: a tensor, a symbolic size, or a Python number."""

# Where wide unsigned and float8 types stand is all one: torch joins them with none of their kind.
_INTEGERS = (BOOL, UINT8, INT8, INT16, UINT16, INT32, UINT32, INT64, UINT64)
_ORDER = (*_INTEGERS, *FLOAT8S, FLOAT16, BFLOAT16, FLOAT32, FLOAT64)
_EXCEPTIONS = {frozenset((UINT8, INT8)): INT16, frozenset((FLOAT16, BFLOAT16)): FLOAT32}


def join(a: DType, b: DType) -> DType:
    """The type that two tensors of one priority promote to."""
    pair = frozenset((a, b))
    return _EXCEPTIONS.get(pair) or max(pair, key=_ORDER.index)


def _category(dtype: DType) -> int:
    return 2 if dtype.is_float else 1 if dtype.is_integral else 0


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    """`lower` wins only when it is of a higher category: bool < integers < floats."""
    if higher is None or lower is None:
        return higher or lower
    return join(higher, lower) if _category(lower) > _category(higher) else higher


def scalar_dtype(value: Expr | Scalar) -> DType:
    """The type that a Python number (or a size) stands for."""
    if isinstance(value, bool):
        return BOOL
    return FLOAT32 if isinstance(value, float) else INT64


def promote(*operands: TensorLike | None) -> DType:
    """The common type: tensors with dimensions come first, then 0-d tensors, then numbers.

    None operands are skipped.

    Raises:
        ValueError: No operand is left.
    """
    tiers: list[DType | None] = [None, None, None]
    for operand in operands:
        if operand is None:
            continue
        if isinstance(operand, Tensor):
            tier, dtype = (0 if operand.rank else 1), operand.dtype
        else:
            tier, dtype = 2, scalar_dtype(operand)
        known = tiers[tier]
        tiers[tier] = dtype if known is None else join(known, dtype)
    result = _combine(tiers[0], _combine(tiers[1], tiers[2]))
    if result is None:
        raise ValueError("nothing to promote")
    return result


def promote_float(*operands: TensorLike | None) -> DType:
    """As `promote`, integers and bool becoming float32: what true division and sin compute in."""
    dtype = promote(*operands)
    return dtype if dtype.is_float else FLOAT32


def wrap_integer(value: int, dtype: DType) -> int:
    """`value` modulo the range of an integer type, as a C cast does."""
    bits = 8 * dtype.itemsize
    low = 0 if dtype.kind == "u" else -(1 << (bits - 1))
    return (value - low) % (1 << bits) + low


def number(value: Scalar, dtype: DType) -> Node:
    """A Python number as a constant of `dtype`."""
    if dtype.is_integral and isinstance(value, float):
        value = int(value)
    return const(wrap_integer(int(value), dtype) if dtype.is_integral else value, dtype)


def size_node(builder: GraphBuilder, size: Expr, dtype: DType) -> Node:
    """A size (or any index expression) as a node of `dtype`."""
    return number(int(size), dtype) if is_int(size) else cast(builder.index_node(size), dtype)


def element(
    builder: GraphBuilder, operand: TensorLike, index: Sequence[Expr], dtype: DType
) -> Node:
    """The operand's element at `index` of the broadcast result, in `dtype`."""
    if isinstance(operand, Tensor):
        return cast(operand.load_broadcast(index), dtype)
    if isinstance(operand, (bool, int, float)):
        return number(operand, dtype)
    return size_node(builder, operand, dtype)
