"""Numbers that a model takes from tensors with `int` and `float` are numbers of the run."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import aot_runtime
import pytest
import torch
from torch.export import Dim
from torch.testing import assert_close

import aot
from aot.errors import ExportError
from aot.frontend.capture import capture_module
from aot.frontend.run_numbers import asks_for_number, open_numbers
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered
from tests.settings import level


def mask_of(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    longest = int(lengths.max())
    return torch.arange(longest) < lengths.unsqueeze(1)


def scaled(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return x * float(lengths.sum().item()) + int(x.max())


@pytest.mark.parametrize("function", [mask_of, scaled])
def test_models_that_make_numbers_of_values(function: Any, tmp_path: Path) -> None:
    x = torch.tensor([1.5, 7.25, -3.0])
    path, target = tmp_path / "m.pkg", f"cpu:{level()}"
    args = (x, torch.tensor([3, 1, 4]))
    aot.package(Calls(function), args, path=path, targets=[target], golden=False)
    assert "int" not in vars(sys.modules[__name__])
    packaged = aot_runtime.load(path)
    for lengths in ([3, 1, 4], [1, 1, 1], [9, 2, 0]):
        given = torch.tensor(lengths)
        assert_close(packaged(-x, given), function(-x, given))


def test_open_names_are_pythons_own_for_all_else() -> None:
    names: dict[str, Any] = {}
    with open_numbers([names]):
        assert eval("int('12', 8), int(2.9), float('2.5')", names) == (10, 2, 2.5)
        assert eval("isinstance(3, int), issubclass(bool, int)", names) == (True, True)
        assert eval("type(int(5)), type(float(2))", names) == (int, float)
        assert eval("len('abc'), len([1])", names) == (3, 1)
    assert "int" not in names
    assert "float" not in names


def test_other_failures_ask_for_no_number() -> None:
    assert asks_for_number(RuntimeError("Could not extract specialized integer")) is None
    assert asks_for_number(ValueError("no such thing")) is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * float(x.shape[0] * 0.5),
        lambda x: x * int(x.shape[0] // 3),
        lambda x: x[: int(0.8 * x.shape[0])],
        lambda x: x.sum(0) / len(x) + torch.arange(len(x)).sum(),
    ],
)
def test_numbers_of_sizes_follow_the_sizes(function: Any) -> None:
    spec = {"args": ({0: Dim("n", min=4, max=100)},)}
    captured = capture_module(Calls(function), (torch.randn(37, 3),), dynamic_shapes=spec)
    for n in (4, 38, 100):
        x = torch.randn(n, 3)
        (found,) = interpret_lowered(captured, (x,))
        assert_close(torch.from_numpy(found), function(x))


def test_numbers_that_must_be_constants_are_refused() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * math.lgamma(x.shape[0] * 0.5)

    spec = {"args": ({0: Dim("n", min=4, max=100)},)}
    with pytest.raises(ExportError, match="a number as a constant that sizes determine"):
        capture_module(Calls(function), (torch.randn(37, 3),), dynamic_shapes=spec)
