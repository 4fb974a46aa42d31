"""What a row takes, what counts, and the page."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.processes import Event
from benchmarks.shapes.cases import case_at, family_at
from benchmarks.shapes.kept import Kept, read_kept
from benchmarks.shapes.measure import compared
from benchmarks.shapes.table import FLOORS, SLOWER, WORST, Row, beside_compile, page, row_from_json

ROOT = Path(__file__).parents[2]


def row(index: int, ours: float, eager: float = 1e-3, family: str = "linear") -> Row:
    """A row of these times."""
    made = Row(index, family, f"case {index}")
    made.take(Event("begin", index))
    made.take(Event("ours", index, ours))
    made.take(Event("eager", index, eager))
    return made


def test_the_least_times_count() -> None:
    made = row(0, 3e-3)
    made.take(Event("ours", 0, 1e-3))
    made.take(Event("eager", 0, 2e-3))
    assert made.ratio == 1.0
    assert row_from_json(json.loads(json.dumps(made.to_json()))) == made


def test_times_below_the_floor_do_not_count() -> None:
    floor = FLOORS["cpu"]
    assert not row(0, floor, 0.9 * floor).counts("cpu")
    assert row(0, floor, 1.1 * floor).counts("cpu")
    assert not Row(0, "linear", "never timed").counts("cpu")


def test_the_page_lists_the_worst_and_the_wrong() -> None:
    rows = [row(k, 1e-3 * 0.25) for k in range(WORST + 3)]
    rows += [row(100 + k, 1e-3 * (SLOWER + 0.1)) for k in range(WORST + 2)]
    wrong, failed = row(200, 1e-3, family="rows"), Row(201, "batched", "failed")
    wrong.take(Event("wrong", 200, text="error 1 | scale 2"))
    wrong.take(Event("ours error", 200, 0.5))
    failed.take(Event("stop", 201, text="no package"))
    text = page([*rows, wrong, failed], "cpu", "## CPU")
    mean = math.sqrt(0.25 ** ((WORST + 3) / (WORST + 2.5)) * 1.25 ** ((WORST + 2) / (WORST + 2.5)))
    assert f"| linear | {2 * WORST + 5} | {2 * WORST + 5} | {mean:.2f} | {WORST + 2} |" in text
    assert all(f"| {100 + k} | case" in text for k in range(WORST + 2))
    assert "| 3 | case" not in text, "as fast ones are not listed where there are enough worse"
    assert "| 200 | case 200 | 1 ms | 1 ms | 1.00 | 5.0e-01 | – | error 1 / scale 2 |" in text
    assert "| 201 | failed | – | – | – | – | – | no package |" in text
    assert "| batched | 1 | 0 | nan | 0 | 0 | 0 | 1 |" in text


def test_torch_compile_stands_beside_where_it_was_timed() -> None:
    rows = [row(0, 1e-3), row(1, 1e-3), row(2, 1e-3), row(3, 1e-3, family="rows")]
    assert beside_compile(rows, "cpu") == ""
    assert "torch.compile" not in page(rows, "cpu", "## CPU")
    for each, seconds in zip(rows, (0.5e-3, 2e-3), strict=False):
        each.take(Event("compile", each.index, seconds))
    assert rows[0].of_compile == 2.0
    assert rows[3].of_compile is None
    assert rows[0].line().split() == ["0", "1.00", "1", "ms", "1", "ms", "500", "µs", "case", "0"]
    lines = beside_compile(rows, "cpu").splitlines()[2:]
    assert lines == ["| linear | 2 | 1.00 | 1.00 | 1 | 1 |", "| all | 2 | 1.00 | 1.00 | 1 | 1 |"]
    rows[1].take(Event("compile", 1, 1e-3 / 8))
    assert "| linear | 2 | 0.25 | 4.00 | 2 | 2 |" in page(rows, "cpu", "## CPU")


@pytest.mark.parametrize(("factor", "kinds"), [(1.0, []), (1.01, ["wrong"])])
def test_what_is_off_is_said(factor: float, kinds: list[str]) -> None:
    module, x = torch.nn.Softmax(-1), torch.randn(4, 64)
    calls = {"eager": lambda: module(x), "ours": lambda: factor * module(x)}
    events = list(compared(0, calls, module, (x,)))
    assert [event.what for event in events] == ["eager error", "ours error", *kinds]
    errors = np.array([event.seconds for event in events[:2]])
    assert (errors < 1e-6).tolist() == [True, factor == 1.0]


@pytest.mark.slow
def test_a_run_writes_the_numbers_and_the_page(tmp_path: Path) -> None:
    numbers = tmp_path / "shapes_cpu.json"
    command = [sys.executable, "-m", "benchmarks.shapes.run", "--seed", "5", "--index", "3,8"]
    options = ["--seconds", "0.01", "--note", "here", "--json", str(numbers)]
    done = subprocess.run(
        [*command, *options], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("seed 5\n")
    rows = json.loads(numbers.read_text())["rows"]
    assert [r["index"] for r in rows] == [3, 8]
    assert all(r["wrong"] == "" and r["ratio"] > 0 for r in rows)
    assert "Seed 5. here; torch" in (tmp_path / "shapes.md").read_text()


@pytest.mark.slow
def test_packages_stay_in_a_folder_and_torch_compile_is_timed(tmp_path: Path) -> None:
    numbers, folder = tmp_path / "shapes_cpu.json", tmp_path / "packages"
    command = [sys.executable, "-m", "benchmarks.shapes.run", "--seed", "5", "--index", "3"]
    options = ["--seconds", "0.01", "--folder", str(folder), "--json", str(numbers)]
    for more in (["--package-only"], ["--compile", "--threads", "2"]):
        subprocess.run([*command, *options, *more], cwd=ROOT, check=True)
        assert [path.name for path in folder.iterdir()] == ["5.3.cpu.pkg"]
        assert numbers.exists() == ("--compile" in more)
    (found,) = json.loads(numbers.read_text())["rows"]
    assert set(found["seconds"]) == {"ours", "eager", "compile"}
    assert not found["notes"]


def test_kept_rows_above_a_ratio_are_timed_again_the_slowest_first(tmp_path: Path) -> None:
    wrong, failed = row(5, 1e-4), Row(6, "rows", "case 6")
    wrong.take(Event("wrong", 5, text="error"))
    short = row(7, 2e-6, eager=1e-6)  # a call's own time, which does not count
    rows = [row(2, 1.2e-3), row(3, 1.1e-3), row(4, 3e-3), wrong, failed, short]
    before = Kept(17, "Seed 17. One machine", tuple(rows))
    before.write(tmp_path / "kept.json")
    kept = read_kept(tmp_path / "kept.json")
    assert kept == before
    assert [r.index for r in kept.above(1.15, "cpu")] == [4, 2, 5, 6]
    after = kept.with_rows([row(4, 5e-4)], "the next day")
    assert [r.index for r in after.rows] == [2, 3, 4, 5, 6, 7]
    assert after.rows[2].ratio == 0.5
    assert after.about == "Seed 17. One machine. Again, the next day: 4"


def test_results_that_name_their_seed_in_a_sentence_are_read(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(json.dumps({"about": "Seed 20261125, all shapes", "rows": []}))
    assert read_kept(path).seed == 20261125


def test_a_run_again_changes_the_rows_that_it_times(tmp_path: Path) -> None:
    """The second one is kept as slow; what is timed is taken, whatever that is."""
    path = tmp_path / "shapes_cpu.json"
    rows = []
    for index in (1, 11):
        kept = row(index, 3.0 if index == 11 else 0.1, 1.0, family_at(index))
        kept.text = case_at(20261124, index, "cpu").text
        rows.append(kept)
    Kept(20261124, "Seed 20261124. Kept", tuple(rows)).write(path)
    command = [
        sys.executable,
        "-m",
        "benchmarks.shapes.run",
        "--above",
        "1.15",
        "--json",
        str(path),
    ]
    ran = subprocess.run(
        [*command, "--seconds", "0.05", "--most-seconds", "0.2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = {r.index: r for r in read_kept(path).rows}
    assert found[1] == rows[0]
    assert found[11].seconds != rows[1].seconds
    assert "Again: 11" in (tmp_path / "shapes.md").read_text()
