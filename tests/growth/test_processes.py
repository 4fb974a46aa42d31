"""Who times what: one GPU after the other takes the next problem."""

from concurrent.futures import Future
from pathlib import Path

import pytest

from benchmarks import processes
from benchmarks.growth.table import Row
from benchmarks.processes import Event, Settings, time_all

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


def _packaged(name: str, settings: Settings) -> str:
    return "" if name == "one" else f"none for {settings.target}"


def test_packaging_alone_says_what_became_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    processes.package_all(("one", "other"), _packaged, SETTINGS, 1)
    said = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert said == [["one", "packaged"], ["other", "none for cuda:sm_90"]]
