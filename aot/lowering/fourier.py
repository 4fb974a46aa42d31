"""Fourier transforms: calls of the template for the lengths that it takes, and what others become.

A length with a large prime factor is a convolution with a chirp, by transforms of a length that is
a power of two, or nearly (Bluestein, A linear filtering approach to the computation of the discrete
Fourier transform, 1970). One that is known only when the package runs is a call of a template of
its own, which comes with the same by a chirp, for devices that have no kernel of it. Tables of
roots of unity depend on nothing, and are folded when the package is built. Real numbers are
`real_fourier.py`'s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from aot.ir.dtypes import FLOAT64, DType
from aot.ir.nests import View
from aot.ir.scalar import Node, cast, const, reduce_
from aot.ir.templates.base import TemplateCall
from aot.ir.templates.fft import GREATEST_PRIME, WIDEST, Fft, digits_of, padded, radices
from aot.ir.templates.open_fft import OpenFft
from aot.ir.templates.real_fft import RealFft
from aot.lowering import exprs as e
from aot.lowering.axes import remove, replace
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.lowering.reshape import reshape_index
from aot.lowering.views import moved
from aot.symbolic import Expr, Maximum, Minimum, as_expr, integer, is_int, product, ravel

Shape = tuple[Expr, ...]

_LEAST_SPLIT = 64
"""Points from which a row is transformed in two steps."""

_LEAST_SIDE = 8
"""Points of each step."""

MOST_UNSPLIT = 1 << 16
"""Points up to which neighbours side by side are transformed in one step: its table is small."""

_UNLIKE = 4
"""How many times one step's points the other may have, where that wastes less room."""

_FINE = 32
"""Rows of the finer of two tables of factors, where one has many rows."""

_SUMMED = 1 << 22
"""Products up to which a chirp's transform is computed by its definition."""

_MOST_OPEN = 1 << 20
"""Points up to which there are transforms by a chirp of numbers that only a run knows."""

_LEAST_BOUND, _APART = 256, 8
"""Of the greatest lengths that one such transform is for, the least; and from one to the next."""

Number = Node | int
"""A number of points: an int where it is known."""


@dataclass(frozen=True)
class Signal:
    """Complex numbers of one shape; without `im`, real ones."""

    re: Tensor
    im: Tensor | None

    @property
    def swapped(self) -> Signal:
        """With both parts exchanged: what turns a transform into the inverse one."""
        assert self.im is not None
        return Signal(self.im, self.re)


@dataclass(frozen=True)
class Direction:
    """What a transform is beside its length: its sign, and a factor of its results."""

    scale: float = 1.0
    inverse: bool = False


def parts_of(whole: Tensor) -> Signal:
    """Numbers with both parts in a last dimension."""
    shape = whole.shape[:-1]
    return Signal(
        moved(whole, shape, lambda at: (*at, as_expr(0))),
        moved(whole, shape, lambda at: (*at, as_expr(1))),
    )


def numbers(
    builder: GraphBuilder,
    shape: Sequence[Expr],
    dtype: DType,
    body: Callable[[Shape], tuple[Node, Node]],
) -> Signal:
    """Numbers computed point by point."""
    outputs = [(dtype, lambda at: body(at)[0]), (dtype, lambda at: body(at)[1])]
    re, im = builder.pointwise_many(shape, outputs)
    return Signal(re, im)


def _times(a: tuple[Node, Node], b: tuple[Node, Node]) -> tuple[Node, Node]:
    re = e.sub(e.mul(a[0], b[0]), e.mul(a[1], b[1]))
    return re, e.add(e.mul(a[0], b[1]), e.mul(a[1], b[0]))


# ---- tables ----


def number_of(builder: GraphBuilder, n: Expr) -> Number:
    """A size as an int where it is one, else as a node."""
    return int(n) if is_int(n) else builder.index_node(n)


def _twice(n: Number) -> Number:
    return 2 * n if isinstance(n, int) else e.mul(n, 2)


def root(power: Node, n: Number, dtype: DType) -> tuple[Node, Node]:
    """exp(-2 pi i power / n), 0 <= power < n, from an angle of at most an eighth of a turn."""
    quarter = e.floordiv(e.add(e.mul(power, 8), n), _twice(n))
    rest = e.sub(e.mul(power, 4), e.mul(quarter, n))
    whole = float(n) if isinstance(n, int) else cast(n, FLOAT64)
    angle = e.mul(e.div(cast(rest, FLOAT64), whole), math.pi / 2)
    cos, sin = e.cos(angle), e.sin(angle)
    odd = e.eq(e.mod(quarter, 2), 1)
    x, y = e.select(odd, e.neg(sin), cos), e.select(odd, cos, sin)
    half = e.eq(e.mod(e.floordiv(quarter, 2), 2), 1)
    return cast(e.select(half, e.neg(x), x), dtype), cast(e.select(half, y, e.neg(y)), dtype)


def table_of_roots(
    builder: GraphBuilder, n: int, dtype: DType, count: int | None = None, step: int = 1
) -> Tensor:
    """(count, 2): the first powers of exp(-2 pi i step / n), all n where no count is given."""

    def body(at: Shape) -> Node:
        re, im = root(builder.index_node(step * at[0]), n, dtype)
        return e.select(e.eq(builder.index_node(at[1]), 0), re, im)

    return builder.pointwise((integer(count or n), integer(2)), dtype, body)


def _factors(
    builder: GraphBuilder, shape: tuple[int, int], step: int, n: int, dtype: DType
) -> Tensor:
    """(2, *shape): parts of exp(-2 pi i (row step) column / n)."""

    def body(at: Shape) -> Node:
        part, row, column = (builder.index_node(i) for i in at)
        re, im = root(e.mod(e.mul(e.mul(row, step), column), n), n, dtype)
        return e.select(e.eq(part, 0), re, im)

    return builder.pointwise((integer(2), *map(integer, shape)), dtype, body)


# ---- one axis ----


def split(n: int) -> tuple[int, int]:
    """n as a product of two numbers that are as alike as can be; (n, 1) where a step serves.

    Large numbers are those, nearly alike, whose digits waste the least room, then the fewest.
    """
    sides = [k for k in range(_LEAST_SIDE, math.isqrt(n) + 1) if n % k == 0]
    if n < _LEAST_SPLIT or not sides:
        return n, 1
    near = [k for k in sides if n > MOST_UNSPLIT and n <= _UNLIKE * k * k]
    side = min(near, key=lambda k: (*_room(k, n // k), -k), default=sides[-1])
    return side, n // side


def _room(*sides: int) -> tuple[int, int]:
    """Points of tiles of both sides, and passes over them."""
    digits = [digits_of(side, WIDEST) for side in sides]
    return math.prod(map(padded, digits)), sum(map(len, digits))


def is_smooth(n: int) -> bool:
    """Whether a length is transformed by factors."""
    return max(radices(n, 2), default=1) <= GREATEST_PRIME


def _flat(x: Tensor, axis: int) -> Shape:
    return product(x.shape[:axis]), x.shape[axis], product(x.shape[axis + 1 :])


def _tables(builder: GraphBuilder, n1: int, n2: int, dtype: DType) -> dict[str, View]:
    """Those of n1 points, or of n1 n2 in two steps, by their roles."""
    roots = {"roots": table_of_roots(builder, n1, dtype)}
    if n2 > 1:
        n = n1 * n2
        fine = min(n1, _FINE if n > MOST_UNSPLIT else n1)
        roots["others"] = table_of_roots(builder, n2, dtype)
        roots["fine"] = _factors(builder, (fine, n2), 1, n, dtype)
        roots["coarse"] = _factors(builder, (-(-n1 // fine), n2), fine, n, dtype)
    return {role: identity_view(table) for role, table in roots.items()}


def call_of(
    x: Signal, axis: int, direction: Direction, n: int, real: Mapping[str, Any] | None = None
) -> tuple[Callable[..., Fft], Shape]:
    """A call for n complex points along an axis, and what its operands' shape is as three axes."""
    builder, shape = x.re.builder, x.re.shape
    flat = _flat(x.re, axis)
    index = reshape_index(builder.ranges, shape, flat)
    n1, n2 = split(n) if is_int(flat[2], 1) else (n, 1)
    tables: Mapping[str, Any] = _tables(builder, n1, n2, x.re.dtype)
    made: Callable[..., Fft] = partial(
        Fft if real is None else RealFft,
        re=builder.view(x.re, flat, index),
        im=None if x.im is None else builder.view(x.im, flat, index),
        scale=direction.scale,
        inverse=direction.inverse,
        **tables,
        **(real or {}),
    )
    return made, flat


def results_of(
    x: Signal, axis: int, made: Callable[..., TemplateCall], rows: Shape, tail: Shape
) -> Tensor:
    """What a call gives: rows of results as `rows` after the outer axis, seen as x with `tail`.

    `tail` is what x's dimensions from `axis` on become.
    """
    builder, shape = x.re.builder, x.re.shape
    outer = product(shape[:axis])
    flat = builder.template(made, (outer, product(rows)), x.re.dtype)
    whole = moved(flat, (outer, *rows), lambda at: (at[0], ravel(at[1:], rows)))
    wanted = (*shape[:axis], *tail)
    return moved(whole, wanted, reshape_index(builder.ranges, whole.shape, wanted))


def _points(x: Signal, axis: int, direction: Direction) -> Tensor:
    """The template, along an axis; both parts in a new last dimension."""
    shape = x.re.shape
    made, (_, n, inner) = call_of(x, axis, direction, int(shape[axis]))
    two = integer(2)
    return results_of(x, axis, made, (n, inner, two), (*shape[axis:], two))


def transformed(x: Signal, axis: int, direction: Direction) -> Tensor:
    """The transform along an axis, both parts in a new last dimension."""
    shape = x.re.shape
    if not is_int(shape[axis]):
        rows, tail = (*_flat(x.re, axis)[1:], integer(2)), (*shape[axis:], integer(2))
        return open_call(
            x, axis, shape[axis], direction, (rows, tail), by_chirp(x, axis, direction)
        )
    if not is_smooth(int(shape[axis])):
        return _chirped(x, axis, direction, int(shape[axis]))
    if is_apart(x.re, axis, int(shape[axis])):
        return from_last(_points(to_last(x, axis), len(shape) - 1, direction), axis)
    return _points(x, axis, direction)


def open_call(
    x: Signal,
    axis: int,
    n: Expr,
    direction: Direction,
    results: tuple[Shape, Shape],
    otherwise: Tensor | None,
    real: str = "",
) -> Tensor:
    """A call for n points, a number that only a run knows.

    Args:
        x: What is transformed.
        axis: Along which axis.
        n: How many points there are.
        direction: As ever.
        results: Rows and tail, as `results_of` takes them.
        otherwise: The same, computed in another way; None where there is none.
        real: As the template has it.
    """
    builder, shape, (rows, tail) = x.re.builder, x.re.shape, results
    flat, whole = _flat(x.re, axis), (product(shape[:axis]), product(rows))
    index, instead = reshape_index(builder.ranges, shape, flat), None
    if otherwise is not None:
        own = reshape_index(builder.ranges, otherwise.shape, whole)
        instead = builder.view(otherwise, whole, own)
    made = partial(
        OpenFft,
        re=builder.view(x.re, flat, index),
        n=n,
        im=None if x.im is None else builder.view(x.im, flat, index),
        otherwise=instead,
        scale=direction.scale,
        inverse=direction.inverse,
        real=real,
    )
    return results_of(x, axis, made, rows, tail)


def is_apart(x: Tensor, axis: int, n: int) -> bool:
    """Whether so many points are so far apart that they are put side by side first."""
    return n > MOST_UNSPLIT and split(n)[1] > 1 and not is_int(_flat(x, axis)[2], 1)


def to_last(x: Signal, axis: int) -> Signal:
    """With an axis behind all others."""

    def turned(part: Tensor) -> Tensor:
        shape = (*remove(part.shape, axis), part.shape[axis])
        return moved(part, shape, lambda at: (*at[:axis], at[-1], *at[axis:-1]))

    return Signal(turned(x.re), None if x.im is None else turned(x.im))


def from_last(whole: Tensor, axis: int) -> Tensor:
    """The last dimension but one, back where it belongs."""
    *outer, n, two = whole.shape
    shape = (*outer[:axis], n, *outer[axis:], two)
    return moved(whole, shape, lambda at: (*remove(at[:-1], axis), at[axis], at[-1]))


def _great_length(least: int) -> int:
    """The least number of points from `least` on: a power of two, or 3, 5, 9 or 15 times one."""
    odd = (1, 3, 5, 9, 15)
    return min(k << max(0, (-(-least // k) - 1).bit_length()) for k in odd)


def by_chirp(x: Signal, axis: int, direction: Direction) -> Tensor | None:
    """The transform along an axis of a length that only a run knows, where its range is short.

    There are several, each as long as a part of the range needs: those of the parts that a run's
    length does not lie in have no elements.
    """
    builder, shape = x.re.builder, x.re.shape
    n, most = shape[axis], builder.ranges.greatest(shape[axis])
    if most is None or most > _MOST_OPEN:
        return None
    bounds = [most]
    while bounds[0] > _LEAST_BOUND:
        bounds.insert(0, bounds[0] // _APART)
    if len(bounds) == 1:
        return _chirped(x, axis, direction, most)
    number, flat = builder.index_node, _flat(x.re, axis)
    index, folded = reshape_index(builder.ranges, shape, flat), (flat[0], flat[2])
    parts: list[tuple[int, Tensor]] = []
    for above, upto in pairwise((0, *bounds)):
        one = _is_within(n, above, upto)
        some = (product((flat[0], one)), *flat[1:])
        im = None if x.im is None else moved(x.im, some, index)
        signal = Signal(moved(x.re, some, index), im)
        parts.append((upto, _chirped(signal, 1, direction, upto, one)))

    def body(at: Shape) -> Node:
        value = parts[-1][1].load(at, e.gt(number(n), bounds[-2]))
        lower = (*bounds[-3::-1], 0)
        for above, (upto, tensor) in zip(lower, parts[-2::-1], strict=True):
            # Only there: elsewhere a part has no elements, and nothing may be read of it.
            inside = e.le(number(n), upto)
            inside = e.and_(e.gt(number(n), above), inside) if above else inside
            value = e.select(inside, tensor.load(at, inside), value)
        return value

    made = builder.pointwise((folded[0], n, folded[1], integer(2)), x.re.dtype, body)
    wanted = (*shape, integer(2))
    return moved(made, wanted, reshape_index(builder.ranges, made.shape, wanted))


def _is_within(n: Expr, above: int, upto: int) -> Expr:
    """1 where above < n <= upto, else 0."""
    low = Maximum(integer(0), Minimum(integer(1), n - above))
    high = Maximum(integer(0), Minimum(integer(1), upto + 1 - n))
    return product((as_expr(low), as_expr(high)))


def _chirped(
    x: Signal, axis: int, direction: Direction, most: int, times: Expr | None = None
) -> Tensor:
    """jk = (j^2 + k^2 - (k - j)^2) / 2: a convolution with exp(pi i j^2 / n), n up to `most`.

    `times`: 1 or 0, a factor of the number of elements of all that is computed.
    """
    builder, dtype, shape = x.re.builder, x.re.dtype, x.re.shape
    n, number = number_of(builder, shape[axis]), builder.index_node
    turn, once = _twice(n), times or integer(1)
    size = _great_length(2 * most - 1)
    chirp = numbers(
        builder,
        (product((shape[axis], once)),),
        dtype,
        lambda at: root(e.mod(e.mul(number(at[0]), number(at[0])), turn), turn, dtype),
    )

    def loaded(signal: Signal, at: Sequence[Expr], mask: Node | None = None) -> tuple[Node, Node]:
        re = signal.re.load(at, mask)
        return re, const(0.0, dtype) if signal.im is None else signal.im.load(at, mask)

    assert chirp.im is not None
    given = x.swapped if direction.inverse and x.im is not None else x
    if direction.inverse and x.im is None:
        given = Signal(_zeros_like(x.re), x.re)

    def padded(at: Shape) -> tuple[Node, Node]:
        inside = e.lt(number(at[axis]), n)
        value = _times(loaded(given, at, inside), loaded(chirp, (at[axis],), inside))
        return e.select(inside, value[0], 0.0), e.select(inside, value[1], 0.0)

    wide = replace(shape, axis, integer(size))
    signal = parts_of(transformed(numbers(builder, wide, dtype, padded), axis, Direction()))
    response = _response(builder, once, n, size, dtype)
    spectrum = numbers(
        builder,
        wide,
        dtype,
        lambda at: _times(loaded(signal, at), loaded(response, (at[axis],))),
    )
    back = parts_of(transformed(spectrum, axis, Direction(direction.scale / size, inverse=True)))
    made = numbers(
        builder, shape, dtype, lambda at: _times(loaded(back, at), loaded(chirp, (at[axis],)))
    )
    return joined(made.swapped if direction.inverse else made)


def _zeros_like(x: Tensor) -> Tensor:
    return x.builder.pointwise(x.shape, x.dtype, lambda at: const(0.0, x.dtype))


def joined(x: Signal) -> Tensor:
    """Both parts in a new last dimension."""
    builder, im = x.re.builder, x.im
    assert im is not None

    def body(at: Shape) -> Node:
        is_real = e.eq(builder.index_node(at[-1]), 0)
        return e.select(is_real, x.re.load(at[:-1]), im.load(at[:-1]))

    return builder.pointwise((*x.re.shape, integer(2)), x.re.dtype, body)


def _response(builder: GraphBuilder, once: Expr, n: Number, size: int, dtype: DType) -> Signal:
    """The transform of the conjugate chirp, from -n + 1 to n - 1, modulo `size`.

    `once` is 1, or what `_chirped` has as `times`.

    Short ones are sums of cosines, in float64, folded when the package is built.
    """
    number = builder.index_node
    if isinstance(n, int) and n * size <= _SUMMED:

        def body(part: int) -> Callable[[Shape, Shape], Node]:
            def summed(at: Shape, over: Shape) -> Node:
                j = number(over[0])
                value = root(e.mod(e.mul(j, j), 2 * n), 2 * n, FLOAT64)[part]
                cos, _ = root(e.mod(e.mul(j, number(at[0])), size), size, FLOAT64)
                twice = e.select(e.eq(j, 0), value, e.mul(e.mul(value, cos), 2.0))
                total = reduce_("sum", twice)
                return cast(e.neg(total) if part else total, dtype)

            return summed

        outputs = [(dtype, body(part)) for part in range(2)]
        re, im = builder.reduction((integer(size),), (integer(n),), outputs)
        return Signal(re, im)

    def mirrored(at: Shape) -> tuple[Node, Node]:
        here = number(at[1])
        near = e.minimum(here, e.sub(size, here))
        inside = e.lt(near, n)
        re, im = root(e.mod(e.mul(near, near), _twice(n)), _twice(n), dtype)
        return e.select(inside, re, 0.0), e.select(inside, e.neg(im), 0.0)

    chirp = numbers(builder, (once, integer(size)), dtype, mirrored)
    made = parts_of(transformed(chirp, 1, Direction()))
    assert made.im is not None
    along = (product((once, integer(size))),)

    def flat(part: Tensor) -> Tensor:
        return moved(part, along, lambda at: (as_expr(0), at[0]))

    return Signal(flat(made.re), flat(made.im))
