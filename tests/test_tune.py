"""Tuning with a pretended GPU: which candidates are tried, who wins, and what is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from aot_runtime.format.reader import PackageFile

from aot import tune as tuning
from aot.backends.triton import tuning as database
from aot.backends.triton.tuning import read_database
from aot.errors import PackageError, PackageWriteError, UsageError
from aot.frontend.capture import capture_module
from aot.options import BuildOptions, default_cache_dir, environment, parse_target
from tests.settings import seeded

SM_90 = parse_target("cuda:sm_90")


class Two(torch.nn.Module):
    """Two products of different sizes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(seeded())
        self.first = torch.nn.Linear(64, 256, dtype=torch.bfloat16)
        self.second = torch.nn.Linear(256, 32, dtype=torch.bfloat16)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.fixture(scope="module")
def captured():
    return capture_module(Two(), (torch.randn(64, 64, dtype=torch.bfloat16),), name="two")


def options(**more):
    return BuildOptions(jobs=1, cache_dir=default_cache_dir(environment()), **more)


class Gpu:
    """Pretends that a package's kernels take as long as `time` says for round k."""

    def __init__(self, time, outputs=lambda k: 1.0) -> None:
        self.round = -1
        self.time = time
        self.outputs = outputs

    def __call__(self, path: Path) -> tuning.Sample:
        with PackageFile(path) as file:
            (program,) = file.plan.programs
            names = [kernel.name for kernel in program.kernels]
        assert (program.device, program.arch) == ("cuda", "sm_90")
        k, self.round = self.round, self.round + 1
        times = {name: self.time(k) for name in names}
        return tuning.Sample(times, (np.array([self.outputs(k)]),))


def test_the_fastest_candidate_wins_and_is_kept(captured, tmp_path):
    graph = tuning._kernel_graph(captured, SM_90)
    tunables = tuning.find_tunables(graph, SM_90)
    assert {t.problem.template for t in tunables} == {"matmul"} and len(tunables) == 2
    report = tuning.tune(
        captured, SM_90, options(), Gpu(lambda k: {-1: 8.0, 1: 2.0}.get(k, 10.0)), rounds=3
    )
    assert report.left_out == ()
    for tunable, result in zip(tunables, report.results, strict=True):
        assert result.winner.problem == tunable.problem
        assert dict(result.winner.config) == dict(tunable.candidates[1])
        assert (result.winner.microseconds, result.heuristic) == (2.0, 8.0)
    assert "2.0 µs, 0.25 of the heuristic's choice" in tuning.text(report)

    path = tuning.record(report, tmp_path / "tuning.json")
    kept = read_database(path)
    for tunable in tunables:
        chosen = kept.choose(tunable.problem, "sm_90", tunable.candidates)
        assert chosen == dict(tunable.candidates[1])


def test_candidates_that_fail_are_left_out_and_named(captured):
    def time(k):
        if k == 0:
            raise PackageError("a kernel failed to launch")
        return {1: 1.0}.get(k, 5.0)

    gpu = Gpu(time, outputs=lambda k: 7.0 if k == 1 else 1.0)
    report = tuning.tune(captured, SM_90, options(), gpu, rounds=3)
    assert len(report.left_out) == 4
    assert "a kernel failed to launch" in report.left_out[0]
    assert "the results differ" in report.left_out[-1]
    assert [r.winner.microseconds for r in report.results] == [5.0, 5.0]


def test_candidates_that_do_not_compile_are_left_out(captured, monkeypatch):
    real = tuning.try_compile

    def refuse_some(sources, *rest):
        made = real(sources, *rest)
        error = tuning.KernelRefused(sources[0].name, "sm_90", "too\nmany registers")
        return (error, *made[1:])

    monkeypatch.setattr(tuning, "try_compile", refuse_some)
    report = tuning.tune(captured, SM_90, options(), Gpu(lambda k: 3.0), rounds=1)
    (sentence,) = report.left_out
    assert sentence.startswith("matmul 1×64×256×64") and sentence.endswith("many registers")
    assert len(report.results) == 1


def test_a_model_without_templates_has_nothing_to_tune():
    captured = capture_module(torch.nn.ReLU(), (torch.randn(8),))
    report = tuning.tune(captured, SM_90, options(), Gpu(lambda k: 1.0))
    assert report.results == () and "nothing" not in str(report.left_out)
    assert tuning.text(report) == "no kernel of this model has anything to tune\n"


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_80+sm_90"])
def test_one_architecture_is_tuned_at_a_time(target):
    with pytest.raises(UsageError, match="cannot tune for"):
        tuning.tune(Path("model.py"), parse_target(target), options())


def test_a_database_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(PackageWriteError, match="--database"):
        tuning.record(tuning.TuneReport((), ()), tmp_path / "none" / "tuning.json")
    assert database.KEPT_IN.name == "tuning.json"
