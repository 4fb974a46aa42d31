"""The operator rows on a backend that is defined in the tests alone (docs/adding-a-backend.md)."""

from __future__ import annotations

import pytest

from aot.backends import registry
from aot.options import Target
from tests.backends.plain import LEVEL, PlainBackend
from tests.conformance.executors import packaged
from tests.conformance.harness import Row, run_row
from tests.conformance.test_rows import ROWS


@pytest.fixture(autouse=True)
def _only_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "BACKENDS", (PlainBackend(),))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_matches_eager(row: Row) -> None:
    problems = run_row(row, packaged(Target("cpu", (LEVEL,))))
    assert not problems, "\n".join(problems)
