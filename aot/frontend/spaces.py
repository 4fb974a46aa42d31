"""Sequences of powers with one step, which eager computes on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_BITS = 10
"""Of whole exponents whose powers are products: 2 to the power of more is no float64."""


def _logspaces() -> dict[Any, Any]:
    packet = torch.ops.aten.logspace
    overloads = (packet.default, packet.Tensor_Tensor, packet.Tensor_Scalar, packet.Scalar_Tensor)
    torchs = torch._decomp.get_decompositions(overloads)
    return {overload: _but_for_one_step(own) for overload, own in torchs.items()}


def _but_for_one_step(own: Callable[..., Any]) -> Callable[..., Any]:
    """torch's own, which rounds a start to whole numbers that eager does not round, of one step."""

    def logspace(start: Any, end: Any, steps: Any, base: float = 10.0, **options: Any) -> Any:
        dtype = options.get("dtype")
        whole = dtype is not None and not (dtype.is_floating_point or dtype.is_complex)
        if not (whole and isinstance(steps, int) and steps == 1):
            return own(start, end, steps, base, **options)
        if not isinstance(start, torch.Tensor):
            start = torch.full((), start, dtype=torch.float64, device=options.get("device"))
        return _power(base, start.to(torch.float64)).reshape(1).to(dtype)

    return logspace


def _power(base: float, exponent: torch.Tensor) -> torch.Tensor:
    """base to the power of a float64, exact where that is a whole number and the power is one.

    A device's own function may give 2.9999999999999996 for 3 to the power of 1.
    """
    size = exponent.abs()
    digits = size.clamp(max=float(2**_BITS - 1)).to(torch.int64)
    product, factor = torch.ones_like(exponent), base
    for bit in range(_BITS):
        product = torch.where((digits >> bit) & 1 != 0, product * factor, product)
        factor = factor * factor
    product = torch.where(exponent < 0, product.reciprocal(), product)
    is_product = (size == size.trunc()) & (size < 2**_BITS)
    return torch.where(is_product, product, torch.pow(base, exponent))


LOGSPACES = _logspaces()
"""Operator -> what it is taken apart into."""
