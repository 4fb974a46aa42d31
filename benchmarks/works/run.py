"""Packages the workloads, checks them against float64, and times them beside eager, in turn.

    make works                              # one CPU thread and all: benchmarks/results/works.md
    make works ARGS='--device cuda'         # the GPU of this machine
    make works ARGS='--only LSTM --seconds 5'

A row is right where its error is at most three times eager's own (tests/comparing.py). Times are
medians of calls in turn; on a GPU, of batches of enqueued calls between events.
"""

from __future__ import annotations

import argparse
import copy
import multiprocessing
import os
import platform
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import aot_runtime
import torch
from torch import nn
from torch.utils import _pytree as pytree

import aot
from aot.errors import AotError
from aot.frontend.weights import to_array
from benchmarks.clocks import BATCH_SECONDS, Call, device_seconds, host_seconds, in_turn
from benchmarks.options import common_options
from benchmarks.processes import own_target
from benchmarks.works.table import Row, Times, read_rows, write_page, write_rows
from benchmarks.works.workloads import WORKLOADS, Inputs, Workload, workload_named
from tests.comparing import complaint

RESULTS = Path(__file__).parents[1] / "results"

SLICE_SECONDS = 0.15
"""Of calls of one side on a CPU: eager's threads wait for more work in a loop for some milliseconds
after a call, on the cores of whoever is next."""


def main() -> None:
    """Times what the regular expression matches and writes the page of all that is known."""
    options = _options()
    out = options.json or RESULTS / f"works_{options.device}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = {row.name: row for row in read_rows(out)}
    chosen = [w for w in WORKLOADS if re.search(options.only, w.name)]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for built in _build_all(chosen, Path(folder), options):
            row = rows[built.name] = _timed(built, Path(folder), options)
            print(row.line(), flush=True)
            write_rows(out, options.note or platform.node(), rows.values())
    write_page(out.parent)


def _build_all(chosen: Sequence[Workload], folder: Path, options: argparse.Namespace) -> list[Row]:
    """Packages them, each in a process of its own; rows without times."""
    target = options.target or own_target(options.device)
    jobs = [(w.name, folder, target, options.device, options.small) for w in chosen]
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=1) as pool:
        return pool.starmap(build, jobs, chunksize=1)


def build(name: str, folder: Path, target: str, device: str, small: bool) -> Row:
    """Packages one workload as `folder`/`name`.pkg; what failed is said in the row."""
    workload = workload_named(name)
    start = time.perf_counter()
    try:
        with torch.no_grad():
            module, inputs = workload.make(device, small=small)
            start = time.perf_counter()
            report = aot.package(
                module,
                inputs,
                path=folder / f"{name}.pkg",
                targets=[target],
                dynamic_shapes=workload.dynamic,
                golden=False,
            )
    except AotError as error:
        return Row(name, f"no package: {str(error).splitlines()[0]}")
    kernels = sum(len(program.kernels) for program in report.programs)
    return Row(name, "", kernels, time.perf_counter() - start)


def _options() -> argparse.Namespace:
    parser = common_options("works", __doc__, seconds=10.0)
    parser.add_argument("--small", action="store_true", help="the sizes of the tests")
    return parser.parse_args()


def _timed(built: Row, folder: Path, options: argparse.Namespace) -> Row:
    """The row with its verdict and times, where there is a package."""
    if built.wrong:
        return built
    module, inputs = workload_named(built.name).make(options.device, small=options.small)
    module = module.to(options.device)
    inputs = tuple(x.to(options.device) for x in inputs)
    times: list[Times] = []
    verdict = ""
    for threads in _settings(options.device):
        torch.set_num_threads(threads or os.cpu_count() or 1)
        path = folder / f"{built.name}.pkg"
        ours = aot_runtime.load(path, options.device, num_threads=threads or None)
        calls = {"eager": lambda: module(*inputs), "ours": lambda m=ours: m(*inputs)}
        verdict = verdict or _wrong(calls, module, inputs)
        times.append(Times(threads, _in_turn(calls, options.device, options.seconds)))
    return replace(built, wrong=verdict, times=tuple(times))


def _settings(device: str) -> Sequence[int]:
    """Numbers of threads; 0: what the GPU's host has."""
    return (0,) if device == "cuda" else sorted({1, os.cpu_count() or 1})


def _wrong(calls: Mapping[str, Call], module: nn.Module, inputs: Inputs) -> str:
    """What is wrong with our results, "" when nothing is."""
    precise = copy.deepcopy(module).double()
    wide = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    results = (calls["ours"](), calls["eager"](), precise(*wide))
    arrays = [[to_array(torch.as_tensor(t).cpu()) for t in pytree.tree_leaves(r)] for r in results]
    found = (complaint(*parts) for parts in zip(*arrays, strict=True))
    return next((text for text in found if text), "")


def _in_turn(calls: Mapping[str, Call], device: str, seconds: float) -> dict[str, float]:
    """Median seconds of a call of each side, called in turn; the first call is not counted."""
    clock, batch_seconds = host_seconds, SLICE_SECONDS
    if device == "cuda":
        clock, batch_seconds = device_seconds, BATCH_SECONDS
    for call in calls.values():
        clock(call, 1)
    return in_turn(calls, clock, seconds, batch_seconds)


if __name__ == "__main__":
    main()
