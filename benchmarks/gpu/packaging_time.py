"""Times packaging beside torch.compile's first call: each alone, in a new process, caches empty.

    python -m benchmarks.gpu.packaging_time NAME… [--arch sm_90]

Seconds from the module to the package, and from the module to the first results of
`torch.compile` (default mode). Imports and the making of the module are left out of both.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONTENDERS = ("ours", "compile")


def measure(who: str, name: str, arch: str) -> float:
    """Seconds of one contender in this process."""
    import torch

    from benchmarks.gpu import workloads

    torch.manual_seed(0)
    with torch.no_grad():
        if who == "compile":
            module, args = workloads.REG[name][1]()
            torch.cuda.synchronize()
            start = time.perf_counter()
            torch.compile(module, fullgraph=True)(*args)
            torch.cuda.synchronize()
            return time.perf_counter() - start
        import aot

        workloads.D = "cpu"
        module, args = workloads.REG[name][1]()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.pkg"
            start = time.perf_counter()
            aot.package(module, args, path=path, targets=[f"cuda:{arch}"], golden=False)
            return time.perf_counter() - start


def in_new_process(who: str, name: str, arch: str) -> float:
    """The same in a process of its own with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        caches = ("AOT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
        made = {cache: f"{folder}/{cache}" for cache in caches}
        settings = [f"{variable}={place}" for variable, place in made.items()]
        command = [sys.executable, "-m", "benchmarks.gpu.packaging_time", name]
        done = subprocess.run(
            ["env", *settings, *command, "--arch", arch, "--measure", who],
            capture_output=True,
            text=True,
            check=True,
        )
        return float(done.stdout.split()[-1])


def main() -> None:
    """Prints a line for each workload."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--measure", choices=CONTENDERS)
    options = parser.parse_args()
    for name in options.names:
        if options.measure:
            print(measure(options.measure, name, options.arch))
            continue
        ours, compiled = (in_new_process(who, name, options.arch) for who in CONTENDERS)
        ratio = ours / compiled
        print(f"{name:36s} ours {ours:.1f} s, compile {compiled:.1f} s: {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
