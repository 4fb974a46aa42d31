"""Rows of an unknown length: functions that hold them, and one that walks what is longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from aot.backends.base import EmittedGraph
from aot.backends.triton import backend
from aot.symbolic import dim, evaluate
from tests.backends.triton.templates import captured, check_close, emitted
from tests.settings import seeded

ROWS, LENGTH = 40, 11
DIMS = ({0: Dim("n", min=1), 1: Dim("d", min=1)},)


def softmax(x: Any) -> Any:
    return x.softmax(1)


def deviation(x: Any) -> Any:
    return x.std(1)


def running_sum(x: Any) -> Any:
    return x.cumsum(1)


def ran(source: EmittedGraph, length: int) -> str:
    """The text of the only function that runs at rows of this length."""
    n, d = (dim(name.name) for name in source.graph.dims)
    (launch,) = [la for la in source.launches if evaluate(la.when, {n: ROWS, d: length})]
    return next(f.text for f in source.functions if f.name == launch.function)


@pytest.mark.parametrize("function", [softmax, deviation, running_sum])
def test_one_function_runs_at_each_length_and_is_right(function: Callable[..., Any]) -> None:
    torch.manual_seed(seeded())
    model = captured(function, (torch.randn(ROWS, LENGTH),), DIMS)
    source = emitted(model)
    for length, lanes in ((1, 16), (16, 16), (17, 32), (33, 64), (65, 128), (128, 128)):
        text = ran(source, length)
        assert f"{lanes}" in text
        assert "in range(" not in text or function is running_sum
    assert "in range(" in ran(source, 129)
    for length in (5, 40, 150):
        check_close(model, function, (torch.randn(ROWS, length),))


@pytest.mark.parametrize(
    "lengths",
    [(15, 17, 31, 33, 63, 65, 127, 129), (16, 24, 32, 40, 64, 72, 128, 136)],
    ids=["any rows", "rows of whole vectors"],
)
def test_lengths_that_end_a_tile_are_told_apart_from_longer_ones(lengths: tuple[int, ...]) -> None:
    source = emitted(captured(softmax, (torch.randn(ROWS, LENGTH),), DIMS))
    texts = [ran(source, length) for length in lengths]
    assert texts[1] == texts[2] != texts[0]
    assert texts[3] == texts[4] != texts[2]
    assert texts[5] == texts[6] != texts[4]
    assert texts[7] != texts[6]


def test_what_is_read_once_is_walked() -> None:
    source = emitted(captured(lambda x: x.sum(1), (torch.randn(ROWS, LENGTH),), DIMS))
    assert "in range(" in ran(source, LENGTH)


def test_long_rows_are_walked_at_all_lengths() -> None:
    source = emitted(captured(softmax, (torch.randn(4, 5000),), DIMS))
    assert all("in range(" in ran(source, length) for length in (16, 5000, 20000))


def test_no_function_is_emitted_for_the_example_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = captured(softmax, (torch.randn(ROWS, LENGTH),), DIMS)
    made: list[object] = []
    own = backend.emit_kernel

    def told(*arguments: Any) -> Any:
        made.append(own(*arguments))
        return made[-1]

    monkeypatch.setattr(backend, "emit_kernel", told)
    functions = emitted(model).functions
    # Kernels that are alike are known by one more, of the example and with wide indices.
    assert len(made) == len(functions) + 1
