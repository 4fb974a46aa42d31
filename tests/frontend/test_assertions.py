"""Assertions that operators make of their results."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import linalg
from torch.export import Dim

from aot.errors import InputMismatch
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import Assertion
from aot.symbolic import is_int
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered


class Inverted(torch.nn.Module):
    """Two operators that raise."""

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return linalg.inv(linalg.cholesky(a))


def test_factorizations_that_fail_are_assertions_in_their_order() -> None:
    graph, _ = ingest(capture_module(Inverted(), (torch.eye(3),)))
    assert [op.message for op in graph.ops if isinstance(op, Assertion)] == [
        "linalg.cholesky: the input is not positive-definite",
        "linalg.inv: the input matrix is singular",
    ]


TALL, RIGHT = torch.eye(4, 3), torch.arange(8.0).reshape(4, 2)
LACKING = torch.zeros(4, 3)


def test_a_value_that_needs_rank_asserts_it_where_it_is_read() -> None:
    both = capture_module(Calls(lambda a, b: linalg.lstsq(a, b, driver="gelss")[:2]), (TALL, RIGHT))
    (check,) = (op for op in ingest(both)[0].ops if isinstance(op, Assertion))
    assert check.message == "linalg.lstsq: a matrix lacks rank, so there are no residuals"
    _, residuals = interpret_lowered(both, (TALL, RIGHT))
    np.testing.assert_allclose(residuals, [36.0, 49.0], rtol=1e-5)
    with pytest.raises(InputMismatch, match="lacks rank"):
        interpret_lowered(both, (LACKING, RIGHT))


def test_it_asserts_nothing_where_nobody_reads_it() -> None:
    solution = capture_module(
        Calls(lambda a, b: linalg.lstsq(a, b, driver="gelss").solution), (TALL, RIGHT)
    )
    assert not [op for op in ingest(solution)[0].ops if isinstance(op, Assertion)]
    (found,) = interpret_lowered(solution, (LACKING, RIGHT))
    assert not found.any()


def test_what_torch_concludes_from_the_sizes_it_traces_is_asserted_of_no_run() -> None:
    """Nor that there are 2 bins, as there is one for each of at least 2 nodes."""

    def degrees(x: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
        return torch.bincount(to, minlength=x.shape[0])[: x.shape[0]] + x

    spec = {"args": ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})}
    example = (torch.rand(5), torch.tensor([1, 2, 3]))
    captured = capture_module(Calls(degrees), example, dynamic_shapes=spec)
    checked = ingest(captured)[0].relations
    assert checked and not any(is_int(side) for r in checked for side in (r.left, r.right))
    for size in (1, 4, 0):
        args = torch.rand(size), torch.zeros(min(size, 2), dtype=torch.int64)
        (found,) = interpret_lowered(captured, args)
        np.testing.assert_array_equal(found, degrees(*args).numpy())


def test_what_the_model_asserts_of_a_number_stays() -> None:
    def first(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        number = count.item()
        torch._check(number >= 2)
        torch._check(number <= x.shape[0])
        return x[:number]

    spec = {"args": ({0: Dim.DYNAMIC}, None)}
    example = (torch.rand(5), torch.tensor(3))
    captured = capture_module(Calls(first), example, dynamic_shapes=spec)
    (number,) = (d for d in ingest(captured)[0].dims if d.source is None)
    assert number.minimum == 2
