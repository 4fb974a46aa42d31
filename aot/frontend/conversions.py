"""Conversions of modules within a model (`self.layer.to(dtype)`) that change nothing.

torch gives a module's tensors new homes whatever the conversion does to them, which it cannot do
while a model is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import _disable_current_modes


@contextmanager
def settled_modules() -> Iterator[None]:
    """Inside of it, a conversion after which each tensor would be as it is does nothing."""
    own: Any = torch.nn.Module._apply

    def apply(module: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        tensors = chain(module.parameters(), module.buffers())
        return module if all(_stays(x, fn) for x in tensors) else own(module, fn, *args, **kwargs)

    with patch.object(torch.nn.Module, "_apply", apply):
        yield


def _stays(x: torch.Tensor, fn: Callable[..., Any]) -> bool:
    """Whether the function gives a tensor of this rank, type and device back as it is."""
    with _disable_current_modes():
        # One element along each axis has every order of axes.
        like = torch.empty((1,) * x.dim(), dtype=x.dtype, device=x.device)
        return fn(like) is like
