"""The loader on GPUs, with the fake driver of cpp/tests in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.cuda_package import add_cuda, fake_driver, fake_kernels
from tests.runtime.make_package import Package, gather_package, small_package

ROOT = Path(__file__).resolve().parents[2]

PRELUDE = """
import ctypes, sys
import numpy as np
import aot_runtime
sys.path.insert(0, sys.argv[2])
x = np.arange(48, dtype=np.float32).reshape(6, 8)
y = 2 * (x + np.arange(8, dtype=np.float32))
driver = ctypes.CDLL("libcuda.so.1")
"""

# A library with arrays on the GPU, as far as DLPack goes.
GPU_ARRAY = """
import ctypes
import numpy as np

driver = ctypes.CDLL("libcuda.so.1")
streams = []  # that consumers asked for


class Managed(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]


def make_current():
    context = ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0


class Array:
    def __init__(self, values):
        self.shape = (ctypes.c_int64 * values.ndim)(*values.shape)
        self.address = ctypes.c_uint64()
        driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(values.nbytes))
        data = values.ctypes.data_as(ctypes.c_void_p)
        driver.cuMemcpyHtoDAsync_v2(self.address, data, ctypes.c_size_t(values.nbytes), None)
        driver.cuStreamSynchronize(None)
        self.managed = Managed(
            self.address.value, 2, 0, values.ndim, 2, 32, 1, ctypes.addressof(self.shape), None, 0
        )

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, *, stream=None):
        streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


class Result:
    def __init__(self, output):
        self.device = output.__dlpack_device__()
        capsule = output.__dlpack__(stream=1)
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype = ctypes.c_void_p
        get.argtypes = [ctypes.py_object, ctypes.c_char_p]
        self.capsule = capsule
        self.managed = Managed.from_address(get(capsule, b"dltensor"))

    def numpy(self):
        sizes = (ctypes.c_int64 * self.managed.ndim).from_address(self.managed.shape)
        values = np.empty(list(sizes), np.float32)
        data = values.ctypes.data_as(ctypes.c_void_p)
        address = ctypes.c_uint64(self.managed.data)
        driver.cuMemcpyDtoHAsync_v2(data, address, ctypes.c_size_t(values.nbytes), None)
        driver.cuStreamSynchronize(None)
        return values


def from_dlpack(output):
    return Result(output)


class Exchanged(Array):
    # An array of a library with the table of C functions of DLPack.

    def __dlpack__(self, *, stream=None):
        raise BufferError("asked in Python")


class Made(Result):
    def __init__(self, address):
        self.managed = Managed.from_address(address + 32)  # behind version, context, deleter, flags


current = ctypes.c_void_p()  # stream
made = []
fails = set()  # functions that fail


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
def to_object(managed, result):
    made.append(Made(managed))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made[-1]))
    result[0] = id(made[-1])
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Managed))
def view(array, result):
    if "view" in fails:
        return -1
    ctypes.memmove(result, ctypes.byref(array.managed), 48)
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
def current_stream(kind, index, result):
    assert (kind, index) == (2, 0)
    result[0] = current.value
    return -1 if "stream" in fails else 0


class Table(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)] + [
        (name, ctypes.c_void_p)
        for name in ("older", "allocate", "managed", "to_object", "view", "stream")
    ]


def address(function):
    return ctypes.cast(function, ctypes.c_void_p)


table = Table(1, 3, None, None, None, address(to_object), address(view), address(current_stream))
new = ctypes.pythonapi.PyCapsule_New
new.restype = ctypes.py_object
new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAME = b"dlpack_exchange_api"
Exchanged.__dlpack_c_exchange_api__ = new(ctypes.addressof(table), NAME, None)
"""


@pytest.fixture(scope="module")
def driver() -> Path:
    return fake_driver()


def run(code: str, package: Package, folder: Path, driver: Path | None) -> str:
    """Runs Python with the package as sys.argv[1] and a folder with `gpuarray` as sys.argv[2]."""
    (folder / "gpuarray.py").write_text(GPU_ARRAY)
    path = package.write(folder / "m.pkg")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "runtime")}
    env["LD_LIBRARY_PATH"] = str(driver) if driver is not None else ""
    head = PRELUDE if driver is not None else PRELUDE.rpartition("driver =")[0]
    done = subprocess.run(
        [sys.executable, "-c", head + code, str(path), str(folder)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def small() -> Package:
    return add_cuda(small_package(), "sm_90", fake_kernels("sm_90"))


def test_numpy_in_numpy_out(tmp_path, driver):
    code = """
model = aot_runtime.load(sys.argv[1], "cuda")
assert model.device == "cuda:0" and model.isa == "sm_90", model.device
assert repr(model) == "<aot_runtime.Model small(x, *, mode='plain') on cuda:0 (sm_90)>", model
for _ in range(3):
    out = model(x)
    assert isinstance(out["y"], np.ndarray)
    np.testing.assert_array_equal(out["y"], y)
    np.testing.assert_array_equal(out["rest"][0], y.sum(1))
host = model.session(device="cpu")
np.testing.assert_array_equal(host(x)["y"], y)
assert host.device == "cpu"
again = model.session()
assert again.device == "cuda:0"
rows = again.profile(x, runs=2)
assert [row.kernel for row in rows] == ["add_bias", "scale", "row_sum"], rows
assert all(row.calls == 2 and row.nanoseconds > 0 for row in rows), rows
seen = []
again.run_observed(lambda step, buffer, data: seen.append((step, buffer, len(data))), x)
assert (0, 3, x.nbytes) in seen, seen
print("fine")
"""
    assert run(code, small(), tmp_path, driver) == "fine\n"


def test_gpu_arrays_stay_on_the_gpu(tmp_path, driver):
    code = """
import gpuarray
gpuarray.make_current()
model = aot_runtime.load(sys.argv[1], device="cuda:0")
for _ in range(3):
    out = model(gpuarray.Array(x))
    assert out["y"].device == (2, 0)
    np.testing.assert_array_equal(out["y"].numpy(), y)
# Read in the session's own stream: the producer is told so, and makes it wait.
assert gpuarray.streams[0] > 2 and len(set(gpuarray.streams)) == 1, gpuarray.streams
print("fine")
"""
    assert run(code, small(), tmp_path, driver) == "fine\n"


def test_arrays_with_an_exchange_table(tmp_path, driver):
    code = """
import gpuarray
from gpuarray import current, driver, fails, made
gpuarray.make_current()
model = aot_runtime.load(sys.argv[1], "cuda")
array = gpuarray.Exchanged(x)
for handle in (None, 1, "new", "new"):
    stream = ctypes.c_void_p(handle if handle != "new" else None)
    if handle == "new":
        assert driver.cuStreamCreate(ctypes.byref(stream), 0) == 0
    current.value = stream.value
    out = model(array)
    assert driver.cuStreamSynchronize(stream) == 0
    assert out["y"] is made[-2] and out["rest"][0] is made[-1], out
    np.testing.assert_array_equal(out["y"].numpy(), y)
    assert gpuarray.streams == []
# The shortest way makes the result itself, and leaves what is not its to Python.
assert model._call(array)["y"] is made[-2]
assert model(x=array)["y"] is made[-2]
for call in (lambda: model._call(x), lambda: model._call(x=array), lambda: model._call(array, 1)):
    assert call() is NotImplemented
# What the table does not say is asked in Python: here why an array gives no memory.
def refused(array):
    try:
        model(array)
    except aot_runtime.InvalidArgument as error:
        return "does not give its memory: asked in Python" in str(error)
for function in ("view", "stream"):
    fails.add(function)
    assert refused(array)
    fails.clear()
array.requires_grad = True
assert refused(array)
class Derived(gpuarray.Exchanged):
    pass
assert refused(Derived(x))
gpuarray.table.major = 2
model = aot_runtime.load(sys.argv[1], "cuda")
assert refused(gpuarray.Exchanged(x))
print("fine")
"""
    assert run(code, small(), tmp_path, driver) == "fine\n"


def test_gpu_outputs_are_no_buffers(tmp_path, driver):
    code = """
import gpuarray
gpuarray.make_current()
package = aot_runtime._native.Package(sys.argv[1])
output = package.session(device="cuda").run([gpuarray.Array(x)])[0]
try:
    memoryview(output)
except BufferError:
    print("refused")
"""
    assert run(code, small(), tmp_path, driver) == "refused\n"


def test_errors(tmp_path, driver):
    code = """
import gpuarray
gpuarray.make_current()
def fails(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
load, path = aot_runtime.load, sys.argv[1]
missing, wrong = aot_runtime.Unavailable, aot_runtime.InvalidArgument
fails(missing, "no device cuda:3: this process sees 1 GPU", lambda: load(path, "cuda:3"))
fails(wrong, "device 'cuda:' must be", lambda: load(path, "cuda:"))
fails(missing, "no device 'tpu'", lambda: load(path, "tpu"))
fails(missing, "of sm_90", lambda: load(path, "cuda", isa="x86-64-v3"))
array = gpuarray.Array(x)
fails(wrong, "is on cuda:0, this session runs on the CPU", lambda: load(path)(array))
print("fine")
"""
    assert run(code, small(), tmp_path, driver) == "fine\n"


def test_wrong_indices(tmp_path, driver):
    code = """
model = aot_runtime.load(sys.argv[1], "cuda")
try:
    model(np.array([1, 9]))
except aot_runtime.InvalidArgument as error:
    print(error.origin)
model.synchronize()
assert model(np.array([1, 4])).tolist() == [11, 14]
"""
    package = add_cuda(gather_package(), "sm_90", fake_kernels("sm_90"))
    assert run(code, package, tmp_path, driver) == "model.py:12 aten.embedding.default\n"


def test_other_architectures(tmp_path, driver):
    code = """
try:
    aot_runtime.load(sys.argv[1], "cuda")
except aot_runtime.Unavailable as error:
    print(error)
"""
    package = add_cuda(small_package(), "sm_80", fake_kernels("sm_80"))
    message = run(code, package, tmp_path, driver)
    assert "the package has sm_80; the GPU is cuda:0 (Fake GPU, compute capability 9.0)" in message
    assert message.endswith("package again with --target cuda:sm_90\n")


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a driver")
def test_no_driver(tmp_path):
    code = """
try:
    aot_runtime.load(sys.argv[1], "cuda")
except aot_runtime.Unavailable as error:
    print(error)
assert aot_runtime.load(sys.argv[1])(x)["y"].tolist() == y.tolist()
"""
    assert run(code, small(), tmp_path, None).startswith(
        "no NVIDIA driver on this machine: libcuda"
    )
