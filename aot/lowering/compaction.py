"""Where a tensor is true: what operators with results of measured sizes are made of.

The front end takes such an operator apart. The true elements are counted; that number is read and
becomes a dim; what follows has plain sizes, and looks for the elements by their flags.
"""

from __future__ import annotations

from functools import partial

from aot.ir.dtypes import BOOL, INT64
from aot.ir.scalar import Node, cast, clamp_index, const, reduce_
from aot.ir.templates.scan import Scan
from aot.ir.templates.true_places import TruePlaces
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor, identity_view
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, product, unravel

_LARGE = 1 << 31
"""Positions from which do not fit into 32 bits."""


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


@REGISTRY.row("aot.true_count.default")
def true_count(call: Call, x: Tensor) -> Tensor:
    """How many elements are not 0."""
    shape = (product(x.shape),)
    value = call.builder.reduction(
        (), shape, [(INT64, lambda _, at: reduce_("sum", _flag(x, at[0])))]
    )
    return value[0]


@REGISTRY.row("aot.true_places.default")
def true_places(call: Call, x: Tensor) -> Tensor:
    """The indices of the elements that are not 0, a row each, as many as the result has."""
    shape = call.result_type().shape
    if not x.rank:
        return call.builder.pointwise(shape, INT64, lambda _: const(0, INT64))
    return call.builder.template(partial(TruePlaces, x=identity_view(x)), shape, INT64)


@REGISTRY.row("aot.true_positions.default")
def true_positions(call: Call, x: Tensor) -> Tensor:
    """The row-major positions of the elements that are not 0, as many as the result has."""
    (count,) = call.result_type().shape
    found = _positions(x, count)
    return call.builder.pointwise(
        (count,), INT64, lambda at: found.load((at[0], call.builder.zero))
    )


@REGISTRY.row("aot.select_true.default")
def select_true(call: Call, x: Tensor, mask: Tensor) -> Tensor:
    """The elements of x where a mask of its shape is true, as many as the result has."""
    builder, (count,) = call.builder, call.result_type().shape
    found, last = _positions(mask, count), product(mask.shape) - 1
    most = builder.ranges.greatest(last)

    def chosen(at: tuple[Expr, ...]) -> Node:
        number = clamp_index(
            found.load((at[0], builder.zero)), last, narrow=most is not None and most < _LARGE
        )
        return x.load(unravel(builder.bound(number), x.shape))

    return builder.pointwise((count,), x.dtype, chosen)


def _positions(x: Tensor, count: Expr) -> Tensor:
    """Row-major positions of the first `count` elements that are not 0: (count, 1)."""
    builder, size = x.builder, product(x.shape)
    flat = builder.view(x, (size,), lambda at: unravel(at[0], x.shape))
    return builder.template(partial(TruePlaces, x=flat), (count, builder.one), INT64)
