"""Dense linear algebra on every executor that has it; others refuse it, with a reason."""

from __future__ import annotations

import pytest

from aot.errors import UnsupportedOperators
from tests.conformance.executors import EXECUTORS
from tests.conformance.harness import Row, run_row
from tests.conformance.linalg_rows import ROWS


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_matches_eager(row: Row, executor: str) -> None:
    if executor == "triton":
        with pytest.raises(UnsupportedOperators, match="Package for the CPU alone"):
            run_row(row, EXECUTORS[executor])
        return
    problems = run_row(row, EXECUTORS[executor])
    assert not problems, "\n".join(problems)
