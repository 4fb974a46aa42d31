"""Dimension numbers and positions along a dimension, as operators give them."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.scalar import Node, cast
from aot.lowering.builder import GraphBuilder, Tensor
from aot.symbolic import Expr, Maximum, Minimum, as_expr, from_front


def wrap_dim(dim: int, rank: int) -> int:
    """A dimension counted from either end, as one counted from the front (0-d tensors have one)."""
    return dim % max(rank, 1)


def wrap_dims(dims: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Dimension numbers in order of position; None and () mean all of them."""
    if dims is None:
        return tuple(range(rank))
    listed = (dims,) if isinstance(dims, int) else tuple(dims)
    if not listed:
        return tuple(range(rank))
    return tuple(sorted({wrap_dim(int(d), rank) for d in listed} & set(range(rank))))


def wrap_position(builder: GraphBuilder, position: int | Expr, size: Expr) -> Expr:
    """A position along a dimension, counted from the end when negative.

    Where its sign depends on sizes, what counts it depends on them too.
    """
    expr = as_expr(position)
    if builder.ranges.nonnegative(-expr - 1):
        return expr + size
    return expr if builder.ranges.nonnegative(expr) else from_front(expr, size)


def clamp_position(builder: GraphBuilder, position: int | Expr, size: Expr) -> Expr:
    """As `wrap_position`, limited to [0, size] as slices are."""
    wrapped = wrap_position(builder, position, size)
    return builder.ranges.simplify(Maximum(as_expr(0), Minimum(wrapped, size)))


def replace(index: Sequence[Expr], axis: int, value: Expr) -> tuple[Expr, ...]:
    """`index` with another expression at `axis`."""
    return tuple(value if k == axis else i for k, i in enumerate(index))


def insert(index: Sequence[Expr], axis: int, value: Expr) -> tuple[Expr, ...]:
    """`index` with one more expression, at `axis`."""
    return (*index[:axis], value, *index[axis:])


def remove(index: Sequence[Expr], axis: int) -> tuple[Expr, ...]:
    """`index` without the expression at `axis`."""
    return (*index[:axis], *index[axis + 1 :])


def widened(tensor: Tensor, index: Sequence[Expr]) -> Node:
    """The tensor's element in the type that arithmetic runs in."""
    return cast(tensor.load(index), tensor.dtype.compute)
