"""A model is packaged again when a file that went into it changes, and for nothing else."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from aot_runtime.format.reader import PackageFile

from aot.watching import Reads, first_change, state_of

MODEL = """
from pathlib import Path
import torch
from neighbour import WIDTH
model = torch.nn.Softmax(-1)
example_inputs = (torch.ones(int(Path(__file__).with_name("rows.txt").read_text()), WIDTH),)
"""
SECONDS = 120
"""What a build may take on a machine under load."""


class Watching:
    """The command, and what it says."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "model.pkg"
        command = [sys.executable, "-m", "aot", str(folder / "model.py"), "--watch"]
        command += ["-o", str(self.package), "--target", "cpu:x86-64-v2"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=folder
        )
        self._lines: queue.Queue[str] = queue.Queue()
        assert self.process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stderr,))
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._lines.put(line)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def until(self, begin: str) -> list[str]:
        """What it says up to a line that begins so."""
        lines = [self._lines.get(timeout=SECONDS)]
        while not lines[-1].startswith(begin):
            lines.append(self._lines.get(timeout=SECONDS))
        return lines

    def shape(self) -> list[int]:
        with PackageFile(self.package) as package:
            return [int(str(size)) for size in package.plan.inputs[0].shape]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "neighbour.py").write_text("WIDTH = 8\n")
    (tmp_path / "rows.txt").write_text("2")
    return tmp_path


@pytest.fixture
def watching(folder: Path) -> Iterator[Watching]:
    made = Watching(folder)
    yield made
    made.end()


def test_each_change_makes_the_package_again(watching: Watching, folder: Path) -> None:
    watching.until("watching")
    assert watching.shape() == [2, 8]
    (folder / "rows.txt").write_text("30")
    assert watching.until("changed")[-1].split() == ["changed:", str(folder / "rows.txt")]
    watching.until("watching")
    assert watching.shape() == [30, 8]
    (folder / "neighbour.py").write_text("WIDTH = 'a word'\n")
    assert any("error[MODEL_FILE]" in line for line in watching.until("watching"))
    assert watching.shape() == [30, 8]  # the last one that could be made
    (folder / "neighbour.py").write_text("WIDTH = 16\n")
    watching.until("watching")
    assert watching.shape() == [30, 16]
    watching.process.send_signal(signal.SIGTERM)
    assert watching.process.wait(SECONDS) == 130


def test_files_that_are_read_are_told_as_they_were_then(tmp_path: Path) -> None:
    read, written, changed = (tmp_path / name for name in ("read", "written", "changed"))
    for path in (read, changed):
        path.write_text("a")
    reads = Reads(frozenset(sys.modules))
    for path, flags in ((read, os.O_RDONLY), (written, os.O_WRONLY), (changed, os.O_RDONLY)):
        reads.hear("open", (str(path), None, flags))
    for event in ("open", "import"):
        reads.hear(event, (3, None, 0))
    before = state_of(str(changed))
    changed.write_text("longer")
    written.write_text("a")
    assert reads.files() == {str(changed): before, str(read): state_of(str(read))}
    assert first_change(reads.files()) == str(changed)


def test_what_is_installed_and_what_has_gone_is_not_told(tmp_path: Path) -> None:
    reads = Reads(frozenset(set(sys.modules) - {"json", "pytest"}))
    reads.hear("open", (str(tmp_path / "gone"), None, os.O_RDONLY))
    reads.hear("open", (__file__.replace(".py", ".pyc"), None, os.O_RDONLY))
    assert not reads.files()
    reads.hear("open", (__file__, None, os.O_RDONLY))
    assert list(reads.files()) == [__file__]
