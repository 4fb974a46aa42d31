"""Matrices on GPUs: results in Triton's interpreter, what is left to the host, machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import linalg
from torch.export import Dim

from aot.backends.triton.gpu import GPUS
from aot.backends.triton.template_library import matrix_tile
from aot.errors import UnsupportedOperators
from aot.ir.dtypes import FLOAT32, FLOAT64
from aot.ir.flow import CustomCall, items_of
from aot.ir.hints import hints_of
from aot.ir.kernels import TemplateKernel
from aot.ir.templates.library import HostCall, LibraryCall
from aot.symbolic import is_int
from tests.backends.triton.templates import captured, check_close, emitted, kernels_of, machine_code
from tests.conformance.executors import interpret_triton
from tests.launches import calls_of
from tests.settings import seeded

Array = np.ndarray[Any, Any]
BOUND = {torch.float32: 5e-6, torch.float64: 1e-14}
"""Of what is rebuilt from factors, as a part of the greatest element."""


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(sum(shape)))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def made(function: Callable[..., Any], *args: torch.Tensor) -> list[Array]:
    return [np.asarray(x, np.float64) for x in interpret_triton(captured(function, args), args)]


def assert_close(found: Array, wanted: Array, dtype: torch.dtype) -> None:
    norm = np.abs(wanted).max(initial=1.0) * wanted.shape[-1]
    assert np.abs(found - wanted).max(initial=0.0) <= BOUND[dtype] * norm


def assert_orthonormal(columns: Array, dtype: torch.dtype) -> None:
    found = np.swapaxes(columns, -1, -2) @ columns
    assert_close(found, np.broadcast_to(np.eye(found.shape[-1]), found.shape), dtype)


def special(n: int, dtype: torch.dtype) -> torch.Tensor:
    """Zeros, equal values, a matrix of rank one, and a graded one."""
    eye, ones = torch.eye(n), torch.ones(n, n)
    graded = torch.diag(10.0 ** -torch.arange(n))
    return torch.stack([0 * eye, -3 * eye, ones, graded]).to(dtype)


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("make", [lambda d: normal(2, 5, 5, dtype=d), lambda d: special(4, d)])
def test_eigenvectors_rebuild_their_matrices(
    make: Callable[[torch.dtype], torch.Tensor], dtype: torch.dtype
) -> None:
    a = make(dtype)
    values, vectors = made(linalg.eigh, a)
    whole = (a.tril() + a.tril(-1).mT).double().numpy()
    assert_close((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2), whole, dtype)
    assert_orthonormal(vectors, dtype)
    assert_close(values, np.linalg.eigvalsh(whole), dtype)


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("make", [lambda d: normal(2, 6, 5, dtype=d), lambda d: special(4, d)])
def test_singular_vectors_rebuild_their_matrices(
    make: Callable[[torch.dtype], torch.Tensor], dtype: torch.dtype
) -> None:
    a = make(dtype)
    u, s, vt = made(lambda a: linalg.svd(a, full_matrices=False), a)
    assert_close((u * s[..., None, :]) @ vt, a.double().numpy(), dtype)
    assert_orthonormal(u, dtype)
    assert_orthonormal(np.swapaxes(vt, -1, -2), dtype)
    assert_close(s, np.linalg.svd(a.double().numpy(), compute_uv=False), dtype)


def test_numbers_that_are_not_finite_stay_in_their_matrix() -> None:
    a = normal(3, 4, 4)
    a[1, 2, 1] = float("nan")
    values, singular = made(lambda a: (linalg.eigvalsh(a), linalg.svdvals(a)), a)
    for found in (values, singular):
        assert np.isnan(found[1]).all() and np.isfinite(found[[0, 2]]).all()


@pytest.mark.parametrize("count", (1, 7))
def test_batches_of_any_size(count: int) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return linalg.solve_ex(a, b)[0]

    dims = {0: Dim("batch", max=1 << 20)}
    model = captured(function, (normal(9, 3, 3), normal(9, 3, 2)), (dims, dims))
    check_close(model, function, (normal(count, 3, 3), normal(count, 3, 2)))


def test_many_columns_are_solved_for_in_turn() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return linalg.solve_ex(a, b)[0]

    args = (normal(5, 5, dtype=torch.float64), normal(5, 70, dtype=torch.float64))
    check_close(captured(function, args), function, args)


def test_info_says_which_matrices_failed() -> None:
    a = torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, 0.0, 2.0])), -torch.eye(3)])
    found = made(lambda a: (linalg.cholesky_ex(a)[1], linalg.lu_factor_ex(a)[2]), a)
    np.testing.assert_array_equal(found, [[0, 2, 1], [0, 2, 0]])


LARGE = (normal(2, 65, 65) + 9 * torch.eye(65), normal(2, 65, 2))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (linalg.det, (normal(2, 65, 65) / 8,)),
        (linalg.solve, LARGE),
        (lambda a, b: linalg.lstsq(a, b)[0], LARGE),
        (linalg.svdvals, (torch.complex(normal(66, 40), normal(66, 40)),)),
        (linalg.inv, (torch.complex(LARGE[0], LARGE[0].mT),)),
        (linalg.eigvals, (torch.diag(torch.arange(1.0, 5.0)) + normal(4, 4) / 100,)),
    ],
    ids=["det", "solve", "lstsq", "complex svdvals", "complex inv", "eigvals"],
)
def test_what_no_program_holds_is_left_to_the_host(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...]
) -> None:
    model = captured(function, args)
    kernels = kernels_of(model)
    calls = [i.template for i in items_of(kernels.flow) if isinstance(i, CustomCall)]
    assert calls and all(isinstance(call, HostCall) for call in calls)
    reasons = [d.reason for d in kernels.decisions if "the host" in d.verdict]
    assert len(reasons) == len(calls)
    assert all("up to" in r or "there is no kernel for it" in r for r in reasons)
    check_close(model, function, args)


def test_sizes_that_runs_decide_are_left_to_the_host() -> None:
    model = captured(linalg.inv, (normal(2, 9, 9),), ({1: Dim("n"), 2: Dim("n")},))
    kernels = kernels_of(model)
    (call,) = [i for i in items_of(kernels.flow) if isinstance(i, CustomCall)]
    assert isinstance(call.template, HostCall)
    assert not is_int(call.template.sizes.n)


def test_products_of_large_matrices_stay_on_the_device() -> None:
    """An exponential is products, which GPUs are made for."""
    kernels = kernels_of(captured(linalg.matrix_exp, (normal(90, 90) / 90,)))
    assert not kernels.flow
    assert "matmul" in [call.kind for call in calls_of(kernels)]


def test_halves_are_factored_nowhere() -> None:
    with pytest.raises(UnsupportedOperators, match="use float32"):
        kernels_of(captured(linalg.det, (normal(2, 65, 65).half(),)))


def tile(count: int, size: int, function: Callable[..., Any]) -> Any:
    (call,) = calls_of(kernels_of(captured(function, (normal(count, size, size),))))
    assert isinstance(call, LibraryCall)
    return [matrix_tile(call, d, hints_of(()), GPUS["sm_90"]) for d in (FLOAT32, FLOAT64)]


def test_warps_do_not_find_the_same_products() -> None:
    """In float64 several warps of a single matrix would."""
    wide = [t.warps for t in (*tile(100, 20, linalg.matrix_exp), *tile(100, 9, linalg.matrix_exp))]
    assert wide == [8, 1, 4, 4]


def test_offsets_of_what_is_stored_have_64_bits() -> None:
    """Else threads exchange pointers: batches of 2 x 2 were written to wrong addresses."""
    source = emitted(captured(torch.linalg.svdvals, (torch.empty(10000, 2, 2),)))
    stores = [x for x in source.functions[0].text.splitlines() if "tl.store(" in x]
    assert stores and all(".to(tl.int64)), (values)" in line for line in stores)


def test_small_matrices_share_a_program() -> None:
    assert [t.matrices for t in tile(10000, 4, linalg.lu_factor_ex)] == [32, 32]
    assert [t.matrices for t in tile(10000, 33, linalg.lu_factor_ex)] == [1, 1]
    assert [t.warps for t in tile(10000, 32, linalg.lu_factor_ex)] == [1, 1]
    assert [t.matrices for t in tile(10000, 16, linalg.lu_factor_ex)] == [2, 2]
    assert [t.warps for t in tile(10000, 32, linalg.inv_ex)] == [1, 1]


MEASURED = {
    "cholesky": lambda a: linalg.cholesky_ex(a)[0],
    "inverse": lambda a: linalg.inv_ex(a)[0],
    "qr": lambda a: linalg.qr(a)[0],
    "eigh": lambda a: linalg.eigh(a)[1],
    "svd": lambda a: linalg.svd(a, full_matrices=False)[0],
}


CASES = (
    ("cholesky", "sm_80", torch.float32),
    ("inverse", "sm_80", torch.float64),
    ("inverse", "sm_90", torch.float32),
    ("qr", "sm_80", torch.float64),
    ("eigh", "sm_80", torch.complex64),
    ("svd", "sm_90", torch.float32),
)


def test_nobody_divides_for_places_of_matrices_of_odd_sizes() -> None:
    """Whoever loads and stores elements knows their rows and columns: 212, not 333 as before."""
    a = normal(8, 7, 7)
    args = ((a @ a.mT + 7 * torch.eye(7)).to(torch.complex64),)
    model = captured(lambda a: linalg.cholesky_ex(a)[0], args)
    code = machine_code(model, "library", "sm_90")
    places = ("IADD3", "IMAD", "LEA", "LOP3", "PRMT", "SHF", "VIADD")
    assert sum(n for name, n in code.instructions.items() if name.startswith(places)) < 270


@pytest.mark.parametrize(("name", "arch", "dtype"), CASES, ids=str)
def test_machine_code_keeps_matrices_in_registers(name: str, arch: str, dtype: torch.dtype) -> None:
    model = captured(MEASURED[name], (normal(10000, 32, 32, dtype=dtype),))
    assert machine_code(model, "library", arch).local_bytes == 0


@pytest.mark.parametrize(
    ("size", "dtype", "most"),
    [
        (32, torch.float32, 128),
        (16, torch.float64, 128),
        (16, torch.complex64, 128),
        (32, torch.float64, 168),
        (32, torch.complex64, None),
        (32, torch.complex128, None),
        (16, torch.float32, None),
    ],
    ids=str,
)
def test_rotations_that_wait_leave_registers_to_other_programs(
    size: int, dtype: torch.dtype, most: int | None
) -> None:
    model = captured(linalg.eigh, (normal(10, size, size, dtype=dtype),))
    (own,) = [f for f in emitted(model).functions if "_matrices(" in f.text]
    assert dict(own.options).get("maxnreg") == most


@pytest.mark.parametrize("function", [linalg.svdvals, linalg.eigvalsh])
def test_threads_that_share_a_matrix_compute_its_rotations_alike(
    function: Callable[..., Any],
) -> None:
    """Sums of products are of products that are rounded, in each of them."""
    model = captured(function, (normal(10, 33, 33),))
    (source,) = [f for f in emitted(model).functions if "small_" in f.text]
    assert dict(source.options)["enable_fp_fusion"] == 0


def test_parts_of_records_are_stored_where_they_are_wanted() -> None:
    """One launch: nothing copies factors and pivots out of records."""
    for function in (linalg.lu_factor_ex, linalg.cholesky_ex, linalg.svd):
        (kernel,) = kernels_of(captured(function, (normal(10, 6, 6),))).kernels
        assert isinstance(kernel, TemplateKernel) and kernel.local


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.complex64), ids=str)
@pytest.mark.parametrize("size", (1, 5, 17))
def test_exponentials(dtype: torch.dtype, size: int) -> None:
    a = normal(3, size, size, dtype=dtype)
    a[0] *= 0.01
    model = captured(linalg.matrix_exp, (a,))
    (exact,) = [torch.linalg.matrix_exp(a.to(torch.complex128))]
    (found,) = interpret_triton(model, (a,))
    error = np.abs(found - exact.numpy()).max() / exact.abs().max().item()
    assert error <= (1e-14 if dtype == torch.float64 else 2e-6)
