"""How long packaging an LSTM takes, by its number of steps: a loop stays a loop.

    AOT_CACHE_DIR=$(mktemp -d) python -m benchmarks.works.lengths [--target cpu:x86-64-v4]

Writes benchmarks/results/works_lengths.json and the page of all workloads. A first package, which
is not counted, precompiles the headers; with a fresh cache nothing else is found there. Beside the
seconds stand those that processors worked: on a busy machine these tell.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import torch

import aot
from benchmarks.processes import own_target
from benchmarks.works.run import RESULTS
from benchmarks.works.table import Length, write_page

WARM_UP = (10, False)
LENGTHS = ((1000, True), (16, False), (1000, False), (4000, False))
"""Steps, and whether their number is dynamic."""


def main() -> None:
    """Packages each length and writes what it took."""
    parser = argparse.ArgumentParser("lengths", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default=own_target("cpu"))
    parser.add_argument("--note", default="", help="when, where and how quiet, for the page")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _packaged(*WARM_UP, options.target, Path(folder))
        rows = [_packaged(*length, options.target, Path(folder)) for length in LENGTHS]
    found = {"about": options.note, "rows": [asdict(row) for row in rows]}
    path = RESULTS / "works_lengths.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    write_page(RESULTS)


def _packaged(steps: int, dynamic: bool, target: str, folder: Path) -> Length:
    """What packaging one layer of so many steps took."""
    layer = torch.nn.LSTM(64, 256).eval()
    shapes = ({0: torch.export.Dim("steps", min=1, max=1 << 16)},) if dynamic else None
    start, worked = time.perf_counter(), _processor_seconds()
    with torch.no_grad():
        report = aot.package(
            layer,
            (torch.randn(steps, 4, 64),),
            path=folder / "lstm.pkg",
            targets=[target],
            golden=False,
            dynamic_shapes=shapes,
        )
    kernels = len(report.programs[0].kernels)
    seconds = time.perf_counter() - start
    return Length(steps, dynamic, kernels, seconds, _processor_seconds() - worked)


def _processor_seconds() -> float:
    """That this process and the compilers that it ran have used so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


if __name__ == "__main__":
    main()
