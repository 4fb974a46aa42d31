"""A sample of the sweep: one operator and type in 150, a few cases, the same every time."""

from __future__ import annotations

from functools import lru_cache

import pytest

from tests.conformance.executors import EXECUTORS
from tests.conformance.opinfo.outcome import CRASH, OK, REFUSED, WRONG, Table, count
from tests.conformance.opinfo.running import run_cases
from tests.conformance.opinfo.samples import Case, cases, pairs, spread
from tests.conformance.opinfo.sweep import read_table, results_file
from tests.settings import LEVEL, level

EVERY = 150
PARTS = 4
CASES = 3


@lru_cache(maxsize=1)
def _chosen(part: int) -> tuple[Case, ...]:
    """A part's cases, the same objects for both executors: their modules are exported once."""
    chosen = pairs()[part * EVERY // PARTS :: EVERY]
    return tuple(case for op, dtype in chosen for case in spread(op, dtype, CASES))


def _all_were_packaged(table: Table, op: str, dtype: str) -> bool:
    """Whether the sweep has seen every sample of the pair, and none was refused."""
    entry = table.get(op, {}).get(dtype)
    return entry is not None and count(entry, OK) == len(cases(op, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"cpu:{level()}", "triton"])
@pytest.mark.parametrize("part", range(PARTS))
def test_opinfo_samples_match_eager(part: int, name: str) -> None:
    outcomes = list(run_cases(_chosen(part), EXECUTORS[name]))
    bad = [f"{o.label}: {o.reason}" for o in outcomes if o.kind in (WRONG, CRASH)]
    assert not bad, "\n".join(bad)
    # The sweep is made for one level; what is refused is the same for all.
    table = read_table(results_file(f"cpu:{LEVEL}" if name != "triton" else name))
    new = [
        f"{o.op} {o.dtype} #{o.number}: {o.reason}"
        for o in outcomes
        if o.kind == REFUSED and _all_were_packaged(table, o.op, o.dtype)
    ]
    assert not new, "refused, although the kept results say that all samples are packaged: " + str(
        new
    )
