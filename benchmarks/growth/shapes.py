"""Families of what moves elements: joins, shifts, triangles, paddings, creation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.growth.family import Draw, Family, Problem, Tensor, table

PARTS = 32


def _narrow(join: Callable[..., Any]) -> Callable[[int, Draw], Problem]:
    """PARTS tensors with rows of 4, n elements in all."""

    def problem(n: int, d: Draw) -> Problem:
        parts = [d.floats(n // PARTS // 4, 4) for _ in range(PARTS)]
        return lambda *x: join(x, 1), *parts

    return problem


def _parts(join: Callable[..., Any]) -> Callable[[int, Draw], Problem]:
    """n parts of 64 elements: the number of operands grows."""

    def problem(n: int, d: Draw) -> Problem:
        return lambda *x: join(x, 0), *(d.floats(64) for _ in range(n))

    return problem


MATRIX: dict[str, Callable[[Tensor], Any]] = {
    "tril": torch.tril,
    "triu": torch.triu,
    "diagonal": lambda x: x.diagonal() + 1,
    "trace": torch.trace,
    "transpose, contiguous": lambda x: x.t().contiguous(),
    "rot90": torch.rot90,
    "roll": lambda x: x.roll((3, 5), (0, 1)),
    "flip": lambda x: x.flip(0, 1),
    "pad": lambda x: F.pad(x, (2, 1, 3, 0)),
    "pad reflect": lambda x: F.pad(x[None], (2, 1, 3, 0), mode="reflect"),
    "pad circular": lambda x: F.pad(x[None], (2, 1, 3, 0), mode="circular"),
    "expand, copied": lambda x: x[:1].expand(x.shape).clone(),
    "slices": lambda x: x[1::2, ::3] * 2,
    "unfold": lambda x: x.unfold(0, 4, 2) + 1,
}
"""Of a square of n elements."""

LINE: dict[str, Callable[[Tensor], Any]] = {
    "roll": lambda x: x.roll(7),
    "flip": lambda x: x.flip(0),
    "tile": lambda x: x.repeat(4),
    "unfold": lambda x: x.unfold(0, 16, 8) + 1,
    "reshape, transposed": lambda x: x.reshape(-1, 16).t().reshape(-1),
    "diag_embed": lambda x: torch.diag_embed(x.reshape(-1, 16)),
    "arange": lambda x: torch.arange(x.shape[0], device=x.device) + 1,
    "vander": lambda x: torch.vander(x, 8),
}

JOINS = {
    "cat of 32 narrow tensors": _narrow(torch.cat),
    "stack of 32 tensors": _narrow(torch.stack),
    "cat of two": lambda n, d: (
        lambda a, b: torch.cat([a, b], 1),
        d.floats(n // 128, 64),
        d.floats(n // 128, 64),
    ),
    "split": lambda n, d: (
        lambda x: [part * 2 for part in x.split(16, 1)],
        d.floats(n // 64, 64),
    ),
}

MANY_PARTS = {"cat of many parts": _parts(torch.cat), "stack of many parts": _parts(torch.stack)}


def _square(function: Callable[[Tensor], Any]) -> Callable[[int, Draw], Problem]:
    def problem(n: int, d: Draw) -> Problem:
        side = round(n**0.5)
        return function, d.floats(side, side)

    return problem


FAMILIES: tuple[Family, ...] = (
    *table({f"{k}, matrix": _square(f) for k, f in MATRIX.items()}),
    *table({f"{k}, one row": lambda n, d, f=f: (f, d.floats(n)) for k, f in LINE.items()}),
    *table(JOINS),
    *table(MANY_PARTS, top=256, least=4, device_times=1),
)
