"""Rows of elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from tests.conformance.harness import ALL, BOOL, FLOATS, INTS, Args, Row, ordinary, specials

Dtypes = tuple[torch.dtype, ...]
INT_AND_FLOAT = (*FLOATS, *INTS)


def _unary(dtype: torch.dtype) -> Sequence[Args]:
    return [
        (specials(dtype),),
        (ordinary(dtype, 2, 3),),
        (ordinary(dtype, 1, 1),),
        (ordinary(dtype, 0, 3),),
        (ordinary(dtype),),
        (ordinary(dtype, 3, 5).t(),),
    ]


def _tame(dtype: torch.dtype) -> Sequence[Args]:
    """Values of moderate size, for functions whose own argument reduction is not under test."""
    edges = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0]).to(dtype)
    return [(edges,), (ordinary(dtype, 4, 33),), (ordinary(dtype, 0, 3),)]


def _positive(dtype: torch.dtype) -> Sequence[Args]:
    return [(ordinary(dtype, 4, 33, low=0.05, high=9.0),), (ordinary(dtype, 1),)]


UNARY: dict[str, tuple[Callable[..., Any], Dtypes]] = {
    **{
        name: (getattr(torch, name), (*FLOATS, torch.int64, torch.bool))
        for name in """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sigmoid asin acos atan
        sinh cosh tanh asinh acosh atanh erf erfc deg2rad rad2deg""".split()
    },
    **{name: (getattr(torch, name), INT_AND_FLOAT) for name in "neg square sgn".split()},
    **{name: (getattr(torch, name), ALL) for name in "isnan isinf isfinite isposinf".split()},
    **{name: (getattr(torch, name), ALL) for name in "isneginf signbit logical_not".split()},
    **{name: (getattr(torch, name), INT_AND_FLOAT) for name in "ceil floor round trunc".split()},
    "frexp": (torch.frexp, FLOATS),
    "abs": (torch.abs, INT_AND_FLOAT),
    "sign": (torch.sign, ALL),
    "reciprocal": (torch.reciprocal, (*FLOATS, torch.int64)),
    "frac": (torch.frac, FLOATS),
    "angle": (torch.angle, (torch.float32, torch.float64, torch.int64)),
    "bitwise_not": (torch.bitwise_not, (*INTS, *BOOL)),
    "nan_to_num": (torch.nan_to_num, ALL),
    "nan_to_num values": (lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0), FLOATS),
    "logit": (torch.logit, FLOATS),
    "logit eps": (lambda x: torch.logit(x, 1e-3), FLOATS[:3]),
    "round decimals": (lambda x: torch.round(x, decimals=1), (torch.float32, torch.float64)),
    "relu": (F.relu, INT_AND_FLOAT),
    "relu6": (F.relu6, INT_AND_FLOAT),
    "silu": (F.silu, FLOATS),
    "gelu": (F.gelu, FLOATS),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), FLOATS),
    "hardtanh": (lambda x: F.hardtanh(x, -0.5, 0.75), FLOATS),
    "hardsigmoid": (F.hardsigmoid, FLOATS),
    "hardswish": (F.hardswish, FLOATS),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), FLOATS),
    "elu": (lambda x: F.elu(x, 0.7), FLOATS),
    "selu": (F.selu, FLOATS),
    "celu": (lambda x: F.celu(x, 1.3), FLOATS),
    "softplus": (lambda x: F.softplus(x, 2.0, 10.0), FLOATS),
    "mish": (F.mish, FLOATS),
    "logsigmoid": (F.logsigmoid, FLOATS),
    "silu gradient": (lambda x: torch.ops.aten.silu_backward(torch.ones_like(x), x), FLOATS),
    "mish gradient": (lambda x: torch.ops.aten.mish_backward(torch.ones_like(x), x), FLOATS),
    "hardshrink": (F.hardshrink, FLOATS),
    "softshrink": (F.softshrink, FLOATS),
    "threshold": (lambda x: F.threshold(x, 0.1, 20), FLOATS),
    "softsign": (F.softsign, FLOATS),
    "to float32": (lambda x: x.to(torch.float32), ALL),
    "to bfloat16": (lambda x: x.to(torch.bfloat16), ALL),
    "to bool": (lambda x: x.to(torch.bool), ALL),
    "clone": (torch.clone, ALL),
    "fill": (lambda x: torch.full_like(x, 1), ALL),
    "add scalar": (lambda x: x + 2, ALL),
    "add float": (lambda x: x + 2.5, ALL),
    "rsub": (lambda x: 2 - x, INT_AND_FLOAT),
    "rsub alpha": (lambda x: torch.rsub(x, 2, alpha=3), INT_AND_FLOAT),
    "mul bool": (lambda x: x * True, ALL),
    "pow 2": (lambda x: x**2, INT_AND_FLOAT),
    "pow 3": (lambda x: x**3, INT_AND_FLOAT),
    "pow 0": (lambda x: x**0, FLOATS),
    "pow 1": (lambda x: x**1, FLOATS),
    "pow half": (lambda x: x**0.5, FLOATS),
    "pow -half": (lambda x: x**-0.5, FLOATS),
    "pow -1": (lambda x: x**-1, FLOATS),
    "pow -2": (lambda x: x**-2, FLOATS),
    "clamp": (lambda x: torch.clamp(x, 1, 5), INT_AND_FLOAT),
    "clamp crossed": (lambda x: torch.clamp(x, 3, 1), INT_AND_FLOAT),
    "clamp min": (lambda x: torch.clamp_min(x, 1), INT_AND_FLOAT),
    "clamp max float": (lambda x: torch.clamp(x, max=1.5), INT_AND_FLOAT),
    "eq scalar": (lambda x: x == 1, ALL),
    "lt scalar": (lambda x: x < 1.5, ALL),
    "bitwise_and scalar": (lambda x: x & 5, INTS),
    "shift left": (lambda x: x << 2, INTS),
    "shift right": (lambda x: x >> 2, INTS),
    "where scalars": (lambda x: torch.where(x > 0, 1.0, 2.0), FLOATS),
}

TAME: dict[str, Callable[..., Any]] = {
    "tanhshrink": F.tanhshrink,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "sinc": torch.sinc,
    "erfinv": torch.erfinv,
    "i0e": torch.special.i0e,
    "i1e": torch.special.i1e,
}
POSITIVE: dict[str, Callable[..., Any]] = {
    "i0": torch.i0,
    "i1": torch.special.i1,
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "pow 1.7": lambda x: x**1.7,
    "scalar pow": lambda x: 2.5**x,
}


def _near_integers(dtype: torch.dtype) -> Sequence[Args]:
    """Neighbours of negative integers; in float64 eager itself loses their distance to the pole."""
    integers = -torch.arange(1, 9, dtype=dtype)[:, None]
    parts = 2.0 ** -torch.arange(2, 16, dtype=dtype)
    return [(torch.cat([integers + parts, integers - parts]),)]


def _pairs(dtype: torch.dtype) -> Sequence[Args]:
    edges = specials(dtype)
    return [
        (edges[:, None], edges[None, :]),
        (ordinary(dtype, 3, 4), ordinary(dtype, 4)),
        (ordinary(dtype, 3, 1), ordinary(dtype, 1, 4)),
        (ordinary(dtype, 3, 0), ordinary(dtype, 1)),
        (ordinary(dtype, 2, 2), ordinary(dtype)),
    ]


def _channels(dtype: torch.dtype) -> Sequence[Args]:
    """Inputs of every rank with a weight for each channel or one for all, of no dimension too."""
    shapes = ((), (7,), (5, 3), (2, 3, 4), (1, 3, 2, 5), (2, 3, 0))
    single = [(ordinary(dtype, *s), ordinary(dtype, *w)) for s in shapes for w in ((), (1,))]
    return [*single, *((ordinary(dtype, *s), ordinary(dtype, 3)) for s in shapes[2:])]


def _tame_pairs(dtype: torch.dtype) -> Sequence[Args]:
    """Pairs whose second operand is never 0."""
    a, b = ordinary(dtype, 5, 7, low=-20, high=20), ordinary(dtype, 5, 7, low=1, high=6)
    pairs = [(a, b), (a, b[:1])]
    return pairs if dtype == torch.uint8 else [*pairs, (a, -b)]


def _shifts(dtype: torch.dtype) -> Sequence[Args]:
    amounts = torch.tensor([0, 1, 3, 7, 15, 31, 63]).clamp(max=torch.iinfo(dtype).bits - 1)
    return [(specials(dtype)[:, None], amounts.to(dtype))]


BINARY: dict[str, tuple[Callable[..., Any], Dtypes]] = {
    "add": (torch.add, ALL),
    "add bool alpha": (lambda a, b: torch.add(a > 0, b > 0, alpha=False), BOOL),
    "sub": (torch.sub, INT_AND_FLOAT),
    "mul": (torch.mul, ALL),
    "maximum": (torch.maximum, ALL),
    "minimum": (torch.minimum, ALL),
    "fmax": (torch.fmax, INT_AND_FLOAT),
    "fmin": (torch.fmin, INT_AND_FLOAT),
    "eq": (torch.eq, ALL),
    "ne": (torch.ne, ALL),
    "lt": (torch.lt, ALL),
    "le": (torch.le, ALL),
    "gt": (torch.gt, ALL),
    "ge": (torch.ge, ALL),
    "logical_and": (torch.logical_and, ALL),
    "logical_or": (torch.logical_or, ALL),
    "logical_xor": (torch.logical_xor, ALL),
    "bitwise_and": (torch.bitwise_and, (*INTS, *BOOL)),
    "bitwise_or": (torch.bitwise_or, (*INTS, *BOOL)),
    "bitwise_xor": (torch.bitwise_xor, (*INTS, *BOOL)),
    "div": (torch.div, FLOATS),
    "atan2": (torch.atan2, FLOATS),
    "copysign": (torch.copysign, (*FLOATS, torch.int32)),
    "hypot": (torch.hypot, FLOATS),
    "nextafter": (torch.nextafter, (torch.float32, torch.float64)),
    "xlogy": (torch.xlogy, FLOATS),
    "xlog1py": (torch.special.xlog1py, (torch.float32, torch.float64)),
    "heaviside": (torch.heaviside, FLOATS),
    "logaddexp": (torch.logaddexp, (torch.float32, torch.float64)),
    "logaddexp2": (torch.logaddexp2, (torch.float32,)),
    "prelu": (lambda a, b: torch.where(a > 0, a, a * b), FLOATS),
}
QUOTIENTS: dict[str, Callable[..., Any]] = {
    "floor_divide": torch.floor_divide,
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}


def _divisible(dtype: torch.dtype) -> Sequence[Args]:
    """Without the least integers, at which eager's quotients trap."""
    least = torch.iinfo(dtype).min if dtype.is_signed else -1
    edges = specials(dtype)
    edges = edges[edges != least]
    return [(edges[:, None], edges[None, :]), *_pairs(dtype)[1:], *_tame_pairs(dtype)]


WHOLE: dict[str, Callable[..., Any]] = {
    "gcd": torch.gcd,
    "lcm": torch.lcm,
    "pow of integers": torch.pow,
}


def _promotions() -> Sequence[Args]:
    """Every pair of types, with and without dimensions."""
    values = [ordinary(d, 3, low=1, high=4) for d in ALL]
    pairs = [(a, b) for a in values for b in values]
    return [*pairs, *((a, b[0]) for a, b in pairs)]


def _mixed(_: torch.dtype) -> Sequence[Args]:
    return _promotions()


def _ternary(dtype: torch.dtype) -> Sequence[Args]:
    a, b, c = (ordinary(dtype, 4, 5) for _ in range(3))
    return [(a, b, c), (a, b[:1], c[:, :1]), (a[:0], b[:0], c[:0])]


ALPHA: dict[str, Callable[..., Any]] = {
    "add alpha": lambda a, b: torch.add(a, b, alpha=2),
    "sub alpha": lambda a, b: torch.sub(a, b, alpha=3),
}

TERNARY: dict[str, tuple[Callable[..., Any], Dtypes]] = {
    "addcmul": (lambda a, b, c: torch.addcmul(a, b, c, value=2), INT_AND_FLOAT),
    "addcdiv": (lambda a, b, c: torch.addcdiv(a, b, c.abs() + 0.5, value=0.5), FLOATS),
    "lerp": (torch.lerp, (torch.float32, torch.float64)),
    "lerp scalar": (lambda a, b, c: torch.lerp(a, b, 0.3), FLOATS),
    "clamp tensors": (torch.clamp, INT_AND_FLOAT),
    "where": (lambda a, b, c: torch.where(a > 0, b, c), ALL),
    "masked_fill": (lambda a, b, c: a.masked_fill(b > c, 1), ALL),
    "masked_fill tensor": (lambda a, b, c: a.masked_fill(b > c, torch.tensor(1)), ALL),
}


def _jumps(name: str) -> bool:
    """Whether the function has jumps, so that float64 may land on the other side."""
    jumping = ("round", "ceil", "floor", "trunc", "eq", "lt", "sign", "div", "remainder", "fmod")
    return name.startswith(
        (*jumping, "nextafter", "frexp", "frac", "nan_to_num", "to ", "clamp", "where")
    )


ROWS: tuple[Row, ...] = (
    *(Row(n, f, _divisible, INTS) for n, f in WHOLE.items()),
    *(Row(n, f, _unary, d, _jumps(n)) for n, (f, d) in UNARY.items()),
    *(Row(n, f, _tame, (torch.float32, torch.float64)) for n, f in TAME.items()),
    *(Row(n, f, _positive, (torch.float32, torch.float64)) for n, f in POSITIVE.items()),
    Row("digamma near poles", torch.digamma, _near_integers),
    *(Row(n, f, _pairs, d, _jumps(n)) for n, (f, d) in BINARY.items()),
    *(
        Row(n, f, _tame_pairs, INT_AND_FLOAT, against_eager=True, or_float64=True)
        for n, f in QUOTIENTS.items()
    ),
    *(Row(n, f, _tame_pairs, INT_AND_FLOAT) for n, f in ALPHA.items()),
    *(Row(n, f, _ternary, d, _jumps(n)) for n, (f, d) in TERNARY.items()),
    Row("prelu channels", F.prelu, _channels, FLOATS),
    Row("shift by tensor left", torch.bitwise_left_shift, _shifts, INTS),
    Row("shift by tensor right", torch.bitwise_right_shift, _shifts, INTS),
    Row("promote add", torch.add, _mixed, against_eager=True),
    Row("promote div", torch.div, _mixed, against_eager=True),
    Row("promote lt", torch.lt, _mixed, against_eager=True),
)
