"""Custom operators from Python: given at load, carried, and every way in which they fail."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.loaded import load_model
from aot_runtime.tools.verify import first_difference
from torch._higher_order_ops.scan import scan
from torch.export import Dim

from aot import api
from aot.cli import run_command
from aot.errors import UnsupportedOperators, UsageError
from aot.frontend.capture import capture_module
from aot.report.model import BuildReport
from tests import operators
from tests.conformance.executors import interpret_fused
from tests.settings import seeded

assert operators.LIBRARY
ROOT = Path(__file__).parents[2]
"""Where the headers and the runtime are."""

SOURCE = r"""
#include "aot/operator.hpp"

static void twice(const aot::OperatorCall& call) {
  const DLTensor& x = call.tensor("x");
  for (int64_t i = 0; i < aot::OperatorCall::elements(x); ++i) {
    aot::OperatorCall::data<float>(call.result(0))[i] =
        2 * aot::OperatorCall::data<const float>(x)[i];
  }
}

extern "C" int aot_operator_library_init(const aot_operator_registry* registry) {
  int result = RESULT;
  for (const char* device : {DEVICES}) result += aot::add_operator<twice>(registry, NAME, device);
  return result;
}
"""


def compile_library(
    path: Path, name: str = "aot_test::twice", result: int = 0, devices: tuple[str, ...] = ("cpu",)
) -> Path:
    """A shared object that registers an operator for devices, or refuses to."""
    source = path.with_suffix(".cc")
    source.write_text(SOURCE)
    flags = ["-std=c++17", "-shared", "-fPIC", f"-I{ROOT / 'cpp/include'}"]
    names = ", ".join(f'"{device}"' for device in devices)
    defines = [f'-DNAME="{name}"', f"-DRESULT={result}", f"-DDEVICES={names}"]
    subprocess.run(["g++", *flags, *defines, str(source), "-o", str(path)], check=True)
    return path


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aot_test.twice(x + 1).relu()


class Every(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, total = torch.ops.aot_test.every(x.t(), [x, x * 2], None, x.shape[0], w=0.5)
        z, more = torch.ops.aot_test.every(y, [y], self.weight[:, None], 3, axes=[1, 2])
        return z, total + more.sum()


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.cond(
            x.sum() > 0,
            lambda x: torch.ops.aot_test.twice(x) + 1,
            lambda x: torch.ops.aot_test.twice.scalar(x, 3),
            (x,),
        )
        found = torch.nonzero(x)
        return y, torch.ops.aot_test.twice(found)


class Changes(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, z = x + 1, x.t() * 2
        old = torch.ops.aot_test.swap(y, None, x, k=0.5)
        torch.ops.aot_test.swap(self.cache, z, y.t())
        torch.ops.aot_test.change(x)
        more = z.clone()
        torch.ops.aot_test.change_all([z, more], 3)
        return y, z, old, more, self.cache + 1, torch.ops.aot_test.twice(self.cache)


class Loops(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def body(i: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, torch.ops.aot_test.twice(z * 0.4).flip(0)

        start = torch.zeros((), dtype=torch.int64)
        _, z = torch.while_loop(lambda i, z: i < 3, body, (start, x))
        last, rows = scan(
            lambda c, a: (torch.ops.aot_test.twice(c * 0.3) + a, torch.ops.aot_test.twice(a)),
            x[0],
            x,
        )
        return z, last, rows


def swap(x: np.ndarray, y: np.ndarray | None, z: np.ndarray, k: float) -> np.ndarray:
    old = x.copy()
    x += np.float32(k) * z
    if y is not None:
        y[...] = z
    return old


def change_all(xs: list[np.ndarray], k: int) -> None:
    for x in xs:
        x[...] = x + k


def every(
    x: np.ndarray, xs: list[np.ndarray], bias: np.ndarray | None, n: int, axes: list[int],
    w: float, mode: str, flags: list[bool], dtype: str,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    assert (mode, flags, dtype) == ("plain", [True, False], "float32")
    assert axes in ([0], [1, 2])
    assert x.flags.c_contiguous
    first = x * np.float32(w) + np.float32(n)
    total = sum(t.sum(0) for t in xs)
    assert isinstance(total, np.ndarray)
    return first if bias is None else first + bias, total


OPERATORS: dict[str, Callable[..., Any]] = {
    "aot_test::twice": lambda x: x * 2,
    "aot_test::twice.scalar": lambda x, k: x * (2 * k),
    "aot_test::every": every,
    "aot_test::swap": swap,
    "aot_test::change": lambda x: change_all([x], 1),
    "aot_test::change_all": change_all,
}


@pytest.fixture
def given() -> Iterator[None]:
    """All operators, registered."""
    with operators.registered(OPERATORS):
        yield


def package(folder: Path, module: torch.nn.Module, *args: Any, **settings: Any) -> Path:
    settings.setdefault("operators", ["aot_test::*"])
    path = folder / "m.pkg"
    api.package(module, args, path=path, targets=["cpu:x86-64-v3"], **settings)
    return path


ROWS = ({0: Dim("rows", min=0, max=64)},)


@pytest.mark.parametrize("kind", [Twice, Every, Branches])
def test_given_at_load(tmp_path: Path, given: None, kind: type[torch.nn.Module]) -> None:
    module = kind()
    path = package(tmp_path, module, torch.randn(5, 4), dynamic_shapes=ROWS)
    model = aot_runtime.load(path)
    for rows in (5, 1, 0, 64):
        x = torch.randn(rows, 4)
        expected = module(x)
        made = model(x)
        for ours, theirs in zip(
            made if isinstance(made, tuple) else (made,),
            expected if isinstance(expected, tuple) else (expected,),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs)


def test_states_and_inputs_that_operators_change(tmp_path: Path, given: None) -> None:
    module = Changes()
    path = package(tmp_path, module, torch.randn(4, 4))
    model = aot_runtime.load(path)
    for _ in range(3):
        x = torch.randn(4, 4)
        ours, theirs = x.clone(), x.clone()
        for made, expected in zip(model(ours), module(theirs), strict=True):
            torch.testing.assert_close(made, expected)
        torch.testing.assert_close(ours, theirs)
        assert np.allclose(model.state_dict()["cache"], module.cache)


def test_calls_in_loops(tmp_path: Path, given: None) -> None:
    module, x = Loops(), torch.randn(3, 4)
    model = aot_runtime.load(package(tmp_path, module, x))
    for made, expected in zip(model(x), module(x), strict=True):
        torch.testing.assert_close(made, expected)


def test_weights_that_an_operator_reads_are_replaced(tmp_path: Path, given: None) -> None:
    module, x = Every(), torch.randn(5, 4)
    model = aot_runtime.load(package(tmp_path, module, x, swappable=True))
    with torch.no_grad():
        module.weight.copy_(torch.randn(4))
    model.replace_weights(module.state_dict())
    for made, expected in zip(model(x), module(x), strict=True):
        torch.testing.assert_close(made, expected)


@pytest.mark.parametrize("kind", [Twice, Every, Branches])
def test_graphs_mean_the_same_in_numpy(kind: type[torch.nn.Module]) -> None:
    module, x = kind(), torch.randn(5, 4)
    captured = capture_module(module, (x,))
    expected = module(x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    made = interpret_fused(captured, (x,), OPERATORS)
    for ours, theirs in zip(made, expected, strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-5)


def test_a_missing_operator_is_an_error_at_load(tmp_path: Path) -> None:
    path = package(tmp_path, Twice(), torch.randn(3))
    with pytest.raises(aot_runtime.NotFound, match="calls the custom operator 'aot_test::twice'"):
        aot_runtime.load(path)
    aot_runtime.register_operator("aot_test::twicer", OPERATORS["aot_test::twice"])
    with pytest.raises(aot_runtime.NotFound, match=r"aot_runtime\.register_operator") as caught:
        aot_runtime.load(path)
    aot_runtime.unregister_operator("aot_test::twicer")
    assert "test_operators.py:" in caught.value.origin
    assert "aot_test.twice.default" in caught.value.origin


WRONG = {
    "ZeroDivisionError: division by zero": lambda x: 1 / 0,
    "TypeError: .*takes 0 positional arguments": lambda: None,
    r"result 0 of aot_test::twice is float64\[3\], the model says float32\[3\]": (
        lambda x: x.astype(np.float64)
    ),
    r"is float32\[2\], the model says float32\[3\]": lambda x: x[:2],
    "returned 2 results, the model says 1": lambda x: (x, x),
    "returned 0 results, the model says 1": lambda x: None,
    "ValueError: assignment destination is read-only": lambda x: x.fill(0),
}


@pytest.mark.parametrize("message", WRONG)
def test_failures_have_the_models_line_and_a_cause(
    tmp_path: Path, given: None, message: str
) -> None:
    path = package(tmp_path, Twice(), torch.randn(3))
    aot_runtime.register_operator("aot_test::twice", WRONG[message])
    model = aot_runtime.load(path)
    pattern = f"the custom operator 'aot_test::twice' failed: .*{message}.*, at .*test_operators.py"
    with pytest.raises(aot_runtime.OperatorFailed, match=pattern) as caught:
        model(np.ones(3, np.float32))
    assert isinstance(caught.value.__cause__, Exception)
    assert "aot_test.twice.default" in caught.value.origin


def test_models_keep_what_they_were_made_with(tmp_path: Path, given: None) -> None:
    path = package(tmp_path, Twice(), torch.randn(3))
    x = np.ones(3, np.float32)
    old = aot_runtime.load(path)
    aot_runtime.register_operator("aot_test::twice", lambda x: x * 10)
    assert old(x)[0] == 4 and old.clone()(x)[0] == 20
    aot_runtime.unregister_operator("aot_test::twice")
    assert old(x)[0] == 4


def test_arguments_cannot_be_read_when_the_call_is_over(tmp_path: Path, given: None) -> None:
    from aot_runtime import _native

    path = package(tmp_path, Twice(), torch.randn(3))
    kept: list[Any] = []

    def call(arguments: list[Any], results: list[Any], stream: int) -> None:
        assert stream == 0
        kept.extend((*arguments, *results))
        torch.from_dlpack(results[0])[...] = 1

    _native.register_operator("aot_test::twice", "", call)
    assert aot_runtime.load(path)(np.ones(3, np.float32)).tolist() == [1, 1, 1]
    for tensor in kept:
        for use in (memoryview, torch.from_dlpack, lambda t: t.shape, lambda t: t.address):
            with pytest.raises(BufferError, match=r"call that is over|Error getting buffer"):
                use(tensor)


def test_what_cannot_be_registered() -> None:
    with pytest.raises(aot_runtime.InvalidArgument, match="must be callable"):
        aot_runtime.register_operator("a::b", 3)  # type: ignore[arg-type]
    with pytest.raises(aot_runtime.InvalidArgument, match="name is empty"):
        aot_runtime.register_operator("", lambda: None)
    with pytest.raises(aot_runtime.Unavailable, match="no device 'gpu': this runtime runs on cpu"):
        aot_runtime.register_operator("a::b", lambda: None, device="gpu")


def test_sessions_run_at_the_same_time(tmp_path: Path, given: None) -> None:
    path = package(tmp_path, Every(), torch.randn(5, 4), dynamic_shapes=ROWS)
    first = aot_runtime.load(path)
    wrong: list[int] = []

    def work(seed: int) -> None:
        model = first.session(num_threads=1)
        x = np.random.default_rng(seeded(seed)).standard_normal((3 + seed, 4)).astype(np.float32)
        expected = model(x)
        for _ in range(30):
            aot_runtime.register_operator("aot_test::every", every)
            if not all(np.array_equal(a, b) for a, b in zip(model(x), expected, strict=True)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_profiles_and_observers_see_calls(tmp_path: Path, given: None) -> None:
    path = package(tmp_path, Twice(), torch.randn(3))
    model = aot_runtime.load(path)
    x = np.ones(3, np.float32)
    (call,) = [step for step in model.profile(x) if step.kernel == "call aot_test::twice"]
    assert call.calls == 10 and "aot_test.twice.default" in call.origin
    seen: list[tuple[int, bytes]] = []
    model.run_observed(lambda step, buffer, data: seen.append((step, data)), x)
    assert (1, np.full(3, 4, np.float32).tobytes()) in seen


def test_carried_in_the_package_and_run_without_torch(tmp_path: Path) -> None:
    library = compile_library(tmp_path / "twice.so")
    path = package(tmp_path, Twice(), torch.randn(3), operators=[], operator_libraries=[library])
    library.unlink()
    with PackageFile(path) as file:
        assert "operators/cpu/twice.so" in file.entries
        (carried,) = file.plan.programs[0].operator_libraries
        assert carried.sha256 == file.sha256("operators/cpu/twice.so")
    program = (
        "import sys, numpy as np, aot_runtime\n"
        f"model = aot_runtime.load({str(path)!r}, verify=True)\n"
        "print(model(np.array([1, 2, -3], np.float32)).tolist(), 'torch' in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "runtime")}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[4.0, 6.0, 0.0] False\n"
    # What the package carries comes before what the process has.
    aot_runtime.register_operator("aot_test::twice", lambda x: x * 10)
    assert aot_runtime.load(path)(np.ones(3, np.float32))[0] == 4
    aot_runtime.unregister_operator("aot_test::twice")


def test_libraries_that_nothing_calls_are_not_carried(tmp_path: Path, given: None) -> None:
    library = compile_library(tmp_path / "other.so", name="aot_test::other")
    path = package(tmp_path, Twice(), torch.randn(3), operator_libraries=[library])
    with PackageFile(path) as file:
        assert not file.plan.programs[0].operator_libraries


def test_libraries_that_cannot_be_carried(tmp_path: Path) -> None:
    def build(*libraries: Path) -> None:
        package(tmp_path, Twice(), torch.randn(3), operator_libraries=libraries)

    with pytest.raises(UsageError, match="cannot load the operator library"):
        build(tmp_path / "none.so")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(UsageError, match="cannot load the operator library"):
        build(tmp_path / "text.so")
    with pytest.raises(UsageError, match="aot_operator_library_init gave 5"):
        build(compile_library(tmp_path / "refuses.so", result=5))
    with pytest.raises(UsageError, match="registers no operator"):
        build(compile_library(tmp_path / "empty.so", name="", result=-1))
    library = compile_library(tmp_path / "a.so")
    (tmp_path / "more").mkdir()
    twin = compile_library(tmp_path / "more" / "a.so")
    with pytest.raises(UsageError, match=r"two operator libraries are called a\.so"):
        build(library, twin)


def test_libraries_without_the_symbol(tmp_path: Path) -> None:
    source = tmp_path / "plain.c"
    source.write_text("int nothing(void) { return 0; }\n")
    library = tmp_path / "plain.so"
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    with pytest.raises(UsageError, match="does not export aot_operator_library_init"):
        package(tmp_path, Twice(), torch.randn(3), operator_libraries=[library])


def test_an_operator_that_is_not_given_stops_the_build(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOperators, match="--operator aot_test::twice"):
        package(tmp_path, Twice(), torch.randn(3), operators=[])


def both(folder: Path, module: torch.nn.Module, **settings: Any) -> BuildReport:
    return api.package(
        module,
        (torch.randn(3, 4),),
        path=folder / "m.pkg",
        targets=["cpu:x86-64-v3", "cuda:sm_80+sm_90"],
        **settings,
    )


def test_a_target_without_code_is_an_error_that_says_what_there_is(tmp_path: Path) -> None:
    library = compile_library(tmp_path / "twice.so")
    with pytest.raises(UsageError) as caught:
        both(tmp_path, Twice(), operator_libraries=[library])
    text = str(caught.value)
    assert "no code for cuda:sm_80 of the custom operator aot_test::twice\n" in text
    assert "test_operators.py:" in text and "aot_test.twice.default" in text
    assert "aot_test::twice: twice.so has code for cpu" in text
    assert "--operator-library that adds it for cuda, say --operator aot_test::twice" in text
    gpu = compile_library(tmp_path / "gpu.so", devices=("cuda",))
    with pytest.raises(UsageError, match=r"no code for cpu:x86-64-v3 of .* aot_test::twice"):
        both(tmp_path, Twice(), operator_libraries=[gpu])
    with pytest.raises(UsageError, match="registers aot_test::twice for 'gpu', which is no kind"):
        both(
            tmp_path,
            Twice(),
            operator_libraries=[compile_library(tmp_path / "a.so", devices=("gpu",))],
        )


def test_each_program_carries_the_libraries_with_code_for_its_device(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    host = compile_library(tmp_path / "host.so")
    gpu = compile_library(tmp_path / "gpu.so", devices=("cuda",))
    all_ = compile_library(tmp_path / "all.so", "aot_test::twice.scalar", devices=("cpu", "cuda"))
    report = both(tmp_path, Branches(), operator_libraries=[host, gpu, all_])
    assert [str(use) for use in report.operators] == [
        "aot_test::twice on cpu (in host.so)",
        "aot_test::twice.scalar on cpu (in all.so)",
        "aot_test::twice on cuda (in gpu.so)",
        "aot_test::twice.scalar on cuda (in all.so)",
    ]
    with PackageFile(tmp_path / "m.pkg") as file:
        carried = [[b.entry for b in p.operator_libraries] for p in file.plan.programs]
        assert carried == [
            ["operators/cpu/host.so", "operators/cpu+cuda/all.so"],
            *[["operators/cuda/gpu.so", "operators/cpu+cuda/all.so"]] * 2,
        ]
        assert {name for entries in carried for name in entries} == {
            name for name in file.entries if name.startswith("operators/")
        }
    model = aot_runtime.load(tmp_path / "m.pkg", "cpu", verify=True)
    assert model(-np.ones((3, 4), np.float32))[1].tolist()[0] == [0, 0]


def test_operators_given_at_load_are_given_for_every_device(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    report = both(tmp_path, Twice(), operators=["aot_test::*"])
    assert [str(use) for use in report.operators] == [
        "aot_test::twice on cpu (at load)",
        "aot_test::twice on cuda (at load)",
    ]


def test_the_report_lists_them(tmp_path: Path) -> None:
    library = compile_library(tmp_path / "twice.so")
    report = api.package(
        Branches(),
        (torch.randn(3, 4),),
        path=tmp_path / "m.pkg",
        targets=["cpu:x86-64-v3"],
        operators=["aot_test::*"],
        operator_libraries=[library],
    )
    assert [str(use) for use in report.operators] == [
        "aot_test::twice on cpu (in twice.so)",
        "aot_test::twice.scalar on cpu (at load)",
    ]
    assert report.to_json()["operators"][1] == {
        "name": "aot_test::twice.scalar",
        "device": "cpu",
        "library": "",
    }


def test_tools_run_a_file_that_registers_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = package(tmp_path, Twice(), torch.randn(3))
    file = tmp_path / "register.py"
    register = "import aot_runtime\naot_runtime.register_operator('aot_test::twice', {})\n"
    file.write_text(register.format("lambda x: x * 2"))
    assert run_command(["verify", str(path)]) == 5
    assert "nobody has given" in capsys.readouterr().err
    assert run_command(["verify", str(path), "--register", str(file)]) == 0
    assert run_command(["run", str(path), "--register", str(file)]) == 0
    file.write_text(register.format("lambda x: x * 3"))
    assert run_command(["verify", str(path), "--register", str(file)]) == 1
    capsys.readouterr()
    file.write_text("1 / 0\n")
    assert run_command(["verify", str(path), "--register", str(file)]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err
    aot_runtime.unregister_operator("aot_test::twice")


def test_the_command_line_names_what_the_package_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = package(tmp_path, Twice(), torch.randn(3))
    assert run_command(["inspect", str(path)]) == 0
    assert "custom operators: aot_test::twice; given at load" in capsys.readouterr().out


def test_a_call_that_differs_is_named(tmp_path: Path, given: None) -> None:
    path = package(tmp_path, Twice(), torch.randn(3))
    right = load_model(path)
    aot_runtime.register_operator("aot_test::twice", lambda x: x * 3)
    x = np.ones(3, np.float32)
    found = first_difference(right, load_model(path), [x])
    assert found.startswith("call aot_test::twice (") and "test_operators.py:" in found
