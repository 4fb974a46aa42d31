"""torch.vmap over operators of images, of a batch of open size, gives what eager gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.export import Dim
from torch.func import vmap
from torch.nn import functional as F

from aot.frontend.batches import open_batches
from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

WEIGHT = torch.linspace(-1, 1, 36).reshape(2, 2, 3, 3)
BIAS = torch.tensor([0.5, -0.25])
GRID = torch.linspace(-1, 1, 18).reshape(3, 3, 2)

CASES: dict[str, Callable[[Tensor], Any]] = {
    "a convolution": lambda x: F.conv2d(x, WEIGHT, BIAS, padding=1),
    "of several images": lambda x: F.conv2d(torch.stack([x, -x]), WEIGHT, BIAS, stride=2),
    "a transposed one": lambda x: F.conv_transpose2d(x, WEIGHT, BIAS, stride=2),
    "bilinear": lambda x: F.interpolate(x[None], scale_factor=2, mode="bilinear"),
    "nearest": lambda x: F.interpolate(x[None], size=(3, 7)),
    "smoothed": lambda x: F.interpolate(x[None], size=(3, 3), mode="bilinear", antialias=True),
    "means": lambda x: F.avg_pool2d(x, 2),
    "means of parts": lambda x: F.adaptive_avg_pool2d(x, 2),
    "greatest of parts": lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True),
    "mirrored": lambda x: F.pad(x, (1, 1, 2, 2), mode="reflect"),
    "repeated edges": lambda x: F.pad(x[None], (1, 1, 2, 2), mode="replicate"),
    "a grid": lambda x: F.grid_sample(x[None], GRID[None], align_corners=False),
    "windows and back": lambda x: F.fold(F.unfold(x[None], 3), (6, 6), 3),
    "groups": lambda x: F.group_norm(x[None], 2, BIAS, BIAS),
    "groups with weights of their own": lambda x: F.group_norm(x[None], 1, x[0, 0, :2]),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_batches_of_open_size(name: str) -> None:
    def call(x: Tensor) -> Any:
        return vmap(CASES[name])(x)

    def given(n: int) -> Tensor:
        return torch.randn(n, 2, 6, 6, generator=torch.Generator().manual_seed(n))

    shapes = (({0: Dim("n", min=2, max=9)},),)
    captured = capture_module(Calls(call), (given(4),), dynamic_shapes=shapes)
    for n in (2, 7):
        found = interpret_lowered(captured, (given(n),))
        wanted = call(given(n))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for ours, eager in zip(found, wanted, strict=True):
            assert np.allclose(ours, eager.numpy(), rtol=1e-4, atol=1e-5)


OF_ITS_OWN: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: F.conv2d(x, x[:, :3, :3].expand(2, 2, 3, 3), x[0, 0, :2]),
    lambda x: F.conv2d(WEIGHT, x[:, :2, :2].expand(2, 2, 2, 2)),
    lambda x: F.conv2d(x, x[:, None, 0, :2, None], groups=2),
)


@pytest.mark.parametrize("function", OF_ITS_OWN)
def test_weights_of_its_own_in_a_batch_of_known_size(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(3, 2, 6, 6)
    with open_batches():
        found = vmap(function)(x)
    assert torch.allclose(found, torch.stack([function(y) for y in x]), atol=1e-5)
