"""Fourier transforms of real numbers, and back to them: half as many complex ones where that goes.

An even number of real points is one call of the template of real numbers, where half of it has
small primes alone; else the results of half as many complex ones are taken apart by a nest.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from aot.ir.dtypes import DType
from aot.ir.scalar import Node
from aot.ir.templates.fft import Numbers
from aot.ir.templates.real_fft import folded, unfolded, without_imaginary
from aot.lowering import exprs as e
from aot.lowering.axes import remove, replace
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.lowering.fourier import (
    MOST_UNSPLIT,
    Direction,
    Shape,
    Signal,
    by_chirp,
    call_of,
    from_last,
    is_apart,
    is_smooth,
    number_of,
    numbers,
    open_call,
    parts_of,
    results_of,
    table_of_roots,
    to_last,
    transformed,
)
from aot.lowering.reshape import reshape_index
from aot.lowering.views import moved
from aot.symbolic import Expr, FloorDiv, as_expr, integer, is_int, product

_FINE_ROOTS = 256
"""Roots of real numbers' transforms in the finer one of two tables; kernels read as many more."""


def _every_second(axis: int, first: int, at: Shape) -> Shape:
    return replace(at, axis, 2 * at[axis] + first)


def _halves(n: Expr) -> bool:
    """Whether so many real numbers are taken as half as many complex ones."""
    return is_int(n) and n % 2 == 0 and n >= 4


def of_real(x: Tensor, axis: int, scale: float, count: Expr) -> Tensor:
    """The first `count` results for real numbers; the others are their conjugates."""
    n = x.shape[axis]
    if not is_int(n):
        return _of_open(Signal(x, None), axis, Direction(scale), count)
    if not _halves(n):
        return _first(transformed(Signal(x, None), axis, Direction(scale)), axis, count)
    half = int(x.shape[axis]) // 2
    shape = replace(x.shape, axis, integer(half))
    halves = [moved(x, shape, partial(_every_second, axis, c)) for c in range(2)]
    pairs, direction = Signal(halves[0], halves[1]), Direction(scale)
    if not is_smooth(half):
        return _unfolded(parts_of(transformed(pairs, axis, direction)), axis, int(count))
    if is_apart(pairs.re, axis, half):
        return from_last(_of_pairs(to_last(pairs, axis), x.rank - 1, direction, count), axis)
    return _of_pairs(pairs, axis, direction, count)


def _first(whole: Tensor, axis: int, count: Expr) -> Tensor:
    """The first `count` of all results."""
    return moved(whole, replace(whole.shape, axis, count), lambda at: at)


def _of_open(x: Signal, axis: int, direction: Direction, count: Expr) -> Tensor:
    """The first `count` results for as many real numbers as only a run knows."""
    shape, two = x.re.shape, integer(2)
    n, inner = shape[axis], product(shape[axis + 1 :])
    whole = by_chirp(x, axis, direction)
    results = (count, inner, two), (count, *shape[axis + 1 :], two)
    otherwise = None if whole is None else _first(whole, axis, count)
    real = "whole" if count == n else "there"
    return open_call(x, axis, n, direction, results, otherwise, real)


def _turns(builder: GraphBuilder, half: int, dtype: DType) -> dict[str, Any]:
    """Roots of 2 h points: of many, the first ones and every so many."""
    n, block = 2 * half, _FINE_ROOTS
    if half <= MOST_UNSPLIT:
        return {"turns": identity_view(table_of_roots(builder, n, dtype, half + 1))}
    leaps = table_of_roots(builder, n, dtype, half // block + 1, block)
    turns = identity_view(table_of_roots(builder, n, dtype, 2 * block))
    return {"turns": turns, "leaps": identity_view(leaps), "block": block}


def _of_pairs(x: Signal, axis: int, direction: Direction, count: Expr) -> Tensor:
    """The template for real numbers, of which every other one is a real part."""
    shape, half = x.re.shape, int(x.re.shape[axis])
    turns = _turns(x.re.builder, half, x.re.dtype)
    made, (_, _, inner) = call_of(x, axis, direction, half, turns)
    two = integer(2)
    return results_of(x, axis, made, (count, inner, two), (count, *shape[axis + 1 :], two))


def _unfolded(z: Signal, axis: int, count: int) -> Tensor:
    """The transform of 2 h real numbers from that of their pairs as h complex ones."""
    builder, dtype = z.re.builder, z.re.dtype
    half = int(z.re.shape[axis])
    roots = table_of_roots(builder, 2 * half, dtype, half + 1)

    def body(at: Shape) -> Node:
        *own, part = at
        re, im = unfolded(
            partial(_at, z, tuple(own), axis),
            partial(_root_at, roots),
            own[axis],
            half,
            whole=count > half + 1,
        )
        return e.select(e.eq(builder.index_node(part), 0), re, im)

    shape = (*replace(z.re.shape, axis, integer(count)), integer(2))
    return builder.pointwise(shape, dtype, body)


def _at(z: Signal, at: Shape, axis: int, k: Expr, mask: Node | None) -> Numbers:
    """The k-th number along an axis."""
    assert z.im is not None
    place = replace(at, axis, k)
    return z.re.load(place, mask), z.im.load(place, mask)


def _root_at(table: Tensor, k: Expr, mask: Node | None) -> Numbers:
    return table.load((k, as_expr(0)), mask), table.load((k, as_expr(1)), mask)


def to_real(x: Signal, axis: int, size: Expr, scale: float) -> Tensor:
    """n real numbers from the first n // 2 + 1 of their transform."""
    direction = Direction(scale, inverse=True)
    if not is_int(size):
        return _to_open(x, axis, size, direction)
    if not _halves(size):
        made = transformed(_whole(x, axis, size), axis, direction)
        return parts_of(made).re
    n, half = int(size), int(size) // 2
    if not is_smooth(half):
        return _to_pairs(x, axis, half, direction)
    assert x.im is not None
    shape = replace(x.re.shape, axis, integer(half + 1))
    signal = Signal(*(moved(part, shape, lambda at: at) for part in (x.re, x.im)))
    if is_apart(x.re, axis, half):
        last = x.re.rank - 1
        made = _reals(to_last(signal, axis), last, n, direction)
        wanted = replace(x.re.shape, axis, integer(n))
        return moved(made, wanted, lambda at: (*remove(at, axis), at[axis]))
    return _reals(signal, axis, n, direction)


def _reals(x: Signal, axis: int, n: int, direction: Direction) -> Tensor:
    """The template back to n real numbers."""
    turns = _turns(x.re.builder, n // 2, x.re.dtype)
    made, (_, _, inner) = call_of(x, axis, direction, n // 2, turns)
    points = integer(n)
    return results_of(x, axis, made, (points, inner), (points, *x.re.shape[axis + 1 :]))


def _to_open(x: Signal, axis: int, n: Expr, direction: Direction) -> Tensor:
    """Back to as many real numbers as only a run knows."""
    shape, inner = x.re.shape, product(x.re.shape[axis + 1 :])
    made = by_chirp(_whole(x, axis, n), axis, direction)
    otherwise = None if made is None else parts_of(made).re
    few = replace(shape, axis, FloorDiv(n, 2) + 1)
    assert x.im is not None
    signal = Signal(*(moved(part, few, lambda at: at) for part in (x.re, x.im)))
    results = (n, inner), (n, *shape[axis + 1 :])
    return open_call(signal, axis, n, direction, results, otherwise, "back")


def _whole(x: Signal, axis: int, size: Expr) -> Signal:
    """All results whose first half is given, for real numbers that are odd many, or not known."""
    builder, im_ = x.re.builder, x.im
    assert im_ is not None
    number, points = builder.index_node, number_of(builder, size)
    middle = points // 2 if isinstance(points, int) else e.floordiv(points, 2)

    def imaginary(at: Shape, k: Expr, mask: Node) -> Node:
        """Of what is real, the imaginary part does not count."""
        value = im_.load(replace(at, axis, k), mask)
        real = e.eq(number(k), 0)
        if not isinstance(points, int):
            real = e.or_(real, e.eq(e.mul(number(k), 2), points))
        elif points % 2 == 0:
            real = e.or_(real, e.eq(number(k), middle))
        return e.select(real, 0.0, value)

    def whole(at: Shape) -> tuple[Node, Node]:
        k = at[axis]
        low, high = e.le(number(k), middle), e.gt(number(k), middle)
        re = [x.re.load(replace(at, axis, p), m) for p, m in ((k, low), (size - k, high))]
        im = e.select(low, imaginary(at, k, low), e.neg(imaginary(at, size - k, high)))
        return e.select(low, *re), im

    return numbers(builder, replace(x.re.shape, axis, size), x.re.dtype, whole)


def _to_pairs(x: Signal, axis: int, half: int, direction: Direction) -> Tensor:
    """Back to 2 h real numbers by h complex ones whose length is no product of small primes."""
    builder, dtype = x.re.builder, x.re.dtype
    roots = table_of_roots(builder, 2 * half, dtype, half)

    def body(at: Shape) -> Numbers:
        def points(k: Expr, mask: Node | None) -> Numbers:
            re, im = _at(x, at, axis, k, mask)
            return re, without_imaginary(im, k, half)

        return folded(points, partial(_root_at, roots), at[axis], half)

    shape = replace(x.re.shape, axis, integer(half))
    pairs = transformed(numbers(builder, shape, dtype, body), axis, direction)
    paired = (*shape[: axis + 1], integer(2), *shape[axis + 1 :])
    beside = moved(pairs, paired, lambda at: (*at[: axis + 1], *at[axis + 2 :], at[axis + 1]))
    final = replace(x.re.shape, axis, integer(2 * half))
    return moved(beside, final, reshape_index(builder.ranges, paired, final))
