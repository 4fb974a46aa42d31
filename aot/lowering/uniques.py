"""Runs of equal neighbours: what operators that look for distinct elements are made of.

The front end takes such an operator apart: it sorts, unless neighbours are meant anyway, marks
where a run begins, and reads how many runs there are (see compaction).
"""

from __future__ import annotations

from aot.ir.dtypes import BOOL, INT64
from aot.ir.nests import Store
from aot.ir.scalar import Node, check_index, reduce_
from aot.lowering import exprs as e
from aot.lowering.axes import insert, remove
from aot.lowering.builder import Tensor
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.lowering.rowwise import order_along, picked, running
from aot.lowering.views import moved, reshaped
from aot.symbolic import Expr, ceil_div, integer, is_int, product, unravel, var


@REGISTRY.row("aot.changes.default")
def changes(call: Call, x: Tensor, dim: int) -> Tensor:
    """Whether each slice of x along `dim` differs from the one before it; the first one does.

    NaN differs from NaN.
    """
    builder, rest = call.builder, remove(x.shape, dim)

    def differs(at: Expr, inner: tuple[Expr, ...]) -> Node:
        later = e.gt(builder.index_node(at), 0)
        own, before = x.load(insert(inner, dim, at)), x.load(insert(inner, dim, at - 1), later)
        return e.ne(own, before)

    def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        found = differs(index[0], rindex)
        first = e.eq(builder.index_node(index[0]), 0)
        return e.or_(first, reduce_("any", found) if rest else found)

    size = (x.shape[dim],)
    if not rest:
        return builder.pointwise(size, BOOL, lambda at: body(at, ()))
    return builder.reduction(size, rest, [(BOOL, body)])[0]


@REGISTRY.row("aot.run_labels.default")
def run_labels(call: Call, flags: Tensor, order: Tensor | None = None) -> Tensor:
    """The number of the run that each slice is in.

    `flags`: where runs begin, in order; `order`: the slice at each place, itself when None.
    """
    rows = (integer(1), flags.shape[0])
    labels = _labels(reshaped(flags, rows), None if order is None else reshaped(order, rows))
    return reshaped(labels, flags.shape)


def _labels(flags: Tensor, order: Tensor | None) -> Tensor:
    """run_labels for each row of (rows, n)."""
    builder, counted = flags.builder, running(flags, 1, INT64, "sum")

    def label(at: tuple[Expr, ...]) -> Node:
        return e.sub(counted.load(at), 1)

    if order is None:
        return builder.pointwise(flags.shape, INT64, label)
    labels = builder.empty(flags.shape, INT64)

    def place(at: tuple[Expr, ...]) -> Store:
        goal, symbol = check_index(order.load(at), flags.shape[1], wrap=False), var("u0")
        return Store(labels.buffer, (at[0], symbol), label(at), binds=((symbol, goal),))

    builder.scatter(labels, flags.shape, place)
    return labels


@REGISTRY.row("aot.run_lengths.default")
def run_lengths(call: Call, starts: Tensor, total: Expr) -> Tensor:
    """How long runs are that begin at `starts`, of `total` slices."""
    builder, (count,) = call.builder, starts.shape

    def length(at: tuple[Expr, ...]) -> Node:
        last = e.ge(builder.index_node(at[0] + 1), builder.index_node(count))
        following = starts.load((at[0] + 1,), e.not_(last))
        end = e.select(last, builder.index_node(total), following)
        return e.sub(end, starts.load(at))

    return builder.pointwise((count,), INT64, length)


@REGISTRY.row("aot.slice_ranks.default")
def slice_ranks(call: Call, x: Tensor, dim: int) -> Tensor:
    """Integers in the lexicographic order of the slices of x along `dim`, equal for equal ones.

    The elements at each place of the slices are ranked, then pairs of neighbouring ranks, and so
    on: as many sorts as the number of places has bits. Slices with NaN are equal to none.

    Raises:
        CannotLower: The slices' size is 0, or not known when the package is built.
    """
    rest, size = remove(x.shape, dim), x.shape[dim]
    places = product(rest)
    if not is_int(places) or int(places) == 0:
        raise CannotLower("slices whose size is 0, or not known when the package is built")
    columns = (places, size)
    keys = moved(x, columns, lambda at: insert(unravel(at[0], rest), dim, at[1]))
    if int(places) == 1:
        return reshaped(_ranks(keys), (size,))
    while not is_int(keys.shape[0], 1):
        keys = _pairs(_ranks(keys))
    return reshaped(keys, (size,))


def _ranks(keys: Tensor) -> Tensor:
    """For each row of (rows, n) how many different elements are less than each; NaN is greatest."""
    builder = keys.builder
    order = order_along(keys, 1, keys.shape[1], descending=False)
    ordered = picked(keys, order, 1)

    def begins(at: tuple[Expr, ...]) -> Node:
        first, later = (test(builder.index_node(at[1]), 0) for test in (e.eq, e.gt))
        return e.or_(first, e.ne(ordered.load(at), ordered.load((at[0], at[1] - 1), later)))

    return _labels(builder.pointwise(keys.shape, BOOL, begins), order)


def _pairs(ranks: Tensor) -> Tensor:
    """Ranks (rows, n), each below n, as keys (rows / 2, n) of two rows: first * n + second."""
    builder, (rows, size) = ranks.builder, ranks.shape

    def key(at: tuple[Expr, ...]) -> Node:
        second = 2 * at[0] + 1
        there = e.lt(builder.index_node(second), builder.index_node(rows))
        low = e.select(there, ranks.load((second, at[1]), there), 0)
        return e.add(e.mul(ranks.load((2 * at[0], at[1])), builder.index_node(size)), low)

    return builder.pointwise((ceil_div(rows, integer(2)), size), INT64, key)
