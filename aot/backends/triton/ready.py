"""Compilers that import Triton while the model is captured, for when there is a kernel to compile.

Importing takes as long as compiling a kernel, and after a change of a model there are few.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from aot.backends.triton.workers import Worker

Environment = Mapping[str, str]


class Ready:
    """Processes that have begun, and nobody has asked yet.

    They are this process's own: a fork of it finds none. Whoever is done with compiling drops those
    that are left, as does the end of the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Worker] = []
        self._wanted = 0
        self._process = 0
        atexit.register(self.drop)

    def start(self, environment: Callable[[], Environment | None], count: int) -> threading.Thread:
        """Begins so many, less what is there, in a thread; none where there is no environment."""
        if self._process != os.getpid():
            # What was there is of the process that this is a fork of, as may be who holds the lock.
            self._lock, self._waiting, self._process = threading.Lock(), [], os.getpid()
        self._wanted = count
        thread = threading.Thread(target=self._begin, args=(environment,), daemon=True)
        thread.start()
        return thread

    def _begin(self, environment: Callable[[], Environment | None]) -> None:
        variables = environment()
        while variables is not None:
            with self._lock:
                if len(self._waiting) >= self._wanted:
                    return
                worker = Worker(variables)
                with suppress(OSError):  # told when one is started to compile
                    worker.start()
                self._waiting.append(worker)

    def take(self, environment: Environment) -> Worker | None:
        """One that runs in this environment, which is the caller's from now on."""
        if self._process != os.getpid():
            return None
        with self._lock:
            self._wanted = 0  # compiling has begun: who comes later starts those that it needs
            for worker in self._waiting:
                if worker.environment == environment:
                    self._waiting.remove(worker)
                    return worker
        return None

    def drop(self) -> None:
        """Ends all that nobody has taken."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._wanted = 0
            dropped, self._waiting = self._waiting, []
        for worker in dropped:
            worker.drop()


READY = Ready()
