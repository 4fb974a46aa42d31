"""Custom operators on a real GPU, carried and in Python; `make test-gpu` runs these."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from torch.export import Dim

from aot import api
from aot.cli import run_command
from tests import operators
from tests.runtime.test_operators import ROOT, Branches, Changes, Every, Loops, Twice

pytestmark = pytest.mark.gpu

assert operators.LIBRARY
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

MAJOR, MINOR = torch.cuda.get_device_capability(0)
TARGET = f"cuda:sm_{MAJOR}{MINOR}"
ROWS = ({0: Dim("rows", min=0, max=64)},)

LIBRARY = torch.library.Library("aot_gpu_test", "FRAGMENT")
LIBRARY.define("push(Tensor x, Tensor row, *, SymInt zeros=0) -> Tensor")
LIBRARY.define("fill_row(Tensor(a!) x, int row, float value) -> ()")


@torch.library.impl(LIBRARY, "push", "CompositeExplicitAutograd")
def push(x: torch.Tensor, row: torch.Tensor, *, zeros: int = 0) -> torch.Tensor:
    """The row, then those of x but for the last; the last `zeros` bytes of it all are 0."""
    made = torch.cat([row[None], x[:-1]]) if len(x) else x.clone()
    made.view(-1)[made.numel() - min(zeros, made.nbytes) // 4 :] = 0
    return made


@torch.library.impl(LIBRARY, "fill_row", "CompositeExplicitAutograd")
def fill_row(x: torch.Tensor, row: int, value: float) -> None:
    """x[row] = value."""
    x[row] = value


@torch.library.register_fake("aot_gpu_test::push", lib=LIBRARY)
def _(x: torch.Tensor, row: torch.Tensor, *, zeros: int = 0) -> torch.Tensor:
    return torch.empty_like(x)


# Copies and fills by the driver, which needs no compiler for GPUs.
SOURCE = r"""
#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "aot/operator.hpp"

using aot::OperatorCall;

template <typename... Args>
static void driver(const char* symbol, Args... args) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(library, symbol));
  if (function == nullptr) throw std::runtime_error("the driver has no " + std::string(symbol));
  if (const int result = function(args...)) {
    throw std::runtime_error(std::string(symbol) + " gave " + std::to_string(result));
  }
}

static void copy(const OperatorCall& call, char* to, const void* from, size_t bytes) {
  if (call.stream() == nullptr) {
    std::memcpy(to, from, bytes);
  } else if (bytes > 0) {
    driver("cuMemcpyDtoDAsync_v2", reinterpret_cast<uint64_t>(to),
           reinterpret_cast<uint64_t>(from), bytes, call.stream());
  }
}

static void fill(const OperatorCall& call, char* to, float value, size_t count) {
  unsigned bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if (call.stream() == nullptr) {
    std::fill_n(reinterpret_cast<float*>(to), count, value);
  } else if (count > 0) {
    driver("cuMemsetD32Async", reinterpret_cast<uint64_t>(to), bits, count, call.stream());
  }
}

static size_t bytes_of(const DLTensor& tensor) {
  return static_cast<size_t>(OperatorCall::elements(tensor)) * sizeof(float);
}

static void push(const OperatorCall& call) {
  const DLTensor& x = call.tensor("x");
  const DLTensor& row = call.tensor("row");
  char* to = OperatorCall::data<char>(call.result(0));
  const size_t all = bytes_of(x);
  if (all == 0) return;
  copy(call, to, row.data, bytes_of(row));
  copy(call, to + bytes_of(row), x.data, all - bytes_of(row));
  const size_t zeros = std::min(all, static_cast<size_t>(call.integer("zeros")));
  fill(call, to + all - zeros, 0.0f, zeros / sizeof(float));
}

static void fill_row(const OperatorCall& call) {
  const DLTensor& x = call.tensor("x");
  const auto row = call.integer("row");
  if (row >= x.shape[0]) throw std::runtime_error("there is no row " + std::to_string(row));
  const auto width = static_cast<size_t>(x.strides[0]);
  char* to = OperatorCall::data<char>(x) + static_cast<size_t>(row) * width * sizeof(float);
  fill(call, to, static_cast<float>(call.number("value")), width);
}

extern "C" int aot_operator_library_init(const aot_operator_registry* registry) {
  int result = 0;
  for (const char* device : {"cpu", "cuda"}) {
    result += aot::add_operator<push>(registry, "aot_gpu_test::push", device);
    result += aot::add_operator<fill_row>(registry, "aot_gpu_test::fill_row", device);
  }
  return result;
}
"""


class Pushes(torch.nn.Module):
    """Kernels, calls, a state that one of them changes, and a size that depends on the input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(4, 8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        push, fill_row = torch.ops.aot_gpu_test.push, torch.ops.aot_gpu_test.fill_row
        y = push(self.linear(x).relu(), self.linear.bias, zeros=4 * x.shape[0])
        self.seen.add_(1)
        fill_row(self.seen, 2, 0.5)
        z = push((y.cumsum(1) + self.seen.sum()).tanh(), y.sum(0))
        return y, z.softmax(1)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("operators")
    (folder / "push.cc").write_text(SOURCE)
    flags = ["-std=c++17", "-shared", "-fPIC", f"-I{ROOT / 'cpp/include'}"]
    target = folder / "push.so"
    subprocess.run(["g++", *flags, str(folder / "push.cc"), "-ldl", "-o", str(target)], check=True)
    return target


def twice(x: Any) -> torch.Tensor:
    return torch.from_dlpack(x) * 2


def every(
    x: Any, xs: list[Any], bias: Any, n: int, axes: list[int], w: float,
    mode: str, flags: list[bool], dtype: str,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    assert (mode, flags, dtype) == ("plain", [True, False], "float32") and axes in ([0], [1, 2])
    first = torch.from_dlpack(x) * w + n
    total = sum(torch.from_dlpack(t).sum(0) for t in xs)
    assert isinstance(total, torch.Tensor)
    return first if bias is None else first + torch.from_dlpack(bias), total


def swap(x: Any, y: Any, z: Any, k: float) -> torch.Tensor:
    x, z = torch.from_dlpack(x), torch.from_dlpack(z)
    old = x.clone()
    x += k * z
    if y is not None:
        torch.from_dlpack(y)[...] = z
    return old


def change_all(xs: list[Any], k: int) -> None:
    for x in xs:
        torch.from_dlpack(x).add_(k)


OPERATORS: dict[str, Callable[..., Any]] = {
    "aot_test::twice": twice,
    "aot_test::twice.scalar": lambda x, k: torch.from_dlpack(x) * (2 * k),
    "aot_test::every": every,
    "aot_test::swap": swap,
    "aot_test::change": lambda x: change_all([x], 1),
    "aot_test::change_all": change_all,
}


@pytest.fixture
def given() -> Iterator[None]:
    """All operators, registered for GPUs."""
    with operators.registered(OPERATORS, "cuda"):
        yield


def package(folder: Path, module: torch.nn.Module, *args: Any, **settings: Any) -> Path:
    path = folder / "m.pkg"
    api.package(module, args, path=path, **{"targets": [TARGET], **settings})
    return path


def same(made: Any, expected: Any) -> None:
    made = made if isinstance(made, tuple) else (made,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for ours, theirs in zip(made, expected, strict=True):
        here = torch.as_tensor(ours).cpu()
        torch.testing.assert_close(here, theirs.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("graphs", [True, False])
def test_a_carried_library_runs_on_both_devices(
    tmp_path: Path, library: Path, graphs: bool
) -> None:
    module = Pushes().eval()
    path = package(
        tmp_path,
        module,
        torch.randn(5, 8),
        targets=["cpu:x86-64-v2", TARGET],
        operator_libraries=[library],
        dynamic_shapes=ROWS,
    )
    module.seen.zero_()
    on_gpu = aot_runtime.load(path, "cuda", verify=True, graphs=graphs)
    on_host = aot_runtime.load(path, "cpu")
    for rows in (5, 5, 5, 1, 0, 64, 5):
        x = torch.randn(rows, 8)
        with torch.no_grad():
            expected = module(x)
        same(on_host(x), expected)
        made = on_gpu(x.cuda()) if rows % 2 else on_gpu(x.numpy())
        same(made, expected)
    np.testing.assert_array_equal(on_gpu.state_dict()["seen"], module.seen.numpy())


def test_golden_values_are_verified_on_the_gpu(tmp_path: Path, library: Path) -> None:
    path = package(tmp_path, Pushes(), torch.randn(5, 8), operator_libraries=[library])
    assert run_command(["verify", str(path), "--device", "cuda"]) == 0


def test_a_failing_call_leaves_the_session_usable(tmp_path: Path, given: None) -> None:
    path = package(tmp_path, Twice(), torch.randn(3), operators=["aot_test::*"])
    calls: list[int] = []

    def sometimes(x: Any) -> torch.Tensor:
        calls.append(1)
        if len(calls) % 2:
            raise ValueError("no luck")
        return twice(x)

    aot_runtime.register_operator("aot_test::twice", sometimes, device="cuda")
    model = aot_runtime.load(path, "cuda")
    x = torch.ones(3, device="cuda")
    for _ in range(3):
        with pytest.raises(aot_runtime.OperatorFailed, match=r"no luck, at .*test_operators.py"):
            model(x)
        assert model(x).tolist() == [4, 4, 4]
    aot_runtime.register_operator("aot_test::twice", lambda x: x, device="cuda")
    with pytest.raises(aot_runtime.OperatorFailed, match="is of type OperatorTensor"):
        aot_runtime.load(path, "cuda")(x)


@pytest.mark.parametrize("kind", [Twice, Every, Branches])
def test_python_operators(tmp_path: Path, given: None, kind: type[torch.nn.Module]) -> None:
    module = kind()
    path = package(
        tmp_path, module, torch.randn(5, 4), operators=["aot_test::*"], dynamic_shapes=ROWS
    )
    model = aot_runtime.load(path, "cuda")
    for rows in (5, 5, 1, 0, 64):
        x = torch.randn(rows, 4)
        expected = module(x)
        same(model(x.cuda()), expected)
        same(model(x.numpy()), expected)


def test_states_and_inputs_that_operators_change(tmp_path: Path, given: None) -> None:
    module = Changes()
    path = package(tmp_path, module, torch.randn(4, 4), operators=["aot_test::*"])
    module.cache.zero_()
    model = aot_runtime.load(path, "cuda")
    for _ in range(3):
        theirs = torch.randn(4, 4)
        ours = theirs.cuda()
        same(model(ours), module(theirs))
        same(ours, theirs)
        np.testing.assert_allclose(model.state_dict()["cache"], module.cache, atol=1e-5)


def test_calls_in_loops(tmp_path: Path, given: None) -> None:
    module, x = Loops(), torch.randn(3, 4)
    model = aot_runtime.load(package(tmp_path, module, x, operators=["aot_test::*"]), "cuda")
    for _ in range(3):
        same(model(x.cuda()), module(x))


def test_calls_keep_their_place_in_the_callers_stream(tmp_path: Path, given: None) -> None:
    path = package(tmp_path, Twice(), torch.randn(1 << 20), operators=["aot_test::*"])
    model = aot_runtime.load(path, "cuda")
    stream = torch.cuda.Stream()
    for i in range(10):
        with torch.cuda.stream(stream) if i % 2 else torch.cuda.stream(torch.cuda.default_stream()):
            x = torch.zeros(1 << 20, device="cuda")
            torch.cuda._sleep(2_000_000)
            x += i
            out = model(x)
            assert torch.equal(out, torch.full_like(out, 2.0 * (i + 1)))


def test_runs_are_enqueued_without_waiting(tmp_path: Path, library: Path) -> None:
    path = package(tmp_path, Pushes(), torch.randn(5, 8), operator_libraries=[library])
    model = aot_runtime.load(path, "cuda")
    x = torch.randn(5, 8, device="cuda")
    for _ in range(3):
        model(x)
    torch.cuda.synchronize()
    done = torch.cuda.Event()
    torch.cuda._sleep(2_000_000_000)  # about a second
    for _ in range(3):
        model(x)
    done.record()
    assert not done.query()
    torch.cuda.synchronize()


def test_profiles_and_observers_see_calls(tmp_path: Path, given: None) -> None:
    path = package(tmp_path, Twice(), torch.randn(3), operators=["aot_test::*"])
    model = aot_runtime.load(path, "cuda")
    x = np.ones(3, np.float32)
    (call,) = [step for step in model.profile(x, runs=3) if step.kernel.startswith("call ")]
    assert call.calls == 3 and 0 < call.nanoseconds < 1e9
    seen: list[tuple[int, bytes]] = []
    model.run_observed(lambda step, buffer, data: seen.append((step, data)), x)
    assert (1, np.full(3, 4, np.float32).tobytes()) in seen


def test_tools_run_a_file_that_registers_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = package(tmp_path, Twice(), torch.randn(3), operators=["aot_test::*"])
    file = tmp_path / "register.py"
    file.write_text(
        "import aot_runtime, torch\n"
        "def twice(x):\n    return torch.from_dlpack(x) * 2\n"
        "aot_runtime.register_operator('aot_test::twice', twice, device='cuda')\n"
    )
    verify = ["verify", str(path), "--device", "cuda"]
    assert run_command(verify) == 5
    assert "nobody has given for cuda" in capsys.readouterr().err
    assert run_command([*verify, "--register", str(file)]) == 0
    aot_runtime.unregister_operator("aot_test::twice", device="cuda")
