"""Rows of matrix products, convolutions, attention and recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from tests.conformance.harness import FLOATS, Args, Row, ordinary

REAL = (torch.float32, torch.float64, torch.bfloat16)
PRODUCTS = (*FLOATS, torch.int64)


def _shapes(*shapes: tuple[int, ...]) -> Callable[[torch.dtype], Sequence[Args]]:
    """One sample: tensors of these shapes."""

    def samples(dtype: torch.dtype) -> Sequence[Args]:
        return [tuple(ordinary(dtype, *shape, low=-2.0, high=2.0) for shape in shapes)]

    return samples


def _row(
    name: str,
    function: Callable[..., Any],
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[torch.dtype] = (torch.float32,),
) -> Row:
    return Row(name, function, _shapes(*shapes), tuple(dtypes))


def _grouped() -> tuple[Row, ...]:
    """Products of groups; torch traces them in bfloat16 alone."""
    ends = [torch.tensor(e, dtype=torch.int32) for e in ([4, 12, 12, 32], [0, 0, 32, 32], [32] * 4)]

    def of(*shapes: tuple[int, ...]) -> Callable[[torch.dtype], Sequence[Args]]:
        return lambda dtype: [(*(ordinary(dtype, *s) for s in shapes), e) for e in ends]

    def by_rows(a: Any, b: Any, offs: Any = None) -> Any:
        if a.dtype != torch.float64:  # which has no kernel
            return torch._grouped_mm(a, b, offs=offs)
        if offs is None:
            return a @ b
        group = torch.searchsorted(offs, torch.arange(int(offs[-1])), right=True)
        if a.dim() == 2:
            return (a[:, None] @ b[group])[:, 0]
        return (a[group] @ b.T[:, :, None])[:, :, 0].T

    bf16 = (torch.bfloat16,)
    return (
        Row("grouped rows", by_rows, of((32, 16), (4, 16, 24)), bf16),
        Row(
            "grouped rows transposed",
            lambda a, b, offs: by_rows(a, b.mT, offs),
            of((32, 16), (4, 24, 16)),
            bf16,
        ),
        Row("grouped columns", by_rows, of((4, 8, 16), (16, 32)), bf16),
        Row(
            "grouped batches",
            by_rows,
            _shapes((4, 8, 16), (4, 16, 24)),
            bf16,
        ),
    )


MATMUL = (
    _row("mm", torch.mm, [(7, 9), (9, 17)], PRODUCTS),
    _row("mm transposed", lambda a, b: torch.mm(a.t(), b.t()), [(9, 7), (17, 9)]),
    _row("mm no terms", torch.mm, [(3, 0), (0, 5)]),
    _row("mm of broadcasts", lambda a, b: a.expand(70, 90) @ b.expand(90, 50), [(70, 1), (1, 50)]),
    _row("bmm", torch.bmm, [(3, 7, 9), (3, 9, 5)], PRODUCTS),
    *_grouped(),
    _row("matmul vectors", torch.matmul, [(33,), (33,)]),
    _row("matmul vector matrix", torch.matmul, [(9,), (2, 9, 5)]),
    _row("matmul matrix vector", torch.matmul, [(2, 3, 9), (9,)]),
    _row("matmul flattened", torch.matmul, [(2, 3, 9), (9, 5)]),
    _row("matmul broadcast", torch.matmul, [(2, 1, 3, 9), (5, 9, 4)]),
    _row("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), [(5,), (7, 9), (9, 5)]),
    _row(
        "addmm without added", lambda c, a, b: torch.addmm(c, a, b, beta=0), [(5,), (7, 9), (9, 5)]
    ),
    _row("baddbmm", torch.baddbmm, [(2, 1, 5), (2, 7, 9), (2, 9, 5)]),
    _row("addbmm", lambda c, a, b: torch.addbmm(c, a, b, alpha=3), [(7, 5), (2, 7, 9), (2, 9, 5)]),
    _row("mv", torch.mv, [(7, 9), (9,)], REAL),
    _row("addmv", torch.addmv, [(7,), (7, 9), (9,)]),
    _row("linear", F.linear, [(2, 3, 9), (5, 9), (5,)], REAL),
    _row("linear of no rows", F.linear, [(0, 3), (4, 3)], REAL),
    _row("linear without bias", F.linear, [(4, 9), (5, 9)]),
    _row("linear of a vector", F.linear, [(9,), (5, 9), (5,)]),
    _row("einsum", lambda a, b: torch.einsum("bij,bkj->bik", a, b), [(2, 3, 9), (2, 5, 9)]),
)


def _conv(function: Callable[..., Any], *settings: Any) -> Callable[..., Any]:
    return lambda x, w, b: function(x, w, b, *settings)


CONVOLUTION = (
    _row("conv1d", _conv(F.conv1d, 2, 1, 1, 2), [(2, 4, 9), (6, 2, 3), (6,)], REAL),
    _row("conv2d", _conv(F.conv2d, 1, 1), [(2, 4, 9, 10), (6, 4, 3, 3), (6,)], REAL),
    _row("conv2d in tiles", _conv(F.conv2d, 1, 1), [(2, 32, 9, 10), (40, 32, 3, 3), (40,)]),
    _row(
        "conv2d of few channels and many taps",
        _conv(F.conv2d),
        [(2, 8, 9, 10), (10, 8, 5, 5), (10,)],
    ),
    _row("conv2d dilated", _conv(F.conv2d, (1, 2), 1, 2), [(2, 4, 9, 10), (6, 4, 3, 3), (6,)]),
    _row("conv2d depthwise", _conv(F.conv2d, 2, 1, 1, 4), [(2, 4, 9, 10), (8, 1, 3, 3), (8,)]),
    _row("conv2d same", _conv(F.conv2d, 1, "same"), [(2, 4, 9, 10), (6, 4, 4, 3), (6,)]),
    _row(
        "conv1d causal",
        lambda x, w, b: torch.tanh(F.conv1d(x, w, b, 1, 6, 2))[..., : x.shape[-1]],
        [(2, 4, 19), (6, 4, 4), (6,)],
    ),
    _row(
        "conv1d causal depthwise",
        lambda x, w, b: F.silu(F.conv1d(x, w, b, 1, 3, 1, 40))[..., : x.shape[-1]],
        [(2, 40, 19), (40, 1, 4), (40,)],
    ),
    _row(
        "conv2d cut",
        lambda x, w, b: F.conv2d(x, w, b, (2, 1), 3)[:, :, :3, 1:9],
        [(2, 32, 9, 10), (40, 32, 3, 3), (40,)],
    ),
    _row("conv2d unbatched", _conv(F.conv2d), [(4, 9, 10), (6, 4, 1, 1), (6,)]),
    _row("conv2d without bias", F.conv2d, [(1, 4, 9, 10), (6, 4, 3, 3)]),
    _row("conv3d", _conv(F.conv3d, 1, 1), [(1, 2, 5, 6, 4), (3, 2, 2, 2, 2), (3,)]),
    _row(
        "conv_transpose1d",
        _conv(F.conv_transpose1d, 2, 1, 1, 2),
        [(2, 4, 9), (4, 3, 3), (6,)],
        REAL,
    ),
    _row(
        "conv_transpose2d",
        _conv(F.conv_transpose2d, (1, 2), 1, 0, 2),
        [(2, 4, 7, 8), (4, 3, 3, 3), (6,)],
    ),
    _row(
        "conv_transpose2d cut",
        lambda x, w: F.conv_transpose2d(x, w, None, 3, (4, 0), 2, 1, (1, 2)),
        [(2, 4, 7, 8), (4, 6, 4, 3)],
    ),
    _row(
        "conv_transpose1d phases",
        _conv(F.conv_transpose1d, 3, 1, 1, 2),
        [(2, 4, 9), (4, 3, 7), (6,)],
        REAL,
    ),
    _row(
        "conv_transpose2d gaps",
        lambda x, w: F.conv_transpose2d(x, w, None, (2, 1), (0, 3), (1, 0), 1, (2, 3)),
        [(2, 4, 5, 6), (4, 3, 3, 2)],
    ),
    _row("conv_transpose3d", F.conv_transpose3d, [(1, 2, 3, 4, 3), (2, 4, 2, 2, 2)]),
)

_sdpa = F.scaled_dot_product_attention
QKV = [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)]
MANY_KEYS = [(2, 3, 2, 8), (2, 3, 600, 8), (2, 3, 600, 4)]


def _mask_by_sign(q: Any, k: Any, v: Any, m: Any) -> Any:
    """Attention with a bool mask; the last key is seen by every query."""
    keep = torch.cat([m[..., :-1] > 0, torch.ones_like(m[..., -1:], dtype=torch.bool)], -1)
    return _sdpa(q, k, v, keep)


def _lowest_mask(q: Any, k: Any, v: Any, m: Any) -> Any:
    """Attention with the type's lowest number added to what is masked; in row 0 that is all."""
    masked = (m > 0).index_fill(-2, torch.tensor([0]), True)
    return _sdpa(q, k, v, torch.where(masked, torch.finfo(m.dtype).min, 0.5 * m))


def _unseen_run(q: Any, k: Any, v: Any, m: Any) -> Any:
    """Attention where nobody sees a long run of keys, and the first query nothing at all."""
    keep = (m > 0).index_fill(-1, torch.arange(100, 400), False)
    return _sdpa(q, k, v, keep.index_fill(-2, torch.tensor([0]), False))


def _features(x: Any) -> Any:
    """Attention over vectors of one element, which a scan keeps in another order."""
    rows = x.unsqueeze(-1) + 1
    return _sdpa(rows, rows, rows), rows.cumsum(2)


ATTENTION = (
    _row("attention", _sdpa, QKV, REAL),
    _row("attention causal", lambda q, k, v: _sdpa(q, k, v, is_causal=True, scale=0.3), QKV),
    _row("attention added mask", _sdpa, [*QKV, (5, 7)]),
    _row("attention lowest mask", _lowest_mask, [*QKV, (5, 7)], REAL),
    _row("attention lowest mask of keys", _lowest_mask, [*QKV, (1, 1, 1, 7)]),
    _row("attention bool mask", _mask_by_sign, [*QKV, (2, 1, 1, 7)]),
    _row(
        "attention grouped",
        lambda q, k, v: _sdpa(q, k, v, is_causal=True, enable_gqa=True),
        [(2, 6, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8)],
    ),
    _row("attention of empty vectors", _sdpa, [(2, 5, 0), (2, 7, 0), (2, 7, 4)]),
    _row("attention of single features", _features, [(7, 2, 7, 7)], (torch.float16,)),
    _row("attention of nothing", _sdpa, [(1, 0, 4), (2, 7, 4), (2, 7, 4)]),
    _row("attention to nothing", _sdpa, [(1, 3, 4), (2, 0, 4), (2, 0, 4)]),
    _row("attention of many keys", _sdpa, MANY_KEYS, REAL),
    _row("attention of many keys, bool mask", _mask_by_sign, [*MANY_KEYS, (2, 1, 1, 600)]),
    _row("attention of many keys, lowest mask", _lowest_mask, [*MANY_KEYS, (1, 600)], REAL),
    _row("attention of many keys, a part unseen", _unseen_run, [*MANY_KEYS, (2, 3, 2, 600)]),
    _row(
        "attention of many keys, grouped",
        lambda q, k, v: _sdpa(q, k, v, enable_gqa=True),
        [(1, 6, 1, 16), (1, 2, 600, 16), (1, 2, 600, 16)],
    ),
    _row("attention of matrices", _sdpa, [(5, 8), (7, 8), (7, 8)]),
    _row("attention of several ranks", _sdpa, [(4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8)]),
    _row("attention without heads", _sdpa, [(3, 5, 8), (3, 7, 8), (3, 7, 8)]),
    _row("attention broadcast", _sdpa, [(2, 2, 3, 5, 8), (2, 1, 3, 7, 8), (2, 2, 3, 7, 8)]),
)


def _lstm(layers: int, both: bool, first: bool) -> Callable[..., Any]:
    def run(x: Any, h: Any, c: Any, *weights: Any) -> Any:
        biases = len(weights) >= 4 * layers * (1 + both)
        return torch.lstm(x, (h, c), list(weights), biases, layers, 0.0, False, both, first)

    return run


def _one_state(function: Callable[..., Any], layers: int, both: bool) -> Callable[..., Any]:
    def run(x: Any, h: Any, *weights: Any) -> Any:
        biases = len(weights) == 4 * layers * (1 + both)
        return function(x, h, list(weights), biases, layers, 0.0, False, both, False)

    return run


def _layer(size: int, gates: int, biases: bool = True) -> list[tuple[int, ...]]:
    """Shapes of one layer's weights for `size` inputs and 3 hidden units."""
    return [(gates * 3, size), (gates * 3, 3), *([(gates * 3,)] * 2 if biases else [])]


RECURRENT = (
    _row("lstm", _lstm(1, False, False), [(10, 2, 5), (1, 2, 3), (1, 2, 3), *_layer(5, 4)], REAL),
    _row(
        "lstm two layers, both ways",
        _lstm(2, True, True),
        [(2, 4, 5), (4, 2, 3), (4, 2, 3), *_layer(5, 4) * 2, *_layer(6, 4) * 2],
    ),
    _row(
        "lstm without bias",
        _lstm(1, False, False),
        [(4, 2, 5), (1, 2, 3), (1, 2, 3), *_layer(5, 4, False)],
    ),
    _row(
        "lstm projected, batch first",
        _lstm(1, False, True),
        [(2, 4, 5), (1, 2, 2), (1, 2, 3), (12, 5), (12, 2), (12,), (12,), (2, 3)],
        REAL,
    ),
    _row(
        "lstm of many units",
        lambda *tensors: _lstm(1, False, False)(*tensors)[0].tanh(),
        [(3, 35, 20), (1, 35, 70), (1, 35, 70), (280, 20), (280, 70)],
    ),
    _row("gru", _one_state(torch.gru, 1, False), [(4, 2, 5), (1, 2, 3), *_layer(5, 3)], REAL),
    _row(
        "gru both ways",
        _one_state(torch.gru, 1, True),
        [(4, 2, 5), (2, 2, 3), *_layer(5, 3) * 2],
    ),
    _row(
        "gru without bias",
        _one_state(torch.gru, 1, False),
        [(1, 2, 5), (1, 2, 3), *_layer(5, 3, False)],
    ),
    _row(
        "rnn tanh",
        _one_state(torch.rnn_tanh, 1, False),
        [(4, 2, 5), (1, 2, 3), *_layer(5, 1)],
        REAL,
    ),
    _row(
        "rnn relu, both ways",
        _one_state(torch.rnn_relu, 1, True),
        [(4, 2, 5), (2, 2, 3), *_layer(5, 1) * 2],
    ),
)

ROWS = (*MATMUL, *CONVOLUTION, *ATTENTION, *RECURRENT)
