"""Buffers inside of kernels: what a unit reads of them at other places than it is at."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import EXECUTORS
from tests.settings import SETTINGS, seeded

Function = Callable[[torch.Tensor], torch.Tensor]


def by_rows_diagonal(x: torch.Tensor) -> torch.Tensor:
    y = x.softmax(-1)  # a kernel of rows, each of which is a local buffer
    return y / y.diagonal()[:, None]


def by_columns_diagonal(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()  # strips of columns
    return y / y.diagonal()[None, :]


def by_opposite(x: torch.Tensor) -> torch.Tensor:
    y = x.softmax(-1)
    return y / y.flip(1).diagonal()[:, None] + y.flip(1)


# Strips are of 64 columns.
@pytest.mark.parametrize(
    ("function", "size"),
    [
        (by_rows_diagonal, 9),
        (by_rows_diagonal, 150),
        (by_columns_diagonal, 9),
        (by_columns_diagonal, 70),
        (by_opposite, 70),
    ],
)
def test_a_row_and_its_diagonal_are_of_one_local_buffer(function: Function, size: int) -> None:
    torch.manual_seed(seeded())
    x = torch.rand(size, size)
    run = EXECUTORS[f"cpu:{SETTINGS.level}"]
    (found,) = run(capture_module(Calls(function), (x,)), (x,))
    np.testing.assert_allclose(found, function(x).numpy(), rtol=2e-4, atol=1e-6)
