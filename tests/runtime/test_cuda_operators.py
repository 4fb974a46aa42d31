"""Custom operators in Python on GPUs, with the fake driver and a library of arrays for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.cuda_package import add_cuda, fake_driver, fake_kernels
from tests.runtime.make_package import Package, small_package
from tests.runtime.test_cuda import run

# As much of cupy as an operator needs: arrays by DLPack, copies in the stream that it works in.
CUPY = """
import ctypes
import types

driver = ctypes.CDLL("libcuda.so.1")
streams = [1]


class Stream:
    def __init__(self, number):
        self.number = number

    def __enter__(self):
        streams.append(self.number)

    def __exit__(self, *_):
        streams.pop()

    @classmethod
    def from_external(cls, stream):
        version, number = stream.__cuda_stream__()
        assert version == 0
        return cls(number)


cuda = types.SimpleNamespace(Stream=Stream)


class Managed(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_uint64), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
    ]


class ndarray:
    __dlpack__ = None

    def __init__(self, tensor, stream=None):
        self.capsule = tensor.__dlpack__(stream=streams[-1] if stream is None else stream)
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype = ctypes.c_void_p
        get.argtypes = [ctypes.py_object, ctypes.c_char_p]
        managed = Managed.from_address(get(self.capsule, b"dltensor"))
        self.address, self.device = managed.data, (managed.device_type, managed.device_id)
        self.shape = tuple((ctypes.c_int64 * managed.ndim).from_address(managed.shape))
        self.strides = tuple((ctypes.c_int64 * managed.ndim).from_address(managed.strides))
        self.dtype = (managed.code, managed.bits)

    def __dlpack_device__(self):
        return self.device

    def __setitem__(self, place, other):
        assert place is ...
        size = ctypes.c_size_t(self.shape[0] * self.shape[1] * 4)
        to, source = ctypes.c_uint64(self.address), ctypes.c_uint64(other.address)
        assert driver.cuMemcpyDtoDAsync_v2(to, source, size, ctypes.c_void_p(streams[-1])) == 0


def from_dlpack(tensor):
    return ndarray(tensor)
"""

# Before its version 14, where only numbers name the streams of others.
OLDER_CUPY = (
    CUPY
    + """

del Stream.from_external
cuda.ExternalStream = Stream
"""
)

HEAD = """
import cupy
seen = []
def load(function, name="demo::same"):
    aot_runtime.register_operator(name, function, device="cuda")
    return aot_runtime.load(sys.argv[1], "cuda")
def fails(text, function):
    model = load(function)
    try:
        model(x)
    except aot_runtime.OperatorFailed as error:
        assert text in str(error), error
        assert "small.py:3" in str(error) and error.__cause__ is not None
    else:
        raise AssertionError(text)
"""


@pytest.fixture(scope="module")
def driver() -> Path:
    return fake_driver()


def calling() -> Package:
    """`small_package` with demo::same(x, factors) in the place of its doubling, for GPUs too."""
    package = small_package()

    def tensor(buffer: int) -> dict[str, object]:
        return {"buffer": buffer, "shape": ["s0", 8]}

    package.program["steps"][1] = {
        "call": "demo::same",
        "arguments": [
            {"name": "x", "kind": "tensor", "values": [tensor(3)]},
            {"name": "factors", "kind": "float[]", "values": [2.0, 3.0]},
        ],
        "results": [tensor(4)],
        "origin": 0,
    }
    return add_cuda(package, "sm_90", fake_kernels("sm_90"))


def check(code: str, folder: Path, driver: Path, library: str = CUPY) -> None:
    (folder / "cupy.py").write_text(library)
    assert run(HEAD + code + "\nprint('fine')\n", calling(), folder, driver) == "fine\n"


@pytest.mark.parametrize("library", [CUPY, OLDER_CUPY], ids=["newer", "older"])
def test_arrays_of_a_library_in_and_out(tmp_path: Path, driver: Path, library: str) -> None:
    code = """
def same(given, factors):
    assert isinstance(given, aot_runtime.OperatorTensor) and given.on_gpu
    assert (given.shape, given.dtype, factors) == ((len(x), 8), "float32", [2.0, 3.0])
    array = cupy.from_dlpack(given)
    assert array.shape == given.shape and array.strides == (8, 1) and array.dtype == (2, 32)
    assert array.device == given.__dlpack_device__() == (2, 0)
    assert array.address == given.address and cupy.streams[-1] == given.stream
    seen.append(given)
    return array
model = load(same)
for _ in range(3):
    out = model(x)
    np.testing.assert_array_equal(out["y"], y / 2)
    np.testing.assert_array_equal(out["rest"][0], y.sum(1) / 2)
assert cupy.streams == [1] and len(seen) == 3
# Over with the call; never a buffer of the host.
try:
    cupy.from_dlpack(seen[0])
except BufferError as error:
    assert "call that is over" in str(error)
assert aot_runtime.load(sys.argv[1], "cuda")(x)["y"][0, 0] == 0
"""
    check(code, tmp_path, driver, library)


def test_streams_of_others_are_refused(tmp_path: Path, driver: Path) -> None:
    code = """
def use(stream):
    def function(given, factors):
        return cupy.ndarray(given, stream)
    return function
fails("is asked for in stream 5: let the library work in the call's", use(5))
assert load(use(-1))(x)["y"][1, 0] == 8
def buffer(given, factors):
    return memoryview(given)
fails("BufferError", buffer)
assert cupy.streams == [1]
"""
    check(code, tmp_path, driver)


def test_results_that_do_not_fit(tmp_path: Path, driver: Path) -> None:
    code = """
said = ", not an array of a library on the model's GPU"
fails("result 0 of demo::same is of type ndarray" + said, lambda g, f: x)
fails("result 0 of demo::same is of type float" + said, lambda g, f: 1.0)
fails("result 0 of demo::same is of type OperatorTensor" + said, lambda g, f: g)
fails("demo::same returned 2 results, the model says 1", lambda g, f: (g, g))
fails("demo::same returned 0 results", lambda g, f: None)
def shaped(given, factors):
    array = cupy.from_dlpack(given)
    array.shape = (1, 2)
    return array
fails("result 0 of demo::same is (2, 32)[1, 2], the model says (2, 32)[6, 8]", shaped)
def missing(**more):
    pass
fails("TypeError", missing)
fails("ZeroDivisionError: division by zero", lambda g, f: 1 / 0)
"""
    check(code, tmp_path, driver)


def test_code_for_the_host_is_not_for_gpus(tmp_path: Path, driver: Path) -> None:
    code = """
aot_runtime.register_operator("demo::same", lambda given, factors: given)
assert aot_runtime.load(sys.argv[1], "cpu")(x)["y"][1, 0] == 8
try:
    aot_runtime.load(sys.argv[1], "cuda")
except aot_runtime.NotFound as error:
    assert "given for cuda (there is code for cpu)" in str(error), error
    assert "small.py:3" in error.origin
else:
    raise AssertionError
aot_runtime.unregister_operator("demo::same")
load(lambda g, f: cupy.from_dlpack(g))
try:
    aot_runtime.load(sys.argv[1], "cpu")
except aot_runtime.NotFound as error:
    assert "given for cpu (there is code for cuda)" in str(error), error
else:
    raise AssertionError
aot_runtime.unregister_operator("demo::same", device="cuda")
"""
    check(code, tmp_path, driver)
