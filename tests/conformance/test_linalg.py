"""Dense linear algebra on every executor; Triton's interpreter takes a sample of each row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conformance.executors import EXECUTORS
from tests.conformance.harness import Row, run_row
from tests.conformance.linalg_rows import ROWS


def _few(row: Row) -> Row:
    """One small sample in single precision: tests/backends/triton has those of other sizes."""
    return replace(row, samples=lambda dtype: row.samples(dtype)[2:3], dtypes=row.dtypes[:1])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_matches_eager(row: Row, executor: str) -> None:
    problems = run_row(_few(row) if executor == "triton" else row, EXECUTORS[executor])
    assert not problems, "\n".join(problems)
