"""Phases of transposed convolutions: what lies within the result is stored by the kernel itself."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.backends.triton.templates import captured, check_close, emitted, tensors


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(("kernel", "stride", "stores"), [(4, 2, 1), (3, 2, 1), (6, 3, 0)])
def test_few_phases_are_stored_where_they_are_within_the_result(
    kernel: int, stride: int, stores: int, last: bool
) -> None:
    """Padding leaves places out of what phases compute; nine of them are put side by side later."""

    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(F.conv_transpose2d(x, w, b, stride=stride, padding=1))

    x, w, b = tensors((2, 16, 7, 9), (16, 24, kernel, kernel), (24,))
    order = torch.channels_last if last else torch.contiguous_format
    args = x.to(memory_format=order), w / 20, b
    model = captured(function, args)
    lines = [line for f in emitted(model).functions for line in f.text.splitlines()]
    assert sum("tl.store" in line and ">= 0)" in line for line in lines) == stores
    check_close(model, function, args)
