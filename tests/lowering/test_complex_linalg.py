"""Linear algebra of complex matrices: which routines are called, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import linalg

from aot.errors import UnsupportedOperators
from aot.ir.templates import LibraryCall
from tests.lowering.lowered import lowered, templates

A = torch.eye(4, dtype=torch.complex64).repeat(3, 1, 1)
B, WIDE = A[..., :2], A[..., :2, :]


@pytest.mark.parametrize(
    ("function", "args", "routine", "size"),
    [
        (linalg.svdvals, (WIDE,), "complex_svdvals", 2),
        (linalg.eigvalsh, (A,), "complex_eigvalsh", 4),
    ],
)
def test_values_have_routines_of_their_own(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...], routine: str, size: int
) -> None:
    (call,) = templates(lowered(function, *args))
    assert isinstance(call, LibraryCall)
    assert (call.routine.name, call.sizes.n) == (routine, size)


@pytest.mark.parametrize(
    ("function", "args", "routine"),
    [
        (lambda a: linalg.inv_ex(a)[1], (A,), "inverse"),
        (lambda a, b: linalg.solve_ex(a, b)[0], (A, B), "solve"),
        (lambda a: linalg.cholesky_ex(a)[0], (A,), "cholesky"),
        (lambda a, b: linalg.solve_triangular(a, b, upper=True), (A, B), "triangular"),
        (linalg.det, (A,), "determinant"),
        (lambda a: linalg.slogdet(a)[1], (A,), "determinant"),
        (lambda a: linalg.lu_factor_ex(a)[0], (A,), "lu"),
    ],
)
def test_what_is_written_for_both_kinds_of_numbers_is_called_alone(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...], routine: str
) -> None:
    (call,) = templates(lowered(function, *args))
    assert isinstance(call, LibraryCall)
    assert call.routine.name == f"complex_{routine}"


def test_errors_are_checked_by_the_operators_that_raise() -> None:
    with pytest.raises(UnsupportedOperators, match="without _ex"):
        lowered(lambda a: linalg.inv_ex(a, check_errors=True)[0], A)


def test_factors_of_systems_are_computed_only_where_they_are_read() -> None:
    made = templates(lowered(lambda a: torch.ops.aten._linalg_solve_ex(a, a)[1], A))
    assert "complex_lu" in {call.routine.name for call in made if isinstance(call, LibraryCall)}


@pytest.mark.parametrize(
    ("function", "a", "routine"),
    [
        (linalg.eigvals, A.real.contiguous(), "eigvals"),
        (linalg.eigvals, A, "complex_eigvals"),
        (lambda a: linalg.eig(a)[1], A, "complex_eig"),
        (linalg.eigvalsh, torch.eye(17, dtype=torch.complex64), "complex_eigvalsh"),
        (linalg.svdvals, torch.eye(17, dtype=torch.complex64), "complex_svdvals"),
    ],
)
def test_values_alone_are_called_for_where_nobody_reads_vectors(
    function: Callable[..., Any], a: torch.Tensor, routine: str
) -> None:
    (call,) = templates(lowered(function, a))
    assert isinstance(call, LibraryCall) and call.routine.name == routine
