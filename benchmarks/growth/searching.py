"""Families of searches, selections, sorts, distances and running results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.growth.family import Draw, Family, Problem, Tensor, table

ROW = 1024
"""Elements of each of many rows."""

SORTED = 1.1
"""About the exponent of n log n from 2^16 to 2^20."""

BY_DIGITS = 2**20
"""A GPU sorts rows of as many 64-bit integers digit by digit. It merges shorter ones, where a step
is a whole binary search."""

IN_PARTS = 2**16
"""A GPU scans rows of as many elements in parts, and reads them twice."""


def _row(function: Callable[[Tensor], Any]) -> Callable[[int, Draw], Problem]:
    """One row of n elements."""
    return lambda n, d: (function, d.floats(n))


def _rows(function: Callable[[Tensor], Any]) -> Callable[[int, Draw], Problem]:
    """Rows of ROW elements, n in all."""
    return lambda n, d: (function, d.floats(max(n // ROW, 1), ROW))


def _distinct(row: int) -> Callable[[Callable[[Tensor], Any]], Callable[[int, Draw], Problem]]:
    """Rows of so many elements (0: one row of n), none twice: the order of equals is anyone's."""

    def of(function: Callable[[Tensor], Any]) -> Callable[[int, Draw], Problem]:
        def problem(n: int, d: Draw) -> Problem:
            values = d.order(n).to(torch.float32)
            return function, values.reshape(-1, row) if row else values

        return problem

    return of


SEARCHES = {
    "searchsorted": lambda n, d: (torch.searchsorted, d.rising(n), d.floats(n)),
    "searchsorted, rows": lambda n, d: (
        torch.searchsorted,
        d.rising(n // ROW, ROW),
        d.floats(n // ROW, ROW),
    ),
    "bucketize": lambda n, d: (torch.bucketize, d.floats(n), d.rising(n // 16)),
    "repeat_interleave, by a tensor": lambda n, d: (
        lambda x, k: torch.repeat_interleave(x, k, output_size=x.numel()),
        d.floats(n),
        torch.ones(n, dtype=torch.int64, device=d.device),
    ),
    "repeat_interleave, a number": lambda n, d: (
        lambda x: torch.repeat_interleave(x, 4),
        d.floats(n // 4),
    ),
    "nonzero": _row(lambda x: torch.nonzero(x > 0)),
    "nonzero, matrix": _rows(lambda x: torch.nonzero(x > 0)),
    "masked_select": _row(lambda x: torch.masked_select(x, x > 0)),
    "index by a mask": _row(lambda x: x[x > 0] * 2),
}
ORDERED = {
    "unique": lambda n, d: (torch.unique, d.places(n // 4, n)),
    "unique, inverse": lambda n, d: (
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        d.places(n // 4, n),
    ),
    "unique_consecutive": lambda n, d: (torch.unique_consecutive, d.places(4, n)),
}
MEMBERS = {
    "isin": lambda n, d: (torch.isin, d.places(n, n), d.places(n, n // 16)),
}
SORTS: dict[str, Callable[[Tensor], Any]] = {
    "sort": lambda x: torch.sort(x, -1),
    "sort, stable and descending": lambda x: torch.sort(x, dim=-1, descending=True, stable=True),
    "argsort": lambda x: torch.argsort(x, -1),
    "topk": lambda x: torch.topk(x, 10),
    "topk of many": lambda x: torch.topk(x, x.shape[-1] // 8),
    "kthvalue": lambda x: torch.kthvalue(x, x.shape[-1] // 3),
    "median": lambda x: torch.median(x, -1),
    "quantile": lambda x: torch.quantile(x, 0.9, dim=-1),
    "mode": lambda x: torch.mode((x * 100).round(), -1),
}
SCANS: dict[str, Callable[[Tensor], Any]] = {
    "cumsum": lambda x: x.cumsum(-1),
    "cumprod": lambda x: x.cumprod(-1),
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
    "cummax": lambda x: x.cummax(-1),
    "cummin": lambda x: x.cummin(-1),
    "diff": lambda x: x.diff(dim=-1),
}
PAIRS = {
    "cdist": lambda n, d: (torch.cdist, d.floats(n, 16), d.floats(n, 16)),
    "cdist, p 1": lambda n, d: (
        lambda a, b: torch.cdist(a, b, p=1.0),
        d.floats(n, 16),
        d.floats(n, 16),
    ),
    "pdist": lambda n, d: (F.pdist, d.floats(n, 16)),
    "pdist, p infinite": lambda n, d: (lambda x: F.pdist(x, math.inf), d.floats(n, 16)),
    "matrix of positions": lambda n, d: (
        lambda x: (x[:, None] - x[None, :]).abs().sum(-1),
        d.floats(n),
    ),
    "outer": lambda n, d: (torch.outer, d.floats(n), d.floats(n)),
}

FAMILIES: tuple[Family, ...] = (
    *table(SEARCHES, top=2**20),
    *table(MEMBERS, top=2**20, least=2**12),
    *table(ORDERED, top=2**20, least=BY_DIGITS, work=SORTED),
    *table(
        {f"{k}, one row": _distinct(0)(f) for k, f in SORTS.items()},
        top=2**20,
        least=2**16,
        work=SORTED,
    ),
    *table(
        {f"{k}, many rows": _distinct(ROW)(f) for k, f in SORTS.items()},
        top=2**20,
        least=2**16,
        work=SORTED,
    ),
    *table({f"{k}, one row": _row(f) for k, f in SCANS.items()}, least=IN_PARTS),
    *table({f"{k}, many rows": _rows(f) for k, f in SCANS.items()}),
    *table(PAIRS, top=2**11, least=2**8, work=2.0, device_times=4),
)
