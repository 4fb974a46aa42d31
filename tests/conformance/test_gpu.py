"""Every operator row, and a sample of PyTorch's operators, on a real GPU: for `make test-gpu`."""

from __future__ import annotations

import pytest
import torch

from tests.conformance.executors import GPU, executor_named
from tests.conformance.harness import Row, run_row
from tests.conformance.opinfo.outcome import CRASH, WRONG
from tests.conformance.opinfo.running import run_cases
from tests.conformance.opinfo.samples import pairs, spread
from tests.conformance.test_rows import ROWS

pytestmark = pytest.mark.gpu

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

PARTS = 6
PAIRS = 25
"""Operators and types of each part; two samples of each make 300 in all."""


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_matches_eager(row: Row) -> None:
    problems = run_row(row, executor_named(GPU))
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("part", range(PARTS))
def test_opinfo_samples_match_eager(part: int) -> None:
    every = pairs()
    chosen = every[part :: max(len(every) // PAIRS, 1)][:PAIRS]
    cases = [case for op, dtype in chosen for case in spread(op, dtype, 2)]
    outcomes = list(run_cases(cases, executor_named(GPU)))
    bad = [f"{o.label}: {o.reason}" for o in outcomes if o.kind in (WRONG, CRASH)]
    assert not bad, "\n".join(bad)
