"""Decisions on values: both sides are traced, and a run takes the one that eager takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import aot
from aot.errors import ExportError
from aot.frontend.capture import capture_module
from aot.frontend.joined import MOST
from tests.calls import Calls
from tests.settings import level

X = torch.tensor([[0.5, 1.0, 2.0], [3.0, 0.25, 1.5]])


def _two_ways(x: Tensor) -> Tensor:
    return x + 1 if x.sum() > 0 else x - 1


def _catches(x: Tensor) -> Tensor:
    try:
        if (x < 0).any().item():
            raise ValueError("negative")
    except ValueError:
        return x * 3
    return x + 1


def _in_a_loop(x: Tensor) -> Tensor:
    for row in (x, -x):
        x = x + 1 if row.sum() > 0 else x - 1
    return x


def _asks_again(x: Tensor) -> Tensor:
    negative = (x < 0).any()
    if negative:
        x = x * 2
    if negative:
        x = x - 1
    return x


def _with_constants(x: Tensor) -> Tensor:
    y = x.clone()
    y[y > 1] = 1.5
    if x.sum() > 0:
        if x.max() > 2:
            return y + torch.tensor([1.0, 2.0, 3.0])
        return y - torch.tensor([4.0, 5.0, 6.0])
    return y


def _of_several(x: Tensor) -> dict[str, Any]:
    first = x if (x > 0).all() else x.abs()
    return {"first": first, "mean": x.mean(), "name": "both", "same": x}


def _of_other_sizes(x: Tensor) -> Tensor:
    kept = x[x > 0] if (x < 0).any() else x[x > 1]
    return kept.sum() + x


class _Layers(nn.Module):
    """Weights on either side, one of them by two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.tensor([2.0, 3.0, 4.0]))

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        if (x.mean() > 0).item():
            return self.second(y) * self.scale
        return y - self.scale


MODELS = (
    *(_two_ways, _catches, _in_a_loop, _asks_again, _with_constants, _of_several, _of_other_sizes),
    _Layers,
)


def _arrays(results: Any) -> list[np.ndarray]:
    leaves = torch.utils._pytree.tree_leaves(results)
    return [np.asarray(leaf) for leaf in leaves if not isinstance(leaf, str)]


@pytest.mark.parametrize("rows", ["fixed", "open"])
@pytest.mark.parametrize("model", MODELS)
def test_runs_go_both_ways(model: Callable[..., Any], rows: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = model() if isinstance(model, type) else Calls(model)
    module.eval()
    path, dims = tmp_path / "m.pkg", {0: Dim("rows", min=1, max=9)}
    shapes = None
    if rows == "open":
        shapes = (dims,) if isinstance(model, type) else ((dims,),)
    aot.package(module, (X,), path=path, targets=[f"cpu:{level()}"], dynamic_shapes=shapes)
    packaged = aot_runtime.load(path)
    for scale in (1.0, -1.0, 0.2, 0.0):
        for x in (X * scale, X * torch.tensor([scale, 1.0, -1.0])):
            given = x[:1] if rows == "open" and scale < 0 else x
            with torch.no_grad():
                expected = _arrays(module(given))
            for ours, eager in zip(_arrays(packaged(given)), expected, strict=True):
                np.testing.assert_allclose(ours, eager, rtol=1e-5, atol=1e-5)


# ---- a side that has no result ----


def _raises_deep(x: Tensor) -> Tensor:
    if (x > 0).any():
        if (x > 9).any():
            seen = torch.zeros(2)
            seen.add_(1)
            raise ValueError("too much")
        return x * 2
    return x


def test_a_side_that_raises_is_an_assertion_where_it_is_reached(tmp_path: Path) -> None:
    path = tmp_path / "m.pkg"
    aot.package(Calls(_raises_deep), (X,), path=path, targets=[f"cpu:{level()}"])
    packaged = aot_runtime.load(path)
    for x in (X, -X, -20 * X):
        np.testing.assert_array_equal(packaged(x), _raises_deep(x))
    with pytest.raises(aot_runtime.InvalidArgument, match="ValueError: too much"):
        packaged(X * 9)


# ---- what is not joined ----


def _other_shapes(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else x[0]


def _other_sizes(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else x[:1]


def _other_structures(x: Tensor) -> Any:
    return (x, x) if x.sum() > 0 else [x, x]


def _fails_by_itself(x: Tensor) -> Tensor:
    return x.reshape(7, 7) if (x < 0).any() else x + 1


def _writes_to_its_input(x: Tensor) -> Tensor:
    x.add_(1)
    return x if x.sum() > 0 else -x


def _many(x: Tensor) -> Tensor:
    for k in range(MOST):
        x = x + 1 if x.sum() > k else x - 1
    return x


class _Counts(nn.Module):
    """Keeps a number that is none of a tensor's."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls if x.sum() > 0 else -x


@pytest.mark.parametrize(
    "model",
    [
        *(
            _other_shapes,
            _other_sizes,
            _other_structures,
            _fails_by_itself,
            _writes_to_its_input,
            _many,
        ),
        _Counts,
    ],
)
def test_what_cannot_be_joined_is_refused_with_its_line(model: Callable[..., Any]) -> None:
    module = model() if isinstance(model, type) else Calls(model)
    with pytest.raises(ExportError, match="a decision of the model depends on the values") as error:
        capture_module(module, (X,))
    assert "test_joined.py" in str(error.value) and "torch.cond" in str(error.value)
