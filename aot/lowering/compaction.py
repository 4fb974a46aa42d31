"""Where a tensor is true: what operators with results of measured sizes are made of.

The front end takes such an operator apart. A partition says where the true elements are and how
many; that number is read and becomes a dim; what follows has plain sizes.
"""

from __future__ import annotations

from functools import partial

from aot.ir.dtypes import BOOL, INT64
from aot.ir.nests import Store
from aot.ir.scalar import Node, cast, check_index, const, reduce_, where
from aot.ir.templates.scan import Scan
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor, identity_view
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, product, unravel, var


def counted(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For the n elements of x: (1 where one is not 0, their running sum, the whole sum).

    All int64; of shapes (1, n), (1, n) and ().
    """
    builder, count = x.builder, product(x.shape)
    flags, running = _running(x)

    def last(at: tuple[Expr, ...]) -> Node:
        some = e.gt(builder.index_node(count), 0)
        return running.load((builder.zero, count - 1), some)

    return flags, running, builder.pointwise((), INT64, last)


def _flag(x: Tensor, number: Expr) -> Node:
    """1 where the element of that number is not 0, else 0."""
    return cast(cast(x.load(unravel(number, x.shape)), BOOL), INT64)


def _running(x: Tensor) -> tuple[Tensor, Tensor]:
    """For the n elements of x: 1 where one is not 0, and their running sum; int64, (1, n)."""
    builder, count = x.builder, product(x.shape)
    flags = builder.pointwise(
        (builder.one, count),
        INT64,
        lambda at: _flag(x, at[1]),
    )
    running = builder.template(
        partial(Scan, x=identity_view(flags), combine="sum"), (builder.one, count), INT64
    )
    return flags, running


@REGISTRY.row("aot.partition.default")
def partition(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    """Row-major positions of elements that are not 0, then of the others; how many are not 0.

    Each element's place follows from a running count, so that every place is written once, by the
    kernel that counts. It does not know where the others begin: they come in the opposite order.
    """
    builder, count = call.builder, product(x.shape)
    flags, running = _running(x)
    total = builder.reduction(
        (), (count,), [(INT64, lambda _, at: reduce_("sum", _flag(x, at[0])))]
    )[0]
    positions = builder.empty((count,), INT64)

    def place(at: tuple[Expr, ...]) -> Store:
        here, before = builder.index_node(at[0]), running.load((builder.zero, at[0]))
        kept = e.gt(flags.load((builder.zero, at[0])), 0)
        behind = e.sub(e.sub(builder.index_node(count), 1), e.sub(here, before))
        goal = check_index(where(kept, e.sub(before, 1), behind), count, wrap=False)
        symbol = var("u0")
        return Store(positions.buffer, (symbol,), here, binds=((symbol, goal),))

    builder.scatter(positions, (count,), place)
    return positions, total


@REGISTRY.row("aot.unravel.default")
def unravelled(call: Call, positions: Tensor, shape: tuple[Expr, ...]) -> Tensor:
    """The indices, a row each, of row-major positions in a tensor of that shape."""
    builder = call.builder

    def point(at: tuple[Expr, ...]) -> Node:
        if not shape:
            return const(0, INT64)
        inner: Expr = builder.one
        found: Node | None = None
        column = builder.index_node(at[1])
        position = positions.load((at[0],))
        for k in reversed(range(len(shape))):
            index = e.floordiv(position, builder.index_node(inner)) if inner != 1 else position
            if k > 0:
                index = e.mod(index, builder.index_node(shape[k]))
            found = index if found is None else where(e.eq(column, k), index, found)
            inner = inner * shape[k]
        assert found is not None
        return found

    return builder.pointwise(call.result_type().shape, INT64, point)
