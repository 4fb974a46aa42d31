"""Calls of the host that cuSOLVER computes where a machine has it; here by a fake one."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import linalg, nn

from aot.backends.base import UNNAMED, HostKernel
from aot.backends.cpp import solvers
from aot.backends.cpp.backend import CppHostCalls
from aot.options import from_environment
from aot.symbolic import affine_coefficients
from tests.backends.cpp.test_host_calls import Calls, kernels_of, part, run_calls
from tests.runtime.cuda_package import digest_of, fake_driver, made_once

SOURCES = Path(__file__).parent / "fake_solver"

FAILS = f"""#include "aot/kernel/prelude.h"
extern "C" void {UNNAMED}(const aot_kernel_args*, int64_t, int64_t) {{ __builtin_trap(); }}
"""
"""A kernel of the host that must not be called."""


def fake_solver() -> Path:
    """The folder for LD_LIBRARY_PATH with the fake libraries."""
    driver = fake_driver()
    flags = ["-O1", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden"]

    def make(folder: Path) -> None:
        blas, solver = folder / "libcublas.so.13", folder / "libcusolver.so.12"
        to = [f"-L{driver}", "-l:libcuda.so.1", f"-L{folder}"]
        made = ["g++", *flags, "-Wl,-soname,libcublas.so.13", str(SOURCES / "blas.cc")]
        subprocess.run([*made, "-o", str(blas), *to], check=True)
        made = ["g++", *flags, "-Wl,--no-as-needed", str(SOURCES / "solver.cc"), "-o", str(solver)]
        subprocess.run([*made, *to, "-l:libcublas.so.13"], check=True)

    return made_once("fake_solver", digest_of(*flags, *sorted(SOURCES.iterdir())), make)


@pytest.fixture
def from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small matrices are worth the library, too."""
    monkeypatch.setattr(solvers, "_FROM", dict.fromkeys(solvers._FROM, 1))


class Function(nn.Module):
    """A module of a function of real matrices, of which every other one is imaginary parts."""

    def __init__(self, function: Callable[..., Any], is_complex: bool) -> None:
        super().__init__()
        self.function, self.is_complex = function, is_complex

    def forward(self, *inputs: torch.Tensor) -> Any:
        if not self.is_complex:
            return self.function(*inputs[::2])
        joined = [torch.complex(x, y) for x, y in zip(inputs[::2], inputs[1::2], strict=True)]
        return self.function(*joined)


def calls_of(function: Callable[..., Any], is_complex: bool, *inputs: torch.Tensor) -> Calls:
    """The calls of a function, whose kernels of the host do nothing but end the process."""
    host = CppHostCalls()
    graph, kernels = host.emit(kernels_of(Function(function, is_complex), *inputs))
    return Calls(graph, without_hosts(host, kernels), tuple(kernel.name for kernel in kernels))


def without_hosts(host: CppHostCalls, kernels: Sequence[HostKernel]) -> bytes:
    """The library of kernels that do nothing but end the process."""
    without = {replace(kernel, text=FAILS): ("cuda",) for kernel in kernels}
    return host.compile(without, from_environment())


def drawn(calls: Calls, seed: int = 0) -> dict[str, np.ndarray]:
    """Numbers for all that the calls read: small ones, those of square matrices definite."""
    generator = np.random.default_rng(seed)
    arrays = {}
    for item in calls.items:
        call: Any = item.template
        for name in item.operands:
            buffer = calls.graph.buffers[name]
            shape = [int(n) for n in buffer.shape]
            x = generator.standard_normal(shape) / 16
            if shape[-2] in (shape[-1], 2 * shape[-1]) and name != getattr(call.a_im, "buffer", ""):
                x[..., : shape[-1], :] += 2 * np.eye(shape[-1])
            arrays[name] = x.astype(buffer.dtype.numpy)
    return arrays


def expected(calls: Calls, position: int, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The records of a call as its contract has them."""
    call: Any = calls.items[position].template
    operands = {}
    for role, view in call.operands:
        shape = [int(axis.extent) for axis in view.axes]
        operands[role] = looked(arrays[view.buffer], view, shape)
    batch, record = (int(axis.extent) for axis in call.output.axes)
    return np.asarray(call.interpret(operands, (batch, record)))


def looked(array: np.ndarray, view: Any, shape: list[int]) -> np.ndarray:
    """What a view shows of a buffer."""
    places = np.meshgrid(*map(np.arange, shape), indexing="ij")
    at = {a.symbol: p for a, p in zip(view.axes, places, strict=True)}
    index = []
    for expr in view.index:
        terms = affine_coefficients(expr, list(at))
        assert terms is not None
        scales, first = terms
        index.append(int(first) + sum(int(c) * p for c, p in zip(scales, places, strict=True)))
    return np.asarray(array[tuple(index)])


ROWS: dict[str, Callable[..., Any]] = {
    "cholesky": lambda a: linalg.cholesky_ex(a)[0],
    "lu": lambda a: linalg.lu_factor_ex(a)[:2],
    "solve": lambda a, b: linalg.solve_ex(a.mT, b)[0],
    "inverse": lambda a: linalg.inv_ex(a)[0],
    "determinant": linalg.slogdet,
    "triangular": lambda a, b: linalg.solve_triangular(a, b, upper=True, unitriangular=True),
    "qr": linalg.qr,
    "lstsq": lambda a, b: linalg.lstsq(a, b).solution,
}
SQUARES = ("cholesky", "solve", "inverse", "determinant", "triangular", "eigh")


def inputs_of(name: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Real and imaginary parts of matrices, and of right-hand sides."""
    rows, columns = (66, 66) if name in SQUARES else (70, 66)
    a = torch.randn(2, 3, rows, columns, dtype=dtype)
    b = torch.randn(2, 3, rows, 3, dtype=dtype)
    return [*a, *b] if name in ("solve", "triangular", "lstsq") else [*a]


TYPES = [(torch.float64, False), (torch.float64, True), (torch.float32, False)]


@pytest.mark.usefixtures("from_one")
@pytest.mark.parametrize(("dtype", "is_complex"), TYPES, ids=["real", "complex", "single"])
@pytest.mark.parametrize("name", ROWS)
def test_records_are_those_of_the_contract(
    name: str, dtype: torch.dtype, is_complex: bool, tmp_path: Path
) -> None:
    calls = calls_of(ROWS[name], is_complex, *inputs_of(name, dtype))
    arrays = drawn(calls)
    found, said = run_calls(
        tmp_path, calls, {k: x.ravel() for k, x in arrays.items()}, {}, libraries=fake_solver()
    )
    assert not any(said)
    routines = [item.template.routine.name for item in calls.items if item.template]
    assert f"{'complex_' * is_complex}{name}" in routines or name == "determinant"
    bound = 1e-10 if dtype == torch.float64 else 2e-4
    for position, record in enumerate(found):
        wanted = expected(calls, position, arrays)
        np.testing.assert_allclose(record.reshape(wanted.shape), wanted, rtol=bound, atol=bound)


@pytest.mark.usefixtures("from_one")
def test_large_random_matrices_are_of_whole_rank(tmp_path: Path) -> None:
    """Their least pivot is small, in single precision a few hundred times what rounding leaves."""
    a, b = torch.randn(2, 1, 600, 600), torch.randn(2, 1, 600, 2)
    calls = calls_of(ROWS["lstsq"], False, *a, *b)
    generator = np.random.default_rng(0)
    arrays = {
        k: generator.standard_normal(x.shape).astype(x.dtype) for k, x in drawn(calls).items()
    }
    given = {name: x.ravel() for name, x in arrays.items()}
    ((record,), said) = run_calls(tmp_path, calls, given, {}, libraries=fake_solver())
    assert not any(said)
    wanted = expected(calls, 0, arrays)
    np.testing.assert_allclose(record.reshape(wanted.shape), wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.usefixtures("from_one")
def test_a_matrix_that_has_no_factor_says_where(tmp_path: Path) -> None:
    calls = calls_of(ROWS["cholesky"], False, *inputs_of("cholesky", torch.float64))
    arrays = drawn(calls)
    (matrices,) = arrays.values()
    matrices.reshape(-1, 66, 66)[1, 4, 4] = -1
    given = {name: x.ravel() for name, x in arrays.items()}
    ((record, *_), said) = run_calls(tmp_path, calls, given, {}, libraries=fake_solver())
    assert not any(said)
    infos = record.reshape(len(matrices.reshape(-1, 66, 66)), -1)[:, -1]
    assert infos.tolist() == [5 if k == 1 else 0 for k in range(len(infos))]


def whole(calls: Calls, name: str, record: np.ndarray) -> np.ndarray:
    """A part of a record, also of complex numbers."""
    if not calls.items[0].template.routine.name.startswith("complex_"):
        return part(calls, 0, name, record, 3)
    return part(calls, 0, f"{name}.re", record, 3) + 1j * part(calls, 0, f"{name}.im", record, 3)


@pytest.mark.usefixtures("from_one")
@pytest.mark.parametrize("is_complex", [False, True])
def test_spectra(is_complex: bool, tmp_path: Path) -> None:
    """Vectors are judged by what they make: their phases are free."""
    for name in ("eigh", "svd"):
        function = linalg.eigh if name == "eigh" else partial(linalg.svd, full_matrices=False)
        calls = calls_of(function, is_complex, *inputs_of(name, torch.float64))
        (source,) = calls.items[0].operands
        a = drawn(calls)[source]
        folder = tmp_path / name
        folder.mkdir()
        (record,), _ = run_calls(folder, calls, {source: a.ravel()}, {}, libraries=fake_solver())
        half = a.shape[1] // 2
        matrix = a[:, :half] + 1j * a[:, half:] if is_complex else a
        values = part(calls, 0, "values", record, 3)[:, None, :]
        if name == "eigh":
            vectors = whole(calls, "vectors", record)
            lower = np.tril(matrix)
            matrix = lower + np.conj(np.swapaxes(np.tril(matrix, -1), 1, 2))
            matrix -= 1j * np.imag(matrix) * np.eye(matrix.shape[1]) if is_complex else 0
            made = (vectors * values) @ np.conj(np.swapaxes(vectors, 1, 2))
        else:
            u = np.swapaxes(whole(calls, "ut", record), 1, 2)
            made = (u * values) @ whole(calls, "vh" if is_complex else "vt", record)
        np.testing.assert_allclose(made, matrix, atol=1e-10)


@pytest.mark.usefixtures("from_one")
def test_vectors_of_conjugate_values(tmp_path: Path) -> None:
    calls = calls_of(linalg.eig, False, torch.eye(66, dtype=torch.float64)[None], torch.zeros(1))
    a = np.zeros((1, 66, 66))
    for i in range(0, 66, 2):
        a[0, i : i + 2, i : i + 2] = [[1, 2 + i], [i - 9, 3]]
    given = {calls.items[0].operands[0]: a.ravel()}
    (record,), _ = run_calls(tmp_path, calls, given, {}, libraries=fake_solver())
    parts = {
        name: part(calls, 0, f"{name}.re", record, 1) + 1j * part(calls, 0, f"{name}.im", record, 1)
        for name in ("values", "vectors")
    }
    assert 0 < np.count_nonzero(parts["values"].imag) < 66
    made = parts["vectors"] * parts["values"][:, None, :]
    np.testing.assert_allclose(a @ parts["vectors"], made, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(parts["vectors"], axis=1), 1, rtol=1e-12)


@pytest.mark.usefixtures("from_one")
def test_parts_that_lie_in_other_ways(tmp_path: Path) -> None:
    """Imaginary parts by columns, real ones by rows."""

    class Turned(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return linalg.inv_ex(torch.complex(a, b.mT))[0]

    host = CppHostCalls()
    given = torch.randn(2, 2, 66, 66, dtype=torch.float64)
    graph, kernels = host.emit(kernels_of(Turned(), *given))
    calls = Calls(graph, without_hosts(host, kernels), tuple(kernel.name for kernel in kernels))
    arrays = {n: x.numpy().ravel() for n, x in zip(calls.items[0].operands, given, strict=True)}
    (record,), _ = run_calls(tmp_path, calls, arrays, {}, libraries=fake_solver())
    found = record.reshape(2, -1)[:, : 2 * 66 * 66].reshape(2, 2, 66, 66)
    wanted = linalg.inv(torch.complex(given[0], given[1].mT)).numpy()
    np.testing.assert_allclose(found[:, 0] + 1j * found[:, 1], wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.usefixtures("from_one")
def test_pairs_are_moved_at_once(tmp_path: Path) -> None:
    """Of a complex tensor, whose imaginary parts lie beside the real ones."""

    class Pairs(nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return linalg.inv_ex(torch.view_as_complex(a).mT)[0]

    host = CppHostCalls()
    given = torch.randn(2, 66, 66, 2, dtype=torch.float64)
    graph, kernels = host.emit(kernels_of(Pairs(), given))
    calls = Calls(graph, without_hosts(host, kernels), tuple(kernel.name for kernel in kernels))
    source = calls.items[0].operands[0]
    (record,), _ = run_calls(
        tmp_path, calls, {source: given.numpy().ravel()}, {}, libraries=fake_solver()
    )
    found = record.reshape(2, -1)[:, : 2 * 66 * 66].reshape(2, 2, 66, 66)
    wanted = linalg.inv(torch.view_as_complex(given).mT).numpy()
    np.testing.assert_allclose(found[:, 0] + 1j * found[:, 1], wanted, rtol=1e-8, atol=1e-10)


def test_small_ones_are_the_hosts(tmp_path: Path) -> None:
    """Which ends the process here."""
    calls = calls_of(lambda a: linalg.inv_ex(a)[0], False, torch.zeros(1, 66, 66), torch.zeros(1))
    given = {calls.items[0].operands[0]: np.eye(66, dtype=np.float32).ravel()}
    with pytest.raises(AssertionError, match=f"assert -{int(signal.SIGILL)} == 0"):
        run_calls(tmp_path, calls, given, {}, libraries=fake_solver())


@pytest.mark.usefixtures("from_one")
def test_what_holds_no_numbers_has_none(tmp_path: Path) -> None:
    """Of a batch, that matrix alone."""
    calls = calls_of(linalg.eigvalsh, False, torch.zeros(2, 66, 66), torch.zeros(1))
    a = np.tile(np.eye(66, dtype=np.float32), (2, 1, 1))
    a[1, 3, 2] = np.nan
    given = {calls.items[0].operands[0]: a.ravel()}
    (record,), _ = run_calls(tmp_path, calls, given, {}, libraries=fake_solver())
    values = record.reshape(2, 66)
    np.testing.assert_allclose(values[0], 1, rtol=1e-5)
    assert np.isnan(values[1]).all()


@pytest.mark.usefixtures("from_one")
def test_a_failure_of_the_library(tmp_path: Path) -> None:
    calls = calls_of(lambda a: linalg.inv_ex(a)[0], False, torch.zeros(1, 66, 66), torch.zeros(1))
    given = {calls.items[0].operands[0]: np.eye(66, dtype=np.float32).ravel()}
    _, said = run_calls(tmp_path, calls, given, {}, ["cuMemsetD8Async"], libraries=fake_solver())
    assert said == [f"{calls.operators[0]}: cuSOLVER failed, or the GPU ahead of the call"]
