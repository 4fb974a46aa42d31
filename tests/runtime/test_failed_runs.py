"""A model that finds how much it has to do, and then fails: what its later calls give."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.export import Dim

from aot import api
from tests.runtime.apart import run_apart

CALLS = """
import sys
import numpy as np, aot_runtime

model = aot_runtime.load(sys.argv[1], num_threads=int(sys.argv[2]))
random = np.random.default_rng(0)
wrong = []


def expected(x):
    return 1 / (1 + np.exp(-2 * x[x > 0]))


def call(rows, positive, good):
    x = -np.ones(rows, np.float32)
    x[random.choice(rows, positive, replace=False)] = random.random(positive, np.float32) + 0.5
    if not good:
        x[np.argmax(x)] = 100.0  # above what the assertion allows
    try:
        y = model(x)
    except aot_runtime.InvalidArgument as error:
        assert "too large" in str(error), error
        if good:
            wrong.append((rows, positive, "failed"))
        return
    if not good:
        wrong.append((rows, positive, "did not fail"))
    elif y.shape != expected(x).shape:
        wrong.append((rows, positive, y.shape))
    elif not np.allclose(y, expected(x), rtol=1e-5, atol=1e-6):
        wrong.append((rows, positive, "values"))
"""


class FindsThenAsserts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        i = torch.nonzero(x > 0).squeeze(1)
        y = torch.sigmoid(x[i] * 2)
        torch.ops.aten._assert_async.msg((y < 0.999).all(), "an element is too large")
        return y


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("failed") / "m.pkg"
    x = torch.tensor([1.0, -1.0, 0.5, -3.0, 0.25, 1.25])
    api.package(
        FindsThenAsserts(),
        (x,),
        path=path,
        targets=["cpu:x86-64-v3"],
        dynamic_shapes=({0: Dim("n", min=2, max=100000)},),
    )
    return path


def test_a_good_call_after_a_failed_one(package: Path) -> None:
    code = CALLS + "call(6, 2, False); call(6, 4, True); call(6, 6, True); print(wrong)"
    assert run_apart(code, package, 1) == "[]\n"


def test_a_larger_call_after_a_failed_one(package: Path) -> None:
    code = CALLS + "call(90000, 2, False); call(90000, 70000, True); call(6, 4, True); print(wrong)"
    assert run_apart(code, package, 1) == "[]\n"


@pytest.mark.parametrize("threads", [1, 2])
def test_good_and_failed_calls_in_any_order(package: Path, threads: int) -> None:
    mix = """
for i in range(300):
    rows = int(random.choice([6, 7, 64, 5000]))
    call(rows, int(random.integers(1, rows)), bool(random.integers(3)))
print(wrong[:5], len(wrong))
"""
    assert run_apart(CALLS + mix, package, threads) == "[] 0\n"


@pytest.mark.slow
def test_memory_does_not_grow_with_new_sizes(package: Path) -> None:
    mix = """
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

for positive in range(1, 2000):
    call(20000, positive, True)
before = resident()
for positive in range(2000, 8000):
    call(20000, positive, True)
print(len(wrong), resident() - before < (16 << 20))
"""
    assert run_apart(CALLS + mix, package, 1, seconds=300) == "0 True\n"
