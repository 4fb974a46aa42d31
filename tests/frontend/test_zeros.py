"""Forward derivatives of batches of open size, which begin with zeros that have no memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.func import grad, hessian, jacfwd, jvp, vmap

from aot.frontend.capture import capture_module
from aot.frontend.zeros import open_zeros
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

NET = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))


def energy(x: torch.Tensor) -> torch.Tensor:
    return NET(x).squeeze(-1)


def _along_ones(x: torch.Tensor) -> Any:
    return jvp(grad(energy), (x,), (torch.ones_like(x),))[1]


def _entangled(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.cumsum(0)).sum() / (1 + x @ x)


TAKEN = [hessian(energy), jacfwd(energy), _along_ones, hessian(_entangled)]


@pytest.mark.parametrize("taken", TAKEN, ids=["hessian", "jacobian", "along", "entangled"])
def test_of_open_size(taken: Callable[..., Any]) -> None:
    def call(x: torch.Tensor) -> Any:
        return vmap(taken)(x)

    spec = {"args": ({0: Dim("n", min=2, max=9)},)}
    x = torch.linspace(-1, 1, 6).reshape(3, 2)
    captured = capture_module(Calls(call), (x,), dynamic_shapes=spec)
    for n in (2, 3, 7):
        x = torch.linspace(-1, 2, 2 * n).reshape(n, 2)
        (found,) = interpret_lowered(captured, (x,))
        np.testing.assert_allclose(found, call(x).detach(), 1e-4, 1e-5)


def test_arithmetic_is_torchs() -> None:
    def calls() -> list[torch.Tensor]:
        none, x = torch._efficientzerotensor((3, 1)), torch.arange(2.0)
        more = torch._efficientzerotensor((2,), dtype=torch.float64)
        sums = [none + x, torch.sub(none, x, alpha=2), x - none, none + more, x + more]
        sums += [none * x, x * more, none * none, none / (x + 1), x / none, none / none]
        return [torch.ones(()) + s for s in (*sums, none.view(-1), none.view(1, 3))]

    wanted = calls()
    with open_zeros():
        found = calls()
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype
        assert torch.equal(x.nan_to_num(7.0), y.nan_to_num(7.0))
