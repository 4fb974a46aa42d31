"""Small matrices by columns: factors of every size beside NumPy's; no memory of a thread's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import linalg

from tests.backends.triton.templates import captured, check_close, emitted, machine_code
from tests.conformance.executors import interpret_triton
from tests.settings import seeded


def normal(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(sum(shape)))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(shape, generator=generator, dtype=wide).to(dtype)


def definite(a: torch.Tensor) -> torch.Tensor:
    return a @ a.mH + a.shape[-1] * torch.eye(a.shape[-1], dtype=a.dtype)


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "cholesky": (lambda a: linalg.cholesky_ex(a)[0], (definite(normal(5, 9, 9)),)),
    "lu": (lambda a: linalg.lu_factor_ex(a)[:2], (normal(5, 8, 12),)),
    "lu of more rows": (lambda a: linalg.lu_factor_ex(a)[:2], (normal(3, 12, 8),)),
    "solve": (lambda a, b: linalg.solve_ex(a, b)[0], (normal(3, 9, 9), normal(3, 9, 6))),
    "inverse": (lambda a: linalg.inv_ex(a)[0], (normal(3, 8, 8),)),
    "lower": (
        lambda a, b: linalg.solve_triangular(a, b, upper=False),
        (definite(normal(3, 9, 9)), normal(3, 9, 2)),
    ),
    "upper with ones": (
        lambda a, b: linalg.solve_triangular(a, b, upper=True, unitriangular=True),
        (normal(3, 8, 8) / 8, normal(3, 8, 2)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_eagers(name: str) -> None:
    function, args = CASES[name]
    check_close(captured(function, args), function, args)


@pytest.mark.parametrize("size", (2, 17))
@pytest.mark.parametrize("kind", (torch.float64, torch.complex128), ids=str)
def test_both_kinds_of_numbers(kind: torch.dtype, size: int) -> None:
    """Of 17 rows, steps of complex matrices are loops."""

    def function(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        s = definite(a)
        solved = [linalg.solve_ex(a, b)[0], linalg.solve_triangular(s, b, upper=False)]
        return [linalg.cholesky_ex(s)[0], *linalg.lu(a), linalg.inv_ex(a)[0], *solved]

    args = (normal(2, size, size, dtype=kind), normal(2, size, 3, dtype=kind))
    found = interpret_triton(captured(function, args), args)
    for got, wanted in zip(found, function(*args), strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", (torch.float64, torch.complex128), ids=str)
def test_determinants(kind: torch.dtype) -> None:
    a = normal(3, 6, 6, dtype=kind)
    a[1, 2] = 0.0

    def function(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return linalg.det(a), *linalg.slogdet(a)

    found = interpret_triton(captured(function, (a,)), (a,))
    for got, wanted in zip(found, function(a), strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-10, atol=1e-12)


def test_a_matrix_that_fails_says_where_and_leaves_the_others() -> None:
    a = torch.stack([definite(normal(8, 8)), -torch.eye(8, dtype=torch.float64), torch.eye(8)])
    a[2, 5, 5] = 0.0
    factor, info = interpret_triton(captured(lambda a: tuple(linalg.cholesky_ex(a)), (a,)), (a,))
    np.testing.assert_array_equal(info, [0, 1, 6])
    np.testing.assert_allclose(factor[0], linalg.cholesky(a[0]).numpy())
    (info,) = interpret_triton(captured(lambda a: linalg.lu_factor_ex(a)[2], (a,)), (a,))
    np.testing.assert_array_equal(info, [0, 0, 6])


@pytest.mark.parametrize(
    ("size", "kind"), ((8, torch.float64), (17, torch.float64), (17, torch.float32)), ids=str
)
def test_ties_and_nan_are_broken_as_elsewhere(size: int, kind: torch.dtype) -> None:
    """From 17 rows on a warp asks all of its threads at once."""
    a = torch.ones(2, size, size, dtype=kind)
    a[1] = normal(size, size, dtype=kind)
    a[1, 0, 0] = float("nan")
    function = CASES["lu"][0]
    found = interpret_triton(captured(function, (a,)), (a,))
    for got, wanted in zip(found, function(a), strict=True):
        np.testing.assert_allclose(got[0], wanted[0].numpy(), rtol=1e-12)
    assert found[1][1, 0] == 1


@pytest.mark.parametrize(("kind", "asked"), ((torch.float32, 2), (torch.float64, 3)), ids=str)
def test_a_warp_finds_a_pivot_by_few_instructions(kind: torch.dtype, asked: int) -> None:
    """Each thread has one number of a column, or there would be more of them."""
    args = (normal(4, 20, 20, dtype=kind),)
    code = machine_code(captured(linalg.det, args), "library", "sm_90")
    counted = sum(n for name, n in code.instructions.items() if name.startswith("REDUX"))
    assert counted == asked * 20
    assert code.local_bytes == 0


def test_rows_that_have_been_pivots_keep_what_they_have() -> None:
    """Whatever that is: they add a part of their own to it that rounds away, and no 0 times inf."""
    a = normal(1, 4, 4, dtype=torch.float64)
    a[0, 0] = torch.tensor([100.0, -0.0, float("inf"), 5e-324])
    a[0, 1:, 0] = 0.0
    a[0, 2, 2] = float("-inf")
    factors, pivots = linalg.lu_factor_ex(a)[:2]
    assert not torch.isfinite(factors).all()
    found = interpret_triton(captured(lambda a: linalg.lu_factor_ex(a)[:2], (a,)), (a,))
    np.testing.assert_array_equal(found[0][0, 0], factors[0, 0].numpy())
    assert np.array_equal(np.signbit(found[0][0, 0]), np.signbit(factors[0, 0].numpy()))
    np.testing.assert_array_equal(found[1], pivots.numpy())


@pytest.mark.parametrize("kind", (torch.float64, torch.complex128), ids=str)
def test_no_number_is_selected_where_a_row_is_subtracted(kind: torch.dtype) -> None:
    """Two selections for each double are a quarter of what such a kernel does."""
    text = text_of(lambda a: linalg.lu_factor_ex(a)[:2], normal(2, 6, 6, dtype=kind))
    updates = [line for line in text.splitlines() if "tl.fma(-factor" in line]
    assert len(updates) == 15
    assert not any("tl.where" in line for line in updates)


def test_columns_stay_in_registers() -> None:
    args = (normal(4, 16, 16, dtype=torch.float32),)
    code = machine_code(captured(lambda a: linalg.lu_factor_ex(a)[0], args), "library", "sm_90")
    assert code.local_bytes == 0
    assert any(name.startswith("SHFL") for name in code.instructions)


@pytest.mark.parametrize("function", (linalg.det, linalg.inv, linalg.qr, linalg.eigh), ids=str)
@pytest.mark.parametrize("shape", ((0, 0), (3, 0, 0), (0, 4, 4)), ids=str)
def test_nothing_is_computed_of_empty_matrices(
    function: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    a = torch.zeros(shape)
    wanted = function(a)
    for found, want in zip(
        interpret_triton(captured(function, (a,)), (a,)),
        wanted if isinstance(wanted, tuple) else (wanted,),
        strict=True,
    ):
        assert np.array_equal(found, want.numpy())


def text_of(function: Callable[..., Any], a: torch.Tensor) -> str:
    (found,) = emitted(captured(function, (a,)), "sm_90").functions
    return found.text


def test_no_lane_divides_a_zero() -> None:
    """It would take the long way, for which its warp waits: a triangle's lanes, or those behind."""
    factor = text_of(CASES["cholesky"][0], definite(normal(2, 9, 9, dtype=torch.complex128)))
    assert factor.count(" = exact_quotient(") == factor.count("exact_quotient(tl.full([") == 9
    behind = "a0 = tl.where(i < 9, a0, tl.full("
    assert behind in text_of(CASES["lu"][0], normal(2, 9, 9))
    assert behind in text_of(CASES["inverse"][0], normal(2, 9, 9))
    assert behind.replace("9", "8") not in text_of(CASES["lu"][0], normal(2, 8, 8))


@pytest.mark.parametrize("size", (5, 9))
def test_singular_matrices_are_recognized(size: int) -> None:
    """Quotients of LU are exact: 49 times the inverse of 49 is not 1."""
    a = torch.full((2, size, size), 49.0, dtype=torch.float64)
    _, info = interpret_triton(captured(lambda a: linalg.lu_factor_ex(a)[1:], (a,)), (a,))
    np.testing.assert_array_equal(info, [2, 2])
    (found,) = interpret_triton(captured(linalg.det, (a,)), (a,))
    np.testing.assert_array_equal(found, [0, 0])
