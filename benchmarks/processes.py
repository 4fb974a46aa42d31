"""The processes that build and time problems, one by one: each of them may hang or die."""

from __future__ import annotations

import multiprocessing
import os
import resource
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

import torch

BUILDING = 180.0
"""Seconds for a package, its inputs and a first call of eager; and to check large results."""

PATIENCE = 20.0
"""So many times the longest call may pass before a problem is given up."""

GIB = 1 << 30


@dataclass(frozen=True)
class Settings:
    """How a run measures.

    Attributes:
        device: "cpu" (one thread) or "cuda".
        target: What packages are built for.
        folder: Where they lie.
        most: A problem ends with the size at which a call of either side takes longer, in seconds.
        seconds: For the calls of one size, both sides together.
        memory: GiB that the process may take on the host.
        unit: What calls are timed on: the number of a GPU, or cores of a CPU as "3" or "4-7"; "":
            the first GPU, or any cores.
        threads: Of a call on a CPU, of either side.
        compiles: Whether torch.compile is timed beside both.
        keeps: Whether packages stay when they have been timed.
        smaller: So many times smaller are the extents that packages with dynamic dims are made
            with; 0: all extents are static.
        tune: Configurations of each GPU template that packages are measured with; 0: none.
    """

    device: str
    target: str
    folder: Path
    most: float
    seconds: float
    memory: float
    unit: str = ""
    threads: int = 1
    compiles: bool = False
    keeps: bool = False
    smaller: int = 0
    tune: int = 0

    @property
    def place(self) -> str:
        """What packages are loaded on."""
        return f"cuda:{self.unit}" if self.device == "cuda" and self.unit else self.device


@dataclass(frozen=True)
class Event:
    """What the process tells: `what` at size `n`.

    "begin": another size is next; "stop": `text` says why the problem ends here; "end": so it does.
    All others are its own: "eager" and "ours" are the seconds of one call of either.
    """

    what: str
    n: int
    seconds: float = 0.0
    text: str = ""


class Row(Protocol):
    """What is known of a problem: it takes the events of its process."""

    notes: list[str]

    def take(self, event: Event) -> None:
        """Adds what the process tells."""


R = TypeVar("R", bound=Row)

Build = Callable[[str, Settings], str | None]
"""Packages the problem of a name, or says why there is no package; a function of a module, as
another process calls it."""

Times = Callable[[str, Settings], Iterator[Event]]
"""The events of the problem of a name; a function of a module."""


def own_target(device: str) -> str:
    """Of the best level, or the first GPU, of this machine."""
    if device == "cpu":
        import aot_runtime

        return f"cpu:{aot_runtime.cpu_isa()}"
    major, minor = torch.cuda.get_device_capability(0)
    return f"cuda:sm_{major}{minor}"


def build_all(
    names: Iterable[str], build: Build, settings: Settings, jobs: int
) -> dict[str, Future[None]]:
    """Packages, `jobs` problems at a time, by their names; what hangs is left to its timing.

    On a CPU all are built before this returns: its cores are what is timed. A single job leaves
    each package to the timing, too. For a GPU a process builds one after the other, as it begins
    with a second or more of what all of them load.
    """

    idle = SimpleQueue[Timer]()
    for _ in range(jobs):
        idle.put(Timer(partial(_building, build), settings))

    def build_one(name: str) -> None:
        builder = idle.get()
        builder.tell(name, _Unheard())
        idle.put(builder)

    def end(_: Future[None]) -> None:
        if all(each.done() for each in built.values()):
            with suppress(Empty):
                while True:
                    idle.get_nowait().end()

    pool = ThreadPoolExecutor(jobs)
    begin = build_one if jobs > 1 else lambda name: None
    built = {name: pool.submit(begin, name) for name in names}
    for each in built.values():
        each.add_done_callback(end)
    pool.shutdown(wait=False)
    if settings.device == "cpu":
        wait_for(built.values())
    return built


def package_all(names: Iterable[str], build: Build, settings: Settings, jobs: int) -> None:
    """Packages, in `jobs` processes that each do one problem after the other; says what each did.

    What an export loads for the first time is loaded once a process, not once a package.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.preload"])
    with ProcessPoolExecutor(jobs, context, torch.set_num_threads, (1,)) as pool:
        asked = {name: pool.submit(build, name, settings) for name in names}
        for name, each in asked.items():
            print(f"{name:36s} {each.result() or 'packaged'}", flush=True)


class Timer:
    """A process that times one problem after the other; another one when it hangs or dies.

    On a CPU each problem has a process, whose memory is bounded, to itself; on a GPU, where a
    process takes seconds to begin, one does many. Packages are made by such processes, too.
    """

    def __init__(self, times: Times, settings: Settings) -> None:
        self._times = times
        self._settings = settings
        self._process: BaseProcess | None = None

    def __enter__(self) -> Timer:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def tell(self, name: str, row: Row) -> None:
        """Gives the row the events of the problem of a name, up to where it ends or is ended."""
        if self._process is None:
            self._begin()
        assert self._process is not None
        try:
            self._names.send(name)
        except OSError:  # it died behind its last problem
            self.end()
            self.tell(name, row)
            return
        alive = listen(row, self._events, self._process, self._settings)
        if not alive or self._settings.device == "cpu":
            self.end()

    def _begin(self) -> None:
        context = multiprocessing.get_context("forkserver")
        asked, self._names = context.Pipe(duplex=False)
        self._events, told = context.Pipe(duplex=False)
        self._process = _process(_serve, self._times, asked, self._settings, told)
        asked.close()
        told.close()

    def end(self) -> None:
        """Ends the process, if there is one."""
        if self._process is not None:
            self._names.close()
            self._process.kill()
            self._process.join()
            self._process = None


def time_all(
    named: Iterable[tuple[str, R]],
    built: Mapping[str, Future[None]],
    times: Times,
    settings: Settings,
    units: str,
    done: Callable[[R], None],
) -> None:
    """Times problems once they are built, on each of some GPUs, or cores, the next one.

    Args:
        named: Their names and rows, in their order.
        built: By name, what ends when there is a package.
        times: What a process does with a name.
        settings: How it does that.
        units: Numbers of GPUs, or cores, with commas; "": on whatever `settings` says.
        done: Told of each row that has its times, one at a time.
    """
    waiting, lock = iter(named), threading.Lock()

    def work(unit: str) -> None:
        with Timer(times, replace(settings, unit=unit)) as timer:
            while True:
                with lock:
                    following = next(waiting, None)
                if following is None:
                    return
                name, row = following
                built[name].result()
                timer.tell(name, row)
                with lock:
                    done(row)

    each = units.split(",")
    with ThreadPoolExecutor(len(each)) as pool:
        for worker in [pool.submit(work, unit) for unit in each]:
            worker.result()


def listen(row: Row, receiver: Connection, process: BaseProcess, settings: Settings) -> bool:
    """Takes a problem's events; whether the process is ready for another one.

    It is not where an event was too long in coming, or the process ended.
    """
    last = Event("begin", 0)
    while True:
        on_host = last.what in ("begin", "stop") or last.what.endswith(" error")
        patience = BUILDING if on_host else PATIENCE * settings.most
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


def _building(build: Build, name: str, settings: Settings) -> Iterator[Event]:
    """A problem that is packaged alone."""
    yield Event("begin", 0)
    build(name, settings)


class _Unheard:
    """The row of what is packaged: whatever happens, the timing finds out again."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def take(self, event: Event) -> None:
        """Nothing is kept."""


def _serve(times: Times, names: Connection, settings: Settings, sender: Connection) -> None:
    """Times what `names` brings, one after the other; "end" follows each one's events."""
    torch.set_num_threads(settings.threads)
    if settings.unit and settings.device == "cuda":
        torch.cuda.set_device(int(settings.unit))
    elif settings.unit:
        os.sched_setaffinity(0, cores_of(settings.unit))
    if settings.device == "cpu":
        limit = int(settings.memory * GIB)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with torch.no_grad():
        while True:
            try:
                name = names.recv()
            except EOFError:
                return
            for event in times(name, settings):
                sender.send(event)
            sender.send(Event("end", 0))
            if settings.device == "cuda":
                torch.cuda.empty_cache()


def cores_of(unit: str) -> range:
    """The cores that "3" or "4-7" names."""
    first, _, last = unit.partition("-")
    return range(int(first), int(last or first) + 1)


def first_line(error: BaseException) -> str:
    """An error in one line of a page."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:120]


def _process(target: object, *args: object) -> BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.preload"])
    process = context.Process(target=target, args=args)  # type: ignore[arg-type]
    process.start()
    return process
