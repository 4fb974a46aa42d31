"""Worker processes that may die or hang: what they had not answered is tried again in halves."""

from __future__ import annotations

import multiprocessing
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from threading import Lock, Timer
from typing import Any

from tests.conformance.opinfo.outcome import CRASH, Outcome

_SPAWN = multiprocessing.get_context("spawn")

Number = tuple[str, str, int]
"""An operator, a type, and a sample's number."""


@dataclass(frozen=True)
class Task:
    """Cases of one or several operators, which share modules.

    `pairs`: (operator, type). `samples`: at most so many of each, spread evenly; 0: all. `only`:
    these alone. `draw`: a seed that chooses the samples instead. `reference`: take the operators'
    reference inputs.
    """

    pairs: tuple[tuple[str, str], ...]
    samples: int = 0
    only: tuple[Number, ...] = ()
    draw: int | None = None
    reference: bool = False

    def __str__(self) -> str:
        """The operators, first and last."""
        names = list(dict.fromkeys(op for op, _ in self.pairs))
        return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"


def serve(pipe: Connection, executor: str) -> None:
    """A worker's life. For each task it sends the numbers that it will run, outcomes, and None."""
    import torch

    from tests.conformance.executors import executor_named
    from tests.conformance.opinfo.running import run_cases
    from tests.conformance.opinfo.samples import spread

    torch.set_num_threads(1)
    run = executor_named(executor)
    while True:
        task: Task = pipe.recv()
        how = task.samples, task.draw, task.reference
        chosen = [case for pair in task.pairs for case in spread(*pair, *how)]
        if task.only:
            chosen = [case for case in chosen if case.key in task.only]
        pipe.send([case.key for case in chosen])
        for outcome in run_cases(chosen, run):
            pipe.send(outcome)
        pipe.send(None)


Life = Callable[[Connection, str], None]
"""What a worker process does: `serve`, or a test's stand-in for it."""

_READY = "ready"
_START_SECONDS = 600.0
"""For a process to start, on a machine that does much else."""


def _live(life: Life, pipe: Connection, executor: str) -> None:
    pipe.send(_READY)
    life(pipe, executor)


class _Worker:
    """One process at a time; a new one when it died or was ended."""

    def __init__(
        self, executor: str, seconds: float, life: Life, ready: Callable[[], None]
    ) -> None:
        self.executor = executor
        self.seconds = seconds
        self.life = life
        self.ready = ready
        self.stopped = False
        self._process: Any = None
        self._pipe: Any = None

    def run(self, task: Task) -> list[Outcome]:
        """The outcomes of a task; cases that end the process, or hang, are crashes.

        Those that were not answered when `stop` was called are none.
        """
        outcomes: list[Outcome] = []
        if self.stopped:
            return outcomes
        self._start()
        self._pipe.send(task)
        numbers: list[Number] | None = None
        while True:
            message = self._message()
            if isinstance(message, str):
                return (
                    outcomes
                    if self.stopped
                    else outcomes + self._again(task, numbers, outcomes, message)
                )
            if message is None:
                return outcomes
            if isinstance(message, Outcome):
                outcomes.append(message)
            else:
                numbers = message

    def _start(self) -> None:
        if self._process is None:
            self._pipe, theirs = _SPAWN.Pipe()
            self._process = _SPAWN.Process(
                target=_live, args=(self.life, theirs, self.executor), daemon=True
            )
            self._process.start()
            theirs.close()
            if self._pipe.poll(_START_SECONDS):
                try:
                    self._pipe.recv()
                except (EOFError, ConnectionError):
                    return  # as the next message says
                self.ready()

    def _message(self) -> Any:
        """What the process says next, or how it ended."""
        if not self._pipe.poll(self.seconds):
            self.end()
            return f"no answer within {self.seconds:.0f} s"
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            status = self._process.exitcode
            self.end()
            return f"the process ended with status {status}"

    def _again(
        self, task: Task, numbers: list[Number] | None, outcomes: list[Outcome], end: str
    ) -> list[Outcome]:
        """The cases that were not answered when the process ended, in halves."""
        answered = {(o.op, o.dtype, o.number) for o in outcomes}
        left = [n for n in numbers or task.only if n not in answered]
        if len(left) > 1:
            middle = len(left) // 2
            parts = [tuple(left[:middle]), tuple(left[middle:])]
            return [o for part in parts for o in self.run(replace(task, only=part))]
        op, dtype, number = left[0] if left else (*task.pairs[0], -1)
        return [Outcome(op, dtype, number, CRASH, end, f"{op} {dtype} #{number}")]

    def end(self) -> None:
        """Ends the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def stop(self) -> None:
        """Ends the process from another thread than the one that waits for it, for good."""
        self.stopped = True
        if self._process is not None:
            self._process.kill()


def run_tasks(
    tasks: Sequence[Task],
    executor: str,
    workers: int,
    seconds: float,
    limit: float = 0.0,
    life: Life = serve,
) -> Iterator[tuple[Task, list[Outcome]]]:
    """Every task with its outcomes, in the order in which they finish.

    Args:
        tasks: What to run.
        executor: A name that tests.conformance.executors knows; any other stops at the lowering.
        workers: Processes at once.
        seconds: A process that says nothing for longer counts as hung.
        limit: Seconds from the first worker's start after which no more is waited for; tasks under
            way give what was answered by then. 0: as long as it takes.
        life: What a worker does.
    """
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    lock = Lock()

    def ready() -> None:
        with lock:
            if limit and timer.ident is None:
                timer.start()

    team = [_Worker(executor, seconds, life, ready) for _ in range(workers)]
    for worker in team:
        idle.put(worker)

    def run(task: Task) -> tuple[Task, list[Outcome]]:
        worker = idle.get()
        try:
            return task, worker.run(task)
        finally:
            idle.put(worker)

    def stop() -> None:
        for worker in team:
            worker.stop()

    timer = Timer(limit, stop)
    timer.daemon = True
    with ThreadPoolExecutor(workers) as threads:
        try:
            for future in as_completed([threads.submit(run, task) for task in tasks]):
                yield future.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            timer.cancel()
            stop()
