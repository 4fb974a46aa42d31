"""Memory of a GPU from Python: with the fake driver, and with torch in its own pool's stead."""

from __future__ import annotations

from pathlib import Path

import aot_runtime
import pytest

from tests.runtime.cuda_package import add_cuda, fake_driver, fake_kernels
from tests.runtime.make_package import Package, small_package
from tests.runtime.test_cuda import run

# Blocks of the fake GPU, which are aligned as a real one's.
POOL = """
import gc

class Pool:
    def __init__(self):
        self.out, self.ever = {}, 0

    def allocate(self, size, alignment):
        assert alignment == 256
        address = ctypes.c_uint64()
        assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
        self.out[address.value] = size
        self.ever += 1
        return address.value

    def release(self, address, size):
        assert self.out.pop(address) == size
        assert driver.cuMemFree_v2(ctypes.c_uint64(address)) == 0
"""


@pytest.fixture(scope="module")
def driver() -> Path:
    return fake_driver()


@pytest.fixture
def package() -> Package:
    return add_cuda(small_package(), "sm_90", fake_kernels("sm_90"))


def test_blocks_are_released_with_their_last_user(
    package: Package, tmp_path: Path, driver: Path
) -> None:
    code = """
pool = Pool()
model = aot_runtime.load(sys.argv[1], "cuda", device_allocator=pool)
for _ in range(4):
    np.testing.assert_array_equal(model(x)["y"], y)
ever = pool.ever
assert ever > 0
second, third = model.session(), model.clone()
for one in (second, third):
    np.testing.assert_array_equal(one(x)["y"], y)
assert pool.ever > ever
other = Pool()
np.testing.assert_array_equal(model.session(device_allocator=other)(x)["y"], y)
assert other.ever > 0
del model, second, third, one
gc.collect()
assert pool.out == other.out == {}
print("fine")
"""
    assert run(POOL + code, package, tmp_path, driver) == "fine\n"


def test_allocators_that_fail(package: Package, tmp_path: Path, driver: Path) -> None:
    code = """
seen = []
sys.unraisablehook = lambda args: seen.append(str(args.exc_value))
class Failing:
    def __init__(self, answer):
        self.answer = answer
    def allocate(self, size, alignment):
        return self.answer()
    def release(self, address, size):
        raise AssertionError("nothing was given")
for answer in (lambda: None, lambda: 1 / 0, lambda: "here"):
    model = aot_runtime.load(sys.argv[1], "cuda", device_allocator=Failing(answer))
    try:
        model(x)
    except aot_runtime.OutOfMemory as error:
        assert "no memory for" in str(error), error
    else:
        raise AssertionError(answer)
# Asked again after what is idle has been given back.
assert seen == 2 * ["division by zero"] + 2 * ["allocate must return an address, or None"], seen
class Odd(Pool):
    def allocate(self, size, alignment):
        return super().allocate(size + 64, alignment) + 64
    def release(self, address, size):
        super().release(address - 64, size + 64)
odd = Odd()
try:
    aot_runtime.load(sys.argv[1], "cuda", device_allocator=odd)(x)
except aot_runtime.InvalidArgument as error:
    assert "not aligned to 256 bytes" in str(error), error
assert odd.out == {}
print("fine")
"""
    assert run(POOL + code, package, tmp_path, driver) == "fine\n"


def test_torch_is_the_callers(package: Package, tmp_path: Path, driver: Path) -> None:
    code = """
assert "torch" not in sys.modules
try:
    aot_runtime.TorchAllocator()
except aot_runtime.InvalidArgument as error:
    assert "torch is not imported" in str(error)
    print("fine")
"""
    assert run(code, package, tmp_path, driver) == "fine\n"


def test_torch_is_asked_for_a_stream_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    asked: list[object] = []

    def allocate(size: int, device: int, stream: object) -> int:
        asked.append((size, device, stream))
        return 4096

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: f"a stream of {device}")
    monkeypatch.setattr(torch.cuda, "caching_allocator_alloc", allocate)
    monkeypatch.setattr(torch.cuda, "caching_allocator_delete", asked.append)
    pool = aot_runtime.TorchAllocator(1)
    assert pool.allocate(100, 256) == 4096
    pool.release(4096, 100)
    assert asked == [(100, 1, "a stream of 1"), 4096]
