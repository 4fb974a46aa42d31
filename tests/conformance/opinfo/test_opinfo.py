"""A sample of the sweep: one operator and type in 1000, a few cases, the same every time."""

from __future__ import annotations

from functools import lru_cache

import pytest

from tests.conformance.executors import EXECUTORS
from tests.conformance.opinfo.outcome import CRASH, OK, REFUSED, WRONG, Outcome, Table, count
from tests.conformance.opinfo.running import run_cases
from tests.conformance.opinfo.samples import ERRORS, Case, cases, pairs, spread
from tests.conformance.opinfo.sweep import read_table, results_file
from tests.settings import LEVEL, level

EVERY = 1000
PARTS = 4
CASES = 3
REFERENCE_EVERY = 2000
ERRORS_EVERY = 8


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
    assert not _bad(outcomes)
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


def _bad(outcomes: list[Outcome]) -> str:
    return "\n".join(f"{o.label}: {o.reason}" for o in outcomes if o.kind in (WRONG, CRASH))


@pytest.mark.slow
def test_reference_inputs_match_eager() -> None:
    chosen = [
        case for pair in pairs()[::REFERENCE_EVERY] for case in spread(*pair, CASES, reference=True)
    ]
    outcomes = list(run_cases(chosen, EXECUTORS[f"cpu:{level()}"]))
    assert not _bad(outcomes)
    assert OK in {o.kind for o in outcomes}


def test_what_eager_refuses_is_not_packaged() -> None:
    chosen = [case for pair in pairs([ERRORS])[::ERRORS_EVERY] for case in cases(*pair)]
    outcomes = list(run_cases(chosen, None))
    assert not _bad(outcomes)
    assert sum(o.kind == OK for o in outcomes) > len(outcomes) // 2
