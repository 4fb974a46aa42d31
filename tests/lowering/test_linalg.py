"""Which routines the operators of dense linear algebra call, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import linalg
from torch.export import Dim

from aot.errors import UnsupportedOperators
from aot.ir.dtypes import FLOAT16
from aot.ir.templates import LibraryCall
from aot.ir.templates.linalg import ROUTINES
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.library import Matrices, call_routine
from aot.lowering.matmul import rounded
from aot.lowering.registry import CannotLower
from tests.lowering.lowered import lowered, templates
from tests.schedule.graphs import make_graph

A, B = torch.eye(4).repeat(3, 1, 1), torch.ones(3, 4, 2)
TALL, WIDE = torch.ones(3, 5, 2), torch.ones(3, 2, 5)


def routines(function: Callable[..., Any], *args: torch.Tensor) -> list[str]:
    calls = templates(lowered(function, *args))
    return [c.routine.name for c in calls if isinstance(c, LibraryCall)]


@pytest.mark.parametrize(
    ("function", "args", "called"),
    [
        (lambda a: linalg.inv_ex(a)[0], (A,), ["inverse"]),
        (linalg.det, (A,), ["determinant"]),
        (lambda a, b: linalg.solve_ex(a, b)[0], (A, B), ["solve"]),
        (lambda a, b: linalg.solve_ex(a[0], b)[0], (A, B), ["lu", "triangular", "triangular"]),
        (linalg.svdvals, (WIDE,), ["svdvals"]),
        (linalg.svd, (A,), ["svd"]),
        (linalg.svd, (TALL,), ["svd", "qr", "reflections"]),
        (linalg.eigvalsh, (A,), ["eigvalsh"]),
        (lambda a: linalg.qr(a, mode="r")[1], (TALL,), ["qr"]),
        (linalg.pinv, (WIDE,), ["svd"]),
        (lambda a: linalg.pinv(a, hermitian=True), (A,), ["eigh"]),
    ],
)
def test_few_routines_make_the_operators(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...], called: list[str]
) -> None:
    assert routines(function, *args) == called


@pytest.mark.parametrize(
    ("function", "args", "reason"),
    [
        (lambda a: linalg.cholesky_ex(a, check_errors=True)[0], (A,), "without _ex"),
        (lambda a: linalg.lu_factor_ex(a, pivot=False)[0], (A,), "without pivots"),
    ],
    ids=["check_errors", "no pivots"],
)
def test_refusals_say_what_to_do(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...], reason: str
) -> None:
    with pytest.raises(UnsupportedOperators, match=reason):
        lowered(function, *args)


def test_which_size_is_the_lesser_must_be_known() -> None:
    shapes = (({1: Dim("m", min=2), 2: Dim("n", min=2)},),)
    with pytest.raises(UnsupportedOperators, match="which of a matrix's sizes is the lesser"):
        lowered(linalg.svdvals, TALL, dynamic_shapes=shapes)


def test_halves_are_refused_as_eager_does() -> None:
    def body(builder: GraphBuilder, a: Tensor) -> list[Tensor]:
        return [call_routine(ROUTINES["cholesky"], Matrices(rounded(a, FLOAT16))).records]

    with pytest.raises(CannotLower, match="eager factors no matrices of float16"):
        make_graph(body, {"a": (3, 3)}, {}, ())


@pytest.mark.parametrize("kind", [torch.float64, torch.complex128], ids=str)
def test_a_determinant_asks_for_no_logarithm(kind: torch.dtype) -> None:
    for function, options in ((linalg.det, {"product"}), (linalg.slogdet, set())):
        (call,) = templates(lowered(function, A.to(kind)))
        assert isinstance(call, LibraryCall) and set(call.options) == options
