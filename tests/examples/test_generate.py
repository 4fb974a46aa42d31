"""The generator's tokens are eager's, in Python and in C++, and sessions share its weights."""

from __future__ import annotations

import re
from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch

from aot import driver, options
from aot.frontend.source import read_model_file
from tests.conformance.executors import gpu_target
from tests.examples.building import cmake, configure, run
from tests.kernels import ROOT

SOURCE = ROOT / "examples" / "gpt_generate"
TOKENS, FIRST = 64, 7


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("generate") / "gpt.pkg"
    targets = (options.parse_target("cpu:x86-64-v3"),)
    driver.build(SOURCE / "model.py", options.from_environment(output=output, targets=targets))
    return output


@pytest.fixture(scope="module")
def greedy() -> list[int]:
    """Eager's tokens."""
    module = read_model_file(SOURCE / "model.py").module
    token, tokens = torch.tensor([FIRST]), []
    with torch.no_grad():
        for _ in range(TOKENS):
            token = module(token)
            tokens.append(int(token))
    return tokens


@pytest.mark.slow
def test_tokens_are_eagers(package: Path, greedy: list[int]) -> None:
    model = aot_runtime.load(package)
    token, tokens = np.array([FIRST]), []
    for _ in range(TOKENS):
        token = model(token)
        tokens.append(int(token[0]))
    assert tokens == greedy
    assert len(set(tokens)) > TOKENS // 4, "tokens that repeat would show little"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_tokens_are_eagers_on_the_gpu(greedy: list[int], runtime: Path, tmp_path: Path) -> None:
    output, targets = tmp_path / "gpt.pkg", (options.parse_target(gpu_target()),)
    driver.build(SOURCE / "model.py", options.from_environment(output=output, targets=targets))
    configure(SOURCE, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={runtime}")
    cmake("--build", tmp_path / "build")
    for sessions in (1, 16):
        arguments = (output, "--device", "cuda", "--tokens", TOKENS, "--sessions", sessions)
        done = run(tmp_path / "build" / "generate", *arguments)
        assert done.returncode == 0, done.stderr
        assert [int(word) for word in done.stdout.splitlines()[0].split()] == greedy


@pytest.mark.slow
def test_a_call_writes_one_position_of_each_cache(package: Path) -> None:
    model = aot_runtime.load(package)
    caches = {k for k, s in enumerate(model.plan["states"]) if len(s["shape"]) == 4}
    (program,) = model.plan["programs"]
    assert caches
    assert caches.isdisjoint(update["state"] for update in program.get("updates", ()))
    model(np.array([FIRST]))
    before = model.state_dict()
    model(np.array([FIRST]))
    for name, new in model.state_dict().items():
        if new.ndim == 4:
            (changed,) = np.nonzero((new != before[name]).any((0, 1, 3)))
            assert changed.tolist() == [1]


@pytest.mark.slow
def test_program_generates_eagers_tokens_and_sixteen_sessions_share_weights(
    package: Path, greedy: list[int], runtime: Path, tmp_path: Path
) -> None:
    configure(SOURCE, tmp_path, f"-DCMAKE_PREFIX_PATH={runtime}")
    cmake("--build", tmp_path)
    done = run(tmp_path / "generate", package, "--tokens", TOKENS, "--sessions", 16)
    assert done.returncode == 0, done.stderr
    tokens, memory = done.stdout.splitlines()
    assert [int(word) for word in tokens.split()] == greedy
    weights, one, sixteen = map(int, re.findall(r"(\d+) KB", memory))
    states = aot_runtime.load(package).plan["states"]
    state = sum(8 * int(np.prod(s["shape"])) for s in states) // 1024
    # Beside its states a session has an arena, scratch and resolved plans; no second weights.
    assert (sixteen - one) / 15 < state + weights / 8
