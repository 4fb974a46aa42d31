"""The host's time for one call on a GPU, by layer, without a GPU.

`python -m benchmarks.host_time.run [KERNELS]` runs a model of two inputs, one output and that many
kernels (21) on a driver that does nothing and on arrays of a library that costs next to nothing:
what is printed, in microseconds, is the runtime's own part. A real call adds the driver's launch
and what the arrays' library takes to look at its tensors and make new ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np

from tests.runtime.cuda_package import add_cuda, fake_kernels
from tests.runtime.make_package import Package, buffer, empty_plan, step, tensor

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SIZE = 16
CALLS = 2000
ROUNDS = 15


def chain_package(kernels: int) -> Package:
    """z = the last of `kernels` launches; the first reads both inputs, the last writes z."""
    plan = empty_plan("chain")
    shape, size = ["n", SIZE], ["*", SIZE * 4, "n"]
    plan["dims"] = [
        {
            "name": "n",
            "label": "n",
            "min": 0,
            "max": None,
            "multiple_of": 1,
            "source": {"input": 0, "axis": 0, "divisor": 1, "offset": 0},
        }
    ]
    plan["inputs"] = [tensor(name, shape, [SIZE, 1]) for name in ("x", "y")]
    plan["outputs"] = [tensor("z", shape, [SIZE, 1])]
    program = plan["programs"][0]
    program["outputs"] = [2]
    plan["signature"] = {
        "parameters": [
            {"name": name, "kind": "positional", "tree": {"input": i}}
            for i, name in enumerate(("x", "y"))
        ],
        "result": {"output": 0},
    }
    program["buffers"] = [
        buffer("x", size, "input", index=0),
        buffer("y", size, "input", index=1),
        buffer("z", size, "output", index=0),
        buffer("a", size, "arena"),
        buffer("b", size, "arena"),
    ]
    program["arena"] = [{"buffer": 3, "above": []}, {"buffer": 4, "above": [3]}]
    for i in range(kernels):
        first = 0 if i == 0 else 3 + (i + 1) % 2
        last = 2 if i == kernels - 1 else 3 + i % 2
        program["steps"].append(step("add_bias", [first, 1 if i == 0 else first, last], [8], "n"))
    return add_cuda(Package(plan), "sm_90", fake_kernels("sm_90"))


def prepare(folder: Path, kernels: int) -> None:
    """Builds the driver and the arrays, writes the package and its inputs."""
    flags = ["-O2", "-shared", "-fPIC", f"-I{ROOT / 'cpp' / 'include'}"]
    python = f"-I{sysconfig.get_paths()['include']}"
    for source, target in (("null_cuda", "libcuda.so.1"), ("gpu_tensors", "gpu_tensors.so")):
        command = ["gcc", *flags, python, str(HERE / f"{source}.c"), "-o", str(folder / target)]
        subprocess.run(command, check=True)
    chain_package(kernels).write(folder / "chain.pkg")
    np.save(folder / "x.npy", np.zeros((SIZE, SIZE), np.float32))


def microseconds(call: Callable[[], object]) -> float:
    """The best round's time for one call."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, time.perf_counter() - start)
    return best / CALLS * 1e6


def measure(folder: Path) -> None:
    """Prints the layers' times; the driver must be in LD_LIBRARY_PATH."""
    import aot_runtime

    sys.path.insert(0, str(folder))
    gpu_tensors = import_module("gpu_tensors")
    model = aot_runtime.load(folder / "chain.pkg", "cuda")
    x, y = gpu_tensors.Tensor(SIZE), gpu_tensors.Tensor(SIZE)
    host = np.zeros((SIZE, SIZE), np.float32)
    kept: list[object] = []

    def keeping() -> None:
        kept[:] = [model(x, y)]

    rows = {
        "model(x, y)": lambda: model(x, y),
        "model(x, y), the last output kept": keeping,
        "  past Python's call": lambda: model._call(x, y),
        "  native module": lambda: model._session.run_exchanged([x, y]),
        "  flatten": lambda: model._signature.flatten((x, y), {}),
        "NumPy in, NumPy out": lambda: model(host, host),
    }
    for name, call in rows.items():
        print(f"{name:40} {microseconds(call):8.2f}")


def main() -> None:
    """Runs both parts, the measurement in a process that finds the driver."""
    if len(sys.argv) == 3 and sys.argv[1] == "--in":
        measure(Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, int(sys.argv[1]) if len(sys.argv) > 1 else 21)
        driver = ["env", f"LD_LIBRARY_PATH={name}"]
        command = [*driver, sys.executable, "-m", "benchmarks.host_time.run", "--in", name]
        subprocess.run(command, cwd=ROOT, check=True)
        tool = next(ROOT.glob("build/*/aot_gpu_latency"), None)
        if tool is not None:
            inputs = [str(folder / "x.npy")] * 2
            command = [*driver, str(tool), str(folder / "chain.pkg"), "cuda:0", "2000", *inputs]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            print(f"{'C++':40} {json.loads(done.stdout)['call_us']['median']:8.2f}")


if __name__ == "__main__":
    main()
