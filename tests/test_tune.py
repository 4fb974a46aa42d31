"""Tuning with a pretended GPU: which candidates are tried, who wins, and what is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from aot_runtime.format.reader import PackageFile

from aot import driver
from aot import tune as tuning
from aot.backends.triton import tuning as database
from aot.backends.triton.tuning import read_database
from aot.errors import PackageError, PackageWriteError, UsageError
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
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


def tunables_of(captured):
    graph, _ = ingest(captured)
    return tuning.find_tunables(tuning._kernel_graph(graph, SM_90), SM_90)


def test_the_fastest_candidate_wins_and_is_kept(captured, tmp_path):
    tunables = tunables_of(captured)
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
        chosen = kept.choose(tunable.problem, "sm_90", lambda t=tunable: t.candidates)
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


def built_with(captured, path, time, **more):
    """A build for whose candidates a pretended GPU takes as long as `time` says."""
    chosen = options(output=path, golden=False, targets=(SM_90,), tune=3, **more)
    gpu = Gpu(time)
    return driver.build(
        captured, chosen, tune=lambda c, g, o: tuning.measured(c, g, o, measure=gpu)
    )


def launches(path):
    """Grids and shared memory of a package's kernels: what its tiles make of them."""
    with PackageFile(path) as file:
        (program,) = file.plan.programs
        return [step for step in program.steps], [kernel for kernel in program.kernels]


def test_a_build_takes_what_was_measured_for_it(captured, tmp_path):
    """The winner where it wins by more than chance; else what a build without measures takes."""
    plain, won, none = (tmp_path / f"{name}.pkg" for name in ("plain", "won", "none"))
    without = driver.build(captured, options(output=plain, golden=False, targets=(SM_90,)))
    report = built_with(captured, won, lambda k: {-1: 8.0, 1: 2.0}.get(k, 9.0))
    built_with(captured, none, lambda k: {-1: 8.0, 1: 7.9}.get(k, 9.0))
    assert without.measured == ()
    assert len(report.measured) == 2 and "0.25 of the heuristic's choice" in report.measured[0]
    assert launches(none) == launches(plain)
    assert launches(won) != launches(plain)


def test_a_machine_that_cannot_measure_is_told_before_anything_is_compiled(captured, monkeypatch):
    def none(path):
        raise PackageError("no NVIDIA driver on this machine")

    monkeypatch.setattr(tuning, "try_compile", None)
    with pytest.raises(UsageError, match="no NVIDIA driver") as caught:
        tuning.tune(captured, SM_90, options(), none)
    assert "Measure where a GPU for cuda:sm_90 is" in str(caught.value.advice)


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_80+sm_90"])
def test_a_build_measures_for_one_architecture(captured, target):
    chosen = options(targets=(parse_target(target),), tune=3)
    with pytest.raises(UsageError, match="nothing can be measured for"):
        driver.build(captured, chosen, tune=tuning.measured)


def test_other_sizes_than_the_example_s_cannot_be_measured(captured):
    chosen = options(targets=(SM_90,), tune=3, typical=(("rows", 4096),))
    with pytest.raises(UsageError, match="--typical"):
        tuning.measured(captured, ingest(captured)[0], chosen)


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
