"""The table of scalar operations: what each takes and gives, costs and means.

What a row does not say is a backend's: its text (`backends/*/ops.py`). A new operation is a row
here and, in each backend that does not call a function of that name, an entry there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir import numpy_ops as ours
from aot.ir import special
from aot.ir import special_loops as loops

Array = np.ndarray[Any, Any]

CHEAP, MIDDLE, DEAR, LOOPED = 1, 4, 16, 400
"""Prices of one evaluation, an addition being 1: an instruction, a slow one, a function, and one of
several loops of tens of steps."""


@dataclass(frozen=True)
class Operation:
    """A scalar operation on operands of one type.

    Attributes:
        name: As nodes call it.
        arity: Operands.
        meaning: In NumPy, on arrays of the type that arithmetic runs in: half types are float32.
        test: The result is a bool; otherwise it has the operands' type.
        price: Of one evaluation.
        approximated: What floats give depends on who computes it.
    """

    name: str
    arity: int
    meaning: Callable[..., Array]
    test: bool = False
    price: int = CHEAP
    approximated: bool = False


def _exact(arity: int, price: int, **meanings: Callable[..., Array]) -> Iterator[Operation]:
    for name, meaning in meanings.items():
        yield Operation(name.rstrip("_"), arity, meaning, price=price)


def _test(arity: int, **meanings: Callable[..., Array]) -> Iterator[Operation]:
    for name, meaning in meanings.items():
        yield Operation(name.rstrip("_"), arity, meaning, test=True)


def _function(arity: int, **meanings: Callable[..., Array]) -> Iterator[Operation]:
    for name, meaning in meanings.items():
        yield Operation(name, arity, meaning, price=DEAR, approximated=arity == 1)


ROWS: tuple[Operation, ...] = (
    *_exact(1, CHEAP, neg=np.negative, abs=np.abs, sign=ours.sign, bitnot=np.invert),
    *_exact(1, CHEAP, floor=np.floor, ceil=np.ceil, trunc=np.trunc, round=ours.nearest),
    *_exact(1, MIDDLE, sqrt=np.sqrt, reciprocal=ours.reciprocal),
    Operation("rsqrt", 1, ours.rsqrt, price=MIDDLE, approximated=True),
    *_function(1, exp=np.exp, exp2=np.exp2, expm1=np.expm1),
    *_function(1, log=np.log, log2=np.log2, log10=np.log10, log1p=np.log1p),
    *_function(1, sin=np.sin, cos=np.cos, tan=np.tan),
    *_function(1, asin=np.arcsin, acos=np.arccos, atan=np.arctan),
    *_function(1, sinh=np.sinh, cosh=np.cosh, tanh=np.tanh),
    *_function(1, asinh=np.arcsinh, acosh=np.arccosh, atanh=np.arctanh),
    *_function(1, erf=special.erf, erfc=special.erfc, erfinv=special.erfinv),
    *_function(1, lgamma=special.lgamma, digamma=special.digamma, sigmoid=ours.sigmoid),
    *_function(1, i0=special.i0, i0e=special.i0e, i1=special.i1, i1e=special.i1e),
    *_test(1, isnan=np.isnan, isinf=np.isinf, signbit=np.signbit, not_=np.logical_not),
    *_exact(2, CHEAP, add=np.add, sub=np.subtract, mul=np.multiply, copysign=np.copysign),
    *_exact(2, CHEAP, minimum=np.minimum, maximum=np.maximum, fmin=np.fmin, fmax=np.fmax),
    *_exact(2, CHEAP, and_=np.bitwise_and, or_=np.bitwise_or, xor=np.bitwise_xor),
    *_exact(2, CHEAP, shl=np.left_shift, shr=np.right_shift),
    *_exact(2, MIDDLE, div=np.divide, floordiv=np.floor_divide, truncdiv=ours.truncdiv),
    *_exact(2, MIDDLE, mod=np.remainder, nextafter=np.nextafter),
    *_function(2, fmod=np.fmod, gcd=ours.gcd),
    Operation("igamma", 2, loops.igamma, price=LOOPED, approximated=True),
    Operation("igammac", 2, loops.igammac, price=LOOPED, approximated=True),
    *_function(2, chebyshev_t=loops.chebyshev_t, chebyshev_u=loops.chebyshev_u),
    *_function(2, chebyshev_v=loops.chebyshev_v, chebyshev_w=loops.chebyshev_w),
    *_function(2, hermite_h=loops.hermite_h, hermite_he=loops.hermite_he),
    *_function(2, laguerre_l=loops.laguerre_l, legendre_p=loops.legendre_p),
    Operation("pow", 2, ours.power, price=DEAR, approximated=True),
    Operation("atan2", 2, np.arctan2, price=DEAR, approximated=True),
    Operation("hypot", 2, np.hypot, price=DEAR, approximated=True),
    *_test(2, eq=np.equal, ne=np.not_equal, lt=np.less),
    *_test(2, le=np.less_equal, gt=np.greater, ge=np.greater_equal),
    Operation("fma", 3, ours.fma),
)

OPERATIONS = {row.name: row for row in ROWS}
"""By name."""

TESTS = frozenset(row.name for row in ROWS if row.test)
"""Names of what gives a bool."""

COMPARE = frozenset(name for name in TESTS if OPERATIONS[name].arity == 2)
"""Names of the comparisons."""
