"""Random numbers: the generator's known answers, what a seed fixes, and what distributions are."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch

from aot import driver
from aot.errors import UnsupportedOperators
from aot.frontend.capture import Captured, capture_module
from aot.frontend.ingest import ingest
from aot.options import Target, from_environment
from tests.conformance.executors import EXECUTORS
from tests.settings import level

N = 4000


class _Model(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def captured(function: Any, x: torch.Tensor) -> Captured:
    return capture_module(_Model(function), (x,))


def package(path: Path, function: Any, x: torch.Tensor) -> aot_runtime.Model:
    target = Target("cpu", (level(),))
    driver.build(captured(function, x), from_environment(output=path, targets=(target,)))
    return aot_runtime.load(path)


def test_the_first_words_are_those_of_the_paper(tmp_path: Path) -> None:
    """Philox4x32-10 of key 0 and counter 0, from the paper's library: 6627e8d5 e169c58d …"""
    model = package(
        tmp_path / "m.pkg", lambda x: x + torch.rand(3, dtype=x.dtype), torch.zeros(3).double()
    )
    first = model(np.zeros(3))[0]
    assert first == ((0x6627E8D5 << 21) + (0xE169C58D >> 11)) * 2.0**-53


def test_the_seed_decides_and_runs_differ(tmp_path: Path) -> None:
    model = package(tmp_path / "m.pkg", torch.randn_like, torch.zeros(64))
    x = np.zeros(64, np.float32)
    first, second = model(x), model(x)
    assert not np.array_equal(first, second)
    model.reset()
    np.testing.assert_array_equal(model(x), first)
    model.seed(-7)
    other = model(x)
    assert not np.array_equal(other, first)
    model.seed(-7)
    np.testing.assert_array_equal(model(x), other)
    twin = model.clone()
    np.testing.assert_array_equal(twin(x), model(x))


def test_a_seed_needs_a_model_that_draws(tmp_path: Path) -> None:
    model = package(tmp_path / "m.pkg", lambda x: x + 1, torch.zeros(2))
    with pytest.raises(aot_runtime.InvalidArgument, match="draws no random numbers"):
        model.seed(1)


def test_draws_of_one_run_differ(tmp_path: Path) -> None:
    model = package(
        tmp_path / "m.pkg", lambda x: (torch.rand_like(x), torch.rand_like(x)), torch.zeros(9)
    )
    a, b = model(np.zeros(9, np.float32))
    assert not np.array_equal(a, b)


DRAWS = {
    "rand": (lambda x: torch.rand(N), 0.5, 12**-0.5, (0.0, 1.0)),
    "rand of halves": (
        lambda x: torch.rand(N, dtype=torch.bfloat16).float(),
        0.5,
        12**-0.5,
        (0, 0.999),
    ),
    "randn": (lambda x: torch.randn(N), 0.0, 1.0, (-6.0, 6.0)),
    "normal": (lambda x: torch.normal(2.0, 0.5, (N,)), 2.0, 0.5, (-2.0, 6.0)),
    "randint": (lambda x: torch.randint(3, 9, (N,)), 5.5, (35 / 12) ** 0.5, (3, 8)),
    "bernoulli": (lambda x: torch.bernoulli(torch.full((N,), 0.3)), 0.3, 0.21**0.5, (0, 1)),
    "exponential": (lambda x: torch.empty(N).exponential_(2.0), 0.5, 0.5, (0, 12)),
    "uniform": (lambda x: torch.empty(N).uniform_(-1, 1), 0.0, 3**-0.5, (-1, 1)),
    "geometric": (lambda x: torch.empty(N).geometric_(0.25), 4.0, 12**0.5, (1, 99)),
    "dropout": (lambda x: torch.dropout(torch.ones(N), 0.2, True), 1.0, 0.5, (0, 1.2501)),
    "complex normal": (
        lambda x: torch.empty(N, dtype=torch.complex64).normal_(2.0, 1.0).real,
        *(2.0, 0.5**0.5, (-2.0, 6.0)),
    ),
    "attention": (
        lambda x: torch.nn.functional.scaled_dot_product_attention(
            torch.zeros(N, 1), x[:, None], torch.ones(4, 1), dropout_p=0.2
        ),
        *(1.0, 0.25, (0, 1.2501)),
    ),
    "rrelu": (
        lambda x: torch.nn.functional.rrelu(-torch.ones(N), 0.2, 0.8, True),
        -0.5,
        0.6 / 12**0.5,
        (-0.8, -0.2),
    ),
    "poisson": (lambda x: torch.poisson(torch.full((N,), 3.5)), 3.5, 3.5**0.5, (0, 20)),
    "poisson of halves": (
        lambda x: torch.poisson(torch.full((N,), 0.25, dtype=torch.float16)),
        *(0.25, 0.5, (0, 9)),
    ),
    "poisson of many": (lambda x: torch.poisson(torch.full((N,), 4e4)), 4e4, 2e2, (3.88e4, 4.12e4)),
    "poisson of very many": (
        lambda x: torch.poisson(torch.full((N,), 4e6, dtype=torch.float64)),
        *(4e6, 2e3, (3.988e6, 4.012e6)),
    ),
    "binomial": (
        lambda x: torch.binomial(torch.full((N,), 10.0), torch.full((N,), 0.3)),
        *(3.0, 2.1**0.5, (0, 10)),
    ),
    "chosen": (lambda x: torch.multinomial(x[:3].abs() + 1, N, True), 1.0, (2 / 3) ** 0.5, (0, 2)),
}


@lru_cache(maxsize=1)
def _drawing(name: str) -> Captured:
    """Exported once for all executors."""
    return captured(DRAWS[name][0], torch.zeros(4))


@pytest.mark.parametrize("executor", ["loops", "kernels", f"cpu:{level()}", "triton"])
@pytest.mark.parametrize("name", DRAWS)
def test_distributions(name: str, executor: str) -> None:
    _, mean, deviation, (low, high) = DRAWS[name]
    (found,) = EXECUTORS[executor](_drawing(name), (torch.zeros(4),))
    values = found.astype(np.float64)
    assert abs(values.mean() - mean) < 4 * deviation / N**0.5
    assert abs(values.std() - deviation) < 0.05 * deviation
    assert low <= values.min() and values.max() <= high


def _frequencies(function: Any, x: torch.Tensor, path: Path) -> np.ndarray:
    """How often each count was drawn."""
    counts = package(path, function, x)(x.numpy())
    return np.bincount(counts.astype(np.int64)) / counts.size


def test_counts_have_the_chances_of_their_distribution(tmp_path: Path) -> None:
    many, rate = 40000, 2.0
    found = _frequencies(torch.poisson, torch.full((many,), rate), tmp_path / "p.pkg")
    wanted = np.array([np.exp(-rate) * rate**k / math.factorial(k) for k in range(7)])
    assert np.abs(found[:7] - wanted).max() < 4 * 0.5 / many**0.5
    p = torch.full((many,), 0.6)
    found = _frequencies(lambda p: torch.binomial(torch.full_like(p, 4), p), p, tmp_path / "b.pkg")
    wanted = np.array([math.comb(4, k) * 0.6**k * 0.4 ** (4 - k) for k in range(5)])
    assert np.abs(found - wanted).max() < 4 * 0.5 / many**0.5


def test_counts_at_the_edges(tmp_path: Path) -> None:
    def edges(x: torch.Tensor) -> Any:
        n = torch.tensor([5.0, 5.0, 0.0])
        return torch.poisson(x), torch.binomial(n, torch.tensor([0.0, 1.0, 0.5]))

    model = package(tmp_path / "m.pkg", edges, torch.zeros(3))
    none, certain = model(np.zeros(3, np.float32))
    assert none.tolist() == [0, 0, 0] and certain.tolist() == [0, 5, 0]
    with pytest.raises(aot_runtime.InvalidArgument, match="invalid Poisson rate"):
        model(-np.ones(3, np.float32))


def test_slopes_are_drawn_in_training_only() -> None:
    x = torch.tensor([-1.0, 2.0, -3.0])
    trained, _ = ingest(captured(lambda x: torch.nn.functional.rrelu(x, training=True), x))
    assert trained.states
    used = captured(torch.nn.functional.rrelu, x)
    assert not ingest(used)[0].states
    (found,) = EXECUTORS["loops"](used, (x,))
    np.testing.assert_allclose(found, torch.nn.functional.rrelu(x).numpy(), rtol=1e-6)


def test_a_permutation_has_each_number_once(tmp_path: Path) -> None:
    model = package(tmp_path / "m.pkg", lambda x: (x, torch.randperm(50)), torch.zeros(1))
    order = model(np.zeros(1, np.float32))[1]
    assert sorted(order) == list(range(50)) and list(order) != list(range(50))


def test_choices_without_replacement_differ_and_have_weight(tmp_path: Path) -> None:
    model = package(tmp_path / "m.pkg", lambda x: torch.multinomial(x, 3), torch.ones(4))
    for _ in range(20):
        assert sorted(model(np.array([1, 0, 2, 3], np.float32))) == [0, 2, 3]


def test_a_branch_that_draws_is_refused() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.rand_like, lambda x: x + 1, (x,))

    with pytest.raises(UnsupportedOperators, match="draws random numbers in a branch or a loop"):
        ingest(captured(forward, torch.ones(3)))
