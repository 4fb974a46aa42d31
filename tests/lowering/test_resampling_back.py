"""Gradients of smoothed resizing and of means of shares are torch's, and sums of few elements."""

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
from aot.frontend.ingest import ingest
from aot.ir.templates.resample import Resample
from aot.lowering.lower import lower
from tests.calls import Calls
from tests.conformance.executors import interpret_fused

Function = Callable[[Tensor], Tensor]

X = torch.linspace(-2, 2, 2 * 3 * 7 * 9, dtype=torch.float64).sin().reshape(2, 3, 7, 9)
OTHERS = tuple(
    torch.linspace(-1, 3, n * h * w, dtype=torch.float64).sin().reshape(n, 1, h, w)
    for n, h, w in ((1, 5, 30), (2, 1, 2))
)
OPEN = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC},)


def _gradient(function: Function) -> Function:
    found: Function = torch.func.grad(lambda x: function(x).sin().sum())
    return found


def _check(function: Function, open_too: bool = True) -> None:
    """The gradient at the example's sizes, and one of open sizes at those and others."""
    gradient = _gradient(function)
    for dims in (None, OPEN) if open_too else (None,):
        captured = capture_module(Calls(gradient), (X,), dynamic_shapes=dims)
        for x in (X, *(OTHERS if dims else ())):
            (found,) = interpret_fused(captured, (x,))
            np.testing.assert_allclose(found, gradient(x).numpy(), 1e-10, 1e-11)


def _resized(x: Tensor, mode: str, corners: bool, **how: Any) -> Tensor:
    return F.interpolate(x, mode=mode, align_corners=corners, antialias=True, **how)


@pytest.mark.parametrize(
    ("mode", "corners", "size"),
    [
        ("bilinear", False, (3, 4)),
        ("bilinear", True, (1, 13)),
        ("bicubic", False, (20, 2)),
        ("bicubic", True, (3, 9)),
    ],
)
def test_smoothed_resizing_to_a_size(mode: str, corners: bool, size: tuple[int, int]) -> None:
    _check(partial(_resized, mode=mode, corners=corners, size=size))


@pytest.mark.parametrize(("mode", "scale"), [("bilinear", 1.7), ("bicubic", 0.31)])
def test_smoothed_resizing_by_a_scale(mode: str, scale: float) -> None:
    _check(partial(_resized, mode=mode, corners=False, scale_factor=scale), open_too=False)


@pytest.mark.parametrize("shares", [(2, 3), (12, 9)], ids=str)
def test_means_of_shares(shares: tuple[int, int]) -> None:
    _check(lambda x: F.adaptive_avg_pool2d(x, shares))


def test_means_of_shares_of_volumes() -> None:
    _check(lambda x: F.adaptive_avg_pool3d(x[:, None], (2, x.shape[2] // 2 + 1, 4)))


@pytest.mark.parametrize(
    ("how", "most"),
    [
        (lambda x: F.adaptive_avg_pool2d(x, (9, 11)), 2),
        (partial(_resized, mode="bilinear", corners=False, size=(9, 11)), 4),
        (partial(_resized, mode="bicubic", corners=False, size=(9, 11)), 6),
    ],
)
def test_an_element_reads_few_results(how: Function, most: int) -> None:
    """However long lines are: what was a product by a dense matrix, at a cost of their square."""
    for size in (64, 256):
        x = torch.zeros(1, 1, size, size)
        graph, _ = ingest(capture_module(Calls(_gradient(how)), (x,)))
        back = [op for op in lower(graph).ops if isinstance(op, Resample)][-2:]
        assert [int(op.taps) <= most for op in back] == [True, True]
        assert [int(op.output.axes[op.axis].extent) for op in back] == [size, size]
