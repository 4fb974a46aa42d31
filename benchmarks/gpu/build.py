"""Packages the GPU workloads, in parallel, with or without a GPU in the machine.

python benchmarks/gpu/build.py OUTDIR [REGEX] [--jobs N] [--arch sm_90]
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import time
from pathlib import Path


def package_one(job: tuple[str, str, str]) -> str:
    """Packages one workload; a line that says how it went."""
    name, folder, arch = job
    import torch

    import aot
    from aot.errors import AotError
    from benchmarks.gpu import workloads

    workloads.D = "cpu"
    torch.manual_seed(0)
    torch.set_num_threads(2)
    start = time.perf_counter()
    try:
        with torch.no_grad():
            module, args = workloads.REG[name][1]()
            made = time.perf_counter()
            report = aot.package(
                module,
                args,
                path=Path(folder) / f"{name}.pkg",
                targets=[f"cuda:{arch}"],
                golden=False,
            )
    except (AotError, RuntimeError) as error:  # a bench goes on with the next workload
        return f"{name:36s} FAIL {type(error).__name__}: {str(error)[:400]}"
    seconds = time.perf_counter() - made
    kernels = sum(len(p.kernels) for p in report.programs)
    return f"{name:36s} ok {seconds:6.1f} s (made in {made - start:.1f} s), {kernels} kernels"


def main() -> None:
    """Packages what the regular expression matches (names, or `B:` for a group)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("regex", nargs="?", default=".")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--arch", default="sm_90")
    options = parser.parse_args()
    from benchmarks.gpu import workloads

    Path(options.folder).mkdir(parents=True, exist_ok=True)
    names = [
        name
        for name, (group, _, _) in workloads.REG.items()
        if re.search(options.regex, name) or re.search(options.regex, f"{group}:")
    ]
    jobs = [(name, options.folder, options.arch) for name in names]
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=4) as pool:
        for line in pool.imap_unordered(package_one, jobs, chunksize=1):
            print(line, flush=True)


if __name__ == "__main__":
    main()
