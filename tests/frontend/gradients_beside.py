"""Compares what makes a gradient with torch's own operator, with what autograd gives that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from aot.frontend.gradients import GRADIENTS


class _Beside(TorchDispatchMode):
    """Runs both for each operator that has a row, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.compared = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        theirs = function(*args, **(kwargs or {}))
        if function in GRADIENTS:
            ours = GRADIENTS[function](*args, **(kwargs or {}))
            pairs = zip(pytree.tree_leaves(ours), pytree.tree_leaves(theirs), strict=True)
            for one, other in pairs:
                if one is not None and other is not None:
                    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
            self.compared += 1
        return theirs


def beside_torch(function: Callable[..., Tensor], *given: Tensor) -> bool:
    """Whether the derivative of `function` has an operator of GRADIENTS; each is torch's."""
    inputs = [x.detach().clone().requires_grad_() for x in given]
    result = function(*inputs).sin().sum()
    with _Beside() as beside:
        torch.autograd.grad(result, inputs)
    return beside.compared > 0
