"""Rows of special functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from tests.conformance.harness import Args, Row, ordinary

# Eager's own float64 is off by up to 3e-8 here: tests/lowering/test_special.py has better ones.
DTYPES = (torch.float32, torch.int64, torch.bool)
_EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, 8.0, -8.0, 0.5]


def _line(low: float, high: float) -> Callable[[torch.dtype], Sequence[Args]]:
    """Edges, a walk from `low` to `high`, and one element."""

    def samples(dtype: torch.dtype) -> Sequence[Args]:
        if not dtype.is_floating_point:
            return [(ordinary(dtype, 7, low=low, high=high),)]
        walk = torch.linspace(low, high, 301, dtype=torch.float64).to(dtype)
        return [(torch.tensor(_EDGES).to(dtype),), (walk,), (walk[77],), (walk[:0].reshape(0, 3),)]

    return samples


def _row(name: str, low: float, high: float, dtypes: Sequence[torch.dtype] = DTYPES) -> Row:
    return Row(f"special.{name}", getattr(torch.special, name), _line(low, high), tuple(dtypes))


ONE_OPERAND = (
    *(_row(f"bessel_{name}", -25.0, 25.0) for name in ("j0", "j1")),
    *(_row(f"bessel_{name}", 0.05, 25.0) for name in ("y0", "y1")),
    *(_row(f"modified_bessel_{name}", -9.0, 9.0) for name in ("i0", "i1")),
    *(_row(f"modified_bessel_{name}", 0.05, 9.0) for name in ("k0", "k1")),
    *(_row(f"scaled_modified_bessel_{name}", 0.05, 30.0) for name in ("k0", "k1")),
    _row("spherical_bessel_j0", -20.0, 20.0),
    # Between -4 and -2.09 eager has five digits.
    _row("airy_ai", -2.0, 9.0),
    _row("erfcx", -5.0, 40.0),
    _row("log_ndtr", -30.0, 8.0),
    _row("ndtr", -9.0, 9.0),
    _row("ndtri", 0.0, 1.0),
    _row("entr", -1.0, 4.0),
)


def _degrees(dtype: torch.dtype) -> Sequence[Args]:
    """Elements in and around [-1, 1], and degrees, some of them negative or broken."""
    n = torch.tensor([-2, 0, 1, 2, 3, 6, 9, 20])[:, None]
    if not dtype.is_floating_point:
        return [(ordinary(dtype, 8, 5, low=-4, high=5), n.to(dtype))]
    x = torch.tensor([-1.5, -1.0, -0.75, -0.1, 0.0, 0.3, 0.99, 1.0, 1.25])
    return [
        (x.to(dtype), n.to(dtype)),
        (x.to(dtype), 5),
        (0.5, n.to(dtype) + 0.5),
        (x[:0].to(dtype), n[:1, 0].to(dtype)),
    ]


def _shapes_and_limits(dtype: torch.dtype) -> Sequence[Args]:
    """Operands of the incomplete gamma functions."""
    a = torch.tensor([0.0, 0.2, 1.0, 3.5, 12.0, 70.0, 250.0, 5000.0, math.inf, -1.0, math.nan])
    x = torch.tensor([0.0, 0.1, 0.9, 4.0, 13.0, 60.0, 240.0, 5050.0, math.inf, -2.0, math.nan])
    return [(a[:, None].to(dtype), x.to(dtype)), (a[2].to(dtype), x[:0].to(dtype))]


def _zeta_operands(dtype: torch.dtype) -> Sequence[Args]:
    s = torch.tensor([1.0, 2.0, 3.0, 9.0, 0.5, 40.0])[:, None]
    q = torch.tensor([1.0, 2.0, 7.0, 31.0, 0.0, -1.0, -3.0])
    if not dtype.is_floating_point:
        return [(s.to(dtype), q.to(dtype))]
    broken = torch.tensor([1.5, 2.5, math.nan])[:, None]
    positive = torch.tensor([0.25, 1.0, 3.5, 100.5])
    return [
        (s.to(dtype), (q - 0.3).to(dtype)),
        (broken.to(dtype), positive.to(dtype)),
        (2.0, positive.to(dtype)),
        (s.to(dtype), 0.75),
    ]


def _polygamma(n: int) -> Row:
    def samples(dtype: torch.dtype) -> Sequence[Args]:
        low = -6.3 if dtype.is_floating_point else 1
        return [(ordinary(dtype, 3, 40, low=low, high=20),), (ordinary(dtype, 1, low=1),)]

    return Row(f"polygamma {n}", lambda x: torch.polygamma(n, x), samples, DTYPES[:2])


_POLYNOMIALS = (
    *(f"chebyshev_polynomial_{kind}" for kind in "tuvw"),
    *(f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he"),
    *("laguerre_polynomial_l", "legendre_polynomial_p"),
)
TWO_OPERANDS = (
    *(Row(f"special.{n}", getattr(torch.special, n), _degrees, DTYPES[:2]) for n in _POLYNOMIALS),
    Row("special.zeta", torch.special.zeta, _zeta_operands, DTYPES[:2]),
    Row("igamma", torch.igamma, _shapes_and_limits, (torch.float32, torch.bfloat16)),
    Row("igammac", torch.igammac, _shapes_and_limits, (torch.float32, torch.bfloat16)),
    *(_polygamma(n) for n in (0, 1, 2, 3, 8)),
)

ROWS: tuple[Row, ...] = (*ONE_OPERAND, *TWO_OPERANDS)
