"""Parts of a tensor that are written to keep the tensor's open sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.testing import assert_close

from aot.errors import DynamicShapeError
from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

SHAPES: Any = {"args": ({0: Dim("b"), 2: Dim("h")},)}


def unbound(x: torch.Tensor) -> torch.Tensor:
    red, green, blue = (x * 2).unbind(1)
    return green.add_(red).mul_(blue.sub_(1.0))


def unbound_and_whole(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.transpose(0, 1) * 3
    first = y.unbind()[0]
    first.mul_(x[:, 2])
    return first, y


def windows(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).unfold(2, 2, 2).mul_(3.0)


@pytest.mark.parametrize("function", [unbound, unbound_and_whole])
def test_parts_that_are_written_to(function: Callable[[torch.Tensor], Any]) -> None:
    captured = capture_module(Calls(function), (torch.rand(2, 3, 8),), dynamic_shapes=SHAPES)
    for b, h in ((2, 8), (5, 3), (1, 1)):
        x = torch.rand(b, 3, h)
        wanted = function(x)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for ours, own in zip(interpret_lowered(captured, (x,)), wanted, strict=True):
            assert_close(torch.from_numpy(ours), own)


def test_windows_that_are_written_to_are_told() -> None:
    with pytest.raises(DynamicShapeError, match=r"constants of the sizes .*shape\[0\]") as caught:
        capture_module(Calls(windows), (torch.rand(2, 3, 8),), dynamic_shapes=SHAPES)
    assert "write w = w * 2 in place of" in caught.value.advice
    assert ".py:" in caught.value.where
    assert capture_module(Calls(windows), (torch.rand(2, 3, 8),))
    free: Any = {"args": ({0: Dim.AUTO, 2: Dim.AUTO},)}
    assert capture_module(Calls(windows), (torch.rand(2, 3, 8),), dynamic_shapes=free)
