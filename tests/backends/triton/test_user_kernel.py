"""Triton kernels that models bring along: interpreted, compiled, and on a GPU if there is one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.library import triton_op, wrap_triton

import aot
from aot.backends.triton.backend import TritonBackend
from aot.backends.triton.compile import compile_kernels
from aot.errors import ExportError, InputMismatch, UnsupportedOperators, UsageError
from aot.frontend.capture import Captured, capture_module
from aot.frontend.ingest import ingest
from aot.frontend.triton_source import kernel_module
from aot.ir.kernels import KernelGraph
from aot.ir.printer import print_kernels
from aot.ir.tensors import OperatorCall
from aot.options import Target
from tests.backends.emitting import emit
from tests.conformance.executors import executor_named, interpret_triton, scheduled
from tests.user_kernels import Case, add, add_kernel, cases

TARGET = Target("cuda", ("sm_90",))


def captured(case: Case) -> Captured:
    shapes = None if case.dynamic is None else {"args": case.dynamic}
    return capture_module(case.model, case.inputs, dynamic_shapes=shapes)


def check(case: Case, outputs: list[np.ndarray[Any, Any]], inputs: tuple[Tensor, ...]) -> None:
    expected = case.expected(case.model, *(x.clone() for x in inputs))
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(outputs) == len(expected)
    for ours, theirs in zip(outputs, expected, strict=True):
        made = torch.from_numpy(ours.astype(np.float32))
        tolerance = 2e-2 if theirs.dtype == torch.bfloat16 else 1e-4
        torch.testing.assert_close(made, theirs.detach().float(), rtol=tolerance, atol=tolerance)


@triton.jit
def widen_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x in float32."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n).to(tl.float32), mask=at < n)


@triton_op("aot_test_triton::widen", mutates_args={})
def widen(x: Tensor) -> Tensor:
    out = torch.empty(x.shape, dtype=torch.float32)
    wrap_triton(widen_kernel)[(1,)](x, out, x.numel(), 64)
    return out


class Widen(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return widen(x)


def kernels_of(case: Case) -> KernelGraph:
    return kernels_in(captured(case))


def kernels_in(model: Captured) -> KernelGraph:
    graph, _ = ingest(model)
    return scheduled(graph, TritonBackend().machine(TARGET))


@pytest.mark.parametrize("name", cases())
def test_interpreted(name: str) -> None:
    case = cases()[name]
    check(case, interpret_triton(captured(case), case.inputs), case.inputs)


@pytest.mark.parametrize("rows", [0, 1, 19])
def test_other_sizes(rows: int) -> None:
    case = cases()["dynamic sizes"]
    inputs = (torch.randn(rows, 30),)
    check(case, interpret_triton(captured(case), inputs), inputs)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_compiled(arch: str) -> None:
    target = Target("cuda", (arch,))
    for name in ("numbers and constants", "products", "dynamic sizes"):
        emitted = emit(TritonBackend(), kernels_of(cases()[name]), target)
        own = [f for f in emitted.functions if "_kernel(" in f.text]
        images = compile_kernels(own, arch, 1, None)
        assert own and all(len(image.data) > 1000 for image in images)


def test_float8_is_read_as_triton_has_it() -> None:
    model = capture_module(Widen(), (torch.ones(64).to(torch.float8_e4m3fn),))
    (own,) = emit(TritonBackend(), kernels_in(model), TARGET).functions
    assert own.signature[0] == "*fp8e4nv"
    (image,) = compile_kernels([own], "sm_90", 1, None)
    assert len(image.data) > 1000


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", cases())
def test_on_a_gpu(name: str) -> None:
    case = cases()[name]
    executor = executor_named("cuda")
    assert executor is not None
    outputs = executor(captured(case), tuple(x.clone() for x in case.inputs))
    check(case, outputs, case.inputs)


def test_the_model_is_one_straight_program() -> None:
    graph = kernels_of(cases()["dynamic sizes"])
    text = print_kernels(graph)
    assert not graph.flow
    assert len(re.findall("launch add_kernel", text)) == 3
    assert "BLOCK=64" in text


def test_what_it_fills_is_not_copied_and_what_it_changes_is() -> None:
    case = cases()["add"]
    (call,) = [op for op in ingest(captured(case))[0].ops if isinstance(op, OperatorCall)]
    assert len(call.results) == 1 and not call.changed
    (call, other) = [
        op for op in ingest(captured(cases()["in place"]))[0].ops if isinstance(op, OperatorCall)
    ]
    assert not call.results and not other.results
    assert len(call.changed) == len(other.changed) == 1


def test_the_first_configuration_and_its_options() -> None:
    case = cases()["numbers and constants"]
    (call,) = [op for op in ingest(captured(case))[0].ops if isinstance(op, OperatorCall)]
    assert call.kernel is not None
    assert dict(call.kernel.constants) == {"BLOCK": "32", "KIND": "'exp'"}
    assert dict(call.kernel.options) == {"num_stages": 1, "num_warps": 2}
    kinds = {name: kind for name, kind, _ in call.arguments}
    assert kinds["n"] == "int32" and kinds["factor"] == "float" and kinds["clips"] == "bool"
    (decision,) = [d for d in kernels_of(case).decisions if d.stage == "configure"]
    assert decision.verdict == "the first of 2 configurations"


def test_sizes_are_numbers_of_32_bits() -> None:
    case = cases()["branches"]._replace(dynamic=({0: torch.export.Dim("n")},))
    (relation,) = ingest(captured(case))[0].relations
    assert relation.right == 2**31 - 1
    assert relation.message == "the kernel add_kernel takes n as a number of 32 bits"


class _Model(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


X = torch.randn(64)


def refusal(function: Any, x: Tensor = X) -> str:
    with pytest.raises(UnsupportedOperators) as caught:
        ingest(capture_module(_Model(function), (x,)))
    return str(caught.value)


def test_a_program_for_the_cpu_has_none(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="add_kernel is written in Triton, which a program for"):
        aot.package(
            _Model(lambda x: add(x, x)),
            (X,),
            path=tmp_path / "no.pkg",
            targets=["cpu", "cuda:sm_90"],
        )


def test_named_operators_stay_calls() -> None:
    made = capture_module(_Model(lambda x: add(x, x)), (X,), operators=["aot_test_triton::*"])
    (call,) = ingest(made, ["aot_test_triton::*"])[0].ops
    assert isinstance(call, OperatorCall)
    assert call.name == "aot_test_triton::add" and call.kernel is None


def test_packages_hold_them_and_have_no_golden_values(tmp_path: Any) -> None:
    path = tmp_path / "own.pkg"
    report = aot.package(_Model(lambda x: add(x, x)), (X,), path=path, targets=["cuda:sm_90"])
    (kernel,) = report.programs[0].kernels
    assert kernel.kind == "add_kernel"
    assert kernel.origins[0].file.endswith("test_user_kernel.py")
    assert kernel.nbytes == 2 * X.numel() * 4


def test_a_view_with_gaps_is_refused() -> None:
    def function(x: Tensor) -> Tensor:
        out = torch.empty_like(x[::2])
        wrap_triton(add_kernel)[(1,)](x[::2], x[1::2], out, 32, 64)
        return out

    assert "its argument x_ptr is a view with gaps; make it contiguous" in refusal(function)


TABLE = {"a": 1}


@triton.jit
def _odd_kernel(x_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + TABLE["a"])


@triton.jit
def _broken_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + tl.arange(0, 2 * BLOCK))


def _launch(kernel: Any, *arguments: Any) -> Any:
    return wrap_triton(kernel)[(1,)](*arguments, BLOCK=64)


def test_other_names_of_the_module_are_refused() -> None:
    with pytest.raises(ValueError, match="it uses TABLE, a dict, of the module around it"):
        kernel_module(_odd_kernel)


@triton.jit
def k12(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 0)


def test_names_of_packages_kernels_are_refused() -> None:
    with pytest.raises(ValueError, match="it uses the name k12, as kernels of packages have"):
        kernel_module(k12)


def test_a_kernel_that_does_not_compile() -> None:
    def function(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        _launch(_broken_kernel, x + 1, out)
        return out

    with pytest.raises(ExportError, match="a Triton kernel of the model does not") as caught:
        capture_module(_Model(function), (X,))
    assert "tl.store(out_ptr + at" in caught.value.details


def test_a_configuration_of_several_processors_is_refused() -> None:
    kernel = triton.autotune([triton.Config({"BLOCK": 64}, num_ctas=2)], key=[])(add_kernel)

    def function(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        wrap_triton(kernel)[(1,)](x, x, out, 64)
        return out

    assert "its programs share several processors (num_ctas)" in refusal(function)


def test_eager_that_cannot_run_is_said_so(tmp_path: Any) -> None:
    with pytest.raises(InputMismatch, match="eager PyTorch cannot run the model") as caught:
        aot.package(
            _Model(lambda x: add(x, x)),
            (X,),
            path=tmp_path / "no.pkg",
            targets=["cpu:x86-64-v2"],
            operators=["aot_test_triton::add"],
        )
    assert "--no-golden" in str(caught.value)
