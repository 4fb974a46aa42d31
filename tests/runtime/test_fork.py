"""Children of processes that use models: what works there, and what is refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.apart import run_apart
from tests.runtime.cuda_package import add_cuda, fake_driver, fake_kernels
from tests.runtime.make_package import small_package

PRELUDE = """
import os, sys, threading, time
import numpy as np, aot_runtime

model = aot_runtime.load(sys.argv[1], sys.argv[2], num_threads=3)
width = model.inputs[0].shape[1]
x = np.ones((4096, width), np.float32)
expected = 2 * (x + np.arange(width, dtype=np.float32))


def right(model):
    return np.array_equal(model(x)["y"], expected)


def in_child(body, seconds=120):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            print(body(), flush=True)
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
        os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    print("did not end", flush=True)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = small_package(width=64, most=None)
    return made.write(tmp_path_factory.mktemp("fork") / "m.pkg")


@pytest.fixture(scope="module")
def gpu_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = add_cuda(small_package(most=None), "sm_90", fake_kernels("sm_90"))
    return made.write(tmp_path_factory.mktemp("fork") / "gpu.pkg")


@pytest.fixture(scope="module")
def driver() -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(fake_driver())}


def test_a_child_calls_its_parents_model(package: Path) -> None:
    code = """
assert right(model)

def body():
    made = all(right(model) for _ in range(20))
    return made, len(os.listdir("/proc/self/task")) >= model.num_threads

in_child(body)
print(right(model))
"""
    child, parent = run_apart(PRELUDE + code, package, "cpu").splitlines()
    assert child == "(True, True)" or "fork" in child
    assert parent == "True"


def test_a_child_loads_a_model_of_its_own(package: Path) -> None:
    code = """
assert right(model)
in_child(lambda: right(aot_runtime.load(sys.argv[1], num_threads=3)))
in_child(lambda: right(model.session(num_threads=3)))
"""
    assert run_apart(PRELUDE + code, package, "cpu") == "True\nTrue\n"


def test_children_beside_threads_that_call(package: Path) -> None:
    code = """
import warnings
warnings.simplefilter("ignore")
over = threading.Event()

def work():
    while not over.is_set():
        right(model)

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()

def body():
    try:
        first = right(model)
    except aot_runtime.AotError as error:
        first = "fork" in str(error)
    return first, right(aot_runtime.load(sys.argv[1], num_threads=1))

for _ in range(10):
    in_child(body)
over.set()
for thread in threads:
    thread.join()
"""
    assert run_apart(PRELUDE + code, package, "cpu", seconds=300) == "(True, True)\n" * 10


def test_gpus_are_refused_in_children(gpu_package: Path, driver: dict[str, str]) -> None:
    code = """
assert right(model)
in_child(lambda: "ran" if right(model) else "wrong")
in_child(lambda: repr(aot_runtime.load(sys.argv[1], "cuda")))
in_child(lambda: right(aot_runtime.load(sys.argv[1], "cpu")))
print(right(model))
"""
    printed = run_apart(PRELUDE + code, gpu_package, "cuda", env=driver)
    run, load, host, parent = printed.splitlines()
    assert "fork" in run and "fork" in load
    assert host == parent == "True"
