"""What the runner makes of a family's process: one that ends, hangs, dies; and a whole run."""

import json
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.growth.table import Row
from benchmarks.processes import PATIENCE, Event, Settings, listen

ROOT = Path(__file__).parents[2]
BEGUN = (Event("begin", 64), Event("eager", 64, 0.25))


def heard(*events: Event, exitcode: int = 0, silent: bool = False) -> Row:
    """The row of a process that sends these and then ends, or stays silent."""
    receiver, sender = Pipe(duplex=False)
    for event in events:
        sender.send(event)
    if not silent:
        sender.close()
    row = Row("x")
    process = SimpleNamespace(join=lambda: None, exitcode=exitcode)
    settings = Settings("cpu", "cpu", Path(), most=0.1 / PATIENCE, seconds=1.0, memory=1.0)
    ended = bool(events) and events[-1].what == "end"
    assert listen(row, receiver, process, settings) is ended
    return row


def test_times_and_the_reason_of_the_end_are_kept() -> None:
    row = heard(*BEGUN, Event("ours", 64, 0.5), Event("stop", 64, text="enough"), Event("end", 0))
    assert row.ratio == 2.0
    assert row.notes == ["enough at 64"]


def test_a_process_that_hangs_is_given_up() -> None:
    row = heard(*BEGUN, silent=True)
    assert row.notes == ["no answer within 0.1 s after eager at 64"]
    assert row.ratio is None


def test_a_process_that_dies_leaves_its_exit_status() -> None:
    assert heard(*BEGUN, exitcode=-9).notes == ["exit status -9 at 64"]


@pytest.mark.slow
def test_a_run_writes_the_numbers_and_the_page(tmp_path: Path) -> None:
    numbers = tmp_path / "growth_cpu.json"
    command = [sys.executable, "-m", "benchmarks.growth.run", "--only", "^dot$", "--note", "here"]
    options = ["--seconds", "0.01", "--json", str(numbers)]
    subprocess.run([*command, *options], cwd=ROOT, check=True)
    (row,) = json.loads(numbers.read_text())["rows"]
    assert row["name"] == "dot"
    assert row["notes"] == []
    assert row["seconds"]["ours"].keys() == row["seconds"]["eager"].keys() != set()
    page = (tmp_path / "growth.md").read_text()
    assert "| dot | 2^16 to 2^22 |" in page
    assert "here; torch" in page
