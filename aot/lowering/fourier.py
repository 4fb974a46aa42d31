"""Fourier transforms: calls of the template for the lengths that it takes, and what others become.

A transform of real numbers of an even length is one of half as many complex ones, and a pass over
the results. A length with a large prime factor is a convolution with a chirp, by transforms of a
length that is a power of two, or nearly (Bluestein, A linear filtering approach to the computation
of the discrete Fourier transform, 1970); so is one that is known only when the package runs, by
transforms as long as the greatest one of its range needs. Tables of roots of unity depend on
nothing, and are folded when the package is built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.nests import View
from aot.ir.scalar import Node, cast, const, reduce_
from aot.ir.templates.fft import GREATEST_PRIME, Fft, Numbers, radices
from aot.ir.templates.real_fft import RealFft, folded, unfolded, without_imaginary
from aot.lowering import exprs as e
from aot.lowering.axes import remove, replace, wrap_dim
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.lowering.registry import Call, CannotLower
from aot.lowering.reshape import reshape_index
from aot.lowering.rows import REGISTRY
from aot.lowering.views import moved
from aot.symbolic import Expr, FloorDiv, as_expr, integer, is_int, product, ravel

Shape = tuple[Expr, ...]

_LEAST_SPLIT = 64
"""Points from which a row is transformed in two steps."""

_LEAST_SIDE = 8
"""Points of each step."""

_MOST_UNSPLIT = 1 << 16
"""Points up to which neighbours side by side are transformed in one step: its table is small."""

_FINE = 32
"""Rows of the finer of two tables of factors, where one has many rows."""

_SUMMED = 1 << 22
"""Products up to which a chirp's transform is computed by its definition."""

_MOST_OPEN = 1 << 20
"""Points up to which their number may be known only when the package runs."""

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


def _parts(whole: Tensor) -> Signal:
    """Numbers with both parts in a last dimension."""
    shape = whole.shape[:-1]
    return Signal(
        moved(whole, shape, lambda at: (*at, as_expr(0))),
        moved(whole, shape, lambda at: (*at, as_expr(1))),
    )


def _numbers(
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


def _number(builder: GraphBuilder, n: Expr) -> Number:
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


def _roots(builder: GraphBuilder, n: int, dtype: DType, count: int | None = None) -> Tensor:
    """(count, 2): the first powers of exp(-2 pi i / n), all n where no count is given."""

    def body(at: Shape) -> Node:
        re, im = root(builder.index_node(at[0]), n, dtype)
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


def _most(builder: GraphBuilder, n: Expr) -> int:
    """The greatest number of points that a size may be."""
    most = builder.ranges.greatest(n)
    if most is None or most > _MOST_OPEN:
        raise CannotLower(
            "the number of points of a Fourier transform is not known when the package is built, "
            f"and may be more than {_MOST_OPEN}: give that dimension a max, make it static, or "
            "give n= (or s=), which pads or cuts to a known number"
        )
    return most


def split(n: int) -> tuple[int, int]:
    """n as a product of two numbers that are as alike as can be; (n, 1) where a step serves."""
    sides = [k for k in range(_LEAST_SIDE, math.isqrt(n) + 1) if n % k == 0]
    return (sides[-1], n // sides[-1]) if n >= _LEAST_SPLIT and sides else (n, 1)


def _is_smooth(n: int) -> bool:
    return max(radices(n, 2), default=1) <= GREATEST_PRIME


def _flat(x: Tensor, axis: int) -> Shape:
    return product(x.shape[:axis]), x.shape[axis], product(x.shape[axis + 1 :])


def _tables(builder: GraphBuilder, n1: int, n2: int, dtype: DType) -> dict[str, View]:
    """Those of n1 points, or of n1 n2 in two steps, by their roles."""
    roots = {"roots": _roots(builder, n1, dtype)}
    if n2 > 1:
        n = n1 * n2
        fine = min(n1, _FINE if n > _MOST_UNSPLIT else n1)
        roots["others"] = _roots(builder, n2, dtype)
        roots["fine"] = _factors(builder, (fine, n2), 1, n, dtype)
        roots["coarse"] = _factors(builder, (-(-n1 // fine), n2), fine, n, dtype)
    return {role: identity_view(table) for role, table in roots.items()}


def _call(
    x: Signal, axis: int, direction: Direction, n: int, real: Mapping[str, View] | None = None
) -> tuple[Callable[..., Fft], Shape]:
    """A call for n complex points along an axis, and what its operands' shape is as three axes."""
    builder, shape = x.re.builder, x.re.shape
    flat = _flat(x.re, axis)
    index = reshape_index(builder.ranges, shape, flat)
    n1, n2 = split(n) if is_int(flat[2], 1) else (n, 1)
    made: Callable[..., Fft] = partial(
        Fft if real is None else RealFft,
        re=builder.view(x.re, flat, index),
        im=None if x.im is None else builder.view(x.im, flat, index),
        scale=direction.scale,
        inverse=direction.inverse,
        **_tables(builder, n1, n2, x.re.dtype),
        **(real or {}),
    )
    return made, flat


def _results(x: Signal, axis: int, made: Callable[..., Fft], rows: Shape, tail: Shape) -> Tensor:
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
    made, (_, n, inner) = _call(x, axis, direction, int(shape[axis]))
    two = integer(2)
    return _results(x, axis, made, (n, inner, two), (*shape[axis:], two))


def transformed(x: Signal, axis: int, direction: Direction) -> Tensor:
    """The transform along an axis, both parts in a new last dimension."""
    shape = x.re.shape
    if not is_int(shape[axis]) or not _is_smooth(int(shape[axis])):
        return _by_chirp(x, axis, direction)
    if _is_apart(x.re, axis, int(shape[axis])):
        return _from_last(_points(_to_last(x, axis), len(shape) - 1, direction), axis)
    return _points(x, axis, direction)


def _to_last(x: Signal, axis: int) -> Signal:
    def turned(part: Tensor) -> Tensor:
        shape = (*remove(part.shape, axis), part.shape[axis])
        return moved(part, shape, lambda at: (*at[:axis], at[-1], *at[axis:-1]))

    return Signal(turned(x.re), None if x.im is None else turned(x.im))


def _from_last(whole: Tensor, axis: int) -> Tensor:
    """The last dimension but one, back where it belongs."""
    *outer, n, two = whole.shape
    shape = (*outer[:axis], n, *outer[axis:], two)
    return moved(whole, shape, lambda at: (*remove(at[:-1], axis), at[axis], at[-1]))


def _great_length(least: int) -> int:
    """The least number of points from `least` on: a power of two, or 3, 5, 9 or 15 times one."""
    odd = (1, 3, 5, 9, 15)
    return min(k << max(0, (-(-least // k) - 1).bit_length()) for k in odd)


def _by_chirp(x: Signal, axis: int, direction: Direction) -> Tensor:
    """jk = (j^2 + k^2 - (k - j)^2) / 2: a convolution with exp(pi i j^2 / n)."""
    builder, dtype, shape = x.re.builder, x.re.dtype, x.re.shape
    n, number = _number(builder, shape[axis]), builder.index_node
    turn = _twice(n)
    size = _great_length(2 * (n if isinstance(n, int) else _most(builder, shape[axis])) - 1)
    chirp = _numbers(
        builder,
        (shape[axis],),
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
    signal = _parts(transformed(_numbers(builder, wide, dtype, padded), axis, Direction()))
    response = _response(builder, chirp, n, size, dtype)
    spectrum = _numbers(
        builder,
        wide,
        dtype,
        lambda at: _times(loaded(signal, at), loaded(response, (at[axis],))),
    )
    back = _parts(transformed(spectrum, axis, Direction(direction.scale / size, inverse=True)))
    made = _numbers(
        builder, shape, dtype, lambda at: _times(loaded(back, at), loaded(chirp, (at[axis],)))
    )
    return _joined(made.swapped if direction.inverse else made)


def _zeros_like(x: Tensor) -> Tensor:
    return x.builder.pointwise(x.shape, x.dtype, lambda at: const(0.0, x.dtype))


def _joined(x: Signal) -> Tensor:
    """Both parts in a new last dimension."""
    builder, im = x.re.builder, x.im
    assert im is not None

    def body(at: Shape) -> Node:
        is_real = e.eq(builder.index_node(at[-1]), 0)
        return e.select(is_real, x.re.load(at[:-1]), im.load(at[:-1]))

    return builder.pointwise((*x.re.shape, integer(2)), x.re.dtype, body)


def _response(builder: GraphBuilder, chirp: Signal, n: Number, size: int, dtype: DType) -> Signal:
    """The transform of the conjugate chirp, from -n + 1 to n - 1, modulo `size`.

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
        here = number(at[0])
        near = e.minimum(here, e.sub(size, here))
        inside = e.lt(near, n)
        re, im = root(e.mod(e.mul(near, near), _twice(n)), _twice(n), dtype)
        return e.select(inside, re, 0.0), e.select(inside, e.neg(im), 0.0)

    return _parts(transformed(_numbers(builder, (integer(size),), dtype, mirrored), 0, Direction()))


# ---- real numbers ----


def _every_second(axis: int, first: int, at: Shape) -> Shape:
    return replace(at, axis, 2 * at[axis] + first)


def _halves(n: Expr) -> bool:
    """Whether so many real numbers are taken as half as many complex ones."""
    return is_int(n) and n % 2 == 0 and n >= 4


def _of_real(x: Tensor, axis: int, scale: float, count: Expr) -> Tensor:
    """The first `count` results for real numbers; the others are their conjugates."""
    if not _halves(x.shape[axis]):
        whole = transformed(Signal(x, None), axis, Direction(scale))
        shape = replace(whole.shape, axis, count)
        return moved(whole, shape, lambda at: at)
    half = int(x.shape[axis]) // 2
    shape = replace(x.shape, axis, integer(half))
    halves = [moved(x, shape, partial(_every_second, axis, c)) for c in range(2)]
    pairs, direction = Signal(halves[0], halves[1]), Direction(scale)
    if not _is_smooth(half):
        return _unfolded(_parts(transformed(pairs, axis, direction)), axis, int(count))
    if _is_apart(pairs.re, axis, half):
        return _from_last(_of_pairs(_to_last(pairs, axis), x.rank - 1, direction, count), axis)
    return _of_pairs(pairs, axis, direction, count)


def _is_apart(x: Tensor, axis: int, n: int) -> bool:
    """Whether so many points are so far apart that they are put side by side first."""
    return n > _MOST_UNSPLIT and split(n)[1] > 1 and not is_int(_flat(x, axis)[2], 1)


def _turns(builder: GraphBuilder, half: int, dtype: DType) -> dict[str, View]:
    return {"turns": identity_view(_roots(builder, 2 * half, dtype, half + 1))}


def _of_pairs(x: Signal, axis: int, direction: Direction, count: Expr) -> Tensor:
    """The template for real numbers, of which every other one is a real part."""
    shape, half = x.re.shape, int(x.re.shape[axis])
    turns = _turns(x.re.builder, half, x.re.dtype)
    made, (_, _, inner) = _call(x, axis, direction, half, turns)
    two = integer(2)
    return _results(x, axis, made, (count, inner, two), (count, *shape[axis + 1 :], two))


def _unfolded(z: Signal, axis: int, count: int) -> Tensor:
    """The transform of 2 h real numbers from that of their pairs as h complex ones."""
    builder, dtype = z.re.builder, z.re.dtype
    half = int(z.re.shape[axis])
    roots = _roots(builder, 2 * half, dtype, half + 1)

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


def _to_real(x: Signal, axis: int, size: Expr, scale: float) -> Tensor:
    """n real numbers from the first n // 2 + 1 of their transform."""
    direction = Direction(scale, inverse=True)
    if not _halves(size):
        return _to_odd(x, axis, size, direction)
    n, half = int(size), int(size) // 2
    if not _is_smooth(half):
        return _to_pairs(x, axis, half, direction)
    assert x.im is not None
    shape = replace(x.re.shape, axis, integer(half + 1))
    signal = Signal(*(moved(part, shape, lambda at: at) for part in (x.re, x.im)))
    if _is_apart(x.re, axis, half):
        last = x.re.rank - 1
        made = _reals(_to_last(signal, axis), last, n, direction)
        wanted = replace(x.re.shape, axis, integer(n))
        return moved(made, wanted, lambda at: (*remove(at, axis), at[axis]))
    return _reals(signal, axis, n, direction)


def _reals(x: Signal, axis: int, n: int, direction: Direction) -> Tensor:
    """The template back to n real numbers."""
    turns = _turns(x.re.builder, n // 2, x.re.dtype)
    made, (_, _, inner) = _call(x, axis, direction, n // 2, turns)
    points = integer(n)
    return _results(x, axis, made, (points, inner), (points, *x.re.shape[axis + 1 :]))


def _to_odd(x: Signal, axis: int, size: Expr, direction: Direction) -> Tensor:
    """Back to a number of real ones that is odd, or not known: by all of their transform."""
    builder, im_ = x.re.builder, x.im
    assert im_ is not None
    number, points = builder.index_node, _number(builder, size)
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

    shape = replace(x.re.shape, axis, size)
    made = _parts(transformed(_numbers(builder, shape, x.re.dtype, whole), axis, direction))
    return made.re


def _to_pairs(x: Signal, axis: int, half: int, direction: Direction) -> Tensor:
    """Back to 2 h real numbers by h complex ones whose length is no product of small primes."""
    builder, dtype = x.re.builder, x.re.dtype
    roots = _roots(builder, 2 * half, dtype, half)

    def body(at: Shape) -> Numbers:
        def points(k: Expr, mask: Node | None) -> Numbers:
            re, im = _at(x, at, axis, k, mask)
            return re, without_imaginary(im, k, half)

        return folded(points, partial(_root_at, roots), at[axis], half)

    shape = replace(x.re.shape, axis, integer(half))
    pairs = transformed(_numbers(builder, shape, dtype, body), axis, direction)
    paired = (*shape[: axis + 1], integer(2), *shape[axis + 1 :])
    beside = moved(pairs, paired, lambda at: (*at[: axis + 1], *at[axis + 2 :], at[axis + 1]))
    final = replace(x.re.shape, axis, integer(2 * half))
    return moved(beside, final, reshape_index(builder.ranges, paired, final))


# ---- operators ----


def _scale(sizes: Sequence[Expr], normalization: int) -> float:
    """0: none, 1: by the root of the number of points, 2: by that number, as far as it is known."""
    points = math.prod(int(s) for s in sizes if is_int(s))
    return (1.0, 1.0 / math.sqrt(points), 1.0 / points)[normalization]


def _rescaled(x: Tensor, sizes: Sequence[Expr], normalization: int) -> Tensor:
    """What `_scale` leaves: the factor of the sizes that are known only when the package runs."""
    open_ = product([s for s in sizes if not is_int(s)])
    if normalization == 0 or is_int(open_):
        return x

    def body(at: Shape) -> Node:
        points = cast(x.builder.index_node(open_), FLOAT64)
        by = points if normalization == 2 else e.sqrt(points)
        return e.mul(x.load(at), cast(e.div(1.0, by), x.dtype))

    return x.builder.pointwise(x.shape, x.dtype, body)


def _checked(dtype: DType) -> None:
    if dtype not in (FLOAT32, FLOAT64):
        raise CannotLower(f"eager transforms no {dtype} on CPUs either: use float32")


def _along(x: Signal, axes: Sequence[int], direction: Direction) -> Tensor:
    """Along several axes, the last one first; the factor comes with the first of them."""
    for axis in reversed(axes[1:]):
        x = _parts(transformed(x, axis, Direction(inverse=direction.inverse)))
    return transformed(x, axes[0], direction)


@REGISTRY.row("complex.aten._fft_c2c.default")
def fft_c2c(
    call: Call,
    x: tuple[Tensor, Tensor],
    dim: tuple[int, ...],
    normalization: int,
    forward: bool,
) -> Tensor:
    """Complex numbers to complex ones, both parts in a last dimension."""
    signal = Signal(*x)
    _checked(signal.re.dtype)
    axes = [wrap_dim(d, signal.re.rank) for d in dim]
    if not axes:
        return _joined(signal)
    sizes = [signal.re.shape[a] for a in axes]
    direction = Direction(_scale(sizes, normalization), inverse=not forward)
    return _rescaled(_along(signal, axes, direction), sizes, normalization)


@REGISTRY.row("complex.aten._fft_r2c.default")
def fft_r2c(
    call: Call, x: Tensor, dim: tuple[int, ...], normalization: int, onesided: bool
) -> Tensor:
    """Real numbers to complex ones, along the last of `dim` to half as many where `onesided`."""
    _checked(x.dtype)
    axes = [wrap_dim(d, x.rank) for d in dim]
    sizes = [x.shape[a] for a in axes]
    scale = _scale(sizes, normalization)
    n = sizes[-1]
    count = FloorDiv(n, 2) + 1 if onesided else n
    made = _of_real(x, axes[-1], scale if len(axes) == 1 else 1.0, count)
    if len(axes) > 1:
        made = _along(_parts(made), axes[:-1], Direction(scale))
    return _rescaled(made, sizes, normalization)


@REGISTRY.row("complex.aten._fft_c2r.default")
def fft_c2r(
    call: Call,
    x: tuple[Tensor, Tensor],
    dim: tuple[int, ...],
    normalization: int,
    last_dim_size: Expr | int,
) -> Tensor:
    """Complex numbers to real ones, of which they are the transform's half along the last axis."""
    signal = Signal(*x)
    _checked(signal.re.dtype)
    axes = [wrap_dim(d, signal.re.rank) for d in dim]
    n = as_expr(last_dim_size)
    sizes = [*(signal.re.shape[a] for a in axes[:-1]), n]
    scale = _scale(sizes, normalization)
    if len(axes) > 1:
        signal = _parts(_along(signal, axes[:-1], Direction(inverse=True)))
    return _rescaled(_to_real(signal, axes[-1], n, scale), sizes, normalization)


@REGISTRY.row("aten.fft_fftfreq.default", "aten.fft_rfftfreq.default")
def fftfreq(call: Call, n: Expr | int, d: float = 1.0, **_: object) -> Tensor:
    """The frequencies of a transform's results, of samples that are d apart."""
    result, builder = call.result_type(), call.builder
    size = as_expr(n)

    def body(at: Shape) -> Node:
        here = builder.index_node(at[0])
        if "rfftfreq" not in call.op.target:
            count = builder.index_node(size)
            low = e.lt(here, e.floordiv(e.add(count, 1), 2))
            here = e.select(low, here, e.sub(here, count))
        whole = e.mul(builder.index_node(size), 1)
        step = e.div(1.0, e.mul(cast(whole, FLOAT64), float(d)))
        return cast(e.mul(cast(here, FLOAT64), step), result.dtype)

    return builder.pointwise(result.shape, result.dtype, body)
