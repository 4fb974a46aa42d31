"""Models that take derivatives are recorded with the operators that compute them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

from aot import package
from aot.frontend.capture import Captured, capture_module
from aot.frontend.derivatives import differentiating, takes_derivatives
from aot.frontend.eager import eager_call
from aot.frontend.golden import examples
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered
from tests.levels import OWN, target_of

LAYER = nn.Linear(4, 3)
X = torch.linspace(-2, 2, 20).reshape(5, 4)


def energy(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.silu(LAYER(x)).square().sum()


def gradient(x: torch.Tensor) -> torch.Tensor:
    """As code has it that is called without `torch.no_grad`."""
    x.requires_grad_(True)
    return torch.autograd.grad(energy(x), x)[0]


def enabling(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(energy(x), x)[0]


MODELS: dict[str, Callable[[torch.Tensor], Any]] = {
    "autograd": gradient,
    "autograd enabled": enabling,
    "grad": torch.func.grad(energy),
    "of no weights": torch.func.grad(lambda x: (x.sin() * x).sum()),
    "times a number": torch.func.grad(lambda x: (4 * x.exp()).sum()),
    "vjp": lambda x: torch.func.vjp(LAYER, x)[1](torch.ones(len(x), 3))[0],
    "per sample": torch.func.vmap(torch.func.grad(energy)),
    "jacrev": torch.func.vmap(torch.func.jacrev(LAYER)),
    "jacfwd": lambda x: torch.func.jacfwd(lambda y: LAYER(y).tanh())(x[0]),
    "hessian": lambda x: torch.func.hessian(lambda y: LAYER(y).tanh().sum())(x[0]),
    "vmap": torch.func.vmap(lambda row: LAYER(row).softmax(-1)),
}


def captured_of(function: Callable[[torch.Tensor], Any], **shapes: Any) -> Captured:
    model = Calls(function)
    model.layer = LAYER
    return capture_module(model, (X,), **shapes)


@pytest.mark.parametrize("name", MODELS)
def test_a_derivative_is_the_operators_that_compute_it(name: str) -> None:
    function = MODELS[name]
    captured = captured_of(function, dynamic_shapes={"args": ({0: Dim("n", min=1, max=9)},)})
    assert captured.derivatives == (name != "vmap")
    for n in (1, 3, 9):
        x = torch.linspace(-1, 1, 4 * n).reshape(n, 4)
        (found,) = interpret_lowered(captured, (x,))
        wanted = function(x.clone()).detach()
        np.testing.assert_allclose(found, wanted, 2e-5, 2e-6)


def test_eager_runs_beside_it_with_gradients() -> None:
    captured = captured_of(gradient)
    wanted = gradient(X.clone()).numpy()
    (example,) = examples(captured)
    np.testing.assert_array_equal(example.outputs[0], wanted)
    with torch.no_grad():
        found = eager_call(captured, [X.numpy().copy()], torch.get_num_threads())()
    np.testing.assert_array_equal(found, wanted)


class Forces(nn.Module):
    """A potential of atoms: the energy of their distances, the forces, and how often it ran."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(3, 4)
        self.read = nn.Sequential(nn.Linear(5, 8), nn.SiLU(), nn.Linear(8, 1))
        self.runs: torch.Tensor
        self.register_buffer("runs", torch.zeros(()))

    def forward(
        self, kind: torch.Tensor, place: torch.Tensor, ends: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.runs += 1
        place.requires_grad_(True)
        distance = (place[ends[0]] - place[ends[1]]).norm(dim=-1, keepdim=True)
        message = torch.cat([self.kinds(kind[ends[0]]), torch.exp(-distance)], 1)
        felt = place.new_zeros(len(kind), 5).index_add(0, ends[1], message)
        total = self.read(felt).sum()
        return total, -torch.autograd.grad(total, place)[0]


def _atoms(count: int, pairs: int) -> tuple[torch.Tensor, ...]:
    draws = torch.Generator().manual_seed(count)
    kind = torch.randint(0, 3, (count,), generator=draws)
    place = torch.randn(count, 3, generator=draws)
    return kind, place, torch.randint(0, count, (2, pairs), generator=draws)


def test_forces_are_packaged_for_any_number_of_atoms(tmp_path: Path) -> None:
    model, path = Forces(), tmp_path / "m.pkg"
    atoms, pairs = Dim("atoms", min=1, max=64), Dim("pairs", min=0, max=64)
    shapes = ({0: atoms}, {0: atoms}, {1: pairs})
    package(model, _atoms(5, 9), path=path, targets=[target_of(OWN)], dynamic_shapes=shapes)
    packaged = aot_runtime.load(path)
    for count, edges in ((5, 9), (1, 0), (7, 12)):
        given = _atoms(count, edges)
        found = packaged(*(t.clone() for t in given))
        for ours, eager in zip(found, model(*(t.clone() for t in given)), strict=True):
            np.testing.assert_allclose(ours, eager.detach(), 1e-5, 1e-6)


def test_results_of_a_differentiating_module_are_for_inference() -> None:
    model = nn.Linear(4, 3)
    with torch.no_grad(), differentiating(model):
        assert not model(X).requires_grad
    assert "forward" not in vars(model)


def test_other_failures_are_no_derivatives() -> None:
    assert not takes_derivatives(RuntimeError("the size of tensor a must match"))
