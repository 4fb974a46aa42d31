"""Gradients that torch computes in one piece are made of operators that we lower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from aot.frontend.capture import capture_module
from aot.frontend.gradients import GRADIENTS
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

X = torch.linspace(-2, 2, 2 * 4 * 9 * 7).sin().reshape(2, 4, 9, 7)
PLAIN = torch.linspace(-1, 1, 6 * 2 * 3 * 3).cos().reshape(6, 2, 3, 3)
TRANSPOSED = torch.linspace(-1, 1, 4 * 3 * 3 * 3).cos().reshape(4, 3, 3, 3)

HOW: Any = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}


def plain(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x, weight, bias, **HOW).sin().sum()


def transposed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.conv_transpose2d(x, weight, bias, output_padding=(1, 0), **HOW).sin().sum()


@pytest.mark.parametrize(("loss", "weight"), [(plain, PLAIN), (transposed, TRANSPOSED)])
def test_gradients_of_convolutions(loss: Callable[..., torch.Tensor], weight: torch.Tensor) -> None:
    all_three = torch.func.grad(loss, argnums=(0, 1, 2))
    given = X, weight, torch.linspace(0, 1, 6)
    found = interpret_lowered(capture_module(Calls(all_three), given), given)
    for ours, eager in zip(found, all_three(*given), strict=True):
        np.testing.assert_allclose(ours, eager, 2e-5, 2e-5)


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: F.max_pool2d(x, 3, 2).square().sum(),
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True).square().sum(),
        lambda x: F.mish(x).square().sum(),
    ],
    ids=["pool", "attention", "mish"],
)
def test_gradients_of_other_operators(loss: Callable[[torch.Tensor], torch.Tensor]) -> None:
    gradient = torch.func.grad(loss)
    (found,) = interpret_lowered(capture_module(Calls(gradient), (X,)), (X,))
    np.testing.assert_allclose(found, gradient(X), 2e-5, 2e-5)


def test_each_is_a_gradient() -> None:
    assert all("backward" in str(operator) for operator in GRADIENTS)
