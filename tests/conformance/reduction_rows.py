"""Rows of reductions, softmax and normalisations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from tests.conformance.harness import ALL, FLOATS, INTS, Args, Row, ordinary

INT_AND_FLOAT = (*FLOATS, *INTS)
Dtypes = tuple[torch.dtype, ...]


def _with_nan(x: torch.Tensor) -> torch.Tensor:
    if x.dtype.is_floating_point and x.numel():
        x = x.clone()
        x.view(-1)[x.numel() // 2] = math.nan
        x.view(-1)[0] = math.inf
    return x


def _tensors(dtype: torch.dtype) -> list[torch.Tensor]:
    """Shapes and layouts with at least three dimensions, one of them huge, one of size 1."""
    return [
        ordinary(dtype, 3, 4, 5),
        ordinary(dtype, 2, 1, 67).transpose(0, 2),
        _with_nan(ordinary(dtype, 2, 3, 4)),
        ordinary(dtype, 0, 3, 2),
    ]


def _whole(dtype: torch.dtype) -> Sequence[Args]:
    return [(t,) for t in (*_tensors(dtype)[:3], ordinary(dtype), ordinary(dtype, 5000))]


def _dims(dtype: torch.dtype) -> Sequence[Args]:
    """Tensor, dims, keepdim."""
    several = [((1,), False), ((0, 2), True), ((-1,), True), ((2, 0, 1), False)]
    one = [(ordinary(dtype, 4, 1), (1,), True)]
    return [(t, d, k) for t in _tensors(dtype) for d, k in several] + one


def _dim(dtype: torch.dtype) -> Sequence[Args]:
    """Tensor, one dim, keepdim."""
    single = [(1, False), (-1, True)]
    return [(t, d, k) for t in _tensors(dtype) for d, k in single] + [(ordinary(dtype), 0, True)]


def _ties(dtype: torch.dtype) -> Sequence[Args]:
    equal = torch.zeros(3, 5).to(dtype)
    return [*_dim(dtype), (equal, 1, False), (equal, 0, True)]


WHOLE: dict[str, tuple[Callable[..., Any], Dtypes]] = {
    "sum": (torch.sum, ALL),
    # Half types overflow in an order of their own.
    "prod": (torch.prod, (*FLOATS[:2], *INTS)),
    "mean": (torch.mean, FLOATS),
    "max": (torch.max, ALL),
    "min": (torch.min, ALL),
    "any": (torch.any, ALL),
    "all": (torch.all, ALL),
    "argmax": (torch.argmax, INT_AND_FLOAT),
    "argmin": (torch.argmin, INT_AND_FLOAT),
    "var": (torch.var, FLOATS),
    "std": (torch.std, FLOATS),
    "norm": (torch.linalg.vector_norm, FLOATS),
    "nansum": (torch.nansum, FLOATS),
    "count_nonzero": (torch.count_nonzero, ALL),
    "aminmax": (torch.aminmax, INT_AND_FLOAT),
    "sum in float64": (lambda x: x.sum(dtype=torch.float64), ALL),
    "sum in int32": (lambda x: x.sum(dtype=torch.int32), INTS),
}
DIMS: dict[str, tuple[Callable[..., Any], Dtypes]] = {
    "sum dims": (torch.sum, ALL),
    "mean dims": (torch.mean, FLOATS),
    "var dims": (lambda x, d, k: torch.var(x, d, keepdim=k), FLOATS),
    "var correction": (lambda x, d, k: torch.var(x, d, correction=0, keepdim=k), FLOATS),
    "std dims": (lambda x, d, k: torch.std(x, d, correction=2, keepdim=k), FLOATS),
    "logsumexp": (torch.logsumexp, FLOATS),
    "any dims": (torch.any, ALL),
    "all dims": (torch.all, ALL),
    "norm 1": (lambda x, d, k: torch.linalg.vector_norm(x, 1, d, k), FLOATS),
    "norm 3": (lambda x, d, k: torch.linalg.vector_norm(x, 3, d, k), FLOATS[:2]),
    "norm 0": (lambda x, d, k: torch.linalg.vector_norm(x, 0, d, k), FLOATS),
    "nansum dims": (torch.nansum, FLOATS),
}
DIM: dict[str, tuple[Callable[..., Any], Dtypes]] = {
    "prod dim": (torch.prod, ALL),
    "softmax": (lambda x, d, _: F.softmax(x, d), FLOATS),
    "log_softmax": (lambda x, d, _: F.log_softmax(x, d), FLOATS),
    "softmax in float32": (lambda x, d, _: F.softmax(x, d, dtype=torch.float32), FLOATS),
    "softmax in float64": (lambda x, d, _: F.softmax(x, d, dtype=torch.float64), FLOATS),
    "log_softmax in float64": (lambda x, d, _: F.log_softmax(x, d, dtype=torch.float64), FLOATS),
    "softmin": (lambda x, d, _: F.softmin(x, d), FLOATS),
    "normalize": (lambda x, d, _: F.normalize(x, dim=d), FLOATS),
    "cosine_similarity": (lambda x, d, _: F.cosine_similarity(x, x + 1, d), FLOATS[:2]),
}


def _no_empty(samples: Callable[[torch.dtype], Sequence[Args]]) -> Callable[..., Sequence[Args]]:
    def kept(dtype: torch.dtype) -> Sequence[Args]:
        return [s for s in samples(dtype) if s[0].numel()]

    return kept


def _no_infinity(dtype: torch.dtype) -> Sequence[Args]:
    """Eager's one-pass mean makes NaN of an infinity."""
    return [s for s in _dims(dtype) if s[0].isfinite().all()]


EXTREMES: dict[str, tuple[Callable[..., Any], Dtypes]] = {
    "max dim": (torch.max, ALL),
    "min dim": (torch.min, ALL),
    "argmax dim": (torch.argmax, INT_AND_FLOAT),
    "argmin dim": (torch.argmin, INT_AND_FLOAT),
    "amax": (torch.amax, ALL),
    "amin": (torch.amin, ALL),
}


def _norm_inf(x: torch.Tensor, dim: int, keep: bool) -> torch.Tensor:
    return torch.linalg.vector_norm(x, math.inf, dim, keep)


def _rows_affine(dtype: torch.dtype) -> Sequence[Args]:
    w, b = ordinary(dtype, 24), ordinary(dtype, 24)
    return [
        (ordinary(dtype, 3, 5, 24), w, b),
        (ordinary(dtype, 7, 24) + 50, w, b),
        (ordinary(dtype, 24, 4).t(), w, None),
        (ordinary(dtype, 2, 24), None, None),
        (ordinary(dtype, 0, 24), w, b),
    ]


def _channels(dtype: torch.dtype) -> Sequence[Args]:
    w, b = ordinary(dtype, 6), ordinary(dtype, 6)
    return [
        (ordinary(dtype, 3, 6, 5, 4), w, b),
        (ordinary(dtype, 2, 6, 7), None, None),
        (ordinary(dtype, 2, 6, 3, 2, 2), w, b),
        (ordinary(dtype, 1, 6, 4, 4).to(memory_format=torch.channels_last), w, b),
    ]


def _batch_norm_update(x: torch.Tensor, w: Any, b: Any) -> Any:
    mean = torch.linspace(-1, 1, x.shape[1], dtype=x.dtype)
    w = mean + 2 if w is None else w
    b = mean - 1 if b is None else b
    functional = torch.ops.aten._batch_norm_with_update_functional
    out, *kept = functional(x, w, b, mean, mean.abs() + 0.5, 0.1, 1e-5)
    return out, *kept[:2], *kept[3:]


def _batch_norm(x: torch.Tensor, w: Any, b: Any) -> torch.Tensor:
    mean = torch.linspace(-1, 1, 6, dtype=x.dtype)
    return F.batch_norm(x, mean, mean.abs() + 0.5, w, b)


NORMS: tuple[Row, ...] = (
    Row("layer_norm", lambda x, w, b: F.layer_norm(x, (24,), w, b), _rows_affine, FLOATS),
    Row("rms_norm", lambda x, w, b: F.rms_norm(x, (24,), w, 1e-6), _rows_affine, FLOATS),
    Row("rms_norm default eps", lambda x, w, b: F.rms_norm(x, (24,), w), _rows_affine, FLOATS),
    Row("group_norm", lambda x, w, b: F.group_norm(x, 3, w, b), _channels, FLOATS),
    Row("batch_norm with update", _batch_norm_update, _channels, FLOATS[:2]),
    Row("batch_norm", _batch_norm, _channels, FLOATS[:2]),
    Row("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), _channels, FLOATS),
)


def _targets(dtype: torch.dtype) -> Sequence[Args]:
    logits, weight = ordinary(dtype, 6, 5), ordinary(dtype, 5, low=0.5, high=2)
    target = torch.tensor([0, 4, 2, -100, 1, 3])
    return [(logits, target, weight), (logits[:1], target[:1], None)]


LOSSES: dict[str, Callable[..., Any]] = {
    "nll_loss": F.nll_loss,
    "nll_loss none": lambda x, t, w: F.nll_loss(x, t, w, reduction="none"),
    "nll_loss sum": lambda x, t, w: F.nll_loss(x, t, w, reduction="sum"),
    "cross_entropy": F.cross_entropy,
}


def _finite(dtype: torch.dtype) -> Sequence[Args]:
    return [s for s in _dim(dtype) if s[0].numel() and s[0].isfinite().all()]


def _kth(x: torch.Tensor, dim: int, keepdim: bool) -> torch.Tensor:
    return torch.kthvalue(x, min(2, x.shape[dim] if x.dim() else 1), dim, keepdim).values


RANKS: dict[str, tuple[Callable[..., Any], Dtypes]] = {
    "median": (lambda x, d, k: torch.median(x, d, k).values, INT_AND_FLOAT),
    "nanmedian": (lambda x, d, k: torch.nanmedian(x, d, k).values, INT_AND_FLOAT),
    "kthvalue": (_kth, INT_AND_FLOAT),
}
"""Which of several equal elements they name is left open; `unequal` rows look at positions."""


def _unequal(dtype: torch.dtype) -> Sequence[Args]:
    line = torch.randperm(60).to(dtype)
    return [(line.view(3, 4, 5), 1, False), (line.view(4, 15).t(), -1, True), (line[0], 0, False)]


def _gaps(dtype: torch.dtype) -> Sequence[Args]:
    x = torch.randperm(40).to(dtype).view(4, 10)
    x[0, 3] = x[0, 7] = math.nan
    x[1] = math.nan
    return [(x, 1, False), (x, 0, True)]


POSITIONS: dict[str, Callable[..., Any]] = {
    "median unequal": torch.median,
    "nanmedian unequal": torch.nanmedian,
    "kthvalue unequal": lambda x, d, k: torch.kthvalue(x, 1, d, k),
}

ROWS: tuple[Row, ...] = (
    *(Row(n, f, _no_empty(_dim), d, against_eager=True) for n, (f, d) in RANKS.items()),
    *(Row(n, f, _unequal, (torch.float32, torch.int64)) for n, f in POSITIONS.items()),
    Row("mode", lambda x, d, k: torch.mode(x, d, k).values, _finite, (*INTS, torch.float32)),
    Row("median NaN", torch.median, _gaps, FLOATS[:2]),
    Row("nanmedian NaN", lambda x, d, k: torch.nanmedian(x, d, k).values, _gaps, FLOATS[:2]),
    Row("median of all", torch.median, lambda d: [(ordinary(d, 4, 5),), (ordinary(d),)], FLOATS),
    *(Row(n, f, _whole, d) for n, (f, d) in WHOLE.items()),
    *(Row(n, f, _dims, d) for n, (f, d) in DIMS.items()),
    *(Row(n, f, _dim, d) for n, (f, d) in DIM.items()),
    *(Row(n, f, _no_empty(_ties), d) for n, (f, d) in EXTREMES.items()),
    Row("norm inf", _norm_inf, _no_empty(_dim), FLOATS),
    Row("var_mean", lambda x, d, k: torch.var_mean(x, d, keepdim=k), _no_infinity, FLOATS),
    *NORMS,
    *(Row(n, f, _targets, FLOATS[:2]) for n, f in LOSSES.items()),
)
