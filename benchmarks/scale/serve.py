"""What a process costs that loads a package and runs it: `serve.py PACKAGE INPUTS RUNS THREADS`.

Imports nothing but the runtime and NumPy. Prints JSON: milliseconds of loading, until the first
result and of a later run, memory before and after the first result, and, where RUNS is not 0,
memory as threads run sessions of their own, after each tenth of the runs.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from pathlib import Path

import aot_runtime
import numpy as np


def memory() -> dict[str, float]:
    """Megabytes of this process: anonymous, of files, at most so far."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    names = {"RssAnon": "anonymous", "RssFile": "files", "VmHWM": "greatest"}
    found = re.findall(r"(\w+):\s+(\d+) kB", text)
    return {names[key]: int(value) / 1024 for key, value in found if key in names}


def soak(
    model: aot_runtime.Model, inputs: list[np.ndarray], runs: int, threads: int
) -> list[dict[str, float]]:
    """Memory before the runs and after each tenth of them, shared by sessions of the threads."""
    expected = model.run(inputs)
    sessions = [model.session(num_threads=1) for _ in range(threads)]
    wrong: list[int] = []
    seen = [memory()]

    def work(session: aot_runtime.Model, count: int) -> None:
        for k in range(count):
            outputs = session.run(inputs)
            if not all(map(np.array_equal, outputs, expected)):
                wrong.append(k)

    for _ in range(10):
        share = runs // 10 // threads
        workers = [threading.Thread(target=work, args=(each, share)) for each in sessions]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seen.append(memory())
    assert not wrong, f"{len(wrong)} runs gave other results"
    return seen


def main() -> None:
    """Measures in the order of a service's life."""
    package, arrays, runs, threads = sys.argv[1:]
    with np.load(arrays) as file:
        inputs = [file[name] for name in sorted(file.files)]
    before = memory()
    begin = time.perf_counter()
    model = aot_runtime.load(package)
    loaded = time.perf_counter()
    model.run(inputs)
    first = time.perf_counter()
    after = memory()
    model.run(inputs)
    model.run(inputs)
    second = time.perf_counter()
    found = {
        "load": 1e3 * (loaded - begin),
        "start": 1e3 * (first - begin),
        "run": 1e3 * (second - first) / 2,
        "before": before,
        "after": after,
        "session": model.memory(),
        "soak": soak(model, inputs, int(runs), int(threads)) if int(runs) else [],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
