"""Times packages on a GPU beside eager and torch.compile, interleaved, after checking them.

    python benchmarks/gpu/run.py PACKAGES OUT.json [REGEX] [--with eager,compile,ours] [--seconds S]

Correct: the distance from float64 is at most 3 times that of eager in the model's own dtype, or a
few roundings. Times in microseconds, medians: `device` by events over a batch of calls, `host` as
seen by a caller who waits for each call.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot_runtime
import torch
from torch.utils import _pytree as pytree

from benchmarks.gpu import workloads

FACTOR = 3.0
FLOOR = {torch.float32: 2.0**-20, torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6}
ROUNDS = 5
Call = Callable[..., Any]


def tensors(nested: Any) -> list[torch.Tensor]:
    """The tensors of nested results."""
    return [x for x in pytree.tree_leaves(nested) if isinstance(x, torch.Tensor)]


def widened(nested: Any) -> Any:
    """The same with floats in double."""
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, nested
    )


def verdict(ours: Any, eager: Any, exact: Any) -> str:
    """Error of ours over that of eager, or what is wrong."""
    worst = 0.0
    for o, e, x in zip(tensors(ours), tensors(eager), tensors(exact), strict=True):
        if o.shape != e.shape or o.dtype != e.dtype:
            return f"WRONG {o.dtype}{list(o.shape)} instead of {e.dtype}{list(e.shape)}"
        if not e.is_floating_point():
            if not torch.equal(o, e):
                return f"WRONG integers: {int((o != e).sum())} of {o.numel()}"
            continue
        scale = float(x.abs().max()) or 1.0
        ours_off = float((o.double() - x).abs().max())
        eager_off = float((e.double() - x).abs().max())
        if not math.isfinite(ours_off):
            return "WRONG not finite"
        allowed = max(FACTOR * eager_off, FLOOR.get(e.dtype, 2.0**-20) * scale)
        worst = max(worst, ours_off / allowed)
    return f"ok {worst:.2f}" if worst <= 1 else f"WRONG {worst:.2f} of what is allowed"


def device_time(call: Call, args: tuple[Any, ...], count: int) -> float:
    """Microseconds a call on the device."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        call(*args)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / count


def host_time(call: Call, args: tuple[Any, ...], count: int) -> float:
    """Median microseconds of a call and the wait for it."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call(*args)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def contender(name: str, module: Any, args: tuple[Any, ...], package: Path) -> Call:
    """The callable of a contender."""
    if name == "ours":
        return aot_runtime.load(package, device="cuda")
    if name == "eager":
        return module
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True)
    compiled(*args)
    return compiled


def bench(name: str, contenders: list[str], packages: Path, seconds: float) -> dict[str, Any]:
    """One workload: verdict and times of every contender."""
    torch.manual_seed(0)
    module, args = workloads.REG[name][1]()
    row: dict[str, Any] = {"name": name, "group": workloads.REG[name][0]}
    eager = module(*args)
    calls: dict[str, Call] = {}
    for who in contenders:
        try:
            calls[who] = contender(who, module, args, packages / f"{name}.pkg")
            result = calls[who](*args)
            torch.cuda.synchronize()
            if who == "ours":
                row["check"] = check(module, args, result, eager)
        except (RuntimeError, aot_runtime.AotError, OSError) as error:
            calls.pop(who, None)
            row[who] = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
    counts: dict[str, int] = {}
    for who, call in calls.items():
        for _ in range(3):
            call(*args)
        torch.cuda.synchronize()
        once = host_time(call, args, 3) / 1e6
        counts[who] = max(3, min(100, int(seconds / ROUNDS / 2 / once)))
        row[who] = {"device": [], "host": []}
    for _ in range(ROUNDS):
        for who, call in calls.items():
            row[who]["device"].append(device_time(call, args, counts[who]))
            row[who]["host"].append(host_time(call, args, counts[who]))
    for who in calls:
        row[who] = {k: round(statistics.median(v), 2) for k, v in row[who].items()}
    return row


def check(module: Any, args: tuple[Any, ...], ours: Any, eager: Any) -> str:
    """Whether our result is as near to float64 as eager's."""
    if isinstance(module, torch.nn.Module) and any(True for _ in module.parameters()):
        module = copy.deepcopy(module).double()
    try:
        exact = module(*widened(args))
    except RuntimeError as error:
        return f"no reference: {str(error)[:100]}"
    return verdict(ours, eager, exact)


def main() -> None:
    """Benches what the regular expression matches (names, or `B:` for a group)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("packages")
    parser.add_argument("out")
    parser.add_argument("regex", nargs="?", default=".")
    parser.add_argument("--with", dest="contenders", default="eager,ours")
    parser.add_argument("--seconds", type=float, default=0.2)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with torch.no_grad():
        for name, (group, _, _) in workloads.REG.items():
            if not (re.search(options.regex, name) or re.search(options.regex, f"{group}:")):
                continue
            row = bench(
                name, options.contenders.split(","), Path(options.packages), options.seconds
            )
            rows.append(row)
            Path(options.out).write_text(json.dumps(rows, indent=1))
            times = " ".join(
                f"{who}={row[who].get('device', row[who].get('error'))}/{row[who].get('host', '')}"
                for who in options.contenders.split(",")
                if who in row
            )
            print(f"{name:36s} {row.get('check', ''):24s} {times}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
