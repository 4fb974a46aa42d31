"""Addresses of convolutions whose tiles hold a single position or a single channel."""

from __future__ import annotations

import pytest
import torch

from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import interpret_triton

DOUBLE, SINGLE = torch.complex128, torch.complex64


@pytest.mark.parametrize(
    ("dtype", "x", "weight"),
    [
        (DOUBLE, (1, 1, 1, 1), (1, 1, 1, 1)),
        (DOUBLE, (1, 1, 4, 4), (1, 1, 1, 1)),
        (DOUBLE, (1, 1, 1, 1), (3, 1, 1, 1)),
        (SINGLE, (1, 1, 1, 1), (3, 1, 1, 1)),
        (SINGLE, (1, 5, 1, 1), (1, 5, 1, 1)),
    ],
)
def test_single_positions_and_channels_are_tiles(
    dtype: torch.dtype, x: tuple[int, ...], weight: tuple[int, ...]
) -> None:
    generator = torch.Generator().manual_seed(0)
    args = [torch.randn(shape, generator=generator, dtype=dtype) for shape in (x, weight)]
    captured = capture_module(Calls(torch.conv2d), tuple(args))
    (found,) = interpret_triton(captured, tuple(args))
    torch.testing.assert_close(torch.from_numpy(found), torch.conv2d(*args))
