"""Distances between vectors, and products of three tensors: sums over a dimension of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aot.ir.scalar import Node, cast, reduce_
from aot.lowering import exprs as e
from aot.lowering.axes import wrap_dim
from aot.lowering.builder import Tensor
from aot.lowering.pointwise import narrow
from aot.lowering.reductions import norm_of
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.lowering.triangles import Triangle
from aot.symbolic import Expr


def _distance(a: Node, b: Node, order: float) -> Node:
    """The norm of a - b over the nest's reduction; 0 for vectors of no elements."""
    # The greatest of nothing would be -inf.
    return e.maximum(norm_of(e.sub(a, b), order), 0.0)


@REGISTRY.row("aten._cdist_forward.default")
def cdist(call: Call, a: Tensor, b: Tensor, p: float, compute_mode: int | None = None) -> Tensor:
    """The distances of order p between the rows of a and the rows of b."""
    result = call.result_type()
    compute = result.dtype.compute

    def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        *batch, i, j = index
        x = cast(a.load_broadcast((*batch, i, rindex[0])), compute)
        y = cast(b.load_broadcast((*batch, j, rindex[0])), compute)
        return narrow(_distance(x, y, float(p)), result.dtype)

    return call.builder.reduction(result.shape, a.shape[-1:], [(result.dtype, body)])[0]


@REGISTRY.row("aten._pdist_forward.default")
def pdist(call: Call, x: Tensor, p: float = 2.0) -> Tensor:
    """The distances of order p between every two rows of x: the upper triangle, row by row."""
    result, builder = call.result_type(), call.builder
    compute, (count, size) = result.dtype.compute, x.shape
    pairs = Triangle(builder, count)

    def column(at: tuple[Expr, ...]) -> Node:
        inside = e.lt(builder.index_node(at[1]), builder.index_node(count))
        return e.select(inside, x.load(at[::-1], inside), 0.0)

    columns = builder.pointwise((size, pairs.reach), x.dtype, column)

    def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        rows = pairs.rows(index, lambda row: columns.load((rindex[0], row)))
        a, b = (cast(row, compute) for row in rows)
        return narrow(_distance(a, b, float(p)), result.dtype)

    folded = builder.reduction(pairs.shape, (size,), [(result.dtype, body)])[0]
    return pairs.unfolded(folded, result.shape)


@REGISTRY.row("aten._trilinear.default")
def trilinear(
    call: Call,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    expand_a: Sequence[int],
    expand_b: Sequence[int],
    expand_c: Sequence[int],
    summed: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """The sum over `summed` of a * b * c, each with dimensions of size 1 put in at its `expand`."""
    rank = a.rank + len(expand_a)
    result, builder = call.result_type(), call.builder
    compute = result.dtype.compute
    gone = {wrap_dim(d, rank) for d in summed}
    factors = [(a, expand_a), (b, expand_b), (c, expand_c)]
    added = [{wrap_dim(d, rank) for d in dims} for _, dims in factors]
    sizes: list[Any] = [None] * rank
    for (tensor, _), skipped in zip(factors, added, strict=True):
        own = [k for k in range(rank) if k not in skipped]
        for k, size in zip(own, tensor.shape, strict=True):
            if sizes[k] is None or size != 1:
                sizes[k] = size

    def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        outer, inner = iter(index), iter(rindex)
        full = [next(inner if k in gone else outer) for k in range(rank)]
        value: Node | None = None
        for (tensor, _), skipped in zip(factors, added, strict=True):
            at = tuple(i for k, i in enumerate(full) if k not in skipped)
            factor = cast(tensor.load_broadcast(at), compute)
            value = factor if value is None else e.mul(value, factor)
        assert value is not None
        return narrow(reduce_("sum", value), result.dtype)

    reduced = [sizes[k] for k in sorted(gone)]
    return builder.reduction(result.shape, reduced, [(result.dtype, body)])[0]
