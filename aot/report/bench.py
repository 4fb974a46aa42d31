"""`bench`: load time, latency percentiles, and the time of each kernel."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aot.report.model import format_seconds
from aot.report.runtime import LoadedModel, load_model, profile

WARM_UP_RUNS = 3
PROFILED_RUNS = 20
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class KernelTime:
    """A kernel's part of a run: its name, model line, and mean seconds a run over all its steps."""

    kernel: str
    origin: str
    seconds: float


@dataclass(frozen=True)
class BenchResult:
    """What was measured; all times in seconds.

    Attributes:
        isa: The level that ran.
        threads: Threads it could use.
        load: Opening, checking and loading the package.
        first: The first run, which resolves shapes and touches the weights.
        runs: Timed runs.
        mean: Mean latency.
        best: Least latency.
        percentiles: Percent to latency.
        kernels: Slowest first; measured in other runs, since the clock costs time.
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

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def measure(
    path: Path, isa: str | None, threads: int | None, inputs: Sequence[Any], runs: int
) -> BenchResult:
    """Load the package and run it.

    Args:
        path: The package.
        isa: Level to force; None takes the best.
        threads: Threads; None takes the runtime's default.
        inputs: One array for each input.
        runs: Timed runs, after `WARM_UP_RUNS` of which the first is told apart.
    """
    start = time.perf_counter()
    model = load_model(path, isa, threads)
    load = time.perf_counter() - start
    seconds: list[float] = []
    for _ in range(WARM_UP_RUNS + runs):
        start = time.perf_counter()
        model.run(inputs)
        seconds.append(time.perf_counter() - start)
    timed = np.array(seconds[WARM_UP_RUNS:])
    return BenchResult(
        isa=model.model.isa,
        threads=model.model.num_threads,
        load=load,
        first=seconds[0],
        runs=runs,
        mean=float(timed.mean()),
        best=float(timed.min()),
        percentiles={p: float(np.percentile(timed, p)) for p in PERCENTILES},
        kernels=_kernel_times(model, inputs, min(runs, PROFILED_RUNS)),
    )


def _kernel_times(model: LoadedModel, inputs: Sequence[Any], runs: int) -> tuple[KernelTime, ...]:
    sums: dict[tuple[str, str], float] = {}
    for step in profile(model, inputs, runs):
        key = (step.kernel, step.origin)
        sums[key] = sums.get(key, 0.0) + step.nanoseconds * 1e-9 / runs
    ordered = sorted(sums.items(), key=lambda item: -item[1])
    return tuple(KernelTime(kernel, origin, s) for (kernel, origin), s in ordered)


def text(result: BenchResult, kernels: int) -> str:
    """The result for people, with the slowest `kernels` kernels."""
    return "\n".join(_lines(result, kernels)) + "\n"


def _lines(result: BenchResult, kernels: int) -> Iterator[str]:
    yield f"{result.isa}, {result.threads} thread{'s' if result.threads != 1 else ''}"
    yield f"load       {format_seconds(result.load)}"
    yield f"first run  {format_seconds(result.first)}"
    spread = ", ".join(f"p{p} {format_seconds(s)}" for p, s in result.percentiles.items())
    yield f"latency    best {format_seconds(result.best)}, {spread} ({result.runs} runs)"
    total = sum(kernel.seconds for kernel in result.kernels)
    if kernels and result.kernels:
        yield f"kernels    {format_seconds(total)} in all, the slowest:"
    for kernel in result.kernels[:kernels]:
        share = kernel.seconds / total if total else 0.0
        spent = format_seconds(kernel.seconds)
        yield f"  {share:4.0%} {spent:>9}  {kernel.kernel}  {kernel.origin}"
