"""Who times what: one GPU after the other takes the next problem."""

import os
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import processes
from benchmarks.growth.table import Row
from benchmarks.processes import Event, Settings, cores_of, time_all
from benchmarks.shapes import table as shapes

SETTINGS = Settings("cuda", "cuda:sm_90", Path(), most=1.0, seconds=1.0, memory=1.0)


class Told:
    """A timer that says in the row's notes where it was."""

    def __init__(self, times: processes.Times, settings: Settings) -> None:
        self._place = settings.place

    def __enter__(self) -> "Told":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def tell(self, name: str, row: Row) -> None:
        """The event of one problem."""
        row.notes.append(f"{name} on {self._place}")


@pytest.mark.parametrize(("gpus", "places"), [("", {"cuda"}), ("0,1", {"cuda:0", "cuda:1"})])
def test_every_problem_is_timed_once(
    monkeypatch: pytest.MonkeyPatch, gpus: str, places: set[str]
) -> None:
    monkeypatch.setattr(processes, "Timer", Told)
    rows = {str(k): Row(str(k)) for k in range(9)}
    built: dict[str, Future[None]] = {name: Future() for name in rows}
    for future in built.values():
        future.set_result(None)
    done: list[Row] = []
    time_all(rows.items(), built, lambda *_: iter([Event("end", 0)]), SETTINGS, gpus, done.append)
    assert {row.name for row in done} == set(rows)
    assert len(done) == len(rows)
    assert {note.split(" on ")[1] for row in done for note in row.notes} <= places
    assert all(len(row.notes) == 1 for row in done)


def _where(name: str, settings: Settings) -> Iterator[Event]:
    """The cores and threads that a problem has, as a note."""
    yield Event("begin", 0)
    yield Event("stop", 0, text=f"{sorted(os.sched_getaffinity(0))} {torch.get_num_threads()}")


@pytest.mark.parametrize(("units", "threads"), [("first", 1), ("all", 2)])
def test_problems_keep_to_their_cores(tmp_path: Path, units: str, threads: int) -> None:
    mine = sorted(os.sched_getaffinity(0))
    if mine != list(range(mine[0], mine[-1] + 1)):
        pytest.skip("cores are missing between those of this process")
    wanted = mine[:1] if units == "first" else mine
    unit = f"{mine[0]}" if units == "first" else f"{mine[0]}-{mine[-1]}"
    assert list(cores_of(unit)) == wanted
    settings = replace(SETTINGS, device="cpu", folder=tmp_path, memory=16.0, threads=threads)
    assert replace(settings, unit=unit).place == "cpu"
    row, built = shapes.Row(0, "rows", "a"), Future[None]()
    built.set_result(None)
    time_all([("a", row)], {"a": built}, _where, settings, unit, lambda row: None)
    assert row.notes == [f"{wanted} {threads}"]


def _by_process(name: str, settings: Settings) -> str | None:
    """Leaves the number of its process; one of them dies."""
    (settings.folder / name).write_text(str(os.getpid()), encoding="utf-8")
    if name == "2":
        os._exit(1)
    return None


def test_a_process_packages_one_after_the_other_and_another_one_follows_it(tmp_path: Path) -> None:
    names = [str(k) for k in range(8)]
    built = processes.build_all(names, _by_process, replace(SETTINGS, folder=tmp_path), 2)
    for name in names:
        built[name].result(timeout=100)
    numbers = {(tmp_path / name).read_text(encoding="utf-8") for name in names}
    assert 1 < len(numbers) <= 3


def _packaged(name: str, settings: Settings) -> str:
    return "" if name == "one" else f"none for {settings.target}"


def test_packaging_alone_says_what_became_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    processes.package_all(("one", "other"), _packaged, SETTINGS, 1)
    said = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert said == [["one", "packaged"], ["other", "none for cuda:sm_90"]]
