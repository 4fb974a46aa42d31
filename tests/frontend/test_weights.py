"""Weights as arrays, and what is said of types that packages cannot hold."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from aot.errors import ExportError
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.frontend.weights import to_array


def test_float8_becomes_an_array_of_its_bits() -> None:
    array = to_array(torch.tensor([1.0, -2.0]).to(torch.float8_e5m2))
    assert array.dtype == ml_dtypes.float8_e5m2
    np.testing.assert_array_equal(array.view(np.uint8), [0x3C, 0xC0])


def test_a_type_without_kernels_is_refused_with_what_to_do() -> None:
    class Held(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = torch.nn.Buffer(torch.zeros(2, dtype=torch.int16).view(torch.bits16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.kept.view(torch.int16)

    captured = capture_module(Held(), (torch.ones(2),))
    with pytest.raises(ExportError, match="bits16") as caught:
        ingest(captured)
    assert "View it as uint8" in caught.value.advice
