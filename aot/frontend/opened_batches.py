"""Tensors inside of torch.vmap as what they are below it, and back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_untyped: Any = torch
"""torch, for functions of it that have no types."""

_functorch: Any = torch._C._functorch

_BATCHED = _untyped._C.DispatchKeySet(_untyped._C.DispatchKey.FuncTorchBatched)


def opened(x: Any) -> tuple[Any, bool]:
    """A value without the innermost vmap around it, its batch first, and whether it has one."""
    if not isinstance(x, Tensor):
        return x, False
    inner, axis = _functorch._unwrap_batched(x, _functorch.maybe_current_level())
    return (inner, False) if axis is None else (inner.movedim(axis, 0), True)


def rebatched(x: Tensor) -> Tensor:
    """A value whose first dimension is the innermost vmap's batch, inside of it."""
    made: Tensor = _functorch._add_batch_dim(x, 0, _functorch.maybe_current_level())
    return made


def below() -> Any:
    """Inside of it, operators take tensors as they are below the innermost vmap."""
    return _untyped._C._ExcludeDispatchKeyGuard(_BATCHED)
