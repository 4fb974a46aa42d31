"""Rows of the element types that few operators of eager know: wide unsigned integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.conformance.harness import ALL, FLOATS, INTS, UNSIGNED, Args, Row, ordinary, specials

Results = tuple[torch.Tensor, ...]


def _edges(dtype: torch.dtype) -> torch.Tensor:
    """Values on both sides of the signed types' ends, and ties of the conversion to floats."""
    top = 1 << 8 * dtype.itemsize - 1
    ends = [0, 1, 2, 3, 255, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1]
    ties = [top + (top >> 10), top + (top >> 23) + 1, top + 3 * (top >> 24), (top >> 1) + 1]
    return torch.tensor([*ends, *ties], dtype=dtype)


def _two(dtype: torch.dtype) -> Sequence[Args]:
    edges = _edges(dtype)
    few = ordinary(dtype, 3, 7, high=9.0)
    return [
        (edges, edges.to(torch.int64).roll(3).to(dtype)),
        (few, ordinary(dtype, 7, high=9.0)),
        (few.t(), ordinary(dtype, 7, 1, high=9.0)),
        (ordinary(dtype, 0, 7), ordinary(dtype, 1, 1)),
    ]


def _arithmetic(a: torch.Tensor, b: torch.Tensor) -> Results:
    return a * b, a & b, a | b, a ^ b, a == b, a != b, a * 3, torch.where(a == b, a, b * 5)


def _as_floats(a: torch.Tensor, b: torch.Tensor) -> Results:
    return torch.sqrt(a), a / (b + 0.5), a * 0.25, torch.sigmoid(a)


def _whole(a: torch.Tensor, b: torch.Tensor) -> Results:
    return a.sum(0), b.sum(), a.prod(-1), a.any(), b.all(-1), a.cumsum(0), torch.floor(a)


def _moved(a: torch.Tensor, b: torch.Tensor) -> Results:
    both = torch.cat((a.reshape(-1), b.reshape(-1)))
    kinds = (torch.zeros_like(a), torch.full_like(b, 7), a.roll(1, 0), both.unfold(0, 1, 1))
    return both, torch.stack((both, both), 1), both[:1], *kinds


def _sorted(a: torch.Tensor) -> Results:
    up = torch.sort(a, stable=True)
    return (*up, *torch.sort(a, dim=0, descending=True, stable=True))


def _to_all(a: torch.Tensor) -> Results:
    return tuple(a.to(dtype) for dtype in (*ALL, *UNSIGNED))


def _to_unsigned(a: torch.Tensor) -> Results:
    return tuple(a.to(dtype) for dtype in UNSIGNED)


def _signed_twin(dtype: torch.dtype) -> torch.dtype:
    return {8: torch.int64, 4: torch.int32, 2: torch.int16}[dtype.itemsize]


def _bits(a: torch.Tensor) -> Results:
    twin = a.view(_signed_twin(a.dtype))
    return twin, twin.view(a.dtype)


def _within(dtype: torch.dtype) -> Sequence[Args]:
    """Values that every unsigned type holds: what others become is the machine's affair."""
    if dtype.is_floating_point:
        return [(torch.tensor([0.0, -0.0, 0.5, 1.0, 2.75, 97.0, 60000.0]).to(dtype),)]
    return [(specials(dtype),), (ordinary(dtype, 3, 5).t(),)]


def _large(dtype: torch.dtype) -> Sequence[Args]:
    """Floats that uint64 alone holds."""
    return [(torch.tensor([2.0**63, 2.0**63 * 1.5, 2.0**62, 3e10, 7.0], dtype=dtype),)]


def _hashed(x: torch.Tensor) -> Results:
    return torch.hash_tensor(x), torch.hash_tensor(x, 0), torch.hash_tensor(x, -1, keepdim=True)


def _to_hash(dtype: torch.dtype) -> Sequence[Args]:
    return [(ordinary(dtype, 5, 33),), (specials(dtype)[:, None],), (ordinary(dtype, 3, 1000).t(),)]


HASHED = (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool)


def _row(name: str, function: Callable[..., Any], samples: Any, dtypes: Any, **more: bool) -> Row:
    return Row(f"type {name}", function, samples, tuple(dtypes), **more)


ROWS: tuple[Row, ...] = (
    _row("unsigned arithmetic", _arithmetic, _two, UNSIGNED),
    _row("unsigned as floats", _as_floats, _two, UNSIGNED, against_eager=True),
    _row("unsigned reductions", _whole, _two, UNSIGNED),
    _row("unsigned moved", _moved, _two, UNSIGNED),
    _row("unsigned sort", _sorted, lambda d: [(_edges(d),), (ordinary(d, 4, 40),)], UNSIGNED),
    _row("unsigned to all", _to_all, lambda d: [(_edges(d),)], UNSIGNED, against_eager=True),
    _row("to unsigned", _to_unsigned, _within, (*FLOATS, *INTS, torch.bool), against_eager=True),
    _row("to uint64", lambda x: x.to(torch.uint64), _large, FLOATS[:2], against_eager=True),
    _row("unsigned bits", _bits, lambda d: [(_edges(d),)], UNSIGNED),
    _row("hash_tensor", _hashed, _to_hash, HASHED, against_eager=True),
)
