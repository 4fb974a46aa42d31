"""Assertions that operators make of their results."""

from __future__ import annotations

import torch
from torch import linalg

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import Assertion


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
