"""The loader and the C++ program on a real GPU; `make test-gpu` runs these."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import aot_runtime
import numpy as np
import pytest

from tests.runtime.cuda_package import add_cuda, triton_kernels
from tests.runtime.make_package import expected_small, gather_package, small_package

pytestmark = pytest.mark.gpu

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
MAJOR, MINOR = torch.cuda.get_device_capability(0)
ARCH = f"sm_{MAJOR}{MINOR}"
X = np.arange(48, dtype=np.float32).reshape(6, 8)


@pytest.fixture(scope="module")
def kernels():
    return triton_kernels(ARCH)


@pytest.fixture
def package(tmp_path, kernels):
    return add_cuda(small_package(), ARCH, kernels).write(tmp_path / "small.pkg")


def check(out, x):
    y, total = expected_small(x)
    np.testing.assert_array_equal(np.asarray(out["y"]), y)
    np.testing.assert_allclose(np.asarray(out["rest"][0]), total, rtol=1e-6)


def to_host(out):
    return {"y": out["y"].cpu().numpy(), "rest": (out["rest"][0].cpu().numpy(),)}


def test_numpy(package):
    model = aot_runtime.load(package, "cuda", verify=True)
    assert (model.device, model.isa) == ("cuda:0", ARCH)
    for rows in (6, 6, 6, 1, 64, 6):
        x = np.arange(rows * 8, dtype=np.float32).reshape(rows, 8)
        check(model(x), x)


@pytest.mark.parametrize("graphs", [True, False])
def test_torch_tensors(package, graphs):
    model = aot_runtime.load(package, "cuda", graphs=graphs)
    kept = []
    for i in range(20):
        x = torch.arange(48, dtype=torch.float32, device="cuda").reshape(6, 8) + i
        out = model(x)
        assert out["y"].device == x.device
        kept.append((x, out))
    for x, out in kept:
        check(to_host(out), x.cpu().numpy())


def test_torch_streams(package):
    model = aot_runtime.load(package, "cuda")
    stream = torch.cuda.Stream()
    for i in range(10):
        with torch.cuda.stream(stream) if i % 2 else torch.cuda.stream(torch.cuda.default_stream()):
            x = torch.zeros(6, 8, device="cuda")
            torch.cuda._sleep(2_000_000)
            x += i
            check(to_host(model(x)), np.full((6, 8), i, np.float32))


def test_unaligned_and_strided_tensors(package):
    model = aot_runtime.load(package, "cuda")
    x = torch.arange(49, dtype=torch.float32, device="cuda")[1:].reshape(6, 8)
    check(to_host(model(x)), x.cpu().numpy())
    with pytest.raises(aot_runtime.InvalidArgument, match=r"strides \[1, 6\].*contiguous"):
        model(torch.zeros(8, 6, device="cuda").T)


def test_cupy_arrays(package):
    cupy = pytest.importorskip("cupy")
    model = aot_runtime.load(package, "cuda")
    out = model(cupy.asarray(X))
    assert isinstance(out["y"], cupy.ndarray)
    check({"y": out["y"].get(), "rest": (out["rest"][0].get(),)}, X)


def test_outputs_outlive_the_model(package):
    model = aot_runtime.load(package, "cuda")
    out = model(torch.from_numpy(X).cuda())
    del model
    check(to_host(out), X)


def test_wrong_indices(tmp_path, kernels):
    path = add_cuda(gather_package(), ARCH, kernels).write(tmp_path / "gather.pkg")
    model = aot_runtime.load(path, "cuda")
    with pytest.raises(aot_runtime.InvalidArgument, match=r"model\.py:12 aten\.embedding"):
        model(np.array([1, 9]))
    assert model(np.array([1, 4])).tolist() == [11, 14]
    model(torch.tensor([7], device="cuda"))
    with pytest.raises(aot_runtime.InvalidArgument, match="outside the tensor"):
        model.synchronize()
    assert model(torch.tensor([2], device="cuda")).tolist() == [12]


def test_profile(package):
    rows = aot_runtime.load(package, "cuda").profile(X, runs=3)
    assert [row.calls for row in rows] == [3, 3, 3]
    assert all(0 < row.nanoseconds < 1e9 for row in rows)


def test_no_memory_leaves_the_session_usable(package):
    model = aot_runtime.load(package, "cuda")
    check(model(X), X)
    free, _ = torch.cuda.mem_get_info()
    hold = torch.empty(free - (64 << 20), dtype=torch.uint8, device="cuda")
    wide = small_package(width=8, most=None)
    big = np.zeros((16 << 20, 8), np.float32)
    path = add_cuda(wide, ARCH, triton_kernels(ARCH)).write(package.with_name("wide.pkg"))
    other = aot_runtime.load(path, "cuda")
    with pytest.raises(aot_runtime.OutOfMemory, match=r"cuda:0 for \d+ bytes|bytes of an output"):
        other(big)
    check(other(X), X)
    del hold
    torch.cuda.empty_cache()


def test_a_steady_state_allocates_nothing(package):
    model = aot_runtime.load(package, "cuda")
    x = torch.from_numpy(X).cuda()
    for _ in range(5):
        model(x)
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()
    for _ in range(1000):
        model(x)
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info() == before


def test_without_torch(package, tmp_path):
    code = (
        "import sys, numpy, aot_runtime\n"
        "x = numpy.arange(48, dtype='f4').reshape(6, 8)\n"
        "y = aot_runtime.load(sys.argv[1], 'cuda')(x)['y']\n"
        "assert 'torch' not in sys.modules\n"
        "numpy.testing.assert_array_equal(y, 2 * (x + numpy.arange(8, dtype='f4')))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "runtime")}
    subprocess.run([sys.executable, "-c", code, str(package)], env=env, check=True)


# The interface's errors are none: a kernel's parameters are asked for until the driver says no.
MEMCHECK = ["compute-sanitizer", "--error-exitcode", "9", "--report-api-errors", "no"]


@pytest.mark.parametrize("tool", [[], MEMCHECK])
def test_the_cpp_program(package, tmp_path, tool):
    program = os.fspath(ROOT / "build" / "gpu" / "aot_run")
    for needed in [program, *tool[:1]]:
        if shutil.which(needed) is None:
            pytest.skip(f"no {needed} (scripts/test-gpu builds aot_run)")
    np.save(tmp_path / "x.npy", X)
    arguments = [*tool, program, str(package), "--device", "cuda", "--repeat", "3"]
    arguments += ["--out", str(tmp_path), str(tmp_path / "x.npy")]
    subprocess.run(arguments, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "out0.npy"), expected_small(X)[0])


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_in_one_process(package):
    models = [aot_runtime.load(package, f"cuda:{i}") for i in range(2)]
    for _ in range(5):
        for i, model in enumerate(models):
            x = torch.from_numpy(X).to(f"cuda:{i}")
            out = model(x)
            assert out["y"].device.index == i
            check(to_host(out), X)
    with pytest.raises(aot_runtime.InvalidArgument, match="is on cuda:1, this session runs on cud"):
        models[0](torch.from_numpy(X).to("cuda:1"))


def test_memory_of_torchs_pool(package):
    """Temporaries and outputs are blocks of torch's allocator, and go back to it."""
    pool = aot_runtime.TorchAllocator()
    x = torch.from_numpy(X).cuda()
    before = torch.cuda.memory_stats()["allocated_bytes.all.current"]
    model = aot_runtime.load(package, "cuda", device_allocator=pool)
    out = model(x)
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] > before
    check(to_host(out), X)
    del model, out
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == before
