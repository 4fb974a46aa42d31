"""The processes that build and time families, which may hang or die."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from benchmarks.growth.family import Family
from benchmarks.growth.measure import Event, Settings, build_family, serve
from benchmarks.growth.table import Row

BUILDING = 180.0
"""Seconds for a package, its inputs and a first call of eager."""

PATIENCE = 20.0
"""So many times the longest call may pass before a family is given up."""


def build_all(families: Sequence[Family], settings: Settings, jobs: int) -> dict[str, Future[None]]:
    """Packages, `jobs` families at a time, by their names; what hangs is left to its timing.

    On a CPU all are built before this returns: its cores are what is timed. A single job leaves
    each package to the timing, too.
    """

    def build(family: Family) -> None:
        process = _process(build_family, family.name, settings)
        process.join(BUILDING)
        process.kill()
        process.join()

    pool = ThreadPoolExecutor(jobs)
    begin = build if jobs > 1 else lambda family: None
    built = {family.name: pool.submit(begin, family) for family in families}
    pool.shutdown(wait=False)
    if settings.device == "cpu":
        wait_for(built.values())
    return built


class Timer:
    """A process that times one family after the other; another one when it hangs or dies.

    On a CPU each family has a process, whose memory is bounded, to itself; on a GPU, where a
    process takes seconds to begin, one does many.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: BaseProcess | None = None

    def __enter__(self) -> Timer:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def row(self, family: Family) -> Row:
        """The family's row, up to where it ends or is ended."""
        if self._process is None:
            self._begin()
        assert self._process is not None
        row = Row(family.name)
        try:
            self._names.send(family.name)
        except OSError:  # it died behind its last family
            self._end()
            return self.row(family)
        alive = listen(row, self._events, self._process, self._settings)
        if not alive or self._settings.device == "cpu":
            self._end()
        return row

    def _begin(self) -> None:
        context = multiprocessing.get_context("forkserver")
        asked, self._names = context.Pipe(duplex=False)
        self._events, told = context.Pipe(duplex=False)
        self._process = _process(serve, asked, self._settings, told)
        asked.close()
        told.close()

    def _end(self) -> None:
        if self._process is not None:
            self._names.close()
            self._process.kill()
            self._process.join()
            self._process = None


def listen(row: Row, receiver: Connection, process: BaseProcess, settings: Settings) -> bool:
    """Takes a family's events; whether the process is ready for another one.

    It is not where an event was too long in coming, or the process ended.
    """
    last = Event("begin", 0)
    while True:
        patience = BUILDING if last.what in ("begin", "stop") else PATIENCE * settings.most
        if not receiver.poll(patience):
            row.notes.append(f"no answer within {patience:g} s after {last.what} at {last.n}")
            return False
        try:
            event = receiver.recv()
        except EOFError:
            process.join()
            row.notes.append(f"exit status {process.exitcode} at {last.n}")
            return False
        if event.what == "end":
            return True
        last = event
        row.take(last)


def _process(target: object, *args: object) -> BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.growth.measure"])
    process = context.Process(target=target, args=args)  # type: ignore[arg-type]
    process.start()
    return process
