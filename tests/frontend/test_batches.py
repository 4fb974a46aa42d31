"""torch.vmap of a batch of open size gives what it gives of one of known size."""

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

from aot.frontend.batches import RULES, open_batches
from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

ROW, WEIGHT = torch.arange(5.0), torch.linspace(0.5, 1.5, 5)
ONES = torch.ones(3, 5)

RULED: dict[str, Callable[..., Any]] = {
    "gather": lambda x, i: x.gather(0, i),
    "gather of one for all": lambda x, i: ROW.gather(0, i) + x[:3],
    "gather of a number": lambda x, i: x.sum().gather(0, i[0] * 0),
    "gather of columns": lambda x, i: torch.outer(x, x).gather(-1, i.expand(5, 3)),
    "scatter": lambda x, i: torch.zeros(5).scatter(0, i, x[:3]),
    "scatter of a number": lambda x, i: x.scatter(0, i, 2.0),
    "scatter in place": lambda x, i: x.clone().scatter_(0, i, x[:3]),
    "scatter_add": lambda x, i: torch.zeros(5).scatter_add(0, i, x[:3]),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i, x[2:], "amax"),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_select of rows": lambda x, i: torch.outer(x, x).index_select(1, i),
    "index_add": lambda x, i: x.index_add(0, i, x[:3], alpha=2.0),
    "index_add of columns": lambda x, i: torch.outer(x, x).index_add(1, i, torch.outer(x, x[:3])),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:3]),
    "index_fill": lambda x, i: x.index_fill(0, i, 2.0),
    "index_fill in place": lambda x, i: x.clone().index_fill_(0, i, 2.0),
    "layer_norm": lambda x, i: F.layer_norm(torch.outer(x, x), (5,), WEIGHT, ROW),
    "layer_norm of weights": lambda x, i: F.layer_norm(ONES * ROW, (5,), x, x),
    "solve": lambda x, i: torch.linalg.solve(torch.outer(x, x) + 9 * torch.eye(5), ROW),
    "solve of matrices": lambda x, i: torch.linalg.solve(9 * torch.eye(5), torch.outer(x, x)),
    "cross_entropy": lambda x, i: F.cross_entropy(x, i[0]),
    "cross": lambda x, i: torch.linalg.cross(x[:3], ROW[:3]),
    "searchsorted": lambda x, i: torch.searchsorted(x.sort()[0], torch.outer(x, x)),
    "a sum by a number": lambda x, i: x.sum() / 2 + (x > 0).sum() * 0.5,  # casts the numbers
}


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("name", RULED)
def test_batches_of_open_size(name: str) -> None:
    def call(x: Tensor, i: Tensor) -> Any:
        return vmap(RULED[name])(x, i)

    def given(n: int) -> tuple[Tensor, Tensor]:
        made = torch.Generator().manual_seed(n)
        ids = torch.stack([torch.randperm(5, generator=made)[:3] for _ in range(n)])
        return torch.randn(n, 5, generator=made), ids

    n = Dim("n", min=2, max=9)
    spec = {"args": ({0: n}, {0: n})}
    captured = capture_module(Calls(call), given(3), dynamic_shapes=spec)
    for size in (2, 3, 8):
        (found,) = interpret_lowered(captured, given(size))
        np.testing.assert_allclose(found, call(*given(size)), 1e-4, 1e-5)


def test_batches_of_batches_and_torchs_own_rules_again() -> None:
    x, i = torch.randn(4, 3, 5), torch.randint(0, 5, (4, 3, 2))
    nested = vmap(vmap(lambda a, b: a.gather(0, b)), in_dims=(1, 1))
    wanted = nested(x, i)
    with open_batches():
        assert torch.equal(nested(x, i), wanted)
    assert torch.equal(nested(x, i), wanted)
    assert all(hasattr(torch.ops.aten, name.partition(".")[0]) for name in RULES)
