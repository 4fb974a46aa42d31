"""What a model reads of a place that it has just written to is traced, whatever the place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered


def kept(x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, ...]:
    cache, place = torch.stack([x, x * x, x + 1]), at % 3
    cache[place] = 9.0
    return cache, cache[place]


def read_and_written(x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, ...]:
    cache, place = torch.stack([x, x * x, x + 1]), at % 3
    before = cache[place]
    cache[place] = before * 2
    return cache, before


@pytest.mark.parametrize("function", [kept, read_and_written])
@pytest.mark.parametrize("at", [2, 4])
def test_results_that_show_a_written_place(function: Any, at: int) -> None:
    x = torch.tensor(0.75)
    captured = capture_module(Calls(function), (x, torch.tensor(1)))
    given = (x, torch.tensor(at))
    for found, wanted in zip(interpret_lowered(captured, given), function(*given), strict=True):
        assert_close(torch.from_numpy(found), wanted)
