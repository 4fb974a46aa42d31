"""Rows of distinct elements, whose number is data, and of writes where a mask is true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tests.conformance.harness import ALL, Args, Row, ordinary, specials

Tensor = torch.Tensor
NUMBERS = (torch.float32, torch.int64, torch.bfloat16, torch.uint8, torch.bool)


def _edges(dtype: torch.dtype) -> Tensor:
    """The edges of a type twice, but for NaN: eager's order among several is any."""
    edges = specials(dtype)
    return torch.cat([edges, edges[~edges.isnan()].flip(0)])


def _with_ties(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 4, 5, low=0, high=4)
    tied = x.round() if dtype.is_floating_point else x
    return [
        (tied,),
        (tied[:, :1],),
        (tied[0, 0],),
        (tied[:1, :1],),
        (torch.zeros_like(tied),),
        (tied[:0],),
        (ordinary(dtype, 400, low=0, high=90).int().to(dtype),),
        (_edges(dtype),),
    ]


def _unique(x: Tensor) -> Any:
    return *torch.unique(x, return_inverse=True, return_counts=True), torch.unique(x, sorted=False)


def _unique_alone(x: Tensor) -> Any:
    values, counts = torch.unique(x + x, return_counts=True)
    return values, counts.sum(), torch.ops.aten._unique2(x), torch.ops.aten._unique(x, True, True)


def _consecutive(x: Tensor) -> Any:
    both = torch.unique_consecutive(x, return_inverse=True, return_counts=True)
    return *both, torch.unique_consecutive(x)


def _slices(dtype: torch.dtype) -> Sequence[Args]:
    flat = ordinary(dtype, 24, low=0, high=1)
    flat = flat.round() if dtype.is_floating_point else flat
    return [
        (flat.reshape(6, 4),),
        (flat.reshape(4, 2, 3),),
        (flat.reshape(8, 3).repeat(5, 1),),
        (flat.reshape(2, 4, 3).transpose(0, 2),),
        (flat.reshape(24, 1),),
        (flat.reshape(1, 24),),
        (flat[:0].reshape(0, 3),),
    ]


def _unique_slices(x: Tensor) -> Any:
    first = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
    return *first, torch.unique(x.repeat_interleave(2, 1), dim=1 if x.numel() else 0)


def _consecutive_slices(x: Tensor) -> Any:
    last = x.ndim - 1 if x.numel() else 0
    twice = x.repeat_interleave(2, last)
    first = torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True)
    from_end = last - x.ndim
    return *first, *torch.unique_consecutive(twice, dim=from_end, return_counts=True)


def _nan_slices(dtype: torch.dtype) -> Sequence[Args]:
    nan = math.nan
    return [(torch.tensor([[1, nan], [1, nan], [2, 3], [2, 3], [nan, 0]], dtype=dtype),)]


UNIQUES = (
    Row("unique", _unique, _with_ties, ALL, True),
    Row("unique alone", _unique_alone, _with_ties, NUMBERS[:1], True),
    Row("unique_consecutive", _consecutive, _with_ties, NUMBERS, True),
    Row("unique slices", _unique_slices, _slices, NUMBERS, True),
    Row("unique_consecutive slices", _consecutive_slices, _slices, NUMBERS, True),
    Row("unique_consecutive NaN", _consecutive_slices, _nan_slices),
)


def _assigned(x: Tensor) -> Any:
    doubled, columns, rows = x.clone(), x.clone(), x.clone()
    mask = x > 0
    doubled[mask] = doubled[mask] * 2
    columns[:, x[0] > 0] = x[:, x[0] > 0] + 1
    rows[x.sum(1) > 0] = x[x.sum(1) > 0] + x[0]
    return doubled, columns, rows


def _added(x: Tensor) -> Any:
    mask = (x > 0,)
    more = x[mask] * 3
    return x.index_put(mask, more, accumulate=True), x.index_put(mask, x[0, 0], accumulate=True)


def _two_masks(x: Tensor) -> Any:
    x = x.clone()
    n = min(x.shape)
    diagonal = torch.arange(n) != 1
    x[torch.arange(x.shape[0]) < 1, x[0] > 0] = 5
    x[:n, :n][diagonal, diagonal] = x[0, 0]
    return x, x.index_put((x[:, 0] > 0, torch.tensor(0)), x[0, 0])


def _scattered(x: Tensor) -> Any:
    return torch.masked_scatter(x, x > 9, x.flatten()[:0]), torch.masked_scatter(x, x > 0, x + 1)


def _masked(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 5, 7)
    return [(x,), (torch.zeros_like(x),), (x.abs() + 1,), (x[:1, :1],)]


def _masked_some(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 5, 7)
    x[0] = torch.tensor([1, -1, -2, -1, -3, 0, -1])
    return [(x,)]


def _values(dtype: torch.dtype) -> Sequence[Args]:
    """Masks of known numbers of true elements, and as many values."""
    x, mask = ordinary(dtype, 3, 5), torch.tensor([True, False, True, False, True])
    column = mask[:3]
    return [
        (x, None, mask, ordinary(dtype, 3, 3)),
        (x, None, mask, ordinary(dtype, 3)),
        (x, None, mask, ordinary(dtype, 3, 1)),
        (x, None, torch.zeros(5, dtype=torch.bool), ordinary(dtype, 0)),
        (x, column, None, ordinary(dtype, 2, 5)),
        (x, column, None, ordinary(dtype, 5)),
        (x, mask.expand(3, 5), None, ordinary(dtype, 9)),
    ]


def _put_values(x: Tensor, first: Tensor | None, second: Tensor | None, values: Tensor) -> Any:
    at = (first, second) if second is not None else (first,)
    put = torch.ops.aten.index_put
    return put(x, at, values), put(x, at, values, True)


WRITES = (
    Row("masked values", _put_values, _values, (torch.float32, torch.int64, torch.bfloat16)),
    Row("masked assignment", _assigned, _masked, (torch.float32, torch.int64, torch.bfloat16)),
    Row("masked addition", _added, _masked, (torch.float32, torch.bfloat16)),
    Row("two masks", _two_masks, _masked_some, (torch.float32, torch.int64)),
    Row("masked_scatter of nothing", _scattered, _masked, (torch.float32, torch.int64)),
)

ROWS: tuple[Row, ...] = (*UNIQUES, *WRITES)
