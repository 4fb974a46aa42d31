"""Runs of points whose ends are data, checked, and what they are reduced to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from aot.ir.dtypes import INT64, DType
from aot.ir.nests import View
from aot.ir.scalar import Node
from aot.ir.templates.bags import Bags
from aot.lowering import exprs as e
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.symbolic import Expr


def checked(values: Tensor, size: Expr) -> Tensor:
    """Integers as int64; those that are no positions in a dimension of `size` are faults."""
    builder = values.builder

    def point(at: tuple[Expr, ...]) -> Node:
        return builder.index_node(builder.indirect(values.load(at), size, wrap=False))

    return builder.pointwise(values.shape, INT64, point)


@dataclass(frozen=True)
class Runs:
    """Runs of points: where each begins, and where it ends. Both are (runs) int64."""

    begins: Tensor
    ends: Tensor

    @classmethod
    def between(
        cls,
        builder: GraphBuilder,
        count: Expr,
        points: Expr,
        bounds: Callable[[Expr], tuple[Node, Node]],
        first: Callable[[Expr], Node] | None = None,
    ) -> Runs:
        """So many runs, within `points` each; `first`: how many points lie before those of a run.

        A run that ends before it begins, or lies outside, is a fault.
        """

        def edge(at: tuple[Expr, ...], last: bool) -> Node:
            begin, end = bounds(at[0])
            place = e.select(e.lt(end, begin), -1, end) if last else begin
            found = builder.index_node(builder.indirect(place, points + 1, wrap=False))
            return found if first is None else e.add(found, first(at[0]))

        return cls(
            *builder.pointwise_many(
                (count,), [(INT64, partial(edge, last=last)) for last in (False, True)]
            )
        )

    def size(self, run: Expr) -> Node:
        """How many points a run has."""
        return e.sub(self.ends.load((run,)), self.begins.load((run,)))

    def reduced(
        self,
        x: View,
        dtype: DType,
        combine: str,
        *,
        rows: View | None = None,
        weights: View | None = None,
        skipped: int | None = None,
    ) -> Tensor:
        """(runs, width): see templates.bags. `dtype`: x's; results have what it computes in."""
        call = partial(
            Bags,
            x=x,
            begins=identity_view(self.begins),
            ends=identity_view(self.ends),
            combine=combine,
            rows=rows,
            weights=weights,
            skipped=skipped,
        )
        shape = (self.begins.shape[0], x.axes[1].extent)
        return self.begins.builder.template(call, shape, dtype.compute)
