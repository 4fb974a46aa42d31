"""Rows of views, joins, indexing and creation: they move elements and compute nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from tests.conformance.harness import ALL, FLOATS, INTS, Args, Row, ordinary

BITS = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int16, torch.uint8)
FEW = (torch.float32, torch.bfloat16, torch.int64, torch.bool)


def _cube(dtype: torch.dtype) -> Sequence[Args]:
    """Shape (4, 6, 10), in three layouts; the last dimension of one is empty."""
    return [
        (ordinary(dtype, 4, 6, 10),),
        (ordinary(dtype, 10, 6, 4).permute(2, 1, 0),),
        (ordinary(dtype, 4, 12, 10)[:, ::2],),
    ]


def _image(dtype: torch.dtype) -> Sequence[Args]:
    return [(ordinary(dtype, 2, 8, 6, 4),), (ordinary(dtype, 1, 8, 4, 6).transpose(2, 3),)]


CUBE: dict[str, Callable[..., Any]] = {
    "view": lambda x: x.reshape(24, 10),
    "view split": lambda x: x.reshape(2, 2, 3, 20),
    "view mixed": lambda x: x.reshape(8, 30),
    "view flat": lambda x: x.flatten(),
    "view ones": lambda x: x.reshape(1, 4, 1, 60, 1),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(-1, 0),
    "movedim": lambda x: x.movedim(0, 2),
    "expand": lambda x: x[:, :1].expand(3, 4, 6, 10),
    "squeeze": lambda x: (x[:, :1].squeeze(1), x[:1].squeeze(), x.squeeze(0), x[:1, :1].squeeze()),
    "unsqueeze": lambda x: (x.unsqueeze(0), x.unsqueeze(-1)),
    "slice": lambda x: (x[1:3], x[:, 1:-1:2], x[..., -3:], x[:, 5:2], x[:, :100]),
    "select": lambda x: (x[1], x[:, -1], x[..., 0]),
    "split": lambda x: x.split(4, 1),
    "split sizes": lambda x: x.split([1, 2, 3], 1),
    "chunk": lambda x: x.chunk(4, 2),
    "tensor_split": lambda x: x.tensor_split(4, 2),
    "unbind": lambda x: x.unbind(1),
    "flip": lambda x: x.flip(0, 2),
    "roll": lambda x: (x.roll(3, 2), x.roll((-1, 2), (0, 1)), x.roll(7)),
    "diagonal": lambda x: (x.diagonal(), x.diagonal(1, 1, 2), x.diagonal(-2, 2, 0)),
    "unfold": lambda x: (x.unfold(2, 3, 2), x.unfold(0, 4, 1)),
    "repeat": lambda x: (x.repeat(2, 1, 3), x.repeat(2, 1, 1, 1), x.tile(2)),
    "repeat_interleave": lambda x: (x.repeat_interleave(3, 1), x.repeat_interleave(2)),
    "tril": lambda x: (x.tril(), x.tril(2), x.tril(-1)),
    "triu": lambda x: (x.triu(), x.triu(3), x.triu(-2)),
    "contiguous": lambda x: x.contiguous(),
    "cat": lambda x: (torch.cat([x, x[:1], x[:0]]), torch.cat([x, x, x[..., :1]], -1)),
    "cat many": lambda x: (
        torch.cat([x[..., k:] for k in range(4)] * 3, -1),
        torch.cat([x, x[:1], x[:0]] * 4),
        torch.stack([x.sin(), x, x.mT.contiguous().mT] * 4, -2),
    ),
    "stack": lambda x: (torch.stack([x, x.flip(0)], 1), torch.stack([x], -1)),
    "pad constant": lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 0, 3, -1, -1, 2), value=1)),
    "slice_scatter": lambda x: x.slice_scatter(x[:, 1:3].clone(), 1, 3, 5),
    "slice_scatter step": lambda x: x.slice_scatter(x[:, 1:4].clone(), 1, 0, 6, 2),
    "select_scatter": lambda x: x.select_scatter(x[0].clone(), 0, -1),
    "as_strided": lambda x: x.contiguous().as_strided((3, 2), (5, 7), 4),
    "as_strided permuted": lambda x: _columns_first(x).as_strided((3, 2), (5, 7), 4),
    "as_strided of a view": lambda x: _memory_of_views(x.contiguous()),
    "like": lambda x: (torch.zeros_like(x), torch.ones_like(x), x.new_full((2, 3), 1)),
    "numpy T": lambda x: (x[0].T, x.mT),
}


def _columns_first(x: torch.Tensor) -> torch.Tensor:
    """x, in memory with its last dimension before the last but one."""
    return x.mT.contiguous().mT


def _memory_of_views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Strides over what a view leaves out: before it, between its rows, behind it."""
    return (
        x[1:].as_strided((3, 2), (5, 7), 0),
        x[:, :2].as_strided((2, 7), (9, 1)),
        x[:1, :, :1].expand(1, x.shape[1], 3).as_strided((2, 7), (9, 1)),
        x[1:].as_strided((3,), (2,)),
    )


IMAGE: dict[str, Callable[..., Any]] = {
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 4),
    "pad reflect": lambda x: F.pad(x, (2, 1, 3, 0), mode="reflect"),
    "pad replicate": lambda x: F.pad(x, (2, 1, 3, 9), mode="replicate"),
    "pad circular": lambda x: F.pad(x, (2, 1, 3, 0), mode="circular"),
    "pad reflect cut": lambda x: _cut_pads(x, "reflect"),
    "pad replicate cut": lambda x: _cut_pads(x, "replicate"),
    "pad circular cut": lambda x: _cut_pads(x, "circular"),
}


def _cut_pads(x: torch.Tensor, mode: str) -> list[torch.Tensor]:
    """Padded in one to three dimensions, by widths of either sign at either end."""
    widths = [(-1, 2), (2, -1), (-1, -2), (-3, 1), (0, -1), (-2, 0), (1, 1)]
    others = widths[1:] + widths[:1]
    planes = [F.pad(x, (*a, *b), mode=mode) for a, b in zip(widths, others, strict=True)]
    line = [F.pad(x[0], a, mode=mode) for a in widths]
    return [*planes, *line, F.pad(x[None], (-1, 1, 2, -2, -1, -3), mode=mode)]


def _named(dtype: torch.dtype) -> Sequence[Args]:
    """A cube with index tensors into its first two dimensions (4, 6)."""
    x = ordinary(dtype, 4, 6, 10)
    first, second = torch.tensor([0, 3, 1, 3, 2]), torch.tensor([5, 0, 2, 2, 1])
    return [(x, first, second), (x.flip(2).permute(0, 1, 2), first.int(), second.int())]


NAMED: dict[str, Callable[..., Any]] = {
    "embedding": lambda x, i, j: F.embedding(i, x[0].t()),
    "embedding 2d": lambda x, i, j: F.embedding(i.reshape(1, 5), x[0]),
    "index_select": lambda x, i, j: x.index_select(1, j),
    "index one": lambda x, i, j: x[i.long() - 4],
    "index two": lambda x, i, j: x[i.long(), j.long()],
    "index outer": lambda x, i, j: x[i.long()[:, None], j.long()[None, :]],
    "index apart": lambda x, i, j: x[i.long(), :, j.long()],
    "index last": lambda x, i, j: x[:, :, i.long()],
    "index middle": lambda x, i, j: x[:, j.long(), i.long()],
    "take": lambda x, i, j: torch.take(x, i.long() * 7),
    "gather": lambda x, i, j: x.gather(2, i.long().expand(2, 3, 5)),
    "scatter": lambda x, i, j: x.scatter(2, i.long()[:4].expand(2, 3, 4), x.flip(0)),
    "scatter value": lambda x, i, j: x.scatter(0, i.long()[:3, None, None].expand(3, 2, 2), 1),
    "index_copy": lambda x, i, j: x.index_copy(1, j.long()[:2], x[:, 3:5].clone()),
    "index_fill": lambda x, i, j: x.index_fill(1, j.long(), 1),
    "index_put": lambda x, i, j: x.index_put((i.long()[:3], j.long()[:3]), x[0, :3].clone()),
    "index_put scalar": lambda x, i, j: x.index_put((i.long(),), x[0, 0, 0]),
    "one_hot": lambda x, i, j: F.one_hot(i.long(), 6),
}
SUMS: dict[str, Callable[..., Any]] = {
    "scatter value add": lambda x, i, j: x.scatter(
        0, i.long()[:3, None, None].expand(3, 2, 2), 3, reduce="add"
    ),
    "scatter value multiply": lambda x, i, j: x.scatter(
        2, i.long()[:4].expand(2, 3, 4), 2, reduce="multiply"
    ),
    "scatter_add": lambda x, i, j: x.scatter_add(2, i.long().expand(4, 6, 5), x),
    "index_add": lambda x, i, j: x.index_add(1, j.long(), x[:, :5], alpha=2),
    "index_put accumulate": lambda x, i, j: x.index_put((i.long(), j.long()), x[0, :5], True),
    "scatter_reduce amax": lambda x, i, j: x.scatter_reduce(2, i.long().expand(4, 6, 5), x, "amax"),
    "scatter_reduce sum": lambda x, i, j: x.scatter_reduce(
        2, i.long().expand(4, 6, 5), x, "sum", include_self=False
    ),
    "bucketize": lambda x, i, j: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.5]), right=True),
    "embedding_bag": lambda x, i, j: F.embedding_bag(i.long().reshape(1, 5), x[0], mode="mean"),
    "embedding_bag sum": lambda x, i, j: F.embedding_bag(i.long(), x[0], j.long()[1:3], mode="sum"),
    "embedding_bag max": lambda x, i, j: F.embedding_bag(i.long().reshape(5, 1), x[0], mode="max"),
}


def _masked(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 4, 5)
    return [(x, ordinary(torch.bool, 4, 5)), (x, ordinary(torch.bool, 4))]


def _put(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    result[mask] = 1
    return result


def _none(_: torch.dtype) -> Sequence[Args]:
    return [(torch.zeros(1),)]


ONE_STEP = (1, 2, -1, 2.5)

FRACTIONS = ((2.1, -2.9, -1.0), (0.1, -7.9, -4.0), (0.9, 5.0, 1.7), (-2.5, 3.5), (1, 9, 2.5))
"""Bounds and steps of `arange` that integer types cannot hold."""

CREATION: dict[str, Callable[..., Any]] = {
    "arange": lambda _: (torch.arange(7), torch.arange(2, 9, 3), torch.arange(5, 0, -2)),
    "arange float": lambda _: (torch.arange(0.5, 3.0, 0.3), torch.arange(5.0)),
    "arange typed": lambda _: torch.arange(5, dtype=torch.float32),
    "arange truncated": lambda _: [
        torch.arange(*bounds, dtype=dtype) for bounds in FRACTIONS for dtype in (*INTS, *FLOATS)
    ],
    "full": lambda _: (torch.full((2, 3), 1.5), torch.full((), 7), torch.full((2,), True)),
    "zeros": lambda _: (torch.zeros(3), torch.ones(2, dtype=torch.int32), torch.zeros(0, 3)),
    "linspace": lambda _: (torch.linspace(-1, 2, 9), torch.linspace(0, 1, 1)),
    "linspace tensors": lambda x: (torch.linspace(x[0], x[0] + 2, 5), torch.linspace(1, x[0], 4)),
    "logspace of one step": lambda x: [
        torch.logspace(start, 7, 1, base, dtype=dtype)
        for start in (*ONE_STEP, *(x[0] + start for start in ONE_STEP))
        for base in (3.0, 10.0, 0.5)
        for dtype in (torch.int64, torch.int16, torch.float64)
    ],
    "triangle indices": lambda _: (torch.tril_indices(3, 5, -1), torch.triu_indices(5, 3, 1)),
    "eye": lambda _: (torch.eye(4), torch.eye(2, 5, dtype=torch.bool)),
    "scalar_tensor": lambda _: torch.ops.aten.scalar_tensor(2.5),
}


def _slots(dtype: torch.dtype) -> Sequence[Args]:
    return [(ordinary(dtype, 4, 6, 5), ordinary(dtype, 4, 6, 5), ordinary(torch.bool, 6, 5))]


INTO: dict[str, Callable[..., Any]] = {
    "diagonal_scatter": lambda x, y, _: (
        torch.diagonal_scatter(x, y.diagonal(1, 1, 2), 1, 1, 2),
        torch.diagonal_scatter(x, y.diagonal(-2, 0, 1), -2, 0, 1),
    ),
    "as_strided_scatter": lambda x, y, _: torch.as_strided_scatter(x, y[0], (6, 5), (7, 2), 3),
    "as_strided_scatter permuted": lambda x, y, _: torch.as_strided_scatter(
        _columns_first(x), y[0], (6, 5), (7, 2), 3
    ),
    "masked_scatter": lambda x, y, mask: torch.masked_scatter(x, mask, y),
}


def _bits(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int32 if x.dtype == torch.float32 else torch.int16)


def _bits_by_size(x: torch.Tensor) -> list[torch.Tensor]:
    """Elements cut into smaller ones and joined to larger ones, and larger ones cut again."""
    cut = [x.view(d) for d in (torch.uint8, torch.int16, torch.int32, torch.int64)]
    return [
        *cut,
        x.view(torch.int64).view(torch.int16),
        x.view(torch.uint8)[..., 8:24].view(x.dtype),
    ]


def _even(dtype: torch.dtype) -> Sequence[Args]:
    return [(ordinary(dtype, 3, 32),), (ordinary(dtype, 2, 6, 24)[:, ::2],)]


ROWS: tuple[Row, ...] = (
    *(Row(n, f, _cube, FEW) for n, f in CUBE.items()),
    *(Row(n, f, _image, FEW[:2]) for n, f in IMAGE.items()),
    *(Row(n, f, _named, FEW) for n, f in NAMED.items()),
    *(Row(n, f, _named, FLOATS[:2]) for n, f in SUMS.items()),
    *(Row(n, f, _none) for n, f in CREATION.items()),
    *(Row(n, f, _slots, FEW) for n, f in INTO.items()),
    Row("masked put", _put, _masked, ALL),
    Row("view dtype", _bits, _cube, (torch.float32, torch.float16, torch.bfloat16), True),
    Row("view dtype of another size", _bits_by_size, _even, BITS, True),
)
