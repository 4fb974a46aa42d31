"""Convolutions of one tap as products of matrices: which are, and that they compute the same."""

from __future__ import annotations

import pytest
import torch

from aot.backends.triton import dot_tiling
from tests.backends.triton.templates import captured, check_close, emitted, tensors

LAST = torch.channels_last


def pixelwise(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.nn.functional.conv2d(x, weight))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few blocks there are, and in a language that the interpreter knows."""
    monkeypatch.setattr(dot_tiling, "PLAIN", 0)
    monkeypatch.setattr(dot_tiling, "GROUPED", ())


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("channels", [(64, 72), (40, 48)])
def test_pixels_of_all_images_are_one_matrix(channels: tuple[int, int]) -> None:
    inputs, outputs = channels
    x, weight = tensors((2, inputs, 9, 11), (outputs, inputs, 1, 1), dtype=torch.bfloat16)
    args = x.to(memory_format=LAST), weight
    model = captured(pixelwise, args)
    text = emitted(model).functions[-1].text
    assert f"shape=[198, {inputs}]" in text
    check_close(model, pixelwise, args)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("stride", [1, 2])
def test_what_skips_pixels_is_no_product(stride: int) -> None:
    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(x, weight, stride=stride)

    x, weight = tensors((2, 64, 9, 11), (72, 64, 1, 1), dtype=torch.bfloat16)
    model = captured(function, (x.to(memory_format=LAST), weight))
    found = [f.text for f in emitted(model).functions]
    assert any("make_tensor_descriptor" in text for text in found) == (stride == 1)
