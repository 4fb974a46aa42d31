"""Measures candidates for a model's templates on this machine's GPU, for the tuning database.

Every round packages the model with the next candidate of every problem at once, and takes each
kernel's time from one profile. A candidate that does not compile, does not run or computes
something else is left out and reported; it never stops the others. `measured` does so for one
build (`--tune`), `tune` for a database that later builds ask.
"""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from aot_runtime.tools.loaded import load_model, profile

from aot import driver
from aot.backends.base import Backend, EmittedGraph
from aot.backends.registry import backend_for
from aot.backends.triton.backend import TritonBackend
from aot.backends.triton.compile import try_compile
from aot.backends.triton.tuning import (
    KEPT_IN,
    NOTHING,
    Candidates,
    Chooser,
    Config,
    Measurement,
    Problem,
    default_database,
    read_database,
)
from aot.errors import AotError, KernelRefused, PackageError, PackageWriteError, UsageError
from aot.frontend.capture import Captured, capture_file
from aot.frontend.golden import flat_arrays
from aot.frontend.ingest import ingest
from aot.ir.hints import hints_of
from aot.ir.kernels import KernelGraph
from aot.ir.tensors import TensorGraph
from aot.options import BuildOptions, Target

HEURISTIC = "the heuristic's choice"
WORTH = 0.97
"""Part of the heuristic's time above which a winner is one by chance, and is not recorded."""

_RUNS = 20
_TOLERANCE = 2e-2
"""Of the norm of the difference to the heuristic's results: block sizes change roundings alone."""


@dataclass(frozen=True)
class Sample:
    """One measured package: microseconds of a launch by function, and the model's outputs."""

    microseconds: Mapping[str, float]
    outputs: tuple[np.ndarray[Any, Any], ...]


Measure = Callable[[Path], Sample]
"""Runs a package. Raises AotError when it does not run."""


@dataclass(frozen=True)
class Tunable:
    """A problem of the model, its candidates, and the kernels that compute it."""

    problem: Problem
    candidates: tuple[Config, ...]
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What was found for a problem: the winner, and the heuristic's microseconds."""

    winner: Measurement
    heuristic: float


@dataclass(frozen=True)
class TuneReport:
    """Results in the model's order, and a sentence for each candidate that was left out."""

    results: tuple[Result, ...]
    left_out: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


@dataclass(frozen=True)
class _Forced:
    """Chooses what it is told to; notes what it is asked."""

    chosen: Mapping[Problem, Config]
    asked: dict[Problem, Candidates] = field(default_factory=dict, compare=False)

    def choose(self, problem: Problem, arch: str, candidates: Candidates) -> Config | None:
        self.asked[problem] = candidates
        return self.chosen.get(problem)


@dataclass(frozen=True)
class _Measured:
    """Chooses what has won on an architecture; None of a problem leaves it to the heuristic.

    Of problems that were not measured, such as those of functions for other sizes, the database
    knows.
    """

    arch: str
    won: Mapping[Problem, Config | None]

    def choose(self, problem: Problem, arch: str, candidates: Candidates) -> Config | None:
        if arch == self.arch and problem in self.won:
            return self.won[problem]
        return default_database().choose(problem, arch, candidates)


def tune(
    source: Path | Captured,
    target: Target,
    options: BuildOptions,
    measure: Measure | None = None,
    rounds: int | None = None,
) -> TuneReport:
    """Measures the candidates for every problem of the model.

    Args:
        source: A model file, or a captured module.
        target: The architecture of this machine's GPU.
        options: How to build; its output and targets do not count.
        measure: Runs a package; by default on the first GPU.
        rounds: Candidates to try for each problem; None tries all.

    Raises:
        UsageError: The target has several architectures.
        AotError: The model cannot be packaged, or does not run with the heuristic's choices.
    """
    if len(target.archs) != 1 or not TritonBackend().supports(target):
        raise UsageError(
            f"cannot tune for {target}", advice="Name the architecture of this machine's GPU."
        )
    captured = capture_file(source) if isinstance(source, Path) else source
    graph, _ = ingest(captured)
    return _tuned(captured, graph, target, options, measure, rounds)


def measured(
    captured: Captured,
    graph: TensorGraph,
    options: BuildOptions,
    measure: Measure | None = None,
) -> driver.Tuned:
    """What this machine's GPU makes of a build: `options.tune` candidates of every problem.

    Args:
        captured: The model, whose example inputs are run.
        graph: What became of it.
        options: The build's.
        measure: As of `tune`.

    Raises:
        UsageError: The targets are not one architecture of GPUs, perhaps with CPUs beside it, or
            kernels are to be chosen for other sizes than the example's.
        AotError: As of `tune`.
    """
    devices = [t for t in options.targets if TritonBackend().supports(t)]
    if len(devices) != 1 or len(devices[0].archs) != 1:
        raise UsageError(
            f"nothing can be measured for {', '.join(map(str, options.targets))}",
            advice="Name the architecture of this machine's GPU with --tune, alone or beside CPUs.",
        )
    if options.typical:
        raise UsageError(
            "--tune measures the example's sizes, and --typical says that others are run",
            advice="Give an example of the typical sizes, or leave out either.",
        )
    (target,) = devices
    report = _tuned(captured, graph, target, options, measure, options.tune)
    won = {r.winner.problem: _worth(r) for r in report.results}
    backend = TritonBackend(_Measured(target.archs[0], won))

    def choose(target: Target) -> Backend:
        return backend if backend.supports(target) else backend_for(target)

    return driver.Tuned(choose, tuple(text(report).splitlines()))


def _worth(result: Result) -> Config | None:
    """The winner where it takes less than the heuristic by more than chance."""
    better = result.winner.microseconds < WORTH * result.heuristic
    return dict(result.winner.config) if better else None


def _tuned(
    captured: Captured,
    graph: TensorGraph,
    target: Target,
    options: BuildOptions,
    measure: Measure | None,
    rounds: int | None,
) -> TuneReport:
    run = measure or _running_on(target.device, flat_arrays(captured.example))
    with tempfile.TemporaryDirectory(prefix="aot-tune-") as folder:
        made = replace(
            options,
            output=Path(folder) / "candidate.pkg",
            targets=(target,),
            cache_dir=options.cache_dir or Path(folder) / "cache",
            dump_dir=None,
            stop_after=None,
            golden=False,
            tune=0,
        )

        def alone(path: Path) -> Sample:
            with _alone(options.cache_dir):
                return run(path)

        return _Session(captured, graph, made, alone).run(rounds)


@contextmanager
def _alone(folder: Path | None) -> Iterator[None]:
    """Waits until nobody else measures who keeps kernels in this folder: both would be slower."""
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "measuring.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Session:
    """Tunes one model for one architecture."""

    def __init__(
        self, captured: Captured, graph: TensorGraph, options: BuildOptions, measure: Measure
    ) -> None:
        self._captured = captured
        self._options = options
        self._measure = measure
        (self._target,) = options.targets
        self._graph = _kernel_graph(graph, self._target)
        self._left_out: list[str] = []

    def run(self, rounds: int | None) -> TuneReport:
        tunables = find_tunables(self._graph, self._target)
        if not tunables:
            return TuneReport((), ())
        count = max(len(t.candidates) for t in tunables)
        tried = [
            {t.problem: t.candidates[k] for t in tunables if k < len(t.candidates)}
            for k in range(count if rounds is None else min(count, rounds))
        ]
        start, functions = self._first()
        self._compile(tunables, tried)
        times: dict[Problem, list[tuple[float, Config]]] = {t.problem: [] for t in tunables}
        for chosen in tried:
            for problem, config, time in self._round(tunables, chosen, start):
                times[problem].append((time, config))
        end, _ = self._sample({})
        results = []
        for tunable in tunables:
            # Clocks change while all this runs.
            heuristic = min(_time(tunable, sample, functions) for sample in (start, end))
            time, config = min(
                times[tunable.problem], default=(0.0, {}), key=lambda found: found[0]
            )
            if config:
                pairs = tuple(config.items())
                winner = Measurement(tunable.problem, self._target.archs[0], pairs, time)
                results.append(Result(winner, heuristic))
        return TuneReport(tuple(results), tuple(self._left_out))

    def _first(self) -> tuple[Sample, Mapping[str, str]]:
        """The heuristic's choices, before anything else is compiled.

        Raises:
            UsageError: They do not run on this machine.
        """
        try:
            return self._sample({})
        except PackageError as error:
            raise UsageError(
                f"nothing can be measured on this machine: {error.message}",
                advice=f"Measure where a GPU for {self._target} is, or leave out --tune.",
            ) from error

    def _round(
        self, tunables: Sequence[Tunable], chosen: dict[Problem, Config], start: Sample
    ) -> Iterator[tuple[Problem, Config, float]]:
        if not chosen:
            return
        try:
            sample, functions = self._sample(chosen)
        except AotError as error:
            self._skip(chosen, error.message)
            return
        if not _agree(sample.outputs, start.outputs):
            self._skip(chosen, "the results differ")
            return
        for tunable in tunables:
            if tunable.problem in chosen:
                time = _time(tunable, sample, functions)
                yield tunable.problem, chosen[tunable.problem], time

    def _skip(self, chosen: Mapping[Problem, Config], reason: str) -> None:
        self._left_out += [f"{_name(p)} {_words(c)}: {reason}" for p, c in chosen.items()]

    def _compile(self, tunables: Sequence[Tunable], tried: Sequence[dict[Problem, Config]]) -> None:
        """Compiles all rounds' kernels at once, and removes what does not compile from `tried`."""
        backends = [TritonBackend(_Forced(chosen)) for chosen in tried]
        emitted = [_emitted(backend, self._graph, self._target) for backend in backends]
        options = self._options
        images = try_compile(
            [function for graph in emitted for function in graph.functions],
            self._target.archs[0],
            options.jobs,
            options.cache_dir,
        )
        remaining = iter(images)
        found = [tuple(islice(remaining, len(graph.functions))) for graph in emitted]
        for chosen, graph, its in zip(tried, emitted, found, strict=True):
            self._drop_refused(tunables, chosen, graph, its)

    def _drop_refused(
        self,
        tunables: Sequence[Tunable],
        chosen: dict[Problem, Config],
        emitted: EmittedGraph,
        images: Sequence[object],
    ) -> None:
        refused = {image.kernel: image for image in images if isinstance(image, KernelRefused)}
        for launch in emitted.launches:
            for tunable in tunables:
                if launch.function in refused and launch.kernel in tunable.kernels:
                    config = chosen.pop(tunable.problem, None)
                    if config is not None:
                        reason = refused[launch.function].reason.strip().splitlines()[-1]
                        self._skip({tunable.problem: config}, reason)

    def _sample(self, chosen: Mapping[Problem, Config]) -> tuple[Sample, Mapping[str, str]]:
        """A measurement, and the function that each kernel became."""
        backend = TritonBackend(_Forced(chosen))
        options = self._options
        driver.build(self._captured, options, choose=lambda _: backend)
        emitted = _emitted(backend, self._graph, self._target)
        hints = hints_of(self._graph.dims)
        running = (launch for launch in emitted.launches if hints.holds(launch.when))
        functions = {launch.kernel: launch.function for launch in running}
        assert options.output is not None
        return self._measure(options.output), functions


def find_tunables(graph: KernelGraph, target: Target) -> tuple[Tunable, ...]:
    """The problems for which templates ask the tuning database, in the graph's order.

    Those of the hints alone: others cannot be timed here.
    """
    found: dict[Problem, Tunable] = {}
    known = tuple(replace(d, minimum=d.hint, maximum=d.hint) for d in graph.dims)
    for kernel in graph.kernels:
        noting = _Forced({})
        chooser: Chooser = noting
        # What is asked before is of products in parts or orders that may not be taken.
        alone = replace(graph, kernels=(kernel,), dims=known)
        TritonBackend(chooser).emit(TritonBackend(NOTHING).prepare(alone, target), target)
        for problem, candidates in noting.asked.items():
            so_far = found.get(problem) or Tunable(problem, tuple(candidates()), ())
            found[problem] = replace(so_far, kernels=(*so_far.kernels, kernel.name))
    return tuple(found.values())


def _emitted(backend: TritonBackend, graph: KernelGraph, target: Target) -> EmittedGraph:
    return backend.emit(backend.prepare(graph, target), target)


def _kernel_graph(graph: TensorGraph, target: Target) -> KernelGraph:
    machine = TritonBackend(NOTHING).machine(target)
    return driver.schedule(graph, machine)


def _time(tunable: Tunable, sample: Sample, functions: Mapping[str, str]) -> float:
    """Mean microseconds of a launch of the problem's kernels."""
    return float(np.mean([sample.microseconds[functions[k]] for k in tunable.kernels]))


def _agree(ours: Sequence[np.ndarray[Any, Any]], theirs: Sequence[np.ndarray[Any, Any]]) -> bool:
    for a, b in zip(ours, theirs, strict=True):
        wide, exact = a.astype(np.float64), b.astype(np.float64)
        same = np.isfinite(wide) == np.isfinite(exact)
        finite = np.isfinite(exact)
        error = np.linalg.norm((wide - exact)[finite])
        if not same.all() or error > _TOLERANCE * np.linalg.norm(exact[finite]) + 1e-6:
            return False
    return True


def _running_on(device: str, inputs: Sequence[np.ndarray[Any, Any]]) -> Measure:
    def measure(path: Path) -> Sample:
        model = load_model(path, device=device)
        outputs = tuple(np.array(a) for a in model.run(inputs))
        times: dict[str, list[float]] = {}
        for step in profile(model, inputs, _RUNS):
            times.setdefault(step.kernel, []).append(step.nanoseconds / max(step.calls, 1) / 1e3)
        return Sample({name: float(np.mean(t)) for name, t in times.items()}, outputs)

    return measure


def record(report: TuneReport, path: Path | None = None) -> Path:
    """Adds winners that are worth it to a database's file, by default the compiler's own.

    Returns:
        The file.

    Raises:
        PackageReadError: The file is no tuning database.
        PackageWriteError: The file cannot be written.
    """
    kept = path or KEPT_IN
    winners = (r.winner for r in report.results if r.winner.microseconds < WORTH * r.heuristic)
    database = read_database(kept).adding(winners)
    try:
        kept.write_text(database.text(), encoding="utf-8")
    except OSError as error:
        raise PackageWriteError(
            f"the tuning database cannot be written: {error}",
            where=kept,
            advice="Name another file with --database.",
        ) from error
    return kept


def text(report: TuneReport) -> str:
    """The report for people."""
    lines = []
    for result in report.results:
        winner = result.winner
        ratio = winner.microseconds / result.heuristic if result.heuristic else 1.0
        lines.append(
            f"{_name(winner.problem)}: {_words(dict(winner.config))}, "
            f"{winner.microseconds:.1f} µs, {ratio:.2f} of {HEURISTIC}"
        )
    if not report.results:
        lines.append("no kernel of this model has anything to tune")
    lines += [f"left out: {sentence}" for sentence in report.left_out]
    return "\n".join(lines) + "\n"


def _name(problem: Problem) -> str:
    sizes = "×".join(map(str, problem.sizes))
    return f"{problem.template} {sizes} {problem.dtype}"


def _words(config: Config) -> str:
    return " ".join(f"{name}={value}" for name, value in config.items())
