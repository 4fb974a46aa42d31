"""Times Fourier transforms beside eager, on one thread.

    python -m benchmarks.fft.run [--only REGEX] [--write]

Single rows from 16 to 10^6 points (powers of two, of 3, 5 and 7, primes), batches, and images.
Ours and eager's runs alternate; the median of each counts. `--write` makes
benchmarks/results/fft.md of the rows that ran.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aot_runtime
import torch
from torch import fft

import aot

RESULTS = Path(__file__).parents[1] / "results" / "fft.md"
LENGTHS = (16, 64, 1024, 65536, 1 << 20, 243, 3125, 16807, 10**6, 127, 1009, 10007)
SHAPES = (*((n,) for n in LENGTHS), (256, 16), (64, 1024), (512, 512), (1024, 1024))


@dataclass(frozen=True)
class Timed:
    """One row: microseconds of the median of several runs."""

    name: str
    ours: float
    eager: float

    @property
    def ratio(self) -> float:
        """Of ours to eager's."""
        return self.ours / self.eager


class _Model(torch.nn.Module):
    """One operator."""

    def __init__(self, operator: Callable[..., Any]) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Its result."""
        return self.operator(x)


def _alternating(*runs: Callable[[], Any]) -> list[float]:
    """The median of the microseconds of each, in turns of ten milliseconds at least."""
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < 0.01:
        runs[-1]()
        count += 1
    found: list[list[float]] = [[] for _ in runs]
    for _ in range(11):
        for k, run in enumerate(runs):
            before = time.perf_counter()
            for _ in range(count):
                run()
            found[k].append(1e6 * (time.perf_counter() - before) / count)
    return [statistics.median(times) for times in found]


def measure(name: str, operator: Callable[..., Any], x: torch.Tensor) -> Timed:
    """Packages the operator for this CPU, and times it beside eager."""
    module = _Model(operator)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "row.pkg"
        aot.package(module, (x,), path=path, golden=False, targets=["cpu:x86-64-v3"])
        model = aot_runtime.load(path, num_threads=1)
        given = x.numpy()
        ours, eager = _alternating(lambda: model(given), lambda: module(x))
    return Timed(name, ours, eager)


def rows(only: str) -> Iterator[Timed]:
    """All rows whose name has a match."""
    for kind, dtypes in (("fft", ("complex64", "complex128")), ("rfft", ("float32",))):
        for dtype in dtypes:
            for shape in SHAPES:
                several = len(shape) == 2 and shape[0] == shape[1]
                name = f"{kind}{'2' if several else ''} {dtype} {' x '.join(map(str, shape))}"
                if re.search(only, name):
                    x = torch.randn(shape, dtype=getattr(torch, dtype))
                    yield measure(name, getattr(fft, f"{kind}{'2' if several else ''}"), x)


def table(timed: list[Timed]) -> str:
    """The rows in Markdown."""
    mean = math.exp(statistics.fmean(math.log(t.ratio) for t in timed))
    lines = [
        "# Fourier transforms",
        "",
        "Made by `python -m benchmarks.fft.run --write`: one thread, microseconds in the median of",
        f"several runs beside eager (MKL). Geometric mean of ours / eager: {mean:.2f}.",
        "",
        "| transform | ours | eager | ours / eager |",
        "|---|---|---|---|",
    ]
    lines += [f"| {t.name} | {t.ours:.1f} | {t.eager:.1f} | {t.ratio:.2f} |" for t in timed]
    return "\n".join(lines) + "\n"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="rows whose name has a match of this")
    parser.add_argument("--write", action="store_true", help="write the results' page")
    choice = parser.parse_args()
    torch.set_num_threads(1)
    timed = []
    for row in rows(choice.only):
        timed.append(row)
        print(f"{row.name:32} {row.ours:12.1f} us, {row.ratio:.2f} of eager", flush=True)
        if choice.write:
            RESULTS.write_text(table(timed), encoding="utf-8")


if __name__ == "__main__":
    main()
