"""Rows of whole vectors have functions of their own, in which the compiler sees neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from aot.backends.triton.context import EVEN
from aot.symbolic import dim, evaluate
from tests.backends.triton.templates import captured, check_close, emitted
from tests.settings import seeded

ROWS, LENGTH = 24, 12
DIMS = ({0: Dim("n", min=1), 1: Dim("d", min=1)},)


def softmax(x: Any) -> Any:
    return x.softmax(1)


def total(x: Any) -> Any:
    return x.sum(1)


def column_means(x: Any) -> Any:
    return x.mean(0)


@pytest.mark.parametrize("function", [softmax, total, column_means])
def test_one_function_runs_at_each_length_and_is_right(function: Callable[..., Any]) -> None:
    torch.manual_seed(seeded())
    model = captured(function, (torch.randn(ROWS, LENGTH, dtype=torch.float16),), DIMS)
    source = emitted(model)
    rows, length = (dim(name.name) for name in source.graph.dims)
    texts = {f.name: f.text for f in source.functions}
    for size in (1, 7, 8, 12, 16, 200, 1024, 1025):
        (ran,) = [x for x in source.launches if evaluate(x.when, {rows: ROWS, length: size})]
        assert (f"// {EVEN} * {EVEN}" in texts[ran.function]) == (size % EVEN == 0)
    for size in (7, 8, 24, 100):
        check_close(model, function, (torch.randn(ROWS, size, dtype=torch.float16),))


@pytest.mark.parametrize(
    ("function", "inputs", "dims"),
    [
        (softmax, (ROWS, LENGTH), ({0: Dim("n")},)),
        (lambda x: x + 1, (ROWS, LENGTH), DIMS),
        (lambda x: x.sum((1, 2)), (ROWS, 3, LENGTH), ({0: Dim("n"), 1: Dim("k")},)),
    ],
    ids=["a known length", "no rows", "a known innermost length"],
)
def test_others_have_none(function: Any, inputs: tuple[int, ...], dims: Any) -> None:
    source = emitted(captured(function, (torch.randn(inputs),), dims))
    assert all("even" not in f.name for f in source.functions)
