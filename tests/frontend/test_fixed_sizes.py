"""The line that makes a constant of a size is named, with what to write there."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch.export import Dim

from aot.errors import DynamicShapeError
from aot.frontend.capture import capture_module
from aot.frontend.fixed_sizes import fixed_size_error
from tests.calls import Calls


def in_turns(x: torch.Tensor) -> torch.Tensor:
    total = x.new_zeros(3)
    for k in range(x.shape[0]):
        total = torch.tanh(total + x[k])
    return total


def row_by_row(x: torch.Tensor) -> torch.Tensor:
    rows = []
    for row in x:
        rows.append(row.softmax(-1))
    return torch.stack(rows)


def rising(x: torch.Tensor) -> torch.Tensor:
    slope: Any = torch.func.grad(lambda v: v.cumprod(0).sin().sum())
    made: torch.Tensor = slope(x)
    return made


def in_eights(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return y.view(6, 3)


def by_count(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return y.reshape(y.shape.numel())


@pytest.mark.parametrize(
    ("function", "text", "line", "advice"),
    [
        (in_turns, "range(x.shape[0])", 2, "A loop of Python's turns"),
        (row_by_row, "for row in x:", 2, "A loop of Python's turns"),
        (rising, "slope(x)", 2, "A rule of torch's for derivatives"),
        (by_count, "y.shape.numel()", 2, r"write x\.numel\(\) for x\.shape\.numel\(\)"),
        (in_eights, "y.view(6, 3)", 2, r"x\.view\(x\.shape\[0\], -1\)"),
    ],
)
def test_the_line_is_named(function: Any, text: str, line: int, advice: str) -> None:
    spec = {"args": ({0: Dim("rows", min=2, max=100)},)}
    with pytest.raises(DynamicShapeError, match=advice) as raised:
        capture_module(Calls(function), (torch.randn(6, 3),), dynamic_shapes=spec)
    message = (
        f"the model makes a constant (6) of the size rows, which shall be dynamic, at `{text}`"
    )
    assert raised.value.message == message
    first = inspect.getsourcelines(function)[1]
    assert raised.value.where == f"{__file__}:{first + line}"


def test_other_errors_say_nothing_of_sizes() -> None:
    assert fixed_size_error(RuntimeError("no such thing"), ()) is None
    marked = "You marked n as dynamic but your code specialized it to be a constant (6)"
    assert fixed_size_error(RuntimeError(marked), ()) is None
