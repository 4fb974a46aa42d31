"""Compilers that begin before there is a kernel to compile: who gets them, and how they end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aot.backends.triton import compile as compile_module
from aot.backends.triton import workers
from aot.backends.triton.backend import TritonBackend
from aot.backends.triton.compile import compile_kernels, surroundings
from aot.backends.triton.ready import READY, Ready
from aot.backends.triton.toolchain import find_triton
from aot.options import BuildOptions, parse_target
from tests.backends.triton.kernels import add

HERE = {"PATH": os.environ["PATH"]}


@pytest.fixture
def ready() -> Iterator[Ready]:
    made = Ready()
    yield made
    made.drop()


def begun(ready: Ready, count: int, environment: dict[str, str] | None = HERE) -> None:
    ready.start(lambda: environment, count).join()


def starts(monkeypatch: pytest.MonkeyPatch) -> list[workers.Worker]:
    """The workers that are started from now on, which do not start."""
    started: list[workers.Worker] = []

    def start(self: workers.Worker) -> None:
        started.append(self)

    monkeypatch.setattr(workers.Worker, "start", start)
    return started


def test_who_compiles_in_the_same_surroundings_takes_one(ready: Ready) -> None:
    begun(ready, 2)
    assert ready.take({**HERE, "CPATH": "elsewhere"}) is None
    first, second = ready.take(dict(HERE)), ready.take(HERE)
    assert first is not None and second is not None and first is not second
    assert ready.take(HERE) is None
    for worker in (first, second):
        worker.drop()


def test_none_begins_when_compiling_has(ready: Ready) -> None:
    begun(ready, 1, environment=None)  # Triton is not there
    assert ready.take(HERE) is None
    ready.start(lambda: ready.take(HERE) or HERE, 1).join()  # compiling begins meanwhile
    assert ready.take(HERE) is None


def test_there_are_never_more_than_were_asked_for(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = starts(monkeypatch)
    for count in (1, 1, 2):
        begun(ready, count)
    assert len(started) == 2


def test_a_fork_finds_none(ready: Ready, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(ready, 1)
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: 0)
        assert ready.take(HERE) is None
        ready.drop()  # of its own
    worker = ready.take(HERE)
    assert worker is not None
    worker.drop()


def test_what_nobody_takes_ends_at_once_and_leaves_nothing(
    ready: Ready, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.tempfile, "tempdir", str(tmp_path))
    begun(ready, 1)
    (worker,) = ready._waiting
    process = worker._process
    assert process is not None and list(tmp_path.iterdir())
    ready.drop()
    assert process.poll() is not None and not list(tmp_path.iterdir())


def test_a_build_compiles_by_what_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    target = parse_target("cuda:sm_90")
    alone = compile_kernels([add()], "sm_90", 1, None)
    threads = []
    own = compile_module.READY.start
    monkeypatch.setattr(READY, "start", lambda *args: threads.append(own(*args)))
    TritonBackend().begin(target, BuildOptions(targets=(target,), jobs=2))
    threads[0].join()
    (worker,) = READY._waiting
    process = worker._process
    started = starts(monkeypatch)
    assert compile_kernels([add()], "sm_90", 1, None) == alone
    assert not started and process is not None and process.poll() == 0
    assert worker.environment == surroundings(find_triton("sm_90"))


def test_a_compiler_whose_owner_is_gone_ends_and_leaves_nothing(
    ready: Ready, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.tempfile, "tempdir", str(tmp_path))
    begun(ready, 1)
    (worker,) = ready._waiting
    process = worker._process
    assert process is not None and process.stdin is not None and list(tmp_path.iterdir())
    process.stdin.close()  # as the system does it then
    assert process.wait(60) == 0
    assert not list(tmp_path.iterdir())
