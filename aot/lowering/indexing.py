"""Reads and writes at positions that tensors name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aot.ir.dtypes import BOOL, INT64, UINT8
from aot.ir.scalar import Node, cast
from aot.lowering import exprs as e
from aot.lowering.axes import replace, wrap_dim
from aot.lowering.builder import GraphBuilder, PointBody, Tensor
from aot.lowering.joined_writes import count_at, count_up_to, join_fresh
from aot.lowering.pointwise import narrow
from aot.lowering.promotion import TensorLike, element, promote
from aot.lowering.reductions import norm_of
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.lowering.searching import first_where
from aot.lowering.views import reshaped
from aot.symbolic import Expr, product, unravel


def at_value(builder: GraphBuilder, value: Node, size: Expr, wrap: bool) -> Expr:
    """The position that an integer value names in a dimension of `size`, as an index expression."""
    return builder.indirect(value, size, wrap)


@REGISTRY.row("aten.embedding.default")
def embedding(call: Call, weight: Tensor, indices: Tensor, *_: Any, **__: Any) -> Tensor:
    """Rows of `weight`."""
    builder = call.builder

    def point(index: tuple[Expr, ...]) -> Node:
        row = at_value(builder, indices.load(index[:-1]), weight.shape[0], wrap=False)
        return weight.load((row, index[-1]))

    return builder.pointwise((*indices.shape, weight.shape[1]), weight.dtype, point)


@REGISTRY.row("aten.embedding_renorm.default")
def embedding_renorm(
    call: Call, weight: Tensor, indices: Tensor, most: float, order: float
) -> Tensor:
    """`weight`, whose rows that `indices` names have norms of at most `most`."""
    builder, compute = call.builder, weight.dtype.compute
    flat = reshaped(indices, (product(indices.shape),))
    size = weight.shape[0]

    def row(at: Expr) -> Expr:
        return at_value(builder, flat.load((at,)), size, wrap=False)

    def factor(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        norm = norm_of(cast(weight.load((row(index[0]), rindex[0])), compute), float(order))
        too_long = e.gt(norm, float(most))
        return e.select(too_long, e.div(e.lift(float(most), norm), e.add(norm, 1e-7)), 1.0)

    factors = builder.reduction(flat.shape, weight.shape[1:], [(compute, factor)])[0]

    def value(at: tuple[Expr, ...]) -> Node:
        own = cast(weight.load((row(at[0]), at[1])), compute)
        return narrow(e.mul(own, factors.load(at[:1])), weight.dtype)

    points = (*flat.shape, weight.shape[1])
    return builder.update(weight, points, lambda at: (row(at[0]), at[1]), value)


@REGISTRY.row("aten.gather.default")
def gather(call: Call, x: Tensor, dim: int, indices: Tensor, **_: Any) -> Tensor:
    """x at the positions along `dim` that `indices` names, elsewhere at the same place."""
    axis, builder = wrap_dim(dim, x.rank), call.builder

    def point(index: tuple[Expr, ...]) -> Node:
        if x.rank == 0:
            return x.load(())
        place = at_value(builder, indices.load(index), x.shape[axis], wrap=False)
        return x.load(replace(index, axis, place))

    return builder.pointwise(indices.shape, x.dtype, point)


@REGISTRY.row("aten.index_select.default")
def index_select(call: Call, x: Tensor, dim: int, indices: Tensor) -> Tensor:
    """Slices of x along `dim`."""
    axis, builder = wrap_dim(dim, x.rank), call.builder

    def point(index: tuple[Expr, ...]) -> Node:
        if x.rank == 0:
            return x.load(())
        named = indices.load((index[axis],) if indices.rank else ())
        return x.load(replace(index, axis, at_value(builder, named, x.shape[axis], wrap=False)))

    return builder.pointwise(call.result_type().shape, x.dtype, point)


@REGISTRY.row("aten.take.default")
def take(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    """Elements of the flat x."""
    builder, size = call.builder, product(x.shape)

    def point(index: tuple[Expr, ...]) -> Node:
        position = at_value(builder, indices.load(index), size, wrap=True)
        return x.load(unravel(position, x.shape))

    return builder.pointwise(indices.shape, x.dtype, point)


def index_tensors(x: Tensor, indices: Sequence[Tensor | None]) -> dict[int, Tensor]:
    """Dimension -> index tensor.

    Raises:
        CannotLower: An index is a mask, whose values would determine the result's size.
    """
    found = {k: t for k, t in enumerate(indices) if t is not None}
    if any(t.dtype in (BOOL, UINT8) for t in found.values()):
        raise CannotLower("the result's size depends on the values of a mask")
    return found


def _broadcast_rank(tensors: dict[int, Tensor]) -> int:
    return max(t.rank for t in tensors.values())


def broadcast_at(tensors: Mapping[int, Tensor]) -> int:
    """Where the index tensors' dimensions go: in place when they stand together, else in front."""
    dims = sorted(tensors)
    together = dims == list(range(dims[0], dims[-1] + 1))
    return dims[0] if together else 0


@REGISTRY.row("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index_tensor(call: Call, x: Tensor, indices: tuple[Tensor | None, ...]) -> Tensor:
    """x[indices], as NumPy's advanced indexing with integer tensors."""
    builder, tensors = call.builder, index_tensors(x, indices)
    if not tensors:
        return builder.pointwise(x.shape, x.dtype, x.load)
    rank, place = _broadcast_rank(tensors), broadcast_at(tensors)

    def point(index: tuple[Expr, ...]) -> Node:
        shared = index[place : place + rank]
        rest = iter((*index[:place], *index[place + rank :]))
        own = [
            at_value(builder, tensors[k].load_broadcast(shared), size, wrap=True)
            if k in tensors
            else next(rest)
            for k, size in enumerate(x.shape)
        ]
        return x.load(own)

    return builder.pointwise(call.result_type().shape, x.dtype, point)


_BAG = ("sum", "mean", "max")
"""Names of embedding_bag's mode numbers."""


@REGISTRY.row("aten._embedding_bag_forward_only.default", "aten._embedding_bag.default")
def embedding_bag(
    call: Call,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor | None, ...]:
    """(rows of `weight` joined over each bag, …); the other results are for gradients only.

    Rows of the number `padding_idx` do not count.

    Raises:
        CannotLower: A result that is for gradients only is used.
    """
    if any(name is not None for name in call.op.outputs[1:]):
        raise CannotLower("embedding_bag's results for gradients")
    bags = call.result_type().shape[0]
    bag_of = _bags(indices, offsets, bags, padding_idx)

    def value(at: tuple[Expr, ...]) -> Node:
        row = at_value(weight.builder, indices.load(at[:1]), weight.shape[0], wrap=False)
        own = cast(weight.load((row, at[1])), weight.dtype.compute)
        if per_sample_weights is None:
            return own
        return e.mul(own, cast(per_sample_weights.load(at[:1]), own.dtype))

    out = _joined_bags(call, weight, bag_of, bags, value, _BAG[mode])
    return (out, *(None for _ in call.op.outputs[1:]))


def _bags(indices: Tensor, offsets: Tensor, bags: Expr, padding: int) -> Tensor:
    """The bag that each index belongs to; `bags` for those that count nowhere.

    A running count of the bags that have begun.
    """
    builder, places = indices.builder, indices.shape[0] + 1

    def place(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (at_value(builder, offsets.load(at), places, wrap=False),)

    begun = count_up_to(builder, (places,), offsets.shape, place)

    def bag(at: tuple[Expr, ...]) -> Node:
        number = cast(begun.load(at), INT64)
        # Before the first offset, and behind the last one where that ends the bags.
        outside = e.or_(e.eq(number, 0), e.gt(number, builder.index_node(bags)))
        if padding >= 0:
            outside = e.or_(outside, e.eq(cast(indices.load(at), INT64), padding))
        return cast(e.select(outside, builder.index_node(bags), e.sub(number, 1)), begun.dtype)

    return builder.pointwise(indices.shape, begun.dtype, bag)


def _joined_bags(
    call: Call, weight: Tensor, bag_of: Tensor, bags: Expr, value: PointBody, kind: str
) -> Tensor:
    """Rows of values joined over each bag; 0 in empty ones."""
    builder, result, width = call.builder, call.result_type(), weight.shape[1]
    points = (*bag_of.shape, width)

    def place(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        # One more row takes what counts nowhere.
        return (at_value(builder, bag_of.load(at[:1]), bags + 1, wrap=False), *at[1:])

    total, joined = join_fresh(builder, (bags + 1, width), weight.dtype, points, place, value, kind)
    sizes = None if kind == "sum" else count_at(builder, (bags + 1,), bag_of.shape, place)

    def row(at: tuple[Expr, ...]) -> Node:
        found = joined.give(total.load(at))
        if sizes is not None:
            size = sizes.load(at[:1])
            if kind == "mean":
                found = e.div(found, cast(e.maximum(size, 1), found.dtype))
            else:
                found = e.select(e.gt(size, 0), found, 0.0)
        return narrow(found, result.dtype)

    return builder.pointwise(result.shape, result.dtype, row)


@REGISTRY.row("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(
    call: Call,
    x: TensorLike,
    boundaries: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> Tensor:
    """How many boundaries lie below each value (`right`: not above it)."""
    return _places(call, boundaries, x, right)


@REGISTRY.row("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(
    call: Call,
    boundaries: Tensor,
    x: TensorLike,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """How many boundaries of its row lie below each value (`right`: not above it).

    `sorter`: positions of the boundaries in order.
    """
    return _places(call, boundaries, x, right or side == "right", sorter)


def _places(
    call: Call, boundaries: Tensor, x: TensorLike, right: bool, sorter: Tensor | None = None
) -> Tensor:
    """A binary search in the row of each value; NaN is above all boundaries."""
    builder, result = call.builder, call.result_type()
    compute = promote(boundaries, x).compute

    def point(index: tuple[Expr, ...]) -> Node:
        value = element(builder, x, index, compute)
        row = index[: boundaries.rank - 1]

        def beyond(place: Expr) -> Node:
            at = (*row, place)
            if sorter is not None:
                named = at_value(builder, sorter.load(at), boundaries.shape[-1], wrap=False)
                at = (*row, named)
            edge = cast(boundaries.load(at), compute)
            return e.gt(edge, value) if right else e.ge(edge, value)

        return cast(first_where(builder, boundaries.shape[-1], beyond), result.dtype)

    return builder.pointwise(result.shape, result.dtype, point)
