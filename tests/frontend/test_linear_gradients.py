"""Gradients along axes are torch's own, at sizes that a run knows too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.export import Dim
from torch.nn import functional as F

from aot.frontend.capture import capture_module
from aot.frontend.linear_gradients import LINEAR
from tests.calls import Calls
from tests.conformance.executors import interpret_fused
from tests.frontend.gradients_beside import beside_torch

X = torch.linspace(-2, 2, 2 * 3 * 7 * 9, dtype=torch.float64).sin().reshape(2, 3, 7, 9)
VOLUME = X.reshape(2, 3, 7, 3, 3)
LINE = X.flatten(2)[..., :11]

POOLS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True},
    {"kernel_size": 3, "stride": 1, "divisor_override": 5},
]
SCALES: list[dict[str, Any]] = [
    {"scale_factor": 2.0},
    {"scale_factor": 1.7},
    {"scale_factor": 0.6},
    {"scale_factor": 0.6, "recompute_scale_factor": True},
    {"size": 1},
]


@pytest.mark.parametrize("how", POOLS, ids=str)
def test_means_of_windows(how: dict[str, Any]) -> None:
    assert beside_torch(lambda x: F.avg_pool2d(x, **how), X)
    assert beside_torch(lambda x: F.avg_pool2d(x, **how), X[0])
    assert beside_torch(lambda x: F.avg_pool3d(x, **how), VOLUME)


@pytest.mark.parametrize("shares", [1, 2, 5])
def test_means_of_shares(shares: int) -> None:
    assert beside_torch(lambda x: F.adaptive_avg_pool2d(x, (shares + 1, shares)), X)
    assert beside_torch(lambda x: F.adaptive_avg_pool3d(x, (shares + 1, shares, 2)), VOLUME)


@pytest.mark.parametrize("how", SCALES, ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_smoothed_resizing(mode: str, how: dict[str, Any]) -> None:
    def smoothed(x: Tensor, corners: bool) -> Tensor:
        return F.interpolate(x, mode=mode, align_corners=corners, antialias=True, **how)

    assert beside_torch(partial(smoothed, corners=False), X)
    assert beside_torch(partial(smoothed, corners=True), X)


def test_repeated_edges() -> None:
    def pad(x: Tensor, *sizes: int) -> Tensor:
        return F.pad(x, sizes, mode="replicate")

    assert beside_torch(lambda x: pad(x, 2, 3), LINE)
    assert beside_torch(lambda x: pad(x, 2, -1, 1, 4), X)
    assert beside_torch(lambda x: pad(x, 2, 3, 1, 4, 0, 2), VOLUME)


def test_each_is_a_gradient() -> None:
    assert all("backward" in str(operator) for operator in LINEAR)


OPEN: dict[str, Callable[[Tensor], Tensor]] = {
    "windows": lambda x: F.avg_pool2d(x, 3, 2, 1, True, False),
    "shares": lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
    "smoothed": lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True),
    "edges": lambda x: F.pad(x, (1, 2, 3, 0), mode="replicate"),
}


@pytest.mark.parametrize(
    ("kind", "dtype"), [*((k, torch.float32) for k in OPEN), ("windows", torch.bfloat16)]
)
def test_at_sizes_of_a_run(kind: str, dtype: torch.dtype) -> None:
    gradient = torch.func.grad(lambda x: OPEN[kind](x).sin().sum())
    given = X.to(dtype)
    sizes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC},)
    captured = capture_module(Calls(gradient), (given,), dynamic_shapes=(sizes,))
    bound = 2e-5 if dtype == torch.float32 else 0.05
    for x in (given, given[:1, :, :5, :6].contiguous()):
        (found,) = interpret_fused(captured, (x,))
        exact = gradient(x.double()).numpy()
        np.testing.assert_allclose(found.astype(np.float64), exact, bound, bound)
