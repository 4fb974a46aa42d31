"""Sizes and cold starts of the ten examples, beside packages of another tree.

    python -m benchmarks.examples.run --folder build/examples --package-only
    python -m benchmarks.examples.run --folder build/examples --before ../old/build/examples

A size is that of the package without weights (they lie beside it) and without golden values. A cold
start is the time from loading a package to its first results in a process that has done nothing
else, both trees' packages in turn; files are in the page cache. Both are printed as a table.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch.utils import _pytree as pytree

from aot.frontend.source import read_model_file

EXAMPLES = Path(__file__).parents[2] / "examples"
CHILD = """
import sys, time
import numpy as np
import aot_runtime
with np.load(sys.argv[2]) as file:
    inputs = [file[name] for name in sorted(file.files)]
start = time.perf_counter()
aot_runtime.load(sys.argv[1]).run(inputs)
print(time.perf_counter() - start)
"""


@dataclass(frozen=True)
class Cost:
    """Of one package: bytes, and seconds of each cold start."""

    nbytes: int
    starts: tuple[float, ...]


def main() -> None:
    """Packages what is missing in the folder, then measures what the expression matches."""
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    names = sorted(p.name for p in EXAMPLES.glob("[01]*") if re.search(options.only, p.name))
    for name in names:
        if not (options.folder / f"{name}.pkg").exists():
            package(name, options.folder, options.target)
    if options.package_only:
        return
    folders = [folder for folder in (options.before, options.folder) if folder is not None]
    print("| example | " + " | ".join(f"{f}: bytes | least, median ms" for f in folders) + " |")
    print("|---|" + "---|---|" * len(folders))
    for name in names:
        print(f"| {name} | {_row(costs(name, folders, options.processes))} |", flush=True)


def package(name: str, folder: Path, target: str) -> None:
    """Packages an example as `folder`/`name`.pkg, and writes its inputs as `name`.npz."""
    model = EXAMPLES / name / "model.py"
    out = ["-o", str(folder / f"{name}.pkg"), "--weights-file", f"{name}.weights"]
    command = [sys.executable, "-m", "aot", "build", str(model), "--target", target, *out]
    subprocess.run([*command, "--no-golden"], check=True)
    leaves = pytree.tree_leaves(read_model_file(model).args)
    arrays = {f"{k:03d}": leaf.numpy() for k, leaf in enumerate(leaves)}
    np.savez(folder / f"{name}.npz", **arrays)


def costs(name: str, folders: list[Path], processes: int) -> list[Cost]:
    """What the example's packages in the folders cost, in turn; inputs are those of the last."""
    inputs = folders[-1] / f"{name}.npz"
    packages = [folder / f"{name}.pkg" for folder in folders]
    rounds = [[_cold_start(p, inputs) for p in packages] for _ in range(processes)]
    starts = list(zip(*rounds, strict=True)) or [()] * len(packages)
    return [Cost(p.stat().st_size, s) for p, s in zip(packages, starts, strict=True)]


def _cold_start(path: Path, inputs: Path) -> float:
    command = [sys.executable, "-c", CHILD, str(path), str(inputs)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _row(costs: list[Cost]) -> str:
    cells = []
    for cost in costs:
        grown = "" if cost is costs[0] else f" ({cost.nbytes / costs[0].nbytes - 1:+.1%})"
        times = [1e3 * s for s in cost.starts]
        shown = f"{min(times):.2f}, {statistics.median(times):.2f}" if times else ""
        cells.append(f"{cost.nbytes:,}{grown} | {shown}")
    return " | ".join(cells)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="where this tree's packages are")
    parser.add_argument("--before", type=Path, help="where another tree's packages are")
    parser.add_argument("--target", default="cpu:x86-64-v3")
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--processes", type=int, default=10, help="cold starts of each; 0: sizes")
    parser.add_argument("--package-only", action="store_true", help="measures nothing")
    return parser.parse_args()


if __name__ == "__main__":
    main()
