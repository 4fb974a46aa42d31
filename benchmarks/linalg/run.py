"""Times routines of dense linear algebra beside eager, on one thread.

    python -m benchmarks.linalg.run [--only REGEX] [--write]

Batches of 10^4 small matrices, and single ones of 1024^2. Ours and eager's runs alternate, and the
least of each counts, in time of the processor: what other processes take is left out. `--write`
makes benchmarks/results/linalg.md of the rows that ran.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aot_runtime
import torch
from torch import linalg

import aot

RESULTS = Path(__file__).parents[1] / "results" / "linalg.md"
BATCH, SIZES, LARGE, COLUMNS = 10_000, (2, 8, 16, 32), 1024, 4


def _definite(a: torch.Tensor) -> torch.Tensor:
    return a @ a.mT + a.shape[-1] * torch.eye(a.shape[-1], dtype=a.dtype)


OPERATORS: dict[str, Callable[..., Any]] = {
    "cholesky": lambda a, s, b: linalg.cholesky(s),
    "solve_triangular": lambda a, s, b: linalg.solve_triangular(s, b, upper=False),
    "lu_factor": lambda a, s, b: linalg.lu_factor(a),
    "solve": lambda a, s, b: linalg.solve(a, b),
    "inv": lambda a, s, b: linalg.inv(a),
    "det": lambda a, s, b: linalg.det(a),
    "qr": lambda a, s, b: linalg.qr(a),
    "eigh": lambda a, s, b: linalg.eigh(s),
    "svd": lambda a, s, b: linalg.svd(a, full_matrices=False),
}


class _Model(torch.nn.Module):
    """One operator."""

    def __init__(self, operator: Callable[..., Any]) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, a: torch.Tensor, s: torch.Tensor, b: torch.Tensor) -> Any:
        """Its results."""
        return self.operator(a, s, b)


@dataclass(frozen=True)
class Timed:
    """One row: milliseconds of the least of several runs."""

    operator: str
    batch: int
    size: int
    dtype: str
    ours: float
    eager: float


def _least(run: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds of both, which alternate for at least half a second, and three times."""
    best, start = [1e9, 1e9], time.perf_counter()
    turns = 0
    while turns < 3 or (time.perf_counter() - start < 0.5 and turns < 50):
        for k, each in enumerate((run, other)):
            before = time.process_time()
            each()
            best[k] = min(best[k], 1e3 * (time.process_time() - before))
        turns += 1
    return best[0], best[1]


def measure(operator: str, batch: int, size: int, dtype: torch.dtype) -> Timed:
    """Packages the operator for this CPU, and times it beside eager."""
    generator = torch.Generator().manual_seed(0)
    shape = (batch, size, size) if batch > 1 else (size, size)
    a = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    b = torch.randn((*shape[:-1], COLUMNS), generator=generator, dtype=torch.float64).to(dtype)
    inputs = (a, _definite(a), b)
    module = _Model(OPERATORS[operator])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "row.pkg"
        aot.package(module, inputs, path=path, golden=False)
        model = aot_runtime.load(path, num_threads=1)
        ours, eager = _least(lambda: model(*inputs), lambda: module(*inputs))
    return Timed(operator, batch, size, str(dtype).removeprefix("torch."), ours, eager)


def rows(only: str) -> Iterator[Timed]:
    """All rows whose name (operator batch x size dtype) has a match."""
    places = [(BATCH, size) for size in SIZES] + [(1, LARGE)]
    for operator in OPERATORS:
        for dtype in (torch.float32, torch.float64):
            for batch, size in places:
                if re.search(only, f"{operator} {batch}x{size} {dtype}"):
                    yield measure(operator, batch, size, dtype)


def table(timed: list[Timed]) -> str:
    """The rows in Markdown."""
    lines = [
        "# Dense linear algebra",
        "",
        "Made by `python -m benchmarks.linalg.run --write`: one thread, milliseconds of the",
        "processor in the least of several runs, ours / eager (MKL). B matrices, n x n.",
        "",
        "| operator | type | B | n | ours | eager | ours / eager |",
        "|---|---|---|---|---|---|---|",
    ]
    for t in timed:
        times = f"{t.ours:.2f} | {t.eager:.2f} | {t.ours / t.eager:.2f}"
        lines.append(f"| {t.operator} | {t.dtype} | {t.batch} | {t.size} | {times} |")
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
        print(
            f"{row.operator:18} {row.dtype} {row.batch:6} x {row.size:5}: {row.ours:9.2f} ms, "
            f"{row.ours / row.eager:.2f} of eager",
            flush=True,
        )
    if choice.write:
        RESULTS.write_text(table(timed), encoding="utf-8")


if __name__ == "__main__":
    main()
