"""Windows of signals that a model makes are eager's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.testing import assert_close

from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered


@pytest.mark.parametrize(
    "window",
    [
        torch.hamming_window,
        lambda n: torch.hamming_window(n, False, 0.5, 0.4),
        torch.blackman_window,
        lambda n: torch.blackman_window(n, periodic=False, dtype=torch.float64),
        torch.bartlett_window,
        torch.kaiser_window,
        lambda n: torch.kaiser_window(n, False, 5.0),
    ],
)
def test_windows(window: Callable[[int], torch.Tensor]) -> None:
    model = Calls(lambda x: [x * window(n) for n in (1, 2, 9)])
    x = torch.ones(1)
    found_all = interpret_lowered(capture_module(model, (x,)), (x,))
    for found, wanted in zip(found_all, model(x), strict=True):
        assert_close(torch.from_numpy(found), wanted, rtol=1e-6, atol=1e-6)
