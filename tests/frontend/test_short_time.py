"""Signals back from their spectra, of open lengths, as torch gives them of known ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import Assertion
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

WINDOW = torch.hann_window(8)
GIVEN: dict[str, dict[str, Any]] = {
    "as it is written most": {"window": WINDOW},
    "no window": {},
    "a narrow window": {"window": torch.hamming_window(6), "win_length": 6},
    "normalized": {"window": WINDOW, "normalized": True},
    "not centred": {"window": torch.hamming_window(8), "center": False},
}


def _back(x: torch.Tensor, given: dict[str, Any], more: int = 0) -> torch.Tensor:
    y = torch.stft(x, 8, 2, return_complex=True, **given)
    return torch.istft(y, 8, 2, length=x.shape[-1] + more, **given)


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("more", [0, -3])
@pytest.mark.filterwarnings("ignore:The length of signal:UserWarning")
@pytest.mark.filterwarnings("ignore:stft with return_complex:UserWarning")
@pytest.mark.filterwarnings("ignore:A window was not provided:UserWarning")
def test_as_long_as_what_was_transformed(name: str, more: int) -> None:
    def back(x: torch.Tensor) -> torch.Tensor:
        return _back(x, GIVEN[name], more)

    spec = {"args": ({1: Dim("n", min=8, max=64)},)}
    captured = capture_module(
        Calls(back), (torch.arange(40.0).reshape(2, 20),), dynamic_shapes=spec
    )
    for n in (8, 9, 20, 33):
        x = torch.arange(2.0 * n).reshape(2, n).sin()
        (found,) = interpret_lowered(captured, (x,))
        np.testing.assert_allclose(found, back(x), 1e-5, 1e-5)


@pytest.mark.filterwarnings("ignore:The length of signal:UserWarning")
def test_zeros_behind_what_is_known() -> None:
    def back(x: torch.Tensor) -> torch.Tensor:
        return _back(x, GIVEN["as it is written most"], 9)

    spec = {"args": ({0: Dim("n", min=8, max=64)},)}
    captured = capture_module(Calls(back), (torch.arange(20.0),), dynamic_shapes=spec)
    for n in (9, 20):
        x = torch.arange(float(n))
        (found,) = interpret_lowered(captured, (x,))
        np.testing.assert_allclose(found, back(x), 1e-5, 1e-4)


def test_windows_of_which_none_reaches_an_element_are_found_when_it_runs() -> None:
    def back(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        length: Any = x.shape[0]
        return torch.istft(y, 8, 2, window=WINDOW, length=length, center=False)

    spec = {"args": (None, {0: Dim("n", min=8, max=16)})}
    example = torch.ones(5, 6, dtype=torch.complex64), torch.ones(12)
    captured = capture_module(Calls(back), example, dynamic_shapes=spec)
    messages = [op.message for op in ingest(captured)[0].ops if isinstance(op, Assertion)]
    assert messages == ["window overlap add min: 0"]
