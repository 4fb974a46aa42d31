"""What tests cost in processor seconds: those that are dear, as they were measured (`--costs`)."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path

import pytest

PLACE = Path(__file__).parent / "costs.json"
DEAR = 0.7
"""Processor seconds of a case above which its function is dear."""

_MEASURED = "processor seconds"
_TICKS = os.sysconf("SC_CLK_TCK")


def read(place: Path = PLACE) -> dict[str, dict[str, float]]:
    """The dear functions of each file, with the processor seconds that a case takes."""
    found: dict[str, dict[str, float]] = json.loads(place.read_text(encoding="utf-8"))
    return found


COSTS: Mapping[str, Mapping[str, float]] = read()


class Costs:
    """A plugin that measures each test with all that it starts, and rewrites the table.

    Functions that did not run keep their row; those that ran and are cheap now lose it.
    """

    def __init__(self, place: Path = PLACE) -> None:
        self.place = place
        self.seconds: dict[str, list[float]] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None]:
        item.stash[_BEGUN] = _used()
        yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        item.user_properties.append((_MEASURED, _used() - item.stash[_BEGUN]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What a worker, or this process, has measured."""
        if report.when == "teardown":
            function = report.nodeid.partition("[")[0]
            measured = [float(str(x)) for name, x in report.user_properties if name == _MEASURED]
            self.seconds.setdefault(function, []).extend(measured)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not hasattr(session.config, "workerinput"):
            write(merged(read(self.place), self.seconds), self.place)


_BEGUN = pytest.StashKey[float]()


def merged(
    costs: Mapping[str, Mapping[str, float]], seconds: Mapping[str, Iterable[float]]
) -> dict[str, dict[str, float]]:
    """The table with what was measured: for each function that ran the middle one of its cases.

    So the case that makes what others share counts like one of them.
    """
    table = {file: dict(rows) for file, rows in costs.items()}
    for function, each in seconds.items():
        file, _, name = function.partition("::")
        cases = sorted(each)
        middle = cases[len(cases) // 2] if cases else 0.0
        rows = table.setdefault(file, {})
        rows.pop(name, None)
        if middle > DEAR:
            rows[name] = round(middle, 1)
    return {file: rows for file, rows in table.items() if rows}


def write(costs: Mapping[str, Mapping[str, float]], place: Path = PLACE) -> None:
    """Puts the table there, in order of names."""
    place.write_text(json.dumps(costs, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _used() -> float:
    """Processor seconds of this process and of all that it has started, living or not."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    return total + sum(_used_below(child) for child in _children(os.getpid()))


def _used_below(process: int) -> float:
    """Of a living process, of those of its children that have ended, and of those that live."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended meanwhile
        return 0.0
    ticks = sum(int(x) for x in text.rpartition(")")[2].split()[11:15])
    return ticks / _TICKS + sum(_used_below(child) for child in _children(process))


def _children(process: int) -> list[int]:
    found: list[int] = []
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found.extend(int(x) for x in tasks.read_text(encoding="utf-8").split())
        except OSError:  # a thread that has ended meanwhile
            continue
    return found
