"""What models take and give beside tensors in order: containers, numbers, aliases, nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch

from aot import api


class Call(torch.nn.Module):
    """A function of tensors, with a table to give away."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("table", torch.arange(4.0))

    def forward(self, *args: Any) -> Any:
        return self.body(self, *args)


X = torch.arange(6.0).reshape(2, 3)

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "an output is an input": (lambda m, x: x, (X,)),
    "an output is a view of an input": (lambda m, x: (x.T, x[0]), (X,)),
    "outputs are one another": (lambda m, x: (y := x + 1, y, y.T), (X,)),
    "an output is a weight": (lambda m, x: (m.table, x * 2), (X,)),
    "an output is a constant": (lambda m, x: (torch.ones(3), x), (X,)),
    "an output is empty": (lambda m, x: (x[:0], x.new_zeros(0)), (X,)),
    "an input is empty": (lambda m, x: (x.sum(), x + 1), (torch.ones(0, 3),)),
    "no inputs": (lambda m: m.table + 1, ()),
    "no inputs and nothing to compute": (lambda m: torch.zeros(2), ()),
    "None and numbers out": (lambda m, x: (None, 3, x, 2.5, True), (X,)),
    "None and numbers in": (lambda m, x, none, n: x + n if none is None else x, (X, None, 2)),
    "containers": (
        lambda m, d, pair: {"sum": d["a"] + pair[0], "all": [pair[1], (d["b"][0],)]},
        ({"a": X, "b": [X + 1]}, (X, X * 2)),
    ),
    "one input twice": (lambda m, x, y: x + y, (X, X)),
}


@pytest.mark.parametrize("name", CASES)
def test_calls_give_what_eager_gives(name: str, tmp_path: Path) -> None:
    body, args = CASES[name]
    module = Call(body).eval()
    api.package(module, args, path=tmp_path / "m.pkg", targets=["cpu:x86-64-v3"])
    model = aot_runtime.load(tmp_path / "m.pkg")
    given = torch.utils._pytree.tree_map(_array, args)
    assert_same(model(*given), module(*args))


def _array(value: Any) -> Any:
    return value.numpy() if isinstance(value, torch.Tensor) else value


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert found.shape == tuple(expected.shape)
        assert found.dtype == expected.numpy().dtype
        np.testing.assert_array_equal(found, expected.numpy())
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key, value in expected.items():
            assert_same(found[key], value)
    elif isinstance(expected, (tuple, list)):
        assert type(found) is type(expected)
        for mine, theirs in zip(found, expected, strict=True):
            assert_same(mine, theirs)
    else:
        assert found == expected
        assert type(found) is type(expected)


def test_outputs_share_no_memory(tmp_path: Path) -> None:
    body, args = CASES["outputs are one another"]
    api.package(Call(body), args, path=tmp_path / "m.pkg", targets=["cpu:x86-64-v3"])
    first, second, third = aot_runtime.load(tmp_path / "m.pkg")(X.numpy())
    assert not np.shares_memory(first, second)
    assert not np.shares_memory(first, third)
