"""Operators that we take apart ourselves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered


@pytest.mark.parametrize("size", [0.01, 1.0, 50.0, 3000.0])
def test_exponentials_of_matrices_of_any_norm(size: float) -> None:
    turn = torch.tensor([[0.0, -size], [size, 0.0]], dtype=torch.float64)
    (found,) = interpret_lowered(capture_module(Calls(torch.matrix_exp), (turn,)), (turn,))
    c, s = math.cos(size), math.sin(size)
    np.testing.assert_allclose(found, [[c, -s], [s, c]], atol=1e-15 * max(size, 1.0) * 20)


def test_the_exponential_of_what_is_too_large_is_nan() -> None:
    wrong = torch.tensor([[[math.inf, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]])
    (found,) = interpret_lowered(capture_module(Calls(torch.matrix_exp), (wrong,)), (wrong,))
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1], [[1, 0], [0, math.e]], rtol=1e-6)


@pytest.mark.skipif(
    not hasattr(torch.nn, "LinearCrossEntropyOptions"), reason="this torch has no chunked losses"
)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_chunked_losses_are_those_of_the_whole(reduction: str) -> None:
    x, w, b = torch.randn(7, 5), torch.randn(9, 5), torch.randn(9)
    target = torch.tensor([0, 8, 3, -100, 2, 1, 1])
    function: Any = getattr(torch.nn.functional, "linear_cross_entropy", None)
    options: Any = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=3)

    def loss(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
        return function(x, w, target, linear_bias=b, reduction=reduction, options=options)

    captured = capture_module(Calls(loss), (x, w, b))
    assert not any("torch_nn" in str(node.target) for node in captured.program.graph.nodes)
    (found,) = interpret_lowered(captured, (x, w, b))
    np.testing.assert_allclose(found, loss(x, w, b), rtol=1e-5)


@pytest.mark.parametrize("size", [(3, 2), (6,), (2, 2), (4, 3)])
def test_resized_tensors_keep_the_elements_that_they_had(size: tuple[int, ...]) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    other = torch.ones(size)
    captured = capture_module(Calls(lambda x, o: (x + 1).resize_as_(o)), (x, other))
    (found,) = interpret_lowered(captured, (x, other))
    assert found.shape == size
    kept = min(6, other.numel())
    np.testing.assert_array_equal(found.reshape(-1)[:kept], np.arange(1, 7)[:kept])


@pytest.mark.parametrize("shape", [(70_000, 3), (2, 3, 200, 200)])
def test_losses_of_halves_have_the_range_of_their_sums(shape: tuple[int, ...]) -> None:
    x = torch.full(shape, 0.0, dtype=torch.float16)
    target = torch.zeros((shape[0], *shape[2:]), dtype=torch.int64)
    captured = capture_module(Calls(torch.nn.functional.cross_entropy), (x, target))
    (loss,) = interpret_lowered(captured, (x, target))
    assert loss == np.float16(math.log(3))
