"""Operators of quantised models: torch's steps to and from small integers, made of other operators.

What PyTorch's own quantisation makes of a model (`convert_pt2e`, QAT) says in these operators what
is rounded where; backends are to see through them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

LIBRARIES = ("quantized_decomposed",)
"""Namespaces of operators that are, on any device, what their code in Python makes of others."""


def library_operators() -> dict[Any, Callable[..., Any]]:
    """Those of `LIBRARIES` that are declared, as decompositions: their own code.

    A library declares its operators when it is imported, which a model that calls them has done.
    """
    key = torch._C.DispatchKey.CompositeExplicitAutograd
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key.name)
    found: dict[Any, Callable[..., Any]] = {}
    for name in names:
        space, _, rest = name.partition("::")
        if space in LIBRARIES:
            operator, _, overload = rest.partition(".")
            target = getattr(getattr(getattr(torch.ops, space), operator), overload or "default")
            found[target] = _BY_VALUE.get(name) or partial(target._op_dk, key)
    return found


# ---- those whose code looks at values ----


def _chosen(
    x: Tensor, least: int, most: int, eps: float, dtype: torch.dtype, *, symmetric: bool
) -> tuple[Tensor, Tensor]:
    """The scale (float64) and the zero (int64), (1,) each, that fit a tensor's range."""
    low, high = torch.aminmax(x)
    low, high = (
        torch.minimum(low, torch.zeros_like(low)),
        torch.maximum(high, torch.zeros_like(high)),
    )
    fraction = torch.full((), eps, dtype=torch.float32, device=x.device)
    steps = float(most - least)
    if symmetric:
        scale = torch.maximum(torch.maximum(-low, high) / (steps / 2), fraction)
        middle = 128 if dtype in (torch.uint8, torch.quint8) else 0
        zero = torch.full((), middle, dtype=torch.int64, device=x.device)
    else:
        scale = torch.maximum((high - low) / steps, fraction)
        zero = (least - torch.round(low / scale).to(torch.int32)).clamp(least, most)
    return scale.double().reshape(1), zero.long().reshape(1)


def _quantized(
    x: Tensor,
    scale: Tensor,
    zero: Tensor,
    least: Tensor | int,
    most: Tensor | int,
    dtype: torch.dtype,
) -> Tensor:
    inverse = (1.0 / scale.double().reshape(())).float()
    steps = torch.round(x.float() * inverse) + zero.reshape(()).float()
    low, high = (
        n.reshape(()).float() if isinstance(n, Tensor) else torch.full_like(inverse, n)
        for n in (least, most)
    )
    return torch.clamp(steps, low, high).to(dtype)


def _dequantized(
    x: Tensor,
    scale: Tensor,
    zero: Tensor,
    least: Tensor | int,
    most: Tensor | int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    wide = out_dtype or torch.float32
    return (x.to(wide) - zero.reshape(()).to(wide)) * scale.reshape(()).to(wide)


_BY_VALUE: Mapping[str, Callable[..., Any]] = {
    "quantized_decomposed::choose_qparams.tensor": partial(_chosen, symmetric=False),
    "quantized_decomposed::choose_qparams_symmetric.tensor": partial(_chosen, symmetric=True),
    "quantized_decomposed::quantize_per_tensor.tensor": _quantized,
    "quantized_decomposed::quantize_per_tensor.tensor2": _quantized,
    "quantized_decomposed::dequantize_per_tensor.tensor": _dequantized,
    "quantized_decomposed::dequantize_per_tensor.tensor2": _dequantized,
}
"""The same without a look at values, which tracing cannot have."""


# ---- rounding in training, which models keep ----


def fake_quantize_per_tensor(
    input: Tensor,
    scale: Tensor | float,
    zero_point: Tensor | int,
    quant_min: int,
    quant_max: int,
) -> Tensor:
    """As torch.fake_quantize_per_tensor_affine: rounded to a small integer, and back.

    As in eager, NaN becomes the least integer, and results are float32's whatever their type is.
    """
    wide = _wide(input)
    factor = (
        scale.float()
        if isinstance(scale, Tensor)
        else torch.full((), scale, dtype=torch.float32, device=input.device)
    )
    steps = torch.round(input.to(wide) * factor.reciprocal().to(wide)) + zero_point
    steps = torch.where(steps.isnan(), quant_min, steps.clamp(quant_min, quant_max))
    return ((steps - zero_point).float() * factor).to(input.dtype)


def fake_quantize_per_channel(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """As torch.fake_quantize_per_channel_affine: a scale and a zero for each index of an axis.

    As in eager, what is no integer of 64 bits becomes the least.
    """
    shape, wide = [1] * input.dim(), _wide(input)
    shape[axis] = -1
    scale, zero = scale.float().reshape(shape), zero_point.reshape(shape)
    steps = torch.round(input.to(wide) * scale.reciprocal()) + zero
    steps = torch.where(steps.abs() < 2.0**63, steps.clamp(quant_min, quant_max), quant_min)
    return ((steps - zero) * scale).to(input.dtype)


def _wide(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


FAKE: Mapping[Any, Callable[..., Any]] = {
    torch.fake_quantize_per_tensor_affine: fake_quantize_per_tensor,
    torch.fake_quantize_per_channel_affine: fake_quantize_per_channel,
}
"""What models call -> ours."""
