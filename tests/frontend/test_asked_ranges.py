"""Ranges of sizes that were asked for, held against what the model needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from aot.errors import DynamicShapeError
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import TensorGraph
from tests.calls import Calls

X = torch.arange(18.0).reshape(6, 3)


def read(function: Callable[..., Any], rows: Dim) -> TensorGraph:
    """The graph of a function of a tensor with dynamic rows."""
    captured = capture_module(Calls(function), (X,), dynamic_shapes={"args": ({0: rows},)})
    return ingest(captured)[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[: x.shape[0] // 2] * 2,
        lambda x: x[: x.shape[0] // 2 + 1] * 2,
        lambda x: x[::2] + 1,
        lambda x: x[: min(x.shape[0], 100)] * 2,
        lambda x: x[max(0, x.shape[0] - 50) :] + 1,
        lambda x: torch.roll(x, x.shape[0] // 2, 0),
        lambda x: torch.cdist(x, x),
    ],
    ids=["half", "more", "step", "min", "max", "roll", "cdist"],
)
def test_conditions_that_always_hold_narrow_no_range(function: Callable[..., Any]) -> None:
    graph = read(function, Dim("n", min=1, max=300))
    (only,) = graph.dims
    assert (only.minimum, only.maximum, only.label) == (1, 300, "n")
    assert not graph.relations


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: x.view(-1, 2, 3) * 2, r"n = 1, .*n % 2\) == 0"),
        (lambda x: x + torch.arange(9.0).reshape(9, 1)[: x.shape[0]], r"n = 300, .*n <= 9"),
        (lambda x: x * 2 if x.shape[0] > 1 else x * 3, r"n = 1, .*n > 1, as it decides at .*\.py"),
        (lambda x: x * 2 if x.shape[0] != 1 else x * 3, r"n = 1, .*n != 1, as it decides"),
        (lambda x: (x * 2).squeeze(), r"n = 1, .*n != 1, as it decides"),
        (lambda x: x[-(x.shape[0] // 2) :] * 2, r"n = 1, .*n // 2"),
    ],
    ids=["multiple", "bound", "greater", "unequal", "squeeze", "sign"],
)
def test_a_size_that_was_asked_for_and_is_not_allowed_is_named(
    function: Callable[..., Any], text: str
) -> None:
    with pytest.raises(DynamicShapeError, match=text):
        read(function, Dim("n", min=1, max=300))


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize(
    ("asked", "most"),
    [(Dim("n"), None), (Dim.DYNAMIC, None), (Dim.DYNAMIC(max=64), 64)],
    ids=["named", "hint", "bounded hint"],
)
def test_an_example_of_no_or_one_row_fixes_no_size(rows: int, asked: Any, most: int | None) -> None:
    model = Calls(lambda x, y: torch.relu(x @ y.mT).sum(-1) / x.shape[0])
    example = torch.randn(rows, 5, 4), torch.randn(rows, 7, 4)
    shapes = {"args": ({0: asked}, {0: asked})}
    graph, _ = ingest(capture_module(model, example, dynamic_shapes=shapes))
    assert (graph.dims[0].minimum, graph.dims[0].maximum) == (0, most)


def test_what_is_automatic_keeps_the_size_of_an_example_of_one_row() -> None:
    shapes = {"args": ({0: Dim.AUTO},)}
    captured = capture_module(Calls(torch.relu), (X[:1],), dynamic_shapes=shapes)
    assert not ingest(captured)[0].dims


def test_an_example_where_the_model_does_something_else_is_refused() -> None:
    model = Calls(lambda x: x.squeeze(0) * 2)
    shapes = {"args": ({0: Dim.DYNAMIC},)}
    captured = capture_module(model, (X[:1],), dynamic_shapes=shapes)
    with pytest.raises(DynamicShapeError, match=r"the example has s\d+ = 1, where .* != 1"):
        ingest(captured)
