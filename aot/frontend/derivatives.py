"""Models that take derivatives: forces of an energy, Jacobians, the transforms of torch.func.

torch.export records the operators that a model calls, above autograd, and fails where one of them
is differentiated. Such a model is recorded below autograd instead, where a derivative is the
operators that compute it: slower to trace, and what torch has as one operator is several.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.export._trace
from torch.export import ExportedProgram
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from aot.frontend.source import ShapeSpec
from aot.frontend.zeros import open_zeros

_FAILS = re.compile(
    r"'Tensor' object has no attribute 'constant'"
    r"|found a fake tensor in the exported program"
    r"|meta conversion to view functorch tensor"
    r"|Expected FakeTensor, got <class 'torch\.Tensor'>"
    r"|Cannot access data pointer of Tensor that doesn't have storage"
    r"|does not require grad and does not have a grad_fn"
)
"""What torch says where it records above autograd (2.11 in other words); the last, where a caller
turned that off."""


class LostDerivatives(RuntimeError):
    """What was recorded holds tensors of a transform in place of what they depend on."""


def takes_derivatives(error: BaseException) -> bool:
    """Whether tracing failed since the model differentiates."""
    return isinstance(error, LostDerivatives) or _FAILS.search(str(error)) is not None


@contextmanager
def differentiating(module: torch.nn.Module) -> Iterator[None]:
    """Inside of it, forward may differentiate, whatever its caller turned off.

    Its results are for inference all the same: nobody can differentiate them.
    """
    with patch.object(module, "forward", _with_gradients(module.forward)):
        yield


def _with_gradients(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        with torch.enable_grad():
            results = forward(*args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, results)

    return differentiated


def export_above_autograd(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: ShapeSpec,
) -> ExportedProgram:
    """torch.export.export.

    Raises:
        LostDerivatives: The model takes some, which torch does not always notice.
    """
    program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    if any(isinstance(c, torch.Tensor) and wrapped(c) for c in program.constants.values()):
        raise LostDerivatives("torch.export recorded a derivative as a constant")
    return program


def export_below_autograd(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: ShapeSpec,
) -> ExportedProgram:
    """The same, of a model that takes derivatives."""
    plain = sdpa_kernel(SDPBackend.MATH)  # others have gradients of their own, in one piece
    with plain, open_zeros(), differentiating(module):
        program: ExportedProgram = torch.export._trace._export(
            module, args, kwargs, dynamic_shapes, strict=False, pre_dispatch=False
        )
    return program
