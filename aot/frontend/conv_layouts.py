"""Where results of convolutions lie: as eager's do, whose library torch.export switches off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses import fake_tensor

_fake: Any = fake_tensor
"""A module of torch, for names of it that have no types."""

_VOLUMES = 5
"""Dimensions of the operands of a convolution in three: the others are told as eager has them."""


def _backend(own: Callable[..., Any], enabled: bool, *args: Any, **kwargs: Any) -> Any:
    """torch's choice of what convolves, with oneDNN where it is `enabled` outside of an export.

    It asks how large the operands are: open sizes would be fixed by that. Which of them have names
    is another thing in each version of torch.
    """
    x, weight = args[:2] if args else (kwargs["input"], kwargs["weight"])
    whole = all(isinstance(n, int) for n in (*x.shape, *weight.shape))
    if weight.dim() != _VOLUMES or not whole:
        return own(*args, **kwargs)
    with _mkldnn(enabled):
        return own(*args, **kwargs)


@contextmanager
def _mkldnn(enabled: bool) -> Iterator[None]:
    """oneDNN on or off; torch's own manager sets, and warns of, what it was not asked for."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(enabled)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _key(own: Callable[..., Any], mode: Any, state: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """torch's key of what a call's result is remembered by; none for what is told otherwise here.

    Another export of the same process must not be told of it, nor tell.
    """
    if func is torch.ops.aten.convolution.default and args[1].dim() == _VOLUMES:
        raise _fake._BypassDispatchCache("convolution")
    return own(mode, state, func, args, kwargs)


@contextmanager
def eager_convolutions() -> Iterator[None]:
    """Inside of it, torch says of a convolution in three dimensions where eager puts its results.

    torch.export switches oneDNN off, so that operators are not taken apart for it, and says that
    the results have their channels first; oneDNN puts them last where those of an operand are.
    """
    chosen = partial(_backend, torch._C._select_conv_backend, torch._C._get_mkldnn_enabled())
    own = _fake.FakeTensorMode._cache_key
    with (
        patch.object(torch._C, "_select_conv_backend", chosen),
        patch.object(_fake.FakeTensorMode, "_cache_key", lambda *args: _key(own, *args)),
    ):
        yield
