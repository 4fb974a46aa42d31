"""Gradients of distances, samples and greatest elements are torch's own, at open sizes too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.export import Dim
from torch.nn import functional as F

from aot.frontend.capture import capture_module
from aot.frontend.point_gradients import AT_POINTS
from tests.calls import Calls
from tests.conformance.executors import interpret_fused
from tests.frontend.gradients_beside import beside_torch

X = torch.linspace(-2, 2, 2 * 3 * 7 * 9, dtype=torch.float64).sin().reshape(2, 3, 7, 9)
VOLUME = X.reshape(2, 3, 7, 3, 3)
GRID = torch.linspace(-9, 9, 2 * 4 * 3 * 3, dtype=torch.float64).cos() * 1.7
ORDERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf)


@pytest.mark.parametrize("order", ORDERS)
def test_distances(order: float) -> None:
    rows, others = X[:, 0, :5, :3], X[:, 1, :4, :3].clone()
    others[:, 0] = rows[:, 1]  # a distance of 0
    others[:, 1, 0] = rows[:, 0, 0]  # and an element of one

    def distances(a: Tensor, b: Tensor) -> Tensor:
        return torch.cdist(a, b, order, "donot_use_mm_for_euclid_dist")

    assert beside_torch(distances, rows, others)
    assert beside_torch(distances, rows[0], others)
    assert beside_torch(lambda x: F.pdist(x, order), rows[0])
    assert beside_torch(lambda x: F.pdist(x, order), rows[0, :1])


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_samples(mode: str, padding: str, corners: bool) -> None:
    def sample(x: Tensor, grid: Tensor) -> Tensor:
        return F.grid_sample(x, grid, mode, padding, corners)

    assert beside_torch(sample, X, GRID[:48].reshape(2, 4, 3, 2))
    assert beside_torch(sample, X[:, :, :1], GRID[:48].reshape(2, 4, 3, 2))
    assert beside_torch(sample, VOLUME, GRID.reshape(2, 4, 3, 1, 3))


def test_greatest_elements() -> None:
    assert beside_torch(lambda x: F.max_pool3d(x, 2, 1), VOLUME)
    assert beside_torch(lambda x: F.adaptive_max_pool2d(x, (3, 2)), X)
    assert beside_torch(lambda x: F.adaptive_max_pool3d(x, (3, 2, 1)), VOLUME)


def test_what_is_put_where_a_mask_is_true() -> None:
    mask = X[0, 0] > 0
    assert beside_torch(lambda x, source: x.masked_scatter(mask, source), X[0, 0], X[0, 1])
    assert beside_torch(lambda x, source: x.masked_scatter(mask[:1], source), X[0, 0], X[0])


def test_each_is_a_gradient() -> None:
    assert all("backward" in str(operator) for operator in AT_POINTS)


OPEN: dict[str, Callable[[Tensor], Tensor]] = {
    "distances": lambda x: torch.cdist(x[:, 0], x[:, 1]),
    "own": lambda x: F.pdist(x[0, 0]),
    "samples": lambda x: F.grid_sample(x, 1.2 * x[:, :2].movedim(1, -1), align_corners=False),
    "greatest": lambda x: F.adaptive_max_pool2d(x, 2),
    "masked": lambda x: x.masked_scatter(x.detach() > 0, x * 2),
}


@pytest.mark.parametrize("kind", OPEN)
def test_at_sizes_of_a_run(kind: str) -> None:
    def loss(x: Tensor) -> Tensor:
        return OPEN[kind](x).sin().sum()

    gradient: Any = torch.func.grad(loss)
    given = X.float()
    sizes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC},)
    captured = capture_module(Calls(gradient), (given,), dynamic_shapes=(sizes,))
    for x in (given, given[:1, :, :5, :6].contiguous()):
        (found,) = interpret_fused(captured, (x,))
        np.testing.assert_allclose(found, gradient(x.double()), 5e-5, 5e-5)
