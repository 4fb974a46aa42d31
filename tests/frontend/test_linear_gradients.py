"""Gradients along axes are torch's own, at sizes that a run knows too."""

from __future__ import annotations

from collections.abc import Callable
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


@pytest.mark.parametrize("how", POOLS, ids=str)
def test_means_of_windows(how: dict[str, Any]) -> None:
    assert beside_torch(lambda x: F.avg_pool2d(x, **how), X)
    assert beside_torch(lambda x: F.avg_pool2d(x, **how), X[0])
    assert beside_torch(lambda x: F.avg_pool3d(x, **how), VOLUME)


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
