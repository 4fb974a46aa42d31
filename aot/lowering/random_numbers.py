"""Random numbers, one Philox block for each element: no element waits for another.

Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011). The key is the
seed; the counter is the element's number (64 bits), the run and the draw (32 bits each). Streams
differ from PyTorch's, whose counters depend on how its kernels share out the elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aot.ir.dtypes import BOOL, FLOAT32, FLOAT64, INT64, DType
from aot.ir.scalar import Node, cast, const, reduce_, unary
from aot.lowering import exprs as e
from aot.lowering.axes import wrap_dim
from aot.lowering.builder import Tensor
from aot.lowering.gamma import TWO_OPERANDS
from aot.lowering.pointwise import narrow
from aot.lowering.promotion import TensorLike, element
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.lowering.rowwise import order_along, running
from aot.lowering.special import ndtri
from aot.symbolic import Expr, as_expr, integer, ravel

Draw = tuple[Tensor, int]
"""The state (seed, runs so far), and the number of the draw in the program."""

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


@dataclass(frozen=True)
class Words:
    """Two words of 32 bits, as non-negative int64."""

    first: Node
    second: Node

    def uniform(self, dtype: DType) -> Node:
        """In [0, 1), of as many bits as the type can tell apart, in its arithmetic type."""
        if dtype == FLOAT64:
            wide = e.add(e.shl(self.first, 21), e.shr(self.second, 11))
            return e.mul(cast(wide, FLOAT64), 2.0**-53)
        bits = {"float16": 11, "bfloat16": 8}.get(dtype.name, 24)
        return e.mul(cast(e.shr(self.first, 32 - bits), FLOAT32), 2.0**-bits)

    def positive(self, dtype: DType) -> Node:
        """In (0, 1], in the arithmetic type: its logarithm is finite."""
        return e.mul(cast(e.add(self.first, 1), dtype.compute), 2.0**-32)

    def normal(self, dtype: DType) -> Node:
        """Of mean 0 and variance 1 (Box and Muller, 1958), in the arithmetic type."""
        radius = e.sqrt(e.mul(e.log(self.positive(dtype)), -2.0))
        angle = e.mul(cast(self.second, dtype.compute), 2.0 * math.pi * 2.0**-32)
        return e.mul(radius, unary("cos", angle))

    def exponential(self, dtype: DType) -> Node:
        """Of rate 1, in the arithmetic type."""
        return e.neg(e.log(self.positive(dtype)))

    def whole(self) -> Node:
        """63 bits."""
        return e.xor(e.shl(self.first, 31), self.second)


def _words(draw: Draw, number: Node) -> Words:
    """The words of an element."""
    state, position = draw
    seed, run = (state.load((integer(k),)) for k in range(2))
    key = [e.and_(seed, _WORD), e.and_(e.shr(seed, 32), _WORD)]
    low, high = e.and_(number, _WORD), e.and_(e.shr(number, 32), _WORD)
    counter = [low, high, e.and_(run, _WORD), const(position, INT64)]
    for _ in range(_ROUNDS):
        left, right = e.mul(counter[0], _MULTIPLIERS[0]), e.mul(counter[2], _MULTIPLIERS[1])
        counter = [
            e.xor(e.xor(_high(right), counter[1]), key[0]),
            e.and_(right, _WORD),
            e.xor(e.xor(_high(left), counter[3]), key[1]),
            e.and_(left, _WORD),
        ]
        key = [e.and_(e.add(k, w), _WORD) for k, w in zip(key, _WEYL, strict=True)]
    return Words(counter[0], counter[1])


def _high(product: Node) -> Node:
    return e.and_(e.shr(product, 32), _WORD)


def _drawn(
    call: Call, draw: Draw, body: Callable[[Words, tuple[Expr, ...]], Node], position: int = 0
) -> Tensor:
    """A result whose elements are made of words of their own."""
    result, builder = call.result_type(position), call.builder

    def point(at: tuple[Expr, ...]) -> Node:
        words = _words(draw, builder.index_node(ravel(at, result.shape)))
        return cast(body(words, at), result.dtype)

    return builder.pointwise(result.shape, result.dtype, point)


@REGISTRY.row("aot.next_run.default")
def next_run(call: Call, state: Tensor) -> Tensor:
    """The state after a run."""

    def point(at: tuple[Expr, ...]) -> Node:
        return e.add(state.load(at), call.builder.index_node(at[0]))

    return call.builder.pointwise(state.shape, INT64, point)


@REGISTRY.row("aten.rand.default", "aten.rand_like.default")
def rand(call: Call, *_: Any, draw: Draw, **__: Any) -> Tensor:
    """Uniform in [0, 1)."""
    dtype = call.result_type().dtype
    return _drawn(call, draw, lambda words, at: words.uniform(dtype))


@REGISTRY.row("aten.randn.default", "aten.randn_like.default")
def randn(call: Call, *_: Any, draw: Draw, **__: Any) -> Tensor:
    """Of the standard normal distribution."""
    dtype = call.result_type().dtype
    return _drawn(call, draw, lambda words, at: words.normal(dtype))


@REGISTRY.row("aten.uniform.default")
def uniform(call: Call, x: Tensor, low: float = 0.0, high: float = 1.0, *, draw: Draw) -> Tensor:
    """Uniform in [low, high)."""

    def body(words: Words, at: tuple[Expr, ...]) -> Node:
        return e.add(e.mul(words.uniform(x.dtype), float(high) - float(low)), float(low))

    return _drawn(call, draw, body)


def _integers(call: Call, draw: Draw, low: Expr | int, high: Expr | int) -> Tensor:
    builder = call.builder

    def body(words: Words, at: tuple[Expr, ...]) -> Node:
        width = builder.index_node(as_expr(high) - as_expr(low))
        return e.add(e.mod(words.whole(), width), builder.index_node(as_expr(low)))

    return _drawn(call, draw, body)


@REGISTRY.row("aten.randint.default")
def randint(call: Call, high: Expr | int, *_: Any, draw: Draw, **__: Any) -> Tensor:
    """Integers of [0, high)."""
    return _integers(call, draw, 0, high)


@REGISTRY.row("aten.randint.low")
def randint_low(
    call: Call, low: Expr | int, high: Expr | int, *_: Any, draw: Draw, **__: Any
) -> Tensor:
    """Integers of [low, high)."""
    return _integers(call, draw, low, high)


@REGISTRY.row("aten.randint_like.default")
def randint_like(call: Call, x: Tensor, high: Expr | int, *, draw: Draw, **_: Any) -> Tensor:
    """Integers of [0, high)."""
    return _integers(call, draw, 0, high)


@REGISTRY.row("aten.randint_like.low_dtype")
def randint_like_low(
    call: Call, x: Tensor, low: Expr | int, high: Expr | int, *, draw: Draw, **_: Any
) -> Tensor:
    """Integers of [low, high)."""
    return _integers(call, draw, low, high)


@REGISTRY.row("aten.randperm.default")
def randperm(call: Call, n: Expr | int, *, draw: Draw, **_: Any) -> Tensor:
    """0 to n - 1 in random order: that of random keys."""
    builder, dtype = call.builder, call.result_type().dtype

    def key(at: tuple[Expr, ...]) -> Node:
        return _words(draw, builder.index_node(at[0])).whole()

    order = order_along(
        builder.pointwise((as_expr(n),), INT64, key), 0, as_expr(n), descending=False
    )
    return builder.pointwise(order.shape, dtype, lambda at: cast(order.load(at), dtype))


@REGISTRY.row("aten.bernoulli.default", "aten.bernoulli.p", "aten.bernoulli.Tensor")
def bernoulli(
    call: Call, x: Tensor, p: TensorLike | None = None, *, draw: Draw, **_: Any
) -> Tensor:
    """1 with probability p, by default x's elements; else 0."""
    chance = x if p is None else p

    def body(words: Words, at: tuple[Expr, ...]) -> Node:
        return e.lt(words.uniform(FLOAT32), element(call.builder, chance, at, FLOAT32))

    return _drawn(call, draw, body)


@REGISTRY.row("aten.native_dropout.default")
def native_dropout(
    call: Call, x: Tensor, p: float, train: bool | None, *, draw: Draw
) -> tuple[Tensor | None, ...]:
    """(x with elements dropped and the others scaled, which were kept)."""
    share = 1.0 - float(p) if train or train is None else 1.0
    builder, compute = call.builder, x.dtype.compute

    def keep(at: tuple[Expr, ...]) -> Node:
        words = _words(draw, builder.index_node(ravel(at, x.shape)))
        return e.lt(words.uniform(FLOAT32), share)

    kept = builder.pointwise(x.shape, BOOL, keep)

    def scaled(at: tuple[Expr, ...]) -> Node:
        value = e.mul(cast(x.load(at), compute), 1.0 / share if share else 0.0)
        return cast(e.select(kept.load(at), value, 0.0), x.dtype)

    return builder.pointwise(x.shape, x.dtype, scaled), kept


@REGISTRY.row(
    "aten.normal.Tensor_Tensor",
    "aten.normal.Tensor_float",
    "aten.normal.float_Tensor",
    "aten.normal.float_float",
)
def normal(
    call: Call,
    mean: TensorLike,
    std: TensorLike = 1.0,
    *_: Any,
    draw: Draw,
    **__: Any,
) -> Tensor:
    """Of normal distributions."""
    dtype = call.result_type().dtype

    def body(words: Words, at: tuple[Expr, ...]) -> Node:
        centre, width = (element(call.builder, v, at, dtype.compute) for v in (mean, std))
        return e.add(e.mul(words.normal(dtype), width), centre)

    return _drawn(call, draw, body)


@REGISTRY.row("aten.normal_functional.default")
def normal_functional(
    call: Call, x: Tensor, mean: float = 0.0, std: float = 1.0, *, draw: Draw
) -> Tensor:
    """Of a normal distribution, as many as x has elements."""
    return normal(call, float(mean), float(std), draw=draw)


@REGISTRY.row("aten.exponential.default")
def exponential(call: Call, x: Tensor, rate: float = 1.0, *, draw: Draw) -> Tensor:
    """Of an exponential distribution."""
    return _drawn(call, draw, lambda w, at: e.div(w.exponential(x.dtype), float(rate)))


@REGISTRY.row("aten.log_normal.default")
def log_normal(call: Call, x: Tensor, mean: float = 1.0, std: float = 2.0, *, draw: Draw) -> Tensor:
    """Exponentials of numbers of a normal distribution."""

    def body(words: Words, at: tuple[Expr, ...]) -> Node:
        return e.exp(e.add(e.mul(words.normal(x.dtype), float(std)), float(mean)))

    return _drawn(call, draw, body)


@REGISTRY.row("aten.cauchy.default")
def cauchy(call: Call, x: Tensor, median: float = 0.0, sigma: float = 1.0, *, draw: Draw) -> Tensor:
    """Of a Cauchy distribution: by its quantile function."""

    def body(words: Words, at: tuple[Expr, ...]) -> Node:
        angle = e.mul(e.sub(words.positive(x.dtype), 0.5), math.pi)
        return e.add(e.mul(unary("tan", angle), float(sigma)), float(median))

    return _drawn(call, draw, body)


@REGISTRY.row("aten.geometric.default")
def geometric(call: Call, x: Tensor, p: float, *, draw: Draw) -> Tensor:
    """How many trials of probability p until one succeeds."""
    slope = math.log1p(-float(p)) if p < 1 else -math.inf

    def body(words: Words, at: tuple[Expr, ...]) -> Node:
        trials = e.div(e.neg(words.exponential(FLOAT32)), slope)
        return e.maximum(e.neg(e.floor(e.neg(trials))), 1.0)

    return _drawn(call, draw, body)


_STEPS = (16, 8, 4, 2, 1)
"""Of a search among the 32 numbers around what a series says a count is."""

_NORMAL = 1e6
"""The rate from which on the series alone is right but for one."""


@REGISTRY.row("aten.poisson.default")
def poisson(call: Call, rates: Tensor, *_: Any, draw: Draw) -> Tensor:
    """Of Poisson distributions: how many counts have a chance up to them of at most a share.

    Cornish and Fisher's series of the distribution's quantiles says where to look; the chances are
    upper incomplete gamma functions.
    """

    def body(words: Words, at: tuple[Expr, ...]) -> Node:
        rate, share = cast(rates.load(at), FLOAT64), words.uniform(FLOAT64)
        deviate = ndtri(e.clamp(share, 2.0**-54, 1.0 - 2.0**-53))
        skewed = e.div(e.sub(e.mul(deviate, deviate), 1.0), 6.0)
        near = e.floor(e.add(e.add(rate, e.mul(e.sqrt(rate), deviate)), skewed))
        count = e.maximum(e.sub(near, float(_STEPS[0])), 0.0)
        for step in _STEPS:
            more = e.add(count, float(step))
            count = e.select(e.le(TWO_OPERANDS["igammac"](more, rate), share), more, count)
        return e.select(e.gt(rate, _NORMAL), near, count)

    return _drawn(call, draw, body)


@REGISTRY.row("aten.multinomial.default")
def multinomial(
    call: Call, weights: Tensor, count: Expr | int, replacement: bool = False, *, draw: Draw
) -> Tensor:
    """`count` columns of each row, chosen with the given weights.

    Without replacement those of the greatest weight / exponential number, in that order, which
    is drawing one after the other (Efraimidis and Spirakis, 2006).
    """
    if replacement:
        return _with_replacement(call, weights, draw)
    builder = call.builder

    def key(at: tuple[Expr, ...]) -> Node:
        words = _words(draw, builder.index_node(ravel(at, weights.shape)))
        return e.div(cast(weights.load(at), FLOAT32), words.exponential(FLOAT32))

    keys = builder.pointwise(weights.shape, FLOAT32, key)
    return order_along(keys, wrap_dim(-1, weights.rank), as_expr(count), descending=True)


def _with_replacement(call: Call, weights: Tensor, draw: Draw) -> Tensor:
    """As many columns as have a running sum of at most a random share of the whole."""
    builder, result = call.builder, call.result_type()
    axis = wrap_dim(-1, weights.rank)
    columns = weights.shape[axis]
    wide = builder.pointwise(weights.shape, FLOAT64, lambda at: cast(weights.load(at), FLOAT64))
    sums = running(wide, axis, FLOAT64, "sum")

    def body(at: tuple[Expr, ...], rat: tuple[Expr, ...]) -> Node:
        words = _words(draw, builder.index_node(ravel(at, result.shape)))
        share = e.mul(words.uniform(FLOAT64), sums.load((*at[:-1], columns - 1)))
        return reduce_("sum", cast(e.le(sums.load((*at[:-1], rat[0])), share), INT64))

    return builder.reduction(result.shape, (columns,), [(INT64, body)])[0]


@REGISTRY.row("aten.rrelu_with_noise_functional.default")
def rrelu(
    call: Call,
    x: Tensor,
    noise: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    *_: Any,
    draw: Draw | None = None,
) -> tuple[Tensor, ...]:
    """(x, times a slope where it is not positive; the slopes).

    Slopes are drawn in training, else the mean of the bounds, and the noise stays.
    """
    builder, compute, low, high = call.builder, x.dtype.compute, float(lower), float(upper)

    def slope(at: tuple[Expr, ...]) -> Node:
        if draw is None:
            return const((low + high) / 2, compute)
        uniform = _words(draw, builder.index_node(ravel(at, x.shape))).uniform(x.dtype)
        drawn = e.add(e.mul(uniform, high - low), low)
        return e.select(e.gt(cast(x.load(at), compute), 0.0), 1.0, drawn)

    def sloped(at: tuple[Expr, ...]) -> Node:
        value = cast(x.load(at), compute)
        return narrow(e.select(e.gt(value, 0.0), value, e.mul(value, slope(at))), x.dtype)

    if draw is None:
        return builder.pointwise(x.shape, x.dtype, sloped), noise
    slopes = (x.dtype, lambda at: narrow(slope(at), x.dtype))
    made = builder.pointwise_many(x.shape, [(x.dtype, sloped), slopes])
    return made
