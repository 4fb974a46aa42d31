"""Sums with the zeros that forward derivatives begin with, of open sizes.

torch has a tensor of zeros without memory for them. Its kernels that add one to a tensor ask for
sizes as numbers, and so take open ones for constants.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

_untyped: Any = torch
"""torch, for functions of it that have no types."""


def _sum(x: Tensor, y: Tensor, factor: Any) -> Tensor:
    """x and so many times y, one of which is zeros without memory, or both."""
    shape = _untyped.broadcast_shapes(x.shape, y.shape)
    dtype = torch.result_type(x, y)
    if x._is_zerotensor() and y._is_zerotensor():
        zeros: Tensor = _untyped._efficientzerotensor(shape, dtype=dtype, device=x.device)
        return zeros
    there = x if y._is_zerotensor() else y if factor == 1 else y * factor
    return there.to(dtype).expand(shape).clone()


def _add(x: Tensor, y: Tensor, *, alpha: Any = 1) -> Tensor:
    return _sum(x, y, alpha)


def _sub(x: Tensor, y: Tensor, *, alpha: Any = 1) -> Tensor:
    return _sum(x, y, -alpha)


@contextmanager
def open_zeros() -> Iterator[None]:
    """Inside of it, torch adds zeros without memory as it does any tensors of open sizes."""
    with _untyped.library._scoped_library("aten", "IMPL") as library, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel of torch's is one of ours meanwhile
        for name, own in (("add.Tensor", _add), ("sub.Tensor", _sub)):
            library.impl(name, own, "ZeroTensor", allow_override=True)
        yield
