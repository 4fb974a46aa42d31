"""Runs requests in several worker processes; one that fails says why and is replaced."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

PROGRAM = Path(__file__).with_name("worker.py")
TIME_LIMIT_S = 600.0
_STOP_S = 30.0
_SHOWN = 6000


@dataclass(frozen=True)
class Failure:
    """Why a worker gave no answer: what it printed, or how it ended."""

    reason: str


Answer = dict[str, Any] | Failure


def answer_all(
    requests: Sequence[Mapping[str, Any]],
    environment: Mapping[str, str],
    jobs: int,
    limit_s: float = TIME_LIMIT_S,
    ready: Callable[[], Worker | None] = lambda: None,
) -> list[Answer]:
    """The answer to each request, in order, from up to `jobs` processes.

    Args:
        requests: What worker.py reads, as values of JSON.
        environment: The variables of the processes, all but the folder of Triton's cache.
        jobs: Processes at once.
        limit_s: Seconds after which a request is given up.
        ready: Gives one that has begun already, in these surroundings, where there is one.
    """
    waiting = deque(range(len(requests)))
    answers: dict[int, Answer] = {}

    def serve(_: int) -> None:
        worker = ready() or Worker(environment, limit_s)
        try:
            while waiting:
                try:
                    index = waiting.popleft()
                except IndexError:  # another thread took the last one
                    return
                answers[index] = worker.ask(requests[index])
        finally:
            worker.stop()

    count = min(jobs, len(requests))
    if count:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(serve, range(count)))
    return [answers[index] for index in range(len(requests))]


class Worker:
    """One process, started when first asked, if not before, and again after a failure."""

    def __init__(self, environment: Mapping[str, str], limit_s: float = TIME_LIMIT_S) -> None:
        self.environment = environment
        self._limit_s = limit_s
        self._process: subprocess.Popen[str] | None = None
        self._said: IO[str] | None = None
        self._folder = ""

    def ask(self, request: Mapping[str, Any]) -> Answer:
        """The process's answer, or why there is none."""
        process = self._process or self.start()
        assert process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._limit_s, give_up)
        timer.start()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        if late.is_set():
            self.stop()
            return Failure(f"the compiler was stopped after {self._limit_s:g} s")
        return Failure(self._last_words())

    def drop(self) -> None:
        """Ends a process that has nothing to do, without waiting for what it imports."""
        if self._process is not None:
            self._process.kill()
        self.stop()

    def stop(self) -> None:
        """Ends the process, if there is one, and forgets what it said."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        if self._said is not None:
            self._said.close()
            self._said = None
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    def start(self) -> subprocess.Popen[str]:
        """Starts the process, which imports Triton."""
        # Triton's own cache is of no use to us, and must not fill the user's home.
        self._folder = tempfile.mkdtemp(prefix="aot-triton-")
        self._said = tempfile.TemporaryFile(  # noqa: SIM115  `stop` closes it
            "w+", encoding="utf-8", errors="replace"
        )
        # -P: the worker's own folder has modules of common names, which nobody shall import.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**self.environment, "TRITON_CACHE_DIR": self._folder},
            text=True,
            encoding="utf-8",
        )
        return self._process

    def _last_words(self) -> str:
        process, said = self._process, self._said
        assert process is not None and said is not None
        status = process.wait()
        said.seek(0)
        text = said.read().strip()[-_SHOWN:]
        self.stop()
        how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
        return text if status == 1 and text else f"{text}\nthe compiler ended: {how}".strip()
