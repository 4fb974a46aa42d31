"""Buffers inside of kernels: what a unit reads of them at other places than it is at."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from aot.backends.registry import backend_for
from aot.driver import choose_programs, schedule
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.options import parse_target
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


def taps(x: torch.Tensor) -> torch.Tensor:
    """A long kernel whose rows have tails."""
    height, width = x.shape[0] - 6, x.shape[1] - 6
    near = [x[i : i + height, j : j + width] for i in range(7) for j in range(7)]
    return torch.stack([sum(n * k for k, n in enumerate(near)), sum(near)], -1)


def taps_to_the_edge(x: torch.Tensor) -> torch.Tensor:
    """The same, under masks."""
    return taps(torch.nn.functional.pad(x, (3, 3, 3, 3)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("function", [taps, taps_to_the_edge])
@pytest.mark.parametrize("columns", [7, 9, 22, 39])
def test_tails_of_a_long_kernel_are_what_others_are(
    columns: int, function: Function, dtype: torch.dtype
) -> None:
    torch.manual_seed(seeded())
    x = torch.randn(9, columns, dtype=dtype)
    (found,) = EXECUTORS[f"cpu:{SETTINGS.level}"](capture_module(Calls(function), (x,)), (x,))
    np.testing.assert_allclose(found, function(x).numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("function", "calls"), [(taps, True), (torch.exp, False)])
def test_tails_of_long_kernels_call_what_moves_some_lanes(function: Function, calls: bool) -> None:
    """In line it was most of what compilers did for them: at x86-64-v2 two thirds and more."""
    graph, _ = ingest(capture_module(Calls(function), (torch.randn(9, 39),)))
    (program,) = choose_programs([parse_target("cpu")], backend_for)
    backend, target = program.backend, program.target
    kernels = backend.prepare(schedule(graph, program.machine), target)
    texts = [f.text + f.unnamed for f in backend.emit(kernels, target).functions]
    assert any("aot::apart::" in text for text in texts) == calls
