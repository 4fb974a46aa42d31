"""What loading costs and touches: no torch, no files, no leak, concurrency, memory of its own."""

import gc
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aot_runtime
import numpy as np
import pytest

from tests.runtime.make_package import Package, buffer, expected_small, small_package
from tests.settings import seeded

RUNTIME = Path(aot_runtime.__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_package(width=64, most=None).write(tmp_path_factory.mktemp("p") / "m.pkg")


def python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a process that has only the runtime and NumPy."""
    path = os.pathsep.join([str(RUNTIME), str(Path(np.__file__).parents[1])])
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_neither_torch_nor_the_compiler_is_imported(package: Path) -> None:
    code = """
import sys
sys.modules["torch"] = None
sys.modules["aot"] = None
import aot_runtime
assert "numpy" not in sys.modules
import numpy
model = aot_runtime.load(sys.argv[1])
print(model(numpy.ones((2, 64), "f4"))["y"].sum())
"""
    result = python(code, str(package))
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) == 2 * 2 * (64 + 64 * 63 / 2)


def test_importing_loads_few_modules() -> None:
    code = (
        "import sys; before = {*sys.modules}; import aot_runtime; print(*{*sys.modules} - before)"
    )
    result = python(code)
    assert "aot_runtime" in result.stdout.split(), result.stderr
    heavy = {"numpy", "torch", "inspect", "dataclasses", "asyncio", "logging", "pathlib"}
    assert heavy.isdisjoint(result.stdout.split())


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_no_file_is_created(package: Path, tmp_path: Path) -> None:
    code = (
        "import sys, numpy, aot_runtime; open('/dev/null').close(); "
        "m = aot_runtime.load(sys.argv[1]); m(numpy.ones((2, 64), 'f4'))"
    )
    trace = tmp_path / "trace"
    path = os.pathsep.join([str(RUNTIME), str(Path(np.__file__).parents[1])])
    subprocess.run(
        [
            "strace",
            "-f",
            "-qq",
            "-e",
            "trace=open,openat,creat,mkdir,mkdirat,rename,"
            "renameat,renameat2,link,symlink,mknod,unlink",
            "-o",
            str(trace),
            sys.executable,
            "-B",
            "-c",
            code,
            str(package),
        ],
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    lines = trace.read_text().splitlines()
    start = max(i for i, line in enumerate(lines) if '"/dev/null"' in line)
    later = [line for line in lines[start + 1 :] if "+++" not in line and "SIG" not in line]
    assert any(str(package) in line for line in later)
    written = [
        line
        for line in later
        if any(
            word in line
            for word in (
                "O_CREAT",
                "O_WRONLY",
                "O_RDWR",
                "mkdir",
                "rename",
                "link",
                "mknod",
                "creat(",
            )
        )
    ]
    assert written == []


def resident() -> int:
    """Resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_thousand_loads_leave_nothing(package: Path) -> None:
    x = np.ones((4, 64), np.float32)

    def load_and_run(count: int) -> None:
        for _ in range(count):
            aot_runtime.load(package)(x)
        gc.collect()

    load_and_run(200)
    files, memory = open_files(), resident()
    load_and_run(1000)
    assert open_files() == files
    assert resident() - memory < 2 << 20


def test_a_thousand_runs_leave_nothing(package: Path) -> None:
    model = aot_runtime.load(package)
    inputs = [np.ones((rows, 64), np.float32) for rows in (0, 1, 1000, 17, 400)]
    for _ in range(100):
        for x in inputs:
            model(x)
    memory = resident()
    for _ in range(200):
        for x in inputs:
            model(x)
    assert resident() - memory < 2 << 20


def test_steady_state_takes_no_page_faults(package: Path) -> None:
    code = """
import resource, sys, numpy, aot_runtime
m = aot_runtime.load(sys.argv[1], num_threads=1)
x = numpy.ones((8192, 64), "f4")
for _ in range(5): y = m(x)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50): y = m(x)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    result = python(code, str(package))
    assert int(result.stdout) < 50, result.stderr


def test_eight_threads_on_two_sessions(package: Path) -> None:
    models = [aot_runtime.load(package, num_threads=2)]
    models.append(models[0].session(num_threads=1))

    def work(worker: int) -> bool:
        random = np.random.default_rng(seeded(worker))
        right = True
        for i in range(40):
            x = random.standard_normal((1 + (worker * 7 + i) % 50, 64), np.float32)
            y, total = expected_small(x)
            result = models[worker % 2](x)
            right &= np.array_equal(result["y"], y)
            right &= np.allclose(result["rest"][0], total, rtol=1e-4, atol=1e-3)
        return right

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def slow_package() -> Package:
    """The small package with a long chain of steps, so that a run takes a while."""
    package = small_package(width=1024, most=None)
    package.program["buffers"].append(buffer("sum2", ["*", 4096, "s0"], "arena"))
    package.program["arena"].append({"buffer": 6, "above": [3]})
    first = package.program["steps"][0]
    again = [{**first, "buffers": [3 + 3 * (i % 2), 1, 6 - 3 * (i % 2)]} for i in range(400)]
    package.program["steps"][1:1] = again
    return package


def test_other_python_threads_run_meanwhile(tmp_path: Path) -> None:
    model = aot_runtime.load(slow_package().write(tmp_path / "m.pkg"), num_threads=1)
    x = np.ones((256, 1024), np.float32)
    model(x)
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0)

    sys.setswitchinterval(10)  # a thread that keeps the GIL would keep it for the whole run
    try:
        ticker = threading.Thread(target=tick)
        ticker.start()
        while ticks < 10:
            time.sleep(0)
        before = ticks
        for _ in range(3):
            model(x)
        during = ticks - before
        done.set()
        ticker.join()
    finally:
        sys.setswitchinterval(0.005)
    assert during > 10


def test_weights_are_not_copied(tmp_path: Path) -> None:
    package = small_package()
    package.add("weights/large", np.zeros(64 << 18, np.float32))  # 64 MB
    path = package.write(tmp_path / "m.pkg")
    code = """
import sys, numpy, aot_runtime
def peak():
    return int([l for l in open("/proc/self/status") if "VmHWM" in l][0].split()[1])
before = peak()
m = aot_runtime.load(sys.argv[1])
m(numpy.ones((2, 8), "f4"))
loaded = peak()
m.entry("weights/large").sum()
print(loaded - before, peak() - before)
"""
    loaded, touched = map(int, python(code, str(path)).stdout.split())
    assert loaded < 20 << 10  # kB: the weights are mapped, not read
    assert touched < 1.15 * (64 << 10)


def test_sessions_share_what_the_package_says(package: Path) -> None:
    model = aot_runtime.load(package)
    for other in (model.session(num_threads=1), model.clone()):
        assert other.plan is model.plan
        assert (other.inputs, other.outputs) == (model.inputs, model.outputs)
        assert other(np.ones((2, 64), "f4"))["y"].shape == (2, 64)
