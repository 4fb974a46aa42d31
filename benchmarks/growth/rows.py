"""Families of functions of each element, of reductions and of normalisations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.growth.family import Draw, Family, Problem, Tensor, table

Function = Callable[[Tensor], Any]

ELEMENTWISE: dict[str, Function] = {
    "gelu": F.gelu,
    "exp": torch.exp,
    "sin": torch.sin,
    "tan": torch.tan,
    "erf": torch.erf,
    "erfinv": torch.erfinv,
    "sinc": torch.sinc,
    "i0": torch.i0,
    "i1e": torch.special.i1e,
    "bessel_j0": torch.special.bessel_j0,
    "modified_bessel_k0": lambda x: torch.special.modified_bessel_k0(x + 2),
    "log_ndtr": torch.special.log_ndtr,
    "ndtri": lambda x: torch.special.ndtri(x * 0.5 + 0.5),
    "erfcx": torch.special.erfcx,
    "lgamma": lambda x: torch.lgamma(x + 3),
    "digamma": lambda x: torch.digamma(x + 3),
    "polygamma 2": lambda x: torch.polygamma(2, x + 3),
    "zeta": lambda x: torch.special.zeta(x + 4, x + 2),
    "igamma": lambda x: torch.igamma(x + 2, x + 3),
    "igamma, large": lambda x: torch.igamma(x * 20 + 300, x * 30 + 300),
    "pow": lambda x: torch.pow(x + 2, x),
    "atan2": lambda x: torch.atan2(x, x + 0.5),
    "remainder": lambda x: torch.remainder(x, 0.3),
    "frexp": torch.frexp,
}
SPECIAL: dict[str, tuple[float, float]] = {
    "airy_ai": (-4, 4),
    "bessel_j1": (-20, 20),
    "bessel_y0": (0.1, 20),
    "bessel_y1": (0.1, 20),
    "entr": (0, 1),
    "erfc": (-3, 3),
    "exp2": (-3, 3),
    "expit": (-3, 3),
    "expm1": (-1, 1),
    "i0e": (-30, 30),
    "i1": (-5, 5),
    "log1p": (-0.5, 1),
    "logit": (0, 1),
    "modified_bessel_i0": (-9, 9),
    "modified_bessel_i1": (-9, 9),
    "modified_bessel_k1": (0.1, 9),
    "ndtr": (-3, 3),
    "round": (-9, 9),
    "scaled_modified_bessel_k0": (0.1, 9),
    "scaled_modified_bessel_k1": (0.1, 9),
    "spherical_bessel_j0": (-9, 9),
}
"""Functions of torch.special that ELEMENTWISE has not got, and where they are evaluated."""

WIDE: dict[str, tuple[float, float]] = {
    "bessel_j0": (-30, 30),
    "digamma": (-9, 20),
    "gammaln": (-9, 20),
    "i1e": (-30, 30),
    "log_ndtr": (-30, 5),
    "ndtri": (0, 0.1),
}
"""Some of them where neighbours take different ways, or the longer one."""

POLYNOMIALS = (
    *(f"{shifted}chebyshev_polynomial_{k}" for shifted in ("", "shifted_") for k in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he"),
    *("laguerre_polynomial_l", "legendre_polynomial_p"),
)
"""Functions of torch.special of an element and a degree: here of degrees from 0 to 7."""

WHOLE: dict[str, Function] = {
    "sum": torch.sum,
    "prod": torch.prod,
    "argmax": torch.argmax,
    "any": lambda x: (x > 2).any(),
    "var": torch.var,
    "norm": torch.linalg.vector_norm,
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "aminmax": torch.aminmax,
    "count_nonzero": torch.count_nonzero,
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "normalize": lambda x: F.normalize(x, dim=-1),
}
"""Of one row of n elements."""

ROWS: dict[str, Function] = {
    "sum": lambda x: x.sum(1),
    "max with indices": lambda x: x.max(1),
    "argmax": lambda x: x.argmax(1),
    "softmax": lambda x: F.softmax(x, 1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=1),
    "var": lambda x: x.var(1),
}
"""Of rows of 64 elements, n in all; and of its columns."""

COLUMNS: dict[str, Function] = {
    "sum": lambda x: x.sum(0),
    "var": lambda x: x.var(0),
    "softmax": lambda x: F.softmax(x, 0),
    "argmax": lambda x: x.argmax(0),
    "norm 3": lambda x: torch.linalg.vector_norm(x, 3, 0),
    "cumsum": lambda x: x.cumsum(0),
    "median": lambda x: x.median(0),
    "sort": lambda x: x.sort(0),
}

ROW = 1024
"""Elements of each of many rows."""

LAYERS = {
    "batch_norm": lambda n, d: (
        lambda x, m, v: F.batch_norm(x, m, v + 2),
        d.floats(n // 1024, 16, 64),
        d.floats(16),
        d.floats(16),
    ),
    "group_norm": lambda n, d: (lambda x: F.group_norm(x, 4), d.floats(4, 16, n // 64)),
    "instance_norm": lambda n, d: (F.instance_norm, d.floats(4, 16, n // 64)),
    "cross_entropy": lambda n, d: (
        F.cross_entropy,
        d.floats(n // ROW, ROW),
        d.places(ROW, n // ROW),
    ),
    "cross_entropy, classes": lambda n, d: (
        F.cross_entropy,
        d.floats(64, n // 64),
        d.places(n // 64, 64),
    ),
    "mm of a wide matrix": lambda n, d: (torch.mm, d.floats(16, n // 16), d.floats(n // 16, 16)),
    "linear of many rows": lambda n, d: (F.linear, d.floats(n // 64, 64), d.floats(64, 64)),
    "mv": lambda n, d: (torch.mv, d.floats(n // 64, 64), d.floats(64)),
    "dot": lambda n, d: (torch.dot, d.floats(n), d.floats(n)),
}


def _of_shape(function: Function, *shape: int) -> Callable[[int, Draw], Problem]:
    """Rows or columns: the size that is 0 grows."""

    def problem(n: int, d: Draw) -> Problem:
        return function, d.floats(*(s or n // 64 for s in shape))

    return problem


def _between(name: str, low: float, high: float) -> Callable[[int, Draw], Problem]:
    """A function of torch.special on an interval."""
    return lambda n, d: (getattr(torch.special, name), d.floats(64, n // 64, low=low, high=high))


def _of_degrees(name: str) -> Callable[[int, Draw], Problem]:
    return lambda n, d: (
        getattr(torch.special, name),
        d.floats(64, n // 64),
        d.floats(64, n // 64, low=0, high=8),
    )


FAMILIES: tuple[Family, ...] = (
    *table({k: _of_shape(f, 64, 0) for k, f in ELEMENTWISE.items()}),
    *table({k: _between(k, *ends) for k, ends in SPECIAL.items()}),
    *table({f"{k}, far": _between(k, *ends) for k, ends in WIDE.items()}),
    *table({k: _of_degrees(k) for k in POLYNOMIALS}),
    *table({f"{k}, one row": lambda n, d, f=f: (f, d.floats(n)) for k, f in WHOLE.items()}),
    *table({f"{k}, rows of 64": _of_shape(f, 0, 64) for k, f in ROWS.items()}),
    *table({f"{k}, 64 columns": _of_shape(f, 0, 64) for k, f in COLUMNS.items()}),
    *table({f"{k}, many columns": _of_shape(f, 64, 0) for k, f in COLUMNS.items()}),
    *table(LAYERS),
)
