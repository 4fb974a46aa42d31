"""Functions that a model gives to torch's loops and branches are traced as its own code is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch.export import Dim

from aot.errors import DynamicShapeError
from aot.frontend.capture import Captured, capture_module
from aot.frontend.ingest import ingest
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "cdist": lambda x: torch.cdist(x, x).sum(0),
    "cov": lambda x: torch.cov(x.T),
    "gradient": lambda x: torch.gradient(x, dim=0)[0],
    "linspace": lambda x: torch.linspace(0, 1, x.shape[0]) + x[:, 0],
    "quantile": lambda x: x.quantile(0.3, dim=0),
    "take_along_dim": lambda x: x.take_along_dim(x.argsort(0), 0),
}
"""Of rows whose number is open; torch's own code of each looks at that number, or at values."""


def _captured(model: Callable[..., Tensor], *example: Tensor) -> Captured:
    spec = {"args": ({0: Dim.DYNAMIC}, *(None for _ in example[1:]))}
    return capture_module(Calls(model), example, dynamic_shapes=spec)


def _is_open(captured: Captured) -> bool:
    """Whether all numbers of rows are allowed."""
    (rows,) = ingest(captured)[0].dims
    return rows.maximum is None and rows.minimum == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_look_at_sizes_are_ours_in_loops(name: str) -> None:
    function = FUNCTIONS[name]

    def model(x: Tensor, scales: Tensor) -> Tensor:
        rows: Tensor = torch_map(lambda scale: function(x * scale), scales)
        return rows

    scales = torch.tensor([1.0, 2.5])
    captured = _captured(model, torch.rand(7, 3), scales)
    assert _is_open(captured)
    for size in (7, 3, 40):
        x = torch.rand(size, 3)
        expected = torch.stack([function(x * scale) for scale in scales])
        (found,) = interpret_lowered(captured, (x, scales))
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4)


def test_clusters_of_any_number_of_points_are_found_in_a_loop() -> None:
    def model(x: Tensor, centres: Tensor) -> Tensor:
        def turn(k: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
            nearest = torch.cdist(x, centres).argmin(1)
            own = torch.nn.functional.one_hot(nearest, 2).to(x.dtype)
            count = own.sum(0)[:, None]
            return k + 1, torch.where(count > 0, own.T @ x / count.clamp(min=1), centres)

        start = torch.tensor(0), centres.clone()
        _, found = while_loop(lambda k, _: k < 3, turn, start)
        return found

    centres = torch.rand(2, 3)
    captured = _captured(model, torch.rand(9, 3), centres)
    assert _is_open(captured)
    for size in (9, 1, 26, 100):
        x = torch.rand(size, 3)
        (found,) = interpret_lowered(captured, (x, centres))
        np.testing.assert_allclose(found, model(x, centres).numpy(), rtol=1e-4, atol=1e-4)


def test_a_model_that_is_refused_fixes_no_size_of_a_later_one() -> None:
    """The functions of both loops are of one line of code, as where a model is changed inside."""

    def model_of(function: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
        def model(x: Tensor, scales: Tensor) -> Tensor:
            rows: Tensor = torch_map(lambda scale: function(x * scale), scales)
            return rows

        return model

    def fixed(x: Tensor) -> Tensor:
        for _ in range(x.shape[0]):
            x = x * 2
        return x

    example = torch.rand(7, 3), torch.tensor([1.0, 2.5])
    with pytest.raises(DynamicShapeError, match="constant"):
        _captured(model_of(fixed), *example)
    open_ = model_of(lambda x: x.sum(1))
    captured = _captured(open_, *example)
    x = torch.rand(11, 3)
    (found,) = interpret_lowered(captured, (x, example[1]))
    np.testing.assert_allclose(found, open_(x, example[1]).numpy(), rtol=1e-6)


def test_scans_take_such_functions_too() -> None:
    def model(x: Tensor, scales: Tensor) -> Tensor:
        def step(carried: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
            return carried + scale, torch.quantile(x * carried, 0.5, dim=0)

        rows: Tensor = scan(step, torch.ones(()), scales)[1]
        return rows

    scales = torch.tensor([1.0, 2.5])
    captured = _captured(model, torch.rand(7, 3), scales)
    assert _is_open(captured)
    x = torch.rand(30, 3)
    (found,) = interpret_lowered(captured, (x, scales))
    np.testing.assert_allclose(found, model(x, scales).numpy(), rtol=1e-5)


def test_chunks_that_a_loop_turns_over_may_be_one() -> None:
    def model(x: Tensor) -> Tensor:
        chunks = x[: x.shape[0] // 4 * 4].reshape(x.shape[0] // 4, 4, 3)
        _, sums = scan(lambda c, t: (c * 0.5 + t.sum(0), c + 1), x.new_zeros(3), chunks)
        return sums

    captured = _captured(model, torch.rand(32, 3))
    (rows,) = ingest(captured)[0].dims
    assert rows.minimum <= 4
    for size in (4, 7, 12):
        x = torch.rand(size, 3)
        (found,) = interpret_lowered(captured, (x,))
        np.testing.assert_allclose(found, model(x).numpy(), rtol=1e-5)
