"""Rows of quantised models: products of 8-bit integers, and torch's steps to and from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.ao.quantization.fx import _decomposed as declared

from tests.conformance.harness import Args, Row, ordinary, specials

assert declared.quantized_decomposed_lib  # importing it declares the operators

_ops: Any = torch.ops.quantized_decomposed

Results = tuple[torch.Tensor, ...]


def _bytes(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def _integers(dtype: torch.dtype) -> Sequence[Args]:
    """The least numbers at a depth of more than what float32 adds up exactly, and others."""
    return [
        (torch.full((17, 3000), -128, dtype=dtype), torch.full((3000, 8), -128, dtype=dtype)),
        (_bytes(33, 24), _bytes(40, 24).t()),
        (_bytes(17, 1024), _bytes(1024, 16)),
        (torch.randint(240, 256, (17, 1021)).byte(), torch.full((1021, 8), 127, dtype=dtype)),
    ]


def _weights(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    if x.dtype == torch.float64:  # which torch's has not
        return x @ weight.double().t() * scales
    return torch.ops.aten._weight_int8pack_mm(x, weight, scales)


def _static(x: torch.Tensor) -> Results:
    made = []
    for dtype, least, most, zero in ((torch.int8, -128, 127, 3), (torch.uint8, 0, 255, 128)):
        q = _ops.quantize_per_tensor(x, 0.03, zero, least, most, dtype)
        made += [q, _ops.dequantize_per_tensor(q, 0.03, zero, least, most, dtype)]
    return tuple(made)


def _channels(x: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> Results:
    q = _ops.quantize_per_channel(x, scales, zeros, 1, -8, 7, torch.int8)
    return q, _ops.dequantize_per_channel(q, scales, zeros, 1, -8, 7, torch.int8)


def _chosen(x: torch.Tensor) -> Results:
    made = []
    for choose in (_ops.choose_qparams, _ops.choose_qparams_symmetric):
        scale, zero = choose.tensor(x, -128, 127, 1e-5, torch.int8)
        q = _ops.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
        back = _ops.dequantize_per_tensor.tensor(q, scale, zero, -128, 127, torch.int8)
        made += [scale, zero, q, back]
    return tuple(made)


def _tokens(x: torch.Tensor) -> Results:
    scales, zeros = _ops.choose_qparams_per_token_asymmetric(x, torch.int8)
    q = _ops.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)
    back = _ops.dequantize_per_token(q, scales, zeros, -128, 127, torch.int8, torch.float32)
    return scales, zeros, q, back


def _groups(weight: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    return _ops.dequantize_per_channel_group(
        weight, scales, zeros, -8, 7, torch.int8, 8, torch.float32
    )


def _fake(x: torch.Tensor) -> Results:
    scale, zero = torch.tensor(0.07), torch.tensor(2, dtype=torch.int32)
    scales = torch.linspace(0.02, 0.3, x.shape[-1])
    zeros = torch.arange(x.shape[-1], dtype=torch.int32) % 5
    made = (
        torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127),
        torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255),
    )
    if x.dtype == torch.float64:  # of which eager rounds some in float32, and some not
        return made
    return *made, torch.fake_quantize_per_channel_affine(x, scales, zeros, x.dim() - 1, -8, 7)


def _numbers(dtype: torch.dtype) -> Sequence[Args]:
    return [(ordinary(dtype, 5, 12, high=9.0),), (ordinary(dtype, 1, 3),)]


def _scaled(dtype: torch.dtype, least: int) -> Args:
    zeros = torch.randint(least, 3, (6,))
    return ordinary(dtype, 4, 6), torch.rand(6) * 0.3 + 0.01, zeros


def _row(name: str, function: Any, samples: Any, dtypes: Any, *, exact: bool = True) -> Row:
    return Row(f"quantized {name}", function, samples, tuple(dtypes), against_eager=exact)


ROWS: tuple[Row, ...] = (
    _row("products", torch._int_mm, _integers, (torch.int8,)),
    _row(
        "weights",
        _weights,
        lambda d: [(ordinary(d, 5, 64), _bytes(16, 64), (torch.rand(16) / 99).to(d))],
        (torch.float32, torch.bfloat16),
        exact=False,
    ),
    _row("static", _static, _numbers, (torch.float32, torch.bfloat16)),
    _row("channels", _channels, lambda d: [_scaled(d, -2)], (torch.float32,)),
    _row("chosen", _chosen, _numbers, (torch.float32, torch.bfloat16)),
    _row("tokens", _tokens, _numbers, (torch.float32,)),
    _row(
        "groups",
        _groups,
        lambda d: [(_bytes(6, 32) // 16, torch.rand(6, 4), torch.randint(-2, 2, (6, 4)))],
        (torch.float32,),
    ),
    _row(
        "fake",
        _fake,
        lambda d: [*_numbers(d), (specials(d).reshape(2, -1),)],
        (torch.float32, torch.float64),
    ),
)
