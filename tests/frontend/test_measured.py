"""Sizes that the model measures, and assertions: what the graph holds, and what a run says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch

from aot import driver
from aot.errors import UnsupportedOperators
from aot.frontend.capture import Captured, capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import Assertion, SizeRead
from aot.options import CPU_LEVELS, Target, from_environment


class _Model(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def captured(function: Any, *args: torch.Tensor) -> Captured:
    return capture_module(_Model(function), args)


def package(path: Path, function: Any, *args: torch.Tensor) -> aot_runtime.Model:
    target = Target("cpu", (CPU_LEVELS[0],))
    options = from_environment(output=path, targets=(target,), golden=False)
    driver.build(captured(function, *args), options)
    return aot_runtime.load(path)


def test_a_size_that_nothing_needs_is_not_read() -> None:
    graph, _ = ingest(captured(lambda x: (x + 1, x.nonzero().sum())[0], torch.ones(3)))
    assert not graph.dims and not any(isinstance(op, SizeRead) for op in graph.ops)


def test_a_size_is_a_dim_without_a_source() -> None:
    graph, _ = ingest(captured(lambda x: x[x > 0], torch.ones(3, 4)))
    (measured,) = graph.dims
    assert (measured.source, measured.minimum, measured.maximum) == (None, 0, 12)
    assert graph.types[graph.outputs[0]].shape[0].free_symbols


def test_an_assertion_fails_the_run_with_the_models_line(tmp_path: Path) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async(x.sum() > 0, "the sum must be positive")
        return x * 2

    graph, _ = ingest(captured(forward, torch.ones(3)))
    assert [op.message for op in graph.ops if isinstance(op, Assertion)] == [
        "the sum must be positive"
    ]
    model = package(tmp_path / "m.pkg", forward, torch.ones(3))
    ones = np.ones(3, np.float32)
    np.testing.assert_array_equal(model(ones), ones * 2)
    with pytest.raises(aot_runtime.InvalidArgument, match="the sum must be positive") as caught:
        model(-ones)
    assert "test_measured.py" in caught.value.origin
    np.testing.assert_array_equal(model(ones), ones * 2)


def test_a_size_out_of_its_range_fails_the_run(tmp_path: Path) -> None:
    def forward(n: torch.Tensor) -> torch.Tensor:
        size = n.item()
        torch._check(size >= 1)
        torch._check(size <= 5)
        return torch.arange(size)

    model = package(tmp_path / "m.pkg", forward, torch.tensor(3))
    np.testing.assert_array_equal(model(np.array(5)), np.arange(5))
    for size in (-1, 0, 6):
        with pytest.raises(aot_runtime.ShapeMismatch, match=f"is {size}, allowed 1 to 5"):
            model(np.array(size))
    np.testing.assert_array_equal(model(np.array(1)), np.arange(1))


@pytest.mark.parametrize("beyond", [5, 10**12])
def test_a_measured_position_out_of_range_fails_the_run(tmp_path: Path, beyond: int) -> None:
    def forward(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return x[at.item()] * 2

    x = torch.arange(15.0).reshape(5, 3)
    model = package(tmp_path / "m.pkg", forward, x, torch.tensor(2))
    np.testing.assert_array_equal(model(x.numpy(), np.array(4)), x.numpy()[4] * 2)
    with pytest.raises(aot_runtime.ShapeMismatch, match="position that the model computes"):
        model(x.numpy(), np.array(beyond))


def test_an_assertion_that_no_plan_can_check_is_refused() -> None:
    def forward(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        number = at.item()
        torch._check(number != 3)
        return x * number

    with pytest.raises(UnsupportedOperators, match="it asserts"):
        ingest(captured(forward, torch.ones(3), torch.tensor(2)))
