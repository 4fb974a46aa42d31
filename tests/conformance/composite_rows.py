"""Rows of functions that torch makes of others, with a look at values between."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from tests.conformance.harness import Args, Row, ordinary

Tensor = torch.Tensor
REALS = (torch.float32, torch.float64)
MANY = (torch.float32, torch.int64, torch.bfloat16, torch.bool)

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantiles(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 5, 7)
    with_nan = x.clone()
    with_nan[1, 3] = math.nan
    several = torch.tensor([0.0, 0.3, 0.5, 1.0], dtype=dtype)
    samples: list[Args] = [(x, several, 1, keep, how) for how in _INTERPOLATIONS for keep in (0, 1)]
    samples += [(with_nan, q, dim, 1, "linear") for q in (several, 0.3) for dim in (None, 0, -1)]
    samples += [(x, several[1], 0, 0, "linear"), (x[0, 0], several, 0, 1, "nearest")]
    return [*samples, (torch.full((3, 2), math.nan, dtype=dtype), several, 0, 0, "linear")]


def _quantile(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def of(x: Tensor, q: Any, dim: int | None, keepdim: int, how: str) -> Tensor:
        return function(x, q, dim, bool(keepdim), interpolation=how)

    return of


def _weighed(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 4, 6)
    often, much = torch.tensor([1, 2, 0, 3, 1, 1]), torch.rand(6, dtype=torch.float64).to(dtype)
    weights = ((None, None), (often, None), (None, much), (often, much))
    return [(x, c, f, a) for c in (0, 1, 7) for f, a in weights] + [(x[0], 1, None, None)]


def _cov(x: Tensor, correction: int, often: Tensor | None, much: Tensor | None) -> Tensor:
    return torch.cov(x, correction=correction, fweights=often, aweights=much)


def _matrices(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 4, 6)
    return [(x,), (x[:2],), (x[:1],), (x[0],)]


def _vectors(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 5)
    return [(x, r, bool(again)) for r in (1, 2, 3) for again in (0, 1)] + [(x[:1], 2, False)]


def _classes(dtype: torch.dtype) -> Sequence[Args]:
    return [(torch.tensor([[1, 0, 3], [2, 2, 0]]),), (torch.tensor([0]),), (torch.tensor(2),)]


def _cuts(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 4, 6)
    places = ([1, 3], [2], [-2, 9], [3, 1])
    return [(x, torch.tensor(at), dim) for at in places for dim in (0, 1, -1)]


def _counts(dtype: torch.dtype) -> Sequence[Args]:
    x = torch.tensor([1, 3, 3, 0, 7, 1])
    return [(x, ordinary(dtype, 6), least) for least in (0, 12)] + [(x.int(), None, 0)]


def _checked(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 4, 6)
    kinds = ("none", "mean", "sum")
    return [(x, x + 1, x.abs() + 1, full, kind) for full in (False, True) for kind in kinds]


def _gaussian(x: Tensor, target: Tensor, var: Tensor, full: bool, kind: str) -> Tensor:
    return F.gaussian_nll_loss(x, target, var, full, reduction=kind)


def _exponents(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 2, 5, 5)
    far = torch.diag(torch.tensor([-40.0, -3.0, 0.0, 2.0], dtype=dtype))
    return [(x,), (x * 0.01,), (x * 4,), (far,), (x[0, :1, :1],), (x[:, :0, :0],)]


def _sequences(dtype: torch.dtype) -> Sequence[Args]:
    steps = ordinary(dtype, 12, 3, 6).log_softmax(2)
    rows = torch.tensor([[1, 1, 2, 5], [3, 4, 3, 0], [2, 2, 2, 2]])
    seen, wanted = torch.tensor([12, 10, 7]), torch.tensor([4, 3, 0])
    flat = torch.tensor([1, 1, 2, 5, 3, 4, 3])
    kinds = ("none", "mean", "sum")
    samples: list[Args] = [(steps, rows, seen, wanted, kind, z) for kind in kinds for z in (0, 1)]
    samples += [
        (steps, flat, seen, wanted, "none", 0),
        (steps[:3], rows, seen[2:] - 4, wanted, "none", 1),
    ]
    return [*samples, (steps[:, 0], rows[0], torch.tensor(12), torch.tensor(4), "none", 0)]


def _ctc(probs: Tensor, rows: Tensor, seen: Tensor, wanted: Tensor, kind: str, zero: int) -> Any:
    given = seen.expand(wanted.shape)
    return F.ctc_loss(probs, rows, given, wanted, 0, kind, bool(zero))


def _starts(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 4, 6)
    return [(x, dim, torch.tensor(at), 2) for dim in (0, 1) for at in (0, 1, -2)]


def _small(dtype: torch.dtype) -> Sequence[Args]:
    a = ordinary(dtype, 2, 4, 4)
    return [(a @ a.mT + torch.eye(4, dtype=dtype), upper) for upper in (False, True)]


ROWS: tuple[Row, ...] = (
    Row("quantile", _quantile(torch.quantile), _quantiles, REALS),
    Row("nanquantile", _quantile(torch.nanquantile), _quantiles, REALS),
    Row("cov", _cov, _weighed, REALS),
    Row("corrcoef", torch.corrcoef, _matrices, REALS),
    Row("combinations", torch.combinations, _vectors, MANY),
    Row("one_hot of any classes", F.one_hot, _classes, (torch.int64,)),
    Row("tensor_split at values", torch.tensor_split, _cuts, MANY),
    Row("gaussian_nll_loss", _gaussian, _checked, (*REALS, torch.bfloat16)),
    Row("matrix_exp", torch.matrix_exp, _exponents, (*REALS, torch.bfloat16)),
    Row("ctc_loss", _ctc, _sequences, REALS),
    Row("narrow at a value", torch.narrow, _starts, MANY),
    Row("cholesky by its older name", torch.cholesky, _small, REALS),
    Row("bincount with weights", torch.bincount, _counts, (*REALS, torch.int64)),
)
