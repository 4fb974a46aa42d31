"""Threads that share a model, its observers and its operators: none waits for another for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.apart import run_apart
from tests.runtime.cuda_package import add_cuda, fake_driver, fake_kernels
from tests.runtime.make_package import Package, small_package

PRELUDE = """
import sys, threading
import numpy as np, aot_runtime

sys.setswitchinterval(1e-3)
x = np.ones((32, 8), np.float32)
expected = 2 * (x + np.arange(8, dtype=np.float32))
model = aot_runtime.load(sys.argv[1], sys.argv[2], num_threads=1)
wrong = []
over = threading.Event()


def call():
    if not np.array_equal(model(x)["y"], expected):
        wrong.append("a call")


def observe():
    seen = []
    y = model.run_observed(lambda step, buffer, data: seen.append(step), x)["y"]
    if not np.array_equal(y, expected) or not seen:
        wrong.append("an observed call")


def spin():
    while not over.is_set():
        pass


def together(*bodies, times=60):
    # Whoever has let go of the interpreter's lock waits for it: this thread only computes.
    threading.Thread(target=spin).start()

    def work(body):
        try:
            for _ in range(times):
                body()
        except Exception as error:
            wrong.append(repr(error))
    threads = [threading.Thread(target=work, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    print(sorted(set(wrong)))
"""

SCALE = """
def scale(x, factor, rows, mode, checked, axes, bias):
    for _ in range(20):
        pass
    return x * np.float32(factor)

aot_runtime.register_operator("demo::scale", scale)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = add_cuda(small_package(), "sm_90", fake_kernels("sm_90"))
    return made.write(tmp_path_factory.mktemp("deadlock") / "m.pkg")


@pytest.fixture(scope="module")
def calling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return operator_package().write(tmp_path_factory.mktemp("calling") / "m.pkg")


@pytest.fixture(scope="module")
def driver() -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(fake_driver())}


def operator_package() -> Package:
    """The small package whose doubling is the custom operator "demo::scale"."""
    package = small_package()
    tensors = {at: {"buffer": at, "shape": ["s0", 8]} for at in (3, 4)}
    arguments = [
        ("x", "tensor", [tensors[3]]),
        ("factor", "float", [2.0]),
        ("rows", "int", ["s0"]),
        ("mode", "string", ["plain"]),
        ("checked", "bool", [True]),
        ("axes", "int[]", [0, 1]),
        ("bias", "none", []),
    ]
    package.program["steps"][1] = {
        "call": "demo::scale",
        "arguments": [{"name": n, "kind": k, "values": v} for n, k, v in arguments],
        "results": [tensors[4]],
        "origin": 0,
    }
    return package


# What a second thread does while the first one calls the model.
BESIDE = {
    "run_observed": "observe",
    "profile": "model._session.profile",
    "reset_profile": "model._session.reset_profile",
    "reset": "model.reset",
    "clone": "lambda: model.clone()(x)",
    "states": "model.state_dict",
    "synchronize": "model.synchronize",
    "session": "lambda: model.session()(x)",
    "delete": "lambda: (aot_runtime.load(sys.argv[1], sys.argv[2])(x), None)[1]",
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("other", ["observe", "call"])
def test_observed_calls_beside_calls(
    package: Path, driver: dict[str, str], device: str, other: str
) -> None:
    code = f"{PRELUDE}together(observe, {other})"
    assert run_apart(code, package, device, env=driver) == "[]\n"


@pytest.mark.parametrize("what", BESIDE)
def test_beside_observed_calls(package: Path, driver: dict[str, str], what: str) -> None:
    code = f"{PRELUDE}together(observe, {BESIDE[what]}, times=30)"
    assert run_apart(code, package, "cpu", env=driver) == "[]\n"


@pytest.mark.parametrize("what", BESIDE)
def test_beside_python_operators(calling: Path, what: str) -> None:
    prelude = PRELUDE.replace("model = ", f"{SCALE}model = ", 1)
    code = f"{prelude}together(call, {BESIDE[what]}, times=30)"
    assert run_apart(code, calling, "cpu") == "[]\n"


def test_operators_are_exchanged_beside_calls(calling: Path) -> None:
    prelude = PRELUDE.replace("model = ", f"{SCALE}model = ", 1)
    exchange = """
def exchange():
    aot_runtime.register_operator("demo::scale", lambda *a: scale(*a))

def make():
    model.session(num_threads=1)(x)
"""
    code = f"{prelude}{exchange}together(call, exchange, make, observe)"
    assert run_apart(code, calling, "cpu") == "[]\n"


def test_an_observer_that_calls_its_model(package: Path) -> None:
    code = """
def intrude(step, buffer, data):
    model(x)

try:
    model.run_observed(intrude, x)
except aot_runtime.AotError as error:
    print(type(error).__name__)
call()
print(wrong)
"""
    name, after = run_apart(PRELUDE + code, package, "cpu").splitlines()
    assert name == "InvalidArgument"
    assert after == "[]"


def test_an_operator_that_calls_its_model(calling: Path) -> None:
    code = """
def scale(x, *rest):
    model(np.ones((3, 8), np.float32))

aot_runtime.register_operator("demo::scale", scale)
model = aot_runtime.load(sys.argv[1], num_threads=1)
try:
    model(x)
except aot_runtime.OperatorFailed as error:
    print(type(error.__cause__).__name__)
"""
    prelude = PRELUDE.replace("model = ", f"{SCALE}model = ", 1)
    assert run_apart(prelude + code, calling, "cpu") == "InvalidArgument\n"


# The fake driver asks the interpreter whether the thread that waits holds its lock.
GIL = """
import ctypes

driver = ctypes.CDLL("libcuda.so.1")
probe = ctypes.cast(ctypes.pythonapi.PyGILState_Check, ctypes.c_void_p)
driver.fake_cuda_probe.argtypes = [ctypes.c_void_p]
driver.fake_cuda_probed.restype = ctypes.c_int64


def waits_with_lock(body):
    driver.fake_cuda_probe(probe)
    body()
    count = driver.fake_cuda_probed()
    driver.fake_cuda_probe(None)
    return count


def enqueue():
    native = model._session
    return native.run([x], 1, False)
"""

WAITS = {
    "a call": "call()",
    "an observed call": "observe()",
    "profile": "model.profile(x)",
    "states": "(model.state_dict(), model.reset())",
    "clone": "model.clone()(x)",
    "synchronize": "(enqueue(), model.synchronize())",
    "the end of a model": "end()",
    "the end of an output": "drop()",
}


@pytest.mark.parametrize("what", WAITS)
def test_nobody_waits_for_a_gpu_with_the_interpreters_lock(
    package: Path, driver: dict[str, str], what: str
) -> None:
    code = f"""
import gc

def end():
    global model
    kept = enqueue()
    del model
    gc.collect()

def drop():
    kept = enqueue()
    kept.clear()
    gc.collect()

call()
call()
print(waits_with_lock(lambda: {WAITS[what]}), wrong)
"""
    assert run_apart(PRELUDE + GIL + code, package, "cuda", env=driver) == "0 []\n"
