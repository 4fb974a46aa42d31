"""Differences between neighbours of tensors whose sizes are open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

CALLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "every dimension": torch.gradient,
    "of second order": lambda x: torch.gradient(x, dim=(-2, -1), edge_order=2),
    "one, wide": lambda x: torch.gradient(x, spacing=2.5, dim=1),
    "a distance each": lambda x: torch.gradient(x, spacing=[0.5, 3], dim=[0, 2]),
    "of whole numbers": lambda x: torch.gradient((x * 9).to(torch.int64), dim=0),
}


@pytest.mark.parametrize("name", CALLS)
def test_differences_of_any_sizes(name: str) -> None:
    call = CALLS[name]
    sizes = {0: Dim("n", min=3, max=9), 1: Dim("rows", min=3, max=9)}
    captured = capture_module(
        Calls(call), (torch.rand(4, 5, 6),), dynamic_shapes={"args": (sizes,)}
    )
    for shape in ((4, 5, 6), (3, 9, 6)):
        x = torch.randn(shape)
        for ours, theirs in zip(interpret_lowered(captured, (x,)), call(x), strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5, atol=1e-6)


def test_coordinates_are_torch_s_own() -> None:
    at = torch.tensor([0.0, 1.0, 4.0, 5.0])
    captured = capture_module(
        Calls(lambda x: torch.gradient(x, spacing=(at,), dim=0)), (torch.rand(4, 5),)
    )
    x = torch.randn(4, 5)
    (found,) = interpret_lowered(captured, (x,))
    np.testing.assert_allclose(found, torch.gradient(x, spacing=(at,), dim=0)[0], rtol=1e-5)
