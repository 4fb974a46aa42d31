"""Writes where a mask is true: a running count says which value an element gets."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.dtypes import INT64
from aot.ir.scalar import Node, cast, where
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.compaction import counted
from aot.lowering.indexing import at_value
from aot.lowering.pointwise import narrow
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.lowering.rowwise import running
from aot.symbolic import Expr, as_expr, is_int, product, ravel, unravel


def masked_put(
    call: Call, x: Tensor, first: int, mask: Tensor, values: Tensor, accumulate: bool
) -> Tensor:
    """x with its slices where `mask` is true replaced by (or increased by) those of `values`.

    The mask lies over the dimensions from `first` on; the values have one in their place, as long
    as the mask has true elements, or of size 1.
    """
    rest = first + mask.rank
    axis = values.rank - 1 - (x.rank - rest)
    size = values.shape[axis] if axis >= 0 else as_expr(1)
    place = None if is_int(size, 1) else _Numbers(mask, size)

    def point(index: tuple[Expr, ...]) -> Node:
        own = index[first:rest]
        hit = e.truth(mask.load(own))
        at = as_expr(0) if place is None else place(own, hit)
        full = (*index[:first], at, *index[rest:])
        old = cast(x.load(index), x.dtype.compute)
        given = values.load_broadcast(full[len(full) - values.rank :], hit)
        new = cast(given, x.dtype.compute)
        return narrow(e.select(hit, e.add(old, new) if accumulate else new, old), x.dtype)

    return call.builder.pointwise(x.shape, x.dtype, point)


class _Numbers:
    """Which of `size` values each true element of a mask gets: they are as many, or one for all."""

    def __init__(self, mask: Tensor, size: Expr) -> None:
        self.mask, self.size = mask, size
        _, self.running, self.total = counted(mask)

    def __call__(self, at: Sequence[Expr], hit: Node) -> Expr:
        """The place of a value, for a load where `hit`; a fault where the numbers differ."""
        builder = self.mask.builder
        size, rank = builder.index_node(self.size), ravel(at, self.mask.shape)
        number = self.running.load((as_expr(0), rank))
        number = e.select(e.eq(self.total.load(()), size), number, e.add(size, 1))
        if not is_int(self.size):
            number = e.select(e.eq(size, 1), 1, number)
        # Numbers count from 1: 0 is a valid index for elements that are not hit, even where there
        # are no values at all.
        return at_value(builder, e.select(hit, number, 0), self.size + 1, wrap=False) - 1


@REGISTRY.row("aten.masked_scatter.default")
def masked_scatter(call: Call, x: Tensor, mask: Tensor, src: Tensor) -> Tensor:
    """x with the elements where mask is true replaced by src's, one after the other."""
    builder, result = call.builder, call.result_type()
    shape, count = result.shape, product(result.shape)

    def chosen(at: Sequence[Expr]) -> Node:
        return cast(mask.load_broadcast(unravel(at[0], shape)), INT64)

    flags = builder.pointwise((count,), INT64, chosen)
    numbers = running(flags, 0, INT64, "sum")

    def point(index: tuple[Expr, ...]) -> Node:
        here = e.truth(mask.load_broadcast(index))
        number = e.select(here, numbers.load((ravel(index, shape),)), 0)
        # Numbers count from 1: 0 is a valid index for elements that are not chosen, even where src
        # is empty.
        position = at_value(builder, number, product(src.shape) + 1, wrap=False) - 1
        value = cast(src.load(unravel(position, src.shape), here), x.dtype)
        return where(here, value, x.load_broadcast(index))

    return builder.pointwise(shape, x.dtype, point)
