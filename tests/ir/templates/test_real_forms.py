"""Complex matrices and determinants where a device has routines of real matrices alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from aot_runtime.format.pairs import in_pairs
from torch import linalg

from aot.backends.triton.backend import TritonBackend
from aot.ir.interpreter import interpret_loops
from aot.ir.machine import Machine
from aot.ir.templates import LibraryCall
from aot.ir.templates.base import Support
from aot.options import Target
from aot.passes.expand_templates import expand_templates
from tests.lowering.lowered import lowered, templates
from tests.settings import seeded

torch.manual_seed(seeded())
A = torch.randn(3, 4, 4, dtype=torch.complex128)
B = torch.randn(3, 4, 2, dtype=torch.complex128)
DEFINITE = A @ A.mH + 4 * torch.eye(4, dtype=torch.complex128)
LARGE = torch.randn(2, 19, 17, dtype=torch.complex128)
HUGE = torch.randn(2, 65, 65, dtype=torch.complex128) / torch.tensor([4, 40])[:, None, None]
LOW = torch.randn(2, 9, 5, dtype=torch.float64)
LOW[1] = LOW[1, :, :2] @ LOW[0, :2]
RIGHT = torch.randn(2, 9, 3, dtype=torch.float64)
UPPER = A.triu() + 4 * torch.eye(4, dtype=torch.complex128)


def without_forms() -> Machine:
    """A device that has no kernel of what has a form by others."""
    machine = TritonBackend().machine(Target("cuda", ("sm_90",)))
    support = Support(LibraryCall, lambda call, *_: "none" if call.routine.instead else "")
    others = tuple(s for s in machine.templates if s.kind is not LibraryCall)
    return replace(machine, templates=(*others, support))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda a, b: linalg.solve_ex(a, b)[0], (A, B)),
        (lambda a: linalg.inv_ex(a)[0], (A,)),
        (lambda a: linalg.inv_ex(a)[1], (torch.zeros_like(A),)),
        (lambda a: linalg.cholesky_ex(a)[0], (DEFINITE,)),
        (lambda a: linalg.cholesky_ex(a)[1], (-DEFINITE,)),
        (lambda a, b: linalg.solve_triangular(a, b, upper=True), (UPPER, B)),
        (lambda a, b: linalg.solve_triangular(a, b, upper=True, unitriangular=True), (A, B)),
        (lambda a, b: linalg.solve_triangular(a, b, upper=False), (UPPER.mT, B)),
        (linalg.det, (A.real.contiguous(),)),
        (lambda a: torch.stack(linalg.slogdet(a)), (A.real.contiguous(),)),
        (linalg.svdvals, (LARGE,)),
        (lambda a: linalg.eigvalsh(a[:, :17]), (LARGE,)),
        (lambda a, b: linalg.lstsq(a, b).solution, (LOW, RIGHT)),
        (lambda a, b: linalg.lstsq(a, b).rank, (LOW, RIGHT)),
        (linalg.matrix_exp, (A,)),
        (linalg.matrix_exp, (HUGE,)),
        (linalg.matrix_exp, (HUGE.real.contiguous(),)),
    ],
)
def test_they_are_what_routines_of_complex_matrices_give(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...]
) -> None:
    graph = expand_templates(lowered(function, *args), without_forms())
    for call in templates(graph):
        assert not isinstance(call, LibraryCall) or call.routine.instead is None
    given = dict(zip(graph.inputs, (in_pairs(x.numpy()) for x in args), strict=True))
    (found,) = interpret_loops(graph, given, {}, {})
    np.testing.assert_allclose(found, in_pairs(function(*args).numpy()), rtol=1e-9, atol=1e-9)
