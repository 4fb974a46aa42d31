"""Commands that a process does which has stayed are those that they would do themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aot import resident
from aot.resident import imported_files

MODEL = """
import os, random
import torch
from pathlib import Path
print("working", os.getppid(), os.getcwd(), os.environ.get("PWD"), random.random(), flush=True)
model = torch.nn.Softmax(-1)
example_inputs = (torch.ones(2, WIDTH),)
"""
SECONDS = 120
"""What a command may take on a machine under load."""


class Commands:
    """`aot-package` in a folder, with a cache of its own and of processes that stay."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        headers = Path(os.environ["AOT_CACHE_DIR"]) / "cpp"
        headers.mkdir(parents=True, exist_ok=True)
        self.cache = folder / ("cache" * 20)  # longer than the address of a socket may be
        self.cache.mkdir()
        (self.cache / "cpp").symlink_to(headers)

    def start(self, *more: str, stay: str = "100", **variables: str) -> subprocess.Popen[str]:
        own = {"AOT_CACHE_DIR": str(self.cache), "AOT_STAY": stay}
        command = [sys.executable, "-m", "aot", "model.py", "--target", "cpu:x86-64-v2", *more]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, **own, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *more: str, stay: str = "100", **variables: str) -> tuple[int, str, str]:
        with self.start(*more, stay=stay, **variables) as process:
            out, err = process.communicate(timeout=SECONDS)
        return process.returncode, out, err

    def sockets(self) -> list[Path]:
        return list((self.cache / "resident").glob("*"))

    def end(self) -> None:
        """Who stays ends when its socket has gone."""
        for path in self.sockets():
            path.unlink()


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    made = Commands(tmp_path)
    write(made, 8)
    yield made
    made.end()


def write(commands: Commands, width: object) -> None:
    (commands.folder / "model.py").write_text(MODEL.replace("WIDTH", str(width)))


def parent_of(out: str) -> str:
    """The process that forked the one that ran the model."""
    return next(line.split()[1] for line in out.splitlines() if line.startswith("working"))


def drawn_in(out: str) -> str:
    """The number that the model has drawn."""
    return next(line.split()[-1] for line in out.splitlines() if line.startswith("working"))


@pytest.mark.slow
def test_the_next_command_is_done_by_a_fork_of_what_stayed(commands: Commands) -> None:
    code, first, _ = commands.run("-o", "a.pkg")
    assert code == 0
    assert parent_of(first) == str(os.getpid())
    code, second, err = commands.run("-o", "b.pkg", PWD="/elsewhere")
    assert code == 0, err
    stayed = parent_of(second)
    assert stayed != str(os.getpid())
    assert f"{commands.folder} /elsewhere" in second
    # A package is that of a command of its own, and the random numbers are nobody else's.
    assert (commands.folder / "a.pkg").read_bytes() == (commands.folder / "b.pkg").read_bytes()
    _, third, _ = commands.run("-o", "b.pkg")
    assert parent_of(third) == stayed
    assert drawn_in(second) != drawn_in(third)
    # The model as it is now; its errors are ours.
    write(commands, "2 + 'a'")
    code, out, err = commands.run("-o", "b.pkg")
    assert (code, parent_of(out)) == (3, stayed)
    assert "error[MODEL_FILE]" in err
    # Another environment is another process.
    write(commands, 8)
    code, other, _ = commands.run("-o", "b.pkg", SOMETHING="else")
    assert code == 0
    assert parent_of(other) == str(os.getpid())
    # Nobody is asked who was not asked for, and nobody stays.
    _, own, _ = commands.run("-o", "b.pkg", stay="0")
    assert parent_of(own) == str(os.getpid())
    assert len(commands.sockets()) == 2
    code, _, err = commands.run("-o", "b.pkg", stay="long")
    assert code == 2
    assert "AOT_STAY must be a number" in err


@pytest.mark.slow
def test_an_interrupt_reaches_who_works(commands: Commands) -> None:
    assert commands.run("-o", "a.pkg")[0] == 0
    text = (commands.folder / "model.py").read_text()
    (commands.folder / "model.py").write_text(text + "import time\ntime.sleep(100)\n")
    with commands.start("-o", "b.pkg") as process:
        assert process.stdout is not None
        assert parent_of(process.stdout.readline()) != str(os.getpid())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "interrupted" in err


@pytest.mark.slow
def test_who_works_for_nobody_ends(commands: Commands) -> None:
    assert commands.run("-o", "a.pkg")[0] == 0
    text = (commands.folder / "model.py").read_text()
    said = "print('pid', os.getpid(), flush=True)\nimport time\ntime.sleep(100)\n"
    (commands.folder / "model.py").write_text(text + said)
    with commands.start("-o", "b.pkg") as process:
        assert process.stdout is not None
        process.stdout.readline()
        worker = int(process.stdout.readline().split()[1])
        process.kill()
    end = time.monotonic() + SECONDS
    while Path(f"/proc/{worker}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists()


def test_a_file_that_was_imported_is_one_that_must_not_change(tmp_path, monkeypatch):
    module = tmp_path / "imported_here.py"
    module.write_text("A = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("imported_here")
    before = imported_files(time.time_ns() + 10**9)
    assert str(module) in before
    assert any(path.endswith(".so") or ".so." in path for path in before)
    assert str(Path(resident.__file__).parent / "backends/triton/tuning.json") in before
    assert imported_files(time.time_ns() + 10**9) == before
    # What is newer than the process may have been read as it was before.
    assert imported_files(0)[str(module)] == (0, 0)
    module.write_text("A = 22\n")
    assert imported_files(time.time_ns() + 10**9)[str(module)] != before[str(module)]


def test_whatever_a_process_has_from_its_beginning_is_in_its_name(monkeypatch):
    first = resident.place_of_this_command()
    others = [first]
    monkeypatch.setenv("PWD", "/elsewhere")  # a command brings its own
    assert resident.place_of_this_command() == first
    for module, name, value in (
        (resident, "COMPILER", "another"),
        (sys, "version", "3.99"),
        (sys, "orig_argv", ["python", "-O", *sys.argv]),
        (sys, "path", [*sys.path, "/more"]),
        (os, "getuid", lambda: 77),
        (os, "getgid", lambda: 77),
        (os, "getgroups", lambda: [77]),
        (os, "nice", lambda by: 7),
        (os, "sched_getaffinity", lambda process: {77}),
        (Path, "readlink", lambda path: Path("other")),
        (resident.resource, "getrlimit", lambda limit: (7, 7)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            others.append(resident.place_of_this_command())
    monkeypatch.setenv("SOMETHING", "else")
    others.append(resident.place_of_this_command())
    assert len(set(others)) == len(others)
