"""Rows that are sorted digit by digit: the same order, for every size, type and direction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aot.ir.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    UINT8,
    DType,
)
from aot.ir.templates import (
    Argsort,
    ArgsortSupport,
    ByDigits,
    DigitCounts,
    DigitPlaces,
    Support,
)
from aot.ir.templates.digits import DIGITS, digits_of
from aot.passes.change_calls import change_calls
from aot.passes.expand_templates import expand_templates
from tests.ir.templates.test_argsort import graph_of, refuses
from tests.schedule.graphs import DEVICE, S0, interpret, run_passes
from tests.settings import seeded

SORTS = ArgsortSupport(Argsort, refuses, run=8, digits=ByDigits(1, 1024))
DIGIT_KINDS = (Support(DigitCounts), Support(DigitPlaces))
RADIX = replace(DEVICE, templates=(*DEVICE.templates, SORTS, *DIGIT_KINDS), units=1)
"""A device that sorts rows of more than 16 elements digit by digit."""

TYPES = (FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT8, UINT8, INT32, INT64, BOOL)


def sample(dtype: DType, rows: int, columns: int) -> np.ndarray:
    rng = np.random.default_rng(seeded(columns))
    if dtype == BOOL:
        return rng.integers(0, 2, (rows, columns)) > 0
    if not dtype.is_float:
        least, greatest = (int(end) for end in dtype.ends)
        return rng.integers(least, greatest, (rows, columns), endpoint=True, dtype=dtype.numpy)
    made = (rng.standard_normal((rows, columns)) * 10.0 ** rng.integers(-5, 4, columns)).round(5)
    made[:, ::5] = made[:, :1]
    made[0, ::7] = np.nan
    made[1, 3:9] = [np.inf, -np.inf, 0.0, -0.0, 0.0, -np.inf]
    return made.astype(dtype.numpy)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_the_order_is_that_of_the_template(dtype: DType, descending: bool) -> None:
    columns = 5000  # merging takes more steps than 16 digits
    graph = graph_of((2, columns), dtype, descending)
    made = run_passes(graph, RADIX)
    calls = [op for op in made.ops if isinstance(op, DigitPlaces)]
    assert len(calls) == digits_of(dtype)[1]
    assert [c.signed for c in calls[:-1]] == [False] * (len(calls) - 1)
    x = sample(dtype, 2, columns)
    (expected,), (order,) = (interpret(g, {"x": x}, {}) for g in (graph, made))
    assert np.array_equal(order, expected)


def test_rows_of_any_size() -> None:
    graph = graph_of((2, S0), UINT8)
    made = run_passes(graph, RADIX)
    assert any(isinstance(op, DigitPlaces) for op in made.ops)
    for size in (0, 1, 17, 1024, 1025):
        x = {"x": np.random.default_rng(seeded()).integers(0, 255, (2, size), dtype=np.uint8)}
        (expected,), (order,) = (interpret(g, x, {}, {"s0": size}) for g in (graph, made))
        assert np.array_equal(order, expected)


def test_short_rows_are_merged() -> None:
    dear = replace(SORTS, digits=ByDigits(8, 1024))
    machine = replace(RADIX, templates=(*DEVICE.templates, dear, *DIGIT_KINDS))
    made = run_passes(graph_of((2, 60), FLOAT32), machine)
    assert not any(isinstance(op, DigitPlaces) for op in made.ops)


def test_digits_are_those_that_keys_differ_by() -> None:
    found = {t.name: digits_of(t) for t in TYPES}
    assert found["float32"] == (0, 4) and found["float64"] == (0, 8)
    assert found["bfloat16"] == (16, 2) and found["float16"] == (8, 3)
    assert found["int64"] == (0, 8) and found["uint8"] == (0, 1) and found["bool"] == (0, 1)


@pytest.mark.parametrize("dtype", [INT8, UINT8], ids=str)
def test_nests_give_the_places_that_the_template_means(dtype: DType) -> None:
    """Every step of the sort is compared with a template."""
    made = run_passes(graph_of((2, 300), dtype), RADIX)
    nests = expand_templates(made, DEVICE)
    kept = [op for op in nests.ops if isinstance(op, DigitCounts | DigitPlaces)]
    assert not kept and len(nests.ops) < len(made.ops), "places are found without counts"
    x = {"x": sample(dtype, 2, 300)}
    (expected,), (order,) = (interpret(g, x, {}) for g in (made, nests))
    assert np.array_equal(order, expected) and DIGITS == 256
    assert change_calls(made, RADIX, lambda builder, call: None) is made
