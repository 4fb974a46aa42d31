"""Windows that a model makes, beside torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from aot.frontend.capture import capture_module
from aot.frontend.windows import WINDOWS
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

CALLS: dict[str, tuple[Callable[..., torch.Tensor], tuple[Any, ...]]] = {
    "bartlett": (torch.bartlett_window, ()),
    "bartlett symmetric": (torch.bartlett_window, (False,)),
    "blackman": (torch.blackman_window, ()),
    "blackman symmetric": (torch.blackman_window, (False,)),
    "hamming": (torch.hamming_window, ()),
    "hamming of two numbers": (torch.hamming_window, (False, 0.6, 0.3)),
    "hamming of one number": (torch.hamming_window, (True, 0.6)),
    "hann": (torch.hann_window, ()),
    "hann symmetric": (torch.hann_window, (False,)),
    "kaiser": (torch.kaiser_window, ()),
    "kaiser symmetric": (torch.kaiser_window, (False,)),
    "kaiser of a number": (torch.kaiser_window, (False, 5.0)),
}


def ours(function: Callable[..., torch.Tensor], *arguments: Any, **options: Any) -> np.ndarray:
    x = torch.ones(())

    def model(x: torch.Tensor) -> torch.Tensor:
        return function(*arguments, **options) * x

    (found,) = interpret_lowered(capture_module(Calls(model), (x,)), (x,))
    return found


@pytest.mark.parametrize("length", [0, 1, 2, 17, 400])
@pytest.mark.parametrize("name", CALLS)
def test_windows_are_torch_s(name: str, length: int) -> None:
    function, arguments = CALLS[name]
    exact = function(length, *arguments, dtype=torch.float64)
    np.testing.assert_allclose(
        ours(function, length, *arguments, dtype=torch.float64), exact, atol=2e-15
    )
    own = function(length, *arguments)
    error = (own.double() - exact).abs().max() if length else 0.0
    found = ours(function, length, *arguments)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, atol=max(3 * float(error), 1e-7))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_steps_of_16_bit_windows_are_exact(dtype: torch.dtype) -> None:
    exact = torch.hann_window(5000, dtype=torch.float64)
    found = torch.as_tensor(ours(torch.hann_window, 5000, dtype=dtype).astype(np.float32))
    assert float((found - exact).abs().max()) <= torch.finfo(dtype).eps


def test_every_overload_is_there() -> None:
    names = [name for name in dir(torch.ops.aten) if name.endswith("_window")]
    assert {str(operator).split(".")[1] for operator in WINDOWS} >= {
        "bartlett_window",
        "blackman_window",
        "hamming_window",
        "hann_window",
        "kaiser_window",
        *names,
    }
    assert len(WINDOWS) == 13
