"""`bench`: load time, latency percentiles, and the time of each kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from aot_runtime.format.plan import Plan, Program
from aot_runtime.tools.files import writing
from aot_runtime.tools.loaded import LoadedModel, load_model, profile
from aot_runtime.tools.throughput import Throughput, measure_throughput
from aot_runtime.tools.units import format_seconds
from aot_runtime.trace import TraceEvent

WARM_UP_RUNS = 3
PROFILED_RUNS = 20
TRACED_RUNS = 3
PERCENTILES = (50, 90, 99)
BUSY = 1.5
"""How much longer than a timed run its kernels may seem to take before that is told."""


@dataclass(frozen=True)
class KernelTime:
    """A kernel's part of a run: its name, model line, and seconds over all its steps.

    Each step's are the median of several runs, as the latency's p50 is.
    """

    kernel: str
    origin: str
    seconds: float


@dataclass(frozen=True)
class BenchResult:
    """What was measured; all times in seconds.

    Attributes:
        isa: The level that ran, or the device with its architecture.
        threads: Threads it could use.
        load: Opening, checking and loading the package.
        first: The first run, which resolves shapes and touches the weights.
        runs: Timed runs.
        mean: Mean latency.
        best: Least latency.
        percentiles: Percent to latency.
        kernels: Slowest first; measured in other runs, since the clock costs time.
        rival: Percent to latency of what it was compared with; None without a comparison.
        throughput: Of several sessions at the same time; None if none were asked for.
    """

    isa: str
    threads: int
    load: float
    first: float
    runs: int
    mean: float
    best: float
    percentiles: dict[int, float]
    kernels: tuple[KernelTime, ...]
    rival: dict[int, float] | None = None
    throughput: Throughput | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


@dataclass(frozen=True)
class Observed:
    """What a page shows of a package's runs, beside their latency.

    Attributes:
        program: The program that ran.
        sizes: Dims that the inputs bind, to their values.
        seconds: Of each step of the program, the median over the profiled runs; 0 without work.
        events: A timeline of one run.
    """

    program: Program
    sizes: dict[str, int]
    seconds: tuple[float, ...]
    events: tuple[TraceEvent, ...]


Rival = Callable[[int], Callable[[], object]]
"""Number of threads to a call that does the same work in another way."""


def measure(
    path: Path,
    isa: str | None,
    threads: int | None,
    inputs: Sequence[Any],
    runs: int,
    rival: Rival | None = None,
    device: str | None = None,
    trace: Path | None = None,
    sessions: int = 1,
) -> BenchResult:
    """Load the package and run it.

    Args:
        path: The package.
        isa: Level to force; None takes the best.
        threads: Threads; None takes the runtime's default.
        inputs: One array for each input.
        runs: Timed runs, after `WARM_UP_RUNS` of which the first is told apart.
        rival: What to compare with; runs of both alternate.
        device: "cuda", "cuda:1", …; None takes the host where the package runs there.
        trace: Where to write a timeline of `TRACED_RUNS` more runs, for Perfetto.
        sessions: Above 1: also the throughput of so many, with `threads` (or one) each.
    """
    start = time.perf_counter()
    model = load_model(path, isa, threads, device)
    load = time.perf_counter() - start
    calls: list[Callable[[], object]] = [partial(model.run, inputs)]
    if rival is not None:
        calls.append(rival(model.model.num_threads))
    times: list[list[float]] = []
    for _ in range(WARM_UP_RUNS + runs):
        model.model.reset()  # a cache that fills up would end the runs
        times.append(_timed(calls))
    seconds = [row[0] for row in times]
    timed = seconds[WARM_UP_RUNS:]
    if trace is not None:
        write_trace(model, inputs, trace)
    many = measure_throughput(model, inputs, sessions, threads or 1, isa) if sessions > 1 else None
    return BenchResult(
        isa=model.place,
        threads=model.model.num_threads,
        load=load,
        first=seconds[0],
        runs=runs,
        mean=float(np.mean(timed)),
        best=min(timed),
        percentiles=_percentiles(timed),
        kernels=_kernel_times(model, inputs, min(runs, PROFILED_RUNS)),
        rival=_percentiles([row[1] for row in times[WARM_UP_RUNS:]]) if rival else None,
        throughput=many,
    )


def observe(
    path: Path,
    isa: str | None,
    threads: int | None,
    inputs: Sequence[Any],
    runs: int,
    device: str | None = None,
) -> Observed:
    """Load the package and look at its runs; arguments as of `measure`."""
    model = load_model(path, isa, threads, device)
    steps = profile(model, inputs, min(runs, PROFILED_RUNS))
    model.run(inputs)  # what a first run resolves is no part of the timeline
    model.model.reset()
    with model.model.trace() as timeline:
        model.run(inputs)
    return Observed(
        model.program,
        bound_sizes(model.plan, inputs),
        tuple(step.median * 1e-9 for step in steps),
        tuple(timeline.events),
    )


def bound_sizes(plan: Plan, inputs: Sequence[Any]) -> dict[str, int]:
    """The dims that inputs of these shapes bind."""
    sources = ((dim.name, dim.source) for dim in plan.dims if dim.source is not None)
    return {name: (inputs[s.input].shape[s.axis] - s.offset) // s.divisor for name, s in sources}


def write_trace(model: LoadedModel, inputs: Sequence[Any], path: Path) -> None:
    """Write a timeline of `TRACED_RUNS` runs, in the trace-event format of Perfetto and Chrome.

    Raises:
        PackageWriteError: The file cannot be written.
    """
    with model.model.trace() as timeline:
        for _ in range(TRACED_RUNS):
            model.model.reset()
            model.run(inputs)
    with writing("the timeline", path, "--trace"):
        timeline.save(path)


def _timed(calls: Sequence[Callable[[], object]]) -> list[float]:
    seconds: list[float] = []
    for call in calls:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def _percentiles(seconds: Sequence[float]) -> dict[int, float]:
    return {p: float(np.percentile(seconds, p)) for p in PERCENTILES}


def _kernel_times(model: LoadedModel, inputs: Sequence[Any], runs: int) -> tuple[KernelTime, ...]:
    sums: dict[tuple[str, str], float] = {}
    for step in profile(model, inputs, runs):
        key = (step.kernel, step.origin)
        sums[key] = sums.get(key, 0.0) + step.median * 1e-9
    ordered = sorted(sums.items(), key=lambda item: -item[1])
    return tuple(KernelTime(kernel, origin, s) for (kernel, origin), s in ordered)


def text(result: BenchResult, kernels: int) -> str:
    """The result for people, with the slowest `kernels` kernels."""
    return "\n".join(_lines(result, kernels)) + "\n"


def _lines(result: BenchResult, kernels: int) -> Iterator[str]:
    yield f"{result.isa}, {_threads(result.threads)}"
    yield f"load       {format_seconds(result.load)}"
    yield f"first run  {format_seconds(result.first)}"
    spread = percentiles_text(result.percentiles)
    yield f"latency    best {format_seconds(result.best)}, {spread} ({result.runs} runs)"
    if result.rival is not None:
        ratio = result.percentiles[50] / result.rival[50]
        yield f"eager      {percentiles_text(result.rival)}; ours takes {ratio:.2g} of its p50"
    if result.throughput is not None:
        many = result.throughput
        yield (
            f"throughput {many.together:,.0f} runs/s of {many.sessions} sessions with "
            f"{_threads(many.threads)} each: "
            f"{many.times_one:.2f} times one session's {many.alone:,.0f}"
        )
    total = sum(kernel.seconds for kernel in result.kernels)
    if kernels and result.kernels:
        yield f"kernels    {format_seconds(total)} in all, medians of profiled runs, the slowest:"
    if kernels and total > BUSY * result.percentiles[50]:
        yield (
            "           which is more than the latency above: others used this machine while the "
            "profiled runs ran; shares say more than times"
        )
    for kernel in result.kernels[:kernels]:
        share = kernel.seconds / total if total else 0.0
        spent = format_seconds(kernel.seconds)
        yield f"  {share:4.0%} {spent:>9}  {kernel.kernel}  {kernel.origin}"


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count != 1 else ''}"


def percentiles_text(percentiles: Mapping[int, float]) -> str:
    """Percentiles for people: "p50 12 µs, p90 14 µs, p99 20 µs"."""
    return ", ".join(f"p{p} {format_seconds(s)}" for p, s in percentiles.items())
