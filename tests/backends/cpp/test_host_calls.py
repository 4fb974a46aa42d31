"""Kernels of the host that programs for GPUs call: their names, their library, what a call does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from aot.backends.cpp.backend import CppHostCalls
from aot.backends.registry import backend_for
from aot.backends.triton.backend import TritonBackend
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.flow import CustomCall, items_of
from aot.ir.kernels import KernelGraph
from aot.ir.tensors import Dim
from aot.options import Target, from_environment
from aot.symbolic import as_expr, dim, evaluate
from tests.conformance.executors import scheduled
from tests.runtime.cuda_package import fake_driver

GPU = Target("cuda", ("sm_90",))

# Loads the library as the runtime does, makes one call of each operator with memory of the fake
# GPU, and writes what the results hold. What the library says of failures is printed.
RUN = """
import ctypes, json, sys
from pathlib import Path
import numpy as np

folder = Path(sys.argv[1])
wanted = json.loads((folder / "calls.json").read_text())
driver = ctypes.CDLL("libcuda.so.1")
U64, SIZE, PTR = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p


class Tensor(ctypes.Structure):
    _fields_ = [("data", U64), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", PTR), ("strides", PTR), ("offset", U64)]


class Argument(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("kind", ctypes.c_int32), ("is_list", ctypes.c_int32),
                ("is_changed", ctypes.c_int32), ("count", SIZE), ("tensors", PTR), ("ints", PTR),
                ("floats", PTR), ("strings", PTR)]


class Call(ctypes.Structure):
    pass


FAIL = ctypes.CFUNCTYPE(None, ctypes.POINTER(Call), ctypes.c_char_p)
Call._fields_ = [("struct_size", SIZE), ("name", ctypes.c_char_p), ("argument_count", SIZE),
                 ("arguments", PTR), ("result_count", SIZE), ("results", PTR), ("stream", PTR),
                 ("fail", FAIL)]
ADD = ctypes.CFUNCTYPE(ctypes.c_int, PTR, ctypes.c_char_p, ctypes.c_char_p, PTR, PTR, PTR)


class Registry(ctypes.Structure):
    _fields_ = [("struct_size", SIZE), ("abi_version", ctypes.c_uint32), ("context", PTR),
                ("add", PTR), ("add_for", ADD)]


class Controls(ctypes.Structure):
    _fields_ = [("configure", PTR),
                ("fail", ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int, ctypes.c_int))]


operators = {}


def add_for(registry, device, name, function, user, release):
    operators[name.decode(), device.decode()] = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(Call), PTR)(function)
    return 0


registry = Registry(ctypes.sizeof(Registry), 1, None, None, ADD(add_for))
library = ctypes.CDLL(str(folder / "host.so"))
assert library.aot_operator_library_init(ctypes.byref(registry)) == 0
assert sorted(operators) == sorted((call["name"], "cuda") for call in wanted)

context, stream = PTR(), PTR()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxPushCurrent_v2(context) == 0
assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0


def tensor(values):
    address, shape = U64(), (ctypes.c_int64 * 1)(values.size)
    assert driver.cuMemAlloc_v2(ctypes.byref(address), SIZE(max(1, values.nbytes))) == 0
    data = values.ctypes.data_as(PTR)
    if values.nbytes:
        assert driver.cuMemcpyHtoDAsync_v2(address, data, SIZE(values.nbytes), stream) == 0
    made = Tensor(address.value, (2, 0), 1, 2, 8 * values.itemsize, 1, ctypes.addressof(shape))
    return made, shape


said = []
fail = FAIL(lambda call, message: said.append(message.decode()))


def run(wish, given):
    made = [tensor(values) for values in given]
    results = [np.full(n, 7, given[0].dtype) for n in wish["results"]]
    filled = [tensor(values) for values in results]
    reads = (Tensor * len(made))(*(t for t, _ in made))
    writes = (Tensor * len(filled))(*(t for t, _ in filled))
    numbers = (ctypes.c_int64 * len(wish["numbers"]))(*wish["numbers"])
    at = ctypes.addressof
    arguments = (Argument * 2)(
        Argument(b"operands", 1, 1, 0, len(made), at(reads), None, None, None),
        Argument(b"numbers", 2, 1, 0, len(numbers), None, at(numbers), None, None))
    name = wish["name"]
    call = Call(ctypes.sizeof(Call), name.encode(), 2, at(arguments), len(filled), at(writes),
                stream.value, fail)
    code = operators[name, "cuda"](ctypes.byref(call), None)
    for values, (one, _) in zip(results, filled):
        if code == 0 and values.nbytes:
            data = values.ctypes.data_as(PTR)
            size = SIZE(values.nbytes)
            assert driver.cuMemcpyDtoHAsync_v2(data, U64(one.data), size, stream) == 0
    if code == 0:
        assert driver.cuStreamSynchronize(stream) == 0
    return code, results


inputs = np.load(folder / "inputs.npz")
for k, wish in enumerate(wanted):
    given = [inputs[name] for name in wish["reads"]]
    code, results = run(wish, given)
    assert code == 0, said
    np.savez(folder / f"made{k}.npz", *results)
driver.fake_cuda_controls.restype = ctypes.POINTER(Controls)
controls = driver.fake_cuda_controls().contents
for symbol in sys.argv[2:]:
    skip = len(wanted[0]["reads"]) + len(wanted[0]["results"]) if "HtoD" in symbol else 0
    controls.fail(symbol.encode(), skip, 2)
    code, _ = run(wanted[0], [inputs[name] for name in wanted[0]["reads"]])
    assert code == 1
print("\\n".join(said))
"""


class Factors(nn.Module):
    """A system and an inverse of the same matrices, of which a view is turned."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.linalg.solve_ex(a, b)[0], torch.linalg.inv_ex(a.mT)[0]


@dataclass(frozen=True)
class Calls:
    """The calls of a module's program for GPUs, complete, at sizes."""

    graph: KernelGraph
    library: bytes
    operators: tuple[str, ...]

    @property
    def items(self) -> list[CustomCall]:
        return [item for item in items_of(self.graph.flow) if isinstance(item, CustomCall)]


def kernels_of(module: nn.Module, *inputs: torch.Tensor, dynamic: Any = None) -> KernelGraph:
    captured = capture_module(module, inputs, dynamic_shapes=dynamic)
    return scheduled(ingest(captured)[0], backend_for(GPU).machine(GPU))


def calls_of(module: nn.Module, *inputs: torch.Tensor, dynamic: Any = None) -> Calls:
    host = CppHostCalls()
    graph, kernels = host.emit(kernels_of(module, *inputs, dynamic=dynamic))
    data = host.compile({kernel: ("cuda",) for kernel in kernels}, from_environment())
    return Calls(graph, data, tuple(kernel.name for kernel in kernels))


def run_calls(
    folder: Path,
    calls: Calls,
    arrays: dict[str, np.ndarray],
    dims: dict[str, int],
    failing: Sequence[str] = (),
    libraries: Path | None = None,
) -> tuple[list[np.ndarray], list[str]]:
    """What the calls' results hold, and what the library said of calls that failed.

    `failing`: functions of the driver that fail in calls of the first operator, one after another.
    `libraries`: a folder of more libraries that the machine has.
    """
    symbols = {dim(name): value for name, value in dims.items()}

    def number(expr: Any) -> int:
        return int(evaluate(as_expr(expr), symbols))

    def elements(name: str) -> int:
        return int(np.prod([number(n) for n in calls.graph.buffers[name].shape]))

    wanted = [
        {
            "name": item.name,
            "reads": list(item.operands),
            "numbers": [number(e) for e in item.arguments[1][2]],
            "results": [elements(name) for name in item.results],
        }
        for item in calls.items
    ]
    (folder / "calls.json").write_text(json.dumps(wanted))
    (folder / "host.so").write_bytes(calls.library)
    np.savez(folder / "inputs.npz", **arrays)
    found = [str(fake_driver()), *([str(libraries)] if libraries else [])]
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(found)}
    command = [sys.executable, "-c", RUN, str(folder), *failing]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    made = [np.load(folder / f"made{k}.npz") for k in range(len(wanted))]
    return [one["arr_0"] for one in made], ran.stdout.splitlines()


def part(calls: Calls, position: int, name: str, record: np.ndarray, batch: int) -> np.ndarray:
    """A part of a call's records."""
    template: Any = calls.items[position].template
    start, shape = template.routine.place(name, template.sizes)
    sizes = [int(s) for s in shape]
    rows = record.reshape(batch, -1)[:, int(start) :]
    return rows[:, : int(np.prod(sizes))].reshape(batch, *sizes)


def test_matrices_are_copied_there_and_back(tmp_path: Path) -> None:
    torch.manual_seed(3)
    a, b = torch.randn(5, 70, 70) + 9 * torch.eye(70), torch.randn(5, 70, 3)
    calls = calls_of(Factors(), a, b)
    (solved, inverted), said = run_calls(
        tmp_path,
        calls,
        {"a": a.numpy().ravel(), "b": b.numpy().ravel()},
        {},
        ("cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuMemcpyHtoDAsync_v2"),
    )
    np.testing.assert_allclose(
        part(calls, 0, "x", solved, 5), torch.linalg.solve(a, b), rtol=2e-4, atol=2e-5
    )
    np.testing.assert_allclose(
        part(calls, 1, "inverse", inverted, 5), torch.linalg.inv(a.mT), rtol=2e-4, atol=2e-5
    )
    name = calls.operators[0]
    assert said == [
        f"{name}: the GPU failed ahead of the call, or in a copy to the host",
        f"{name}: the GPU failed ahead of the call, or in a copy to the host",
        f"{name}: a copy to the GPU failed",
    ]


@pytest.mark.parametrize("batch", [0, 1, 37])
def test_sizes_of_a_run(tmp_path: Path, batch: int) -> None:
    """Matrices small and large through one kernel, as many as a run has, none among them."""

    class Cholesky(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.cholesky_ex(x)[0]

    batches, side = torch.export.Dim("batch", min=0, max=64), torch.export.Dim("side", max=200)
    x = torch.randn(4, 40, 40, dtype=torch.float64)
    calls = calls_of(
        Cholesky(), x @ x.mT + torch.eye(40), dynamic=({0: batches, 1: side, 2: side},)
    )
    found: tuple[Dim, ...] = calls.graph.dims
    sizes = {d.name: batch if d.label == "batch" else 5 for d in found}
    y = torch.randn(batch, 5, 5, dtype=torch.float64)
    y = y @ y.mT + torch.eye(5)
    (records,), _ = run_calls(tmp_path, calls, {"x": y.numpy().ravel()}, sizes)
    if batch:
        factor = records.reshape(batch, -1)[:, :25].reshape(batch, 5, 5)
        np.testing.assert_allclose(factor, torch.linalg.cholesky(y), rtol=1e-12)


def test_equal_kernels_are_one() -> None:
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv_ex(torch.linalg.inv_ex(x)[0] + 1)[0]

    graph, kernels = CppHostCalls().emit(kernels_of(Twice(), torch.eye(90)))
    items = [item for item in items_of(graph.flow) if isinstance(item, CustomCall)]
    assert len(items) == 2
    # The second reads what lies by columns, so that its text is another.
    assert {item.name for item in items} == {kernel.name for kernel in kernels}
    again, same = CppHostCalls().emit(kernels_of(Twice(), torch.eye(90)))
    assert (again.flow, same) == (graph.flow, kernels), "names are made of texts"


def test_small_matrices_stay_on_the_device() -> None:
    graph = kernels_of(Factors(), torch.eye(64).expand(2, 64, 64).clone(), torch.ones(2, 64, 3))
    assert not graph.flow and CppHostCalls().emit(graph) == (graph, ())
    assert TritonBackend().machine(GPU).support(type(graph.kernels[0].template)) is not None
