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
    return *first, *torch.unique_consecutive(twice, dim=last, return_counts=True)


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

ROWS: tuple[Row, ...] = UNIQUES
