"""Calls that are run together give what each gives alone, and fail alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
from aot_runtime.integrations.batches import JoinedCalls
from aot_runtime.tensors import Dim, TensorInfo

from tests.kernels import reference


class Counted:
    """A model whose runs are kept: how many rows each had."""

    def __init__(self, model: aot_runtime.Model) -> None:
        self._model = model
        self.inputs, self.outputs, self.states = model.inputs, model.outputs, model.states
        self.rows: list[int] = []

    def run_named(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.rows += [len(array) for array in inputs.values()]
        return self._model.run_named(inputs)


@pytest.fixture
def model(package: Path) -> Counted:
    return Counted(aot_runtime.load(package))


def call(rows: int, columns: int = 4, dtype: str = "f4") -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(rows).standard_normal((rows, columns)).astype(dtype)}


def check(calls: list[dict[str, np.ndarray]], results: list[Any]) -> None:
    for given, result in zip(calls, results, strict=True):
        (y,) = result.values()
        np.testing.assert_array_equal(y, reference(given["x"]))


def test_rows_of_all_calls_are_one_run(model: Counted) -> None:
    calls = [call(n) for n in (1, 3, 2, 1)]
    check(calls, JoinedCalls(model, 16).run(calls))
    assert model.rows == [7]


@pytest.mark.parametrize(("most", "runs"), [(4, [4, 3]), (1, [1, 3, 2, 1])])
def test_a_run_has_no_more_rows_than_it_may(model: Counted, most: int, runs: list[int]) -> None:
    calls = [call(n) for n in (1, 3, 2, 1)]
    check(calls, JoinedCalls(model, most).run(calls))
    assert model.rows == runs


def test_the_model_s_own_limit_holds(model: Counted) -> None:
    batches = JoinedCalls(model, 1000)
    assert batches.most == 64
    calls = [call(40), call(40)]
    check(calls, batches.run(calls))
    assert model.rows == [40, 40]


def test_one_wrong_call_harms_no_other(model: Counted) -> None:
    right, wrong = [call(2), call(3)], [call(2, columns=5), call(1, dtype="i8"), {}, call(65)]
    results = JoinedCalls(model, 16).run([right[0], *wrong, right[1]])
    check(right, [results[0], results[-1]])
    assert [type(result) for result in results[1:-1]] == [
        aot_runtime.ShapeMismatch,
        aot_runtime.InvalidArgument,
        aot_runtime.InvalidArgument,
        aot_runtime.ShapeMismatch,
    ]


def test_a_run_that_fails_is_tried_call_by_call(model: Counted) -> None:
    model.inputs = (model.inputs[0]._replace(dims=(Dim(None, 0, 500, 1, "s0"),)),)
    model.outputs = (model.outputs[0]._replace(dims=(Dim(None, 0, 500, 1, "s0"),)),)
    calls = [call(40), call(30)]
    check(calls, JoinedCalls(model, 500).run(calls))  # 70 rows are more than it takes
    assert model.rows == [70, 40, 30]


ROW = Dim(None, 1, None, 1, "batch")
OTHER = Dim(None, 1, None, 1, "length")
FIXED = Dim(4, 4, 4, 1, "4")


@pytest.mark.parametrize(
    ("inputs", "outputs", "states", "most"),
    [
        ([(ROW, FIXED)], [(ROW,)], 0, 16),
        ([(ROW,), (OTHER,)], [(ROW,)], 0, 1),
        ([(ROW,)], [(ROW,), ()], 0, 1),
        ([(FIXED,)], [(FIXED,)], 0, 1),
        ([(ROW,)], [(ROW,)], 1, 1),
        ([], [(ROW,)], 0, 1),
    ],
)
def test_rows_are_joined_only_where_they_are_independent(
    model: Counted, inputs: list[Any], outputs: list[Any], states: int, most: int
) -> None:
    model.inputs = tuple(TensorInfo(f"x{i}", "float32", dims) for i, dims in enumerate(inputs))
    model.outputs = tuple(TensorInfo(f"y{i}", "float32", dims) for i, dims in enumerate(outputs))
    model.states = (TensorInfo("s", "int64", ()),) * states
    assert JoinedCalls(model, 16).most == most
