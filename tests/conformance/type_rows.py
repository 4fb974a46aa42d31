"""Rows of the element types that few operators of eager know: wide unsigned integers, float8."""

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


NUMBERS = (torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
HASHED = (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool)


FLOAT8 = (
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
    torch.float8_e8m0fnu,
)


def _codes(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)


def _numbers(dtype: torch.dtype) -> Sequence[Args]:
    """Every float16, and ties of float32 and their neighbours, where the first type is meant."""
    if dtype == torch.float16:
        return [(torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype),)]
    if not dtype.is_floating_point:
        return [(specials(dtype),)]
    every = torch.cat([_codes(f).to(torch.float64).abs() for f in FLOAT8]).nan_to_num(posinf=1e9)
    ends = every.unique()
    ties = (ends[1:] + ends[:-1]) / 2
    near = torch.cat((ties, ties.float().nextafter(ends[1:].float()).double(), ends * 1.0625))
    return [(torch.cat((near, -near, specials(dtype).double())).to(dtype),)]


def _to_float8(x: torch.Tensor) -> Results:
    return tuple(x.to(dtype).view(torch.uint8) for dtype in FLOAT8)


def _from_float8(x: torch.Tensor) -> Results:
    # Without NaN: of what eager makes of it, NumPy complains, and its sign is anything.
    none = x.isnan()
    floats = (torch.where(none, 0.5, x.to(dtype)) for dtype in FLOATS)
    others = (torch.where(none, 7, codes.int()) for codes in _to_float8(x))
    whole = x.float().nan_to_num(1.0).clamp(-9e4, 9e4).to(torch.int64)
    return (none, *floats, x.to(torch.bool), whole, *others)


def _moved_float8(x: torch.Tensor, y: torch.Tensor, at: torch.Tensor) -> Results:
    wide = (torch.cat((x, y)), torch.where(at > 1, x, y), x[at], x.roll(2), torch.zeros_like(x))
    return tuple(t.view(torch.uint8) for t in (*wide, x.index_select(0, at), x.view(-1, 1).t()))


def _few(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return ordinary(torch.float32, *shape).to(dtype)


def _moves(dtype: torch.dtype) -> Sequence[Args]:
    return [(_few(dtype, 6), _few(dtype, 6), torch.tensor([5, 0, 2, 2, 1, 3]))]


def _arithmetic_float8(x: torch.Tensor, y: torch.Tensor) -> Results:
    return (x * y).float(), x == y, x != y, x.abs().float(), torch.isnan(x), x.any()


def _scaled(
    a: torch.Tensor, b: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    return torch._scaled_mm(a, b.t(), scale_a=rows, scale_b=columns, out_dtype=dtype)


def _products(dtype: torch.dtype) -> Sequence[Args]:
    a, b = _few(dtype, 16, 64), _few(dtype, 32, 64)
    one, rows, columns = torch.tensor(0.75), torch.rand(16, 1), torch.rand(1, 32)
    return [(a, b, one, one, torch.float32), (a, b, rows, columns, torch.bfloat16)]


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
    _row("to float8", _to_float8, _numbers, NUMBERS, against_eager=True),
    _row("from float8", _from_float8, lambda d: [(_codes(d),)], FLOAT8, against_eager=True),
    _row("float8 moved", _moved_float8, _moves, FLOAT8, against_eager=True),
    _row(
        "float8 arithmetic",
        _arithmetic_float8,
        lambda d: [(_few(d, 40), _few(d, 40))],
        FLOAT8[:4],
        against_eager=True,
    ),
    _row("scaled_mm", _scaled, _products, FLOAT8[:1], against_eager=True),
    _row("hash_tensor", _hashed, _to_hash, HASHED, against_eager=True),
)
