"""Products of groups: rows (or columns) of one operand, each times the matrix of its group.

The groups follow one another; `ends` says where each one ends, as cumulative counts. Mixtures of
experts sort what is sent to them by expert and multiply so.
"""

from __future__ import annotations

from aot.ir.dtypes import INT64
from aot.ir.scalar import Node, cast, const, reduce_
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.matmul import products, rounded
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.lowering.searching import first_where
from aot.symbolic import Expr

Shape = tuple[Expr, ...]


@REGISTRY.row("aten._grouped_mm.default", "transformers.grouped_mm_fallback.default")
def grouped_mm(
    call: Call,
    a: Tensor,
    b: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: object = None,
) -> Tensor:
    """Products of each group: (m, k) by (g, k, n) to (m, n), or (g, m, k) by (k, n) to (m, n).

    Args:
        call: The call.
        a: The left operand; its rows are grouped where it has two dimensions.
        b: The right one; its columns are grouped where it has two.
        offs: Where each group ends, int32 or int64 of shape (g,); None for a product of batches.
        bias: None: no version of torch takes one.
        out_dtype: Of the result, which is known.
    """
    result = call.result_type()
    if offs is None:
        whole = (a.rank, b.rank) == (3, 3)
        if not whole:
            raise CannotLower("its groups have no ends")
        return rounded(products(a, b, result.shape), result.dtype)
    if (a.rank, b.rank) == (2, 2) or bias is not None:
        raise CannotLower("its groups divide the depth, which is for gradients only")
    grouped, groups = (0, b.shape[0]) if a.rank == 2 else (1, a.shape[0])
    of_group = _groups(call, offs, result.shape[grouped])
    compute, depth = a.dtype.compute, a.shape[-1]

    def product(at: Shape, along: Shape) -> Node:
        group = of_group.load((at[grouped],))
        known = e.lt(group, call.builder.index_node(groups))
        place = call.builder.indirect(e.select(known, group, 0), groups, wrap=False)
        left = (at[0], *along) if grouped == 0 else (place, at[0], *along)
        right = (place, *along, at[1]) if grouped == 0 else (*along, at[1])
        term = e.mul(cast(a.load(left), compute), cast(b.load(right), compute))
        total = reduce_("sum", term)
        # Rows after the last group: eager leaves them as they are, or zero.
        return cast(e.select(known, total, const(0, compute)), result.dtype)

    return call.builder.reduction(result.shape, (depth,), [(result.dtype, product)])[0]


def _groups(call: Call, ends: Tensor, count: Expr) -> Tensor:
    """The group of each of `count` positions; as many as there are groups for none.

    Each looks for its group among the few ends, within the kernel that asks. `ended` of
    segments.py counts them for ends as many as positions, by a scatter and a scan.
    """
    builder = call.builder

    def group(at: Shape) -> Node:
        position = builder.index_node(at[0])
        return first_where(
            builder, ends.shape[0], lambda k: e.gt(cast(ends.load((k,)), INT64), position)
        )

    return builder.pointwise((count,), INT64, group)
