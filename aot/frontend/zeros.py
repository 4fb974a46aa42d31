"""Arithmetic with the zeros that forward derivatives begin with, of open sizes.

torch has a tensor of zeros without memory for them. Its kernels that add one to a tensor, or
multiply by one, ask for sizes as numbers, and so take open ones for constants.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, _prims_common

_untyped: Any = torch
"""torch, for functions of it that have no types."""


def _type(x: Tensor, y: Tensor) -> torch.dtype:
    """Of what both make: torch.result_type asks for sizes as numbers."""
    kind = _prims_common.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    made: torch.dtype = _prims_common.elementwise_dtypes(x, y, type_promotion_kind=kind)[1]
    return made


def _zeros(x: Tensor, y: Tensor) -> Tensor:
    """Zeros without memory, as large as what both make."""
    shape, dtype = _untyped.broadcast_shapes(x.shape, y.shape), _type(x, y)
    # A number may be the only one of a device of its own.
    device = x.device if x.dim() else y.device
    zeros: Tensor = _untyped._efficientzerotensor(shape, dtype=dtype, device=device)
    return zeros


def _sum(x: Tensor, y: Tensor, factor: Any) -> Tensor:
    """x and so many times y, one of which is zeros without memory, or both."""
    if x._is_zerotensor() and y._is_zerotensor():
        return _zeros(x, y)
    shape = _untyped.broadcast_shapes(x.shape, y.shape)
    dtype = _type(x, y)
    there = x if y._is_zerotensor() else y if factor == 1 else y * factor
    return there.to(dtype).expand(shape).clone()


def _add(x: Tensor, y: Tensor, *, alpha: Any = 1) -> Tensor:
    return _sum(x, y, alpha)


def _sub(x: Tensor, y: Tensor, *, alpha: Any = 1) -> Tensor:
    return _sum(x, y, -alpha)


def _quotient(x: Tensor, y: Tensor) -> Tensor:
    """As torch's: infinity for what is divided by such zeros, whatever its sign."""
    if not y._is_zerotensor():
        return _zeros(x, y)
    value = math.nan if x._is_zerotensor() else math.inf
    shape = _untyped.broadcast_shapes(x.shape, y.shape)
    made: Tensor = _untyped.full(shape, value, dtype=_type(x, y), device=x.device)
    return made


def _viewed(x: Tensor, size: Sequence[Any]) -> Tensor:
    """x in another shape, one size of which may be -1."""
    known = math.prod(n for n in size if not _is_rest(n))
    shape = [x.numel() // known if _is_rest(n) else n for n in size]
    zeros: Tensor = _untyped._efficientzerotensor(shape, dtype=x.dtype, device=x.device)
    return zeros


def _is_rest(size: Any) -> bool:
    return isinstance(size, int) and size == -1


_KERNELS: Mapping[str, Callable[..., Tensor]] = {
    "add.Tensor": _add,
    "sub.Tensor": _sub,
    "mul.Tensor": _zeros,
    "div.Tensor": _quotient,
    "view": _viewed,
}


@contextmanager
def open_zeros() -> Iterator[None]:
    """Inside of it, torch computes with zeros without memory as with tensors of open sizes."""
    with _untyped.library._scoped_library("aten", "IMPL") as library, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel of torch's is one of ours meanwhile
        for name, own in _KERNELS.items():
            library.impl(name, own, "ZeroTensor", allow_override=True)
        yield
