"""The table of what tests cost: it names tests that exist, and is what was measured."""

from __future__ import annotations

import ast
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tests.costs import COSTS, DEAR, Costs, merged, read, write
from tests.kernels import ROOT


@pytest.mark.parametrize("file", COSTS)
def test_rows_are_of_functions_that_exist(file: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    there = {x.name for x in tree.body if isinstance(x, ast.FunctionDef)}
    assert COSTS[file].keys() <= there, "gone or renamed: take the row away, or `pytest --costs`"
    assert all(seconds >= DEAR for seconds in COSTS[file].values())


def test_what_ran_has_the_middle_of_its_cases_and_the_rest_stays() -> None:
    costs = {"a.py": {"test_kept": 2.0, "test_now_cheap": 3.0}, "b.py": {"test_gone": 1.0}}
    seconds = {
        "a.py::test_now_cheap": [0.1, 0.2],
        "b.py::test_gone": [0.0],
        "c.py::test_new": [2.54, 90.0, 0.1],
        "c.py::test_cheap": [DEAR],
        "c.py::test_skipped": [],
    }
    assert merged(costs, seconds) == {"a.py": {"test_kept": 2.0}, "c.py": {"test_new": 2.5}}


def test_processes_that_a_test_starts_count_ended_or_not(tmp_path: Path) -> None:
    place = tmp_path / "costs.json"
    write({}, place)
    costs = Costs(place)
    work = "import time\nwhile time.process_time() < 0.8: pass\nprint(flush=True)\ninput()"
    item = types.SimpleNamespace(stash=pytest.Stash(), user_properties=[])
    begun = costs.pytest_runtest_protocol(item)  # type: ignore[arg-type]
    next(begun)
    with subprocess.Popen([sys.executable, "-c", work], stdin=-1, stdout=-1, text=True) as living:
        subprocess.run([sys.executable, "-c", work], input="\n", text=True, check=True)
        assert living.stdout is not None
        living.stdout.readline()
        costs.pytest_runtest_teardown(item)  # type: ignore[arg-type]
        living.communicate("\n")
    ((name, seconds),) = item.user_properties
    assert 1.5 < seconds < 8
    report = types.SimpleNamespace(
        when="teardown", nodeid="a.py::test_a[case]", user_properties=[(name, str(seconds))]
    )
    costs.pytest_runtest_logreport(report)  # type: ignore[arg-type]
    session = types.SimpleNamespace(config=types.SimpleNamespace())
    costs.pytest_sessionfinish(session)  # type: ignore[arg-type]
    assert read(place) == {"a.py": {"test_a": round(seconds, 1)}}
