"""Where the time of `aot-package` goes: `python -m benchmarks.packaging.run [--layers 24]`.

Everything is processor seconds, of the process and the compilers that it starts: the least of
`--rounds`, so that other work on the machine counts little. Wall time is the last column.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from aot.backends.cpp.precompiled import EVERY, header_flags
from aot.backends.cpp.toolchain import find_toolchain, include_directories
from aot.options import CPU_LEVELS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = "benchmarks.packaging.package"
IMPORTS = ("pass", "import sympy", "import torch", "import torch.export._trace", "import aot.cli")
KERNEL = """#include "aot/kernel/prelude.h"
extern "C" void k(const float* x, float* o) { aot::store(o, aot::exp(aot::load<float, 16>(x))); }
"""

Cost = tuple[float, float]
"""Processor seconds and wall seconds."""


def cost(command: Sequence[str], rounds: int = 1) -> Cost:
    """The least processor time of some runs, and the wall time of that one."""
    found = []
    for _ in range(rounds):
        before, start = _processor(), time.perf_counter()
        subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
        found.append((_processor() - before, time.perf_counter() - start))
    return min(found)


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tell(name: str, found: Cost) -> None:
    """A row of the table."""
    print(f"| {name} | {found[0]:.2f} | {found[1]:.2f} |", flush=True)


def imports(rounds: int) -> None:
    """A process that does nothing but import."""
    for line in IMPORTS:
        tell(f"python: `{line}`", cost([sys.executable, "-c", line], rounds=rounds))


def compilers(rounds: int) -> None:
    """One small kernel on every level, with and without precompiled headers."""
    tools = find_toolchain()
    folders = [f"-I{folder}" for folder in include_directories()]
    every = next(d / EVERY for d in include_directories() if (d / EVERY).is_file())
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        source, target = place / "kernel.cpp", str(place / "kernel.o")
        source.write_text(KERNEL, encoding="utf-8")
        (place / "intrinsics.cpp").write_text("#include <immintrin.h>\n", encoding="utf-8")
        for level in CPU_LEVELS:
            flags = [*tools.command, *tools.compile_flags(level)]
            whole = [*folders, "-c", str(source), "-o", target]
            rows = {
                "intrinsics alone": [*flags, "-c", str(place / "intrinsics.cpp"), "-o", target],
                "headers": [*flags, *folders, "-fsyntax-only", str(source)],
                "one kernel": [*flags, *whole],
                "precompiling": [*flags, *folders, "-xc++-header", str(every), "-o", target],
                "one kernel, precompiled": [*flags, *header_flags(tools, level, place), *whole],
                "linking": [*tools.command, target, *tools.link_flags(level), "-o", f"{target}.so"],
            }
            for row, command in rows.items():
                tell(f"{level}: {row}", cost(command, rounds=rounds))


def builds(name: str, texts: Sequence[tuple[str, str]], rounds: int) -> None:
    """Builds with nothing kept, with headers kept, and with all kept; then after each change.

    `texts`: what is changed, and the model file's text; nothing in the first.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        model = place / "model.py"
        command = ["env", f"AOT_CACHE_DIR={place / 'cache'}", sys.executable, "-m", PACKAGE]
        command += [str(model), str(place / "model.pkg")]
        (_, text), *changes = texts
        model.write_text(text, encoding="utf-8")
        tell(f"{name}: cache empty", cost(command))
        for kept in place.glob("cache/cpp/??/*"):
            kept.unlink()
        tell(f"{name}: headers kept", cost(command))
        tell(f"{name}: all kept", cost(command, rounds))
        told = subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
        for stage, seconds in json.loads(told.stdout).items():
            print(f"| … {stage} | {seconds:.2f} | |", flush=True)
        for change, text in changes:
            model.write_text(text, encoding="utf-8")
            tell(f"{name}: {change}", cost(command))


def changed_layers(count: int) -> list[tuple[str, str]]:
    """Model files of that many layers: as it is, then with another layer in the middle."""
    text = (
        "from benchmarks.packaging.layers import inputs, layers\n"
        "model = layers({}, {!r})\nexample_inputs = inputs()\n"
    )
    changes = ("", "activation", "width")
    return [(f"another {change} in one layer", text.format(count, change)) for change in changes]


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=24)
    chosen = parser.parse_args()
    print("| | processor, s | wall, s |\n|---|---|---|")
    imports(chosen.rounds)
    compilers(chosen.rounds)
    for name in ("softmax", "mlp"):
        builds(name, [("", (HERE / f"{name}.py").read_text(encoding="utf-8"))], chosen.rounds)
    builds(f"{chosen.layers} layers", changed_layers(chosen.layers), 1)


if __name__ == "__main__":
    main()
