"""Kernels that reduce one tile along both axes: values through Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from aot.backends.triton.crossed import is_crossed
from aot.ir.kernels import NestKernel
from tests.backends.triton.templates import captured, check_close, kernels_of, tensors

LARGE = (2048, 1024)
"""Of float32: enough bytes for a second read to matter."""


def sums(x):
    return x.sum(0), x.sum(1)


def with_what_follows(x):
    """Columns of what rows are divided by, and a producer of both."""
    y = x.exp()
    return (y * 2).sum(0), y.sum(1).log()


@pytest.mark.slow
@pytest.mark.parametrize("function", [sums, with_what_follows])
def test_values(function):
    args = tensors(LARGE)
    model = captured(function, args)
    kernels = kernels_of(model).kernels
    crossed = [k for k in kernels if isinstance(k, NestKernel) and is_crossed(k)]
    assert len(crossed) == 1
    check_close(model, function, args)


def test_kernels_along_one_axis_are_none():
    kernels = kernels_of(captured(lambda x: torch.softmax(x, 1), tensors((64, 1024)))).kernels
    assert not any(isinstance(k, NestKernel) and is_crossed(k) for k in kernels)
