"""Packages and services of models that are large: `python -m benchmarks.scale.run FOLDER [REGEX]`.

Each model is packaged once (processor seconds of stages, greatest memory of that process), then
loaded in processes that have done nothing else, then run from threads with sessions of their own:
resident memory must not grow. Prints a table; packages stay in the folder, and are taken again.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale.models import CASES, make

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODEL = "from benchmarks.scale.models import make\nmodel, example_inputs = make({!r})\n"
PACKAGE = (
    "import resource, runpy, sys\n"
    "sys.argv = ['package'] + sys.argv[1:]\n"
    "runpy.run_module('benchmarks.packaging.package', run_name='__main__')\n"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
)


def package(name: str, folder: Path) -> dict[str, Any]:
    """What packaging the model costs; the package and its inputs lie in the folder then."""
    place = _place(name, folder)
    kept = place.with_suffix(".json")
    if kept.exists():
        read: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return read
    place.with_suffix(".py").write_text(MODEL.format(name), encoding="utf-8")
    paths = [str(place.with_suffix(end)) for end in (".py", ".pkg")]
    before, begin = _processor(), time.perf_counter()
    told = subprocess.run(
        [sys.executable, "-c", PACKAGE, *paths], check=True, cwd=ROOT, capture_output=True
    )
    stages, peak = told.stdout.decode().split("\n")[:2]
    model, inputs = make(name)
    np.savez(place.with_suffix(".npz"), **{f"{k:04d}": x.numpy() for k, x in enumerate(inputs)})
    found = {
        "stages": json.loads(stages),
        "processor": _processor() - before,
        "wall": time.perf_counter() - begin,
        "peak": int(peak) / 1024,
        "weights": sum(p.numel() * p.element_size() for p in model.parameters()) / (1 << 20),
        "package": place.with_suffix(".pkg").stat().st_size / (1 << 20),
    }
    kept.write_text(json.dumps(found), encoding="utf-8")
    return found


def _place(name: str, folder: Path) -> Path:
    """Of a model's files, which differ in their endings."""
    return folder / name.replace(" ", "_").replace(",", "")


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def serve(name: str, folder: Path, runs: int, threads: int) -> dict[str, Any]:
    """What one process tells that loads the package."""
    place = _place(name, folder)
    paths = [str(place.with_suffix(end)) for end in (".pkg", ".npz")]
    command = [sys.executable, str(HERE / "serve.py"), *paths, str(runs), str(threads)]
    told = subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def tell(name: str, folder: Path, options: argparse.Namespace) -> None:
    """The lines of one model."""
    made = package(name, folder)
    stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in made["stages"].items())
    print(
        f"| {name} | {made['weights']:.0f} | {made['package']:.1f} | {made['processor']:.1f} "
        f"| {made['peak']:.0f} | {stages} |",
        flush=True,
    )
    starts = [serve(name, folder, 0, 1) for _ in range(options.processes)]
    if starts:
        shown = [_two([each[key] for each in starts]) for key in ("load", "start", "run")]
        last = starts[-1]
        grown = {k: last["after"][k] - last["before"][k] for k in ("anonymous", "files")}
        print(
            f"| {name} | {' | '.join(shown)} | {grown['anonymous']:.1f} | {grown['files']:.1f} |",
            flush=True,
        )
    if options.runs:
        seen = serve(name, folder, options.runs, options.threads)["soak"]
        print(f"| {name} | {', '.join(format(s['anonymous'], '.1f') for s in seen)} |", flush=True)


def _two(values: list[float]) -> str:
    return f"{min(values):.2f}, {statistics.median(values):.2f}"


def main() -> None:
    """Prints rows: packaging; starts (least, median ms; MB); anonymous MB over the runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where packages are kept")
    parser.add_argument("regex", nargs="?", default=".", help="of names of models")
    parser.add_argument("--processes", type=int, default=10, help="that load each package")
    parser.add_argument("--runs", type=int, default=10000, help="of the sessions together; 0: none")
    parser.add_argument("--threads", type=int, default=8, help="each with a session of its own")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name in CASES:
        if re.search(options.regex, name):
            tell(name, folder, options)


if __name__ == "__main__":
    main()
