"""Every operator row, in every type that it names, on every executor."""

from __future__ import annotations

import pytest

from tests.conformance import (
    complex_rows,
    composite_rows,
    control_rows,
    elementwise_rows,
    fourier_rows,
    image_rows,
    indexing_rows,
    quantized_rows,
    reduction_rows,
    special_rows,
    structure_rows,
    template_rows,
    type_rows,
    unique_rows,
)
from tests.conformance.executors import EXECUTORS
from tests.conformance.harness import Row, run_row

ROWS: tuple[Row, ...] = (
    *elementwise_rows.ROWS,
    *fourier_rows.ROWS,
    *reduction_rows.ROWS,
    *special_rows.ROWS,
    *structure_rows.ROWS,
    *template_rows.ROWS,
    *image_rows.ROWS,
    *indexing_rows.ROWS,
    *control_rows.ROWS,
    *unique_rows.ROWS,
    *complex_rows.ROWS,
    *quantized_rows.ROWS,
    *type_rows.ROWS,
    *composite_rows.ROWS,
)


# Eager warns about some of the samples, which are odd on purpose.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_matches_eager(row: Row, executor: str) -> None:
    problems = run_row(row, EXECUTORS[executor])
    assert not problems, "\n".join(problems)
