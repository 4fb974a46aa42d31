"""A process that stays after a command, with torch and the compiler imported, for the next ones.

Importing them takes longer than all else of packaging a small model, or of packaging a large one
again. Where `AOT_STAY` says for how many seconds, a command leaves a fork of itself behind, as it
is before it has run any code of the model's; the next one has a fork of that do its work. What a
fork leaves in memory is found by nobody. A command is served only by a process that is as it would
be itself: of the same Python, environment and limits, with every file that was imported as it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from types import FrameType

from aot import options
from aot.ahead import Told, fork_ahead, receive, send
from aot.errors import UsageError
from aot.torch_library import NO_TORCH
from aot.version import COMPILER
from aot.watching import State, state_of

KEPT = 2
"""How many processes stay, at most: those for other environments end when newer ones come."""

_CHANGING = ("PWD", "OLDPWD", "SHLVL", "_")
"""Variables that tell of the shell: a command brings its own, and they change nothing else."""

_LOST = 70
"""The exit code where the process that works for us ends and says nothing."""

_LOOK = 5.0
"""Seconds between two looks whether the socket is still ours."""

_STARTING = 10**9
"""Nanoseconds that Python takes at most to get here."""


def place_of_this_command() -> Path:
    """The socket of a process for commands like this one.

    By all that it was given, but for its arguments and its folder.
    """
    own = hashlib.sha256(json.dumps(_identity()).encode()).hexdigest()
    folder = options.default_cache_dir(options.environment()) / "resident"
    return folder / own[:24]


@contextmanager
def _address(place: Path) -> Iterator[str]:
    """The same place by a path that a socket's address has room for."""
    folder = os.open(place.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{place.name}"
    finally:
        os.close(folder)


def _identity() -> list[object]:
    """What a process has from its beginning, and cannot take over from another."""
    arguments = len(sys.argv) - 1
    limits = [k for k in dir(resource) if k.startswith("RLIMIT_")]
    return [
        COMPILER,
        sys.version,
        sys.orig_argv[: len(sys.orig_argv) - arguments],
        sys.path,
        sorted((k, v) for k, v in options.everything_set().items() if k not in _CHANGING),
        [os.getuid(), os.getgid(), *os.getgroups()],
        [resource.getrlimit(getattr(resource, k)) for k in limits],
        sorted(os.sched_getaffinity(0)),
        os.nice(0),
        *(str(path.readlink()) for path in sorted(Path("/proc/self/ns").iterdir())),
        Path("/proc/self/cgroup").read_text(encoding="utf-8"),
    ]


def ask(place: Path) -> int | None:
    """Has the command done by the process that stayed; its exit code.

    None: there is none, or it is not as this one would be. Nothing was done then.
    """
    mask = os.umask(0)
    os.umask(mask)
    changing = {k: v for k, v in options.everything_set().items() if k in _CHANGING}
    told = json.dumps({"argv": sys.argv, "umask": mask, "environment": changing}).encode()
    with socket.socket(socket.AF_UNIX) as way, suppress(OSError):
        with _address(place) as address:
            way.connect(address)
        if not _is_ours(way):
            return None
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            send(way, told, (folder, 0, 1, 2))
        finally:
            os.close(folder)
        begun = receive(way)
        return None if begun is None else _followed(way, int(begun.data))
    return None


def _is_ours(way: socket.socket) -> bool:
    """Whether this user is on the other side."""
    found = way.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", found)[1] == os.getuid())


def _followed(way: socket.socket, process: int) -> int:
    """The exit code of the process that works for us, which gets our interrupts."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(process, number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    with suppress(OSError):
        ended = receive(way)
        if ended is not None:
            return int(ended.data)
    print("error: the process that packaged for this command has ended", file=sys.stderr)
    return _LOST


@dataclass(frozen=True)
class Stay:
    """What a command leaves behind.

    `inherited`: what was open before it. `began`: when that was, in nanoseconds since the epoch.
    """

    place: Path
    seconds: float
    inherited: frozenset[int]
    began: int

    def leave_behind(self) -> Callable[[int], None] | None:
        """Forks the process that stays; None in the command itself.

        In a process that works for a later command this returns as well, with that command's
        arguments, folder and files: a function that tells its exit code, to be called at the end.
        """
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        try:
            door = _listening(self.place)  # before this command ends, and the next one comes
        except OSError:
            return None  # the cache cannot be written to
        if os.fork():
            door.close()
            return None
        way = None
        try:
            way = _serve(self, door)
        finally:
            if way is None:
                os._exit(1)  # whatever it is, the command's work is done elsewhere
        return lambda code: _tell(way, code)


def begun(arguments: Sequence[str]) -> Stay | None:
    """What is to stay after this command, as the environment asks, if the command imports torch.

    Ends the process where one that has stayed has done the command.
    """
    if not arguments or arguments[0] in NO_TORCH or "--watch" in arguments:
        return None
    try:
        seconds = options.seconds_to_stay(options.environment())
    except UsageError:
        return None  # told where other options are read
    if not seconds or None in (sys.stdin, sys.stdout, sys.stderr):
        return None
    began, place = time.time_ns() - _STARTING, place_of_this_command()
    code = ask(place)
    if code is not None:
        os._exit(code)
    found = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    # But for the one by which they were listed.
    inherited = frozenset(n for n in found if Path(f"/proc/self/fd/{n}").exists())
    return Stay(place, seconds, inherited, began)


def _serve(stay: Stay, door: socket.socket) -> socket.socket:
    """Serves until nobody has come for long, and never returns but in forks that serve somebody."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    for descriptor in {null, *stay.inherited} - {0, 1, 2}:
        with suppress(OSError):
            os.close(descriptor)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    files = imported_files(stay.began)
    with door:
        inode = stay.place.stat().st_ino
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are nobody's to wait for
        while True:
            fork = fork_ahead()
            if isinstance(fork, Told):
                door.close()
                return _begin(fork)
            way = _next(door, stay, inode)
            if way is None or any(state_of(path) != state for path, state in files.items()):
                os._exit(0)
            with way, suppress(OSError):  # a fork that has ended: who asks does it alone
                fork.tell(b"", [way.fileno()])


def _next(door: socket.socket, stay: Stay, inode: int) -> socket.socket | None:
    """Who comes next, of this user's; None when it is time to end."""
    left = stay.seconds
    while left > 0:
        if select.select([door], [], [], min(_LOOK, left))[0]:
            way, _ = door.accept()
            if _is_ours(way):
                return way
            way.close()
        left -= _LOOK
        with suppress(OSError):
            if stay.place.stat().st_ino == inode:
                continue
        return None
    with suppress(OSError):
        stay.place.unlink()
    return None


def _listening(path: Path) -> socket.socket:
    """The socket, which is this user's alone; older ones but for a few go, and end their owners."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    made = path.with_name(f"{path.name}.{os.getpid()}")
    door = socket.socket(socket.AF_UNIX)
    with _address(made) as address:
        door.bind(address)
    door.listen()
    made.replace(path)
    found = sorted((other.stat().st_mtime_ns, other) for other in path.parent.iterdir())
    for _, other in found[:-KEPT]:
        other.unlink(missing_ok=True)
    return door


def imported_files(began: int) -> Mapping[str, State]:
    """What this process is made of: files of modules and libraries, and where others may be put.

    A file that has changed since then, `began` in nanoseconds, may have been read before: it counts
    as changed already.
    """
    modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    with Path("/proc/self/maps").open(encoding="utf-8") as maps:
        mapped = {line.split(maxsplit=5)[-1].strip() for line in maps if line.count("/")}
    own = (str(path) for path in Path(__file__).parent.rglob("*") if path.suffix != ".pyc")
    places = (path for path in sys.path if path.endswith("-packages"))
    paths = {*filter(None, modules), *mapped, *own, *places}
    states = {path: state_of(path) for path in paths if path.startswith("/")}
    return {
        path: state if state is None or state[0] < began else (0, 0)
        for path, state in states.items()
        if "__pycache__" not in path and not path.startswith(("/dev/", "/proc/", "/sys/"))
    }


def _begin(fork: Told) -> socket.socket:
    """Becomes the command that asks."""
    way = socket.socket(fileno=fork.descriptors[0])
    asked = receive(way)
    if asked is None:
        os._exit(0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder, *streams = asked.descriptors
    os.fchdir(folder)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in asked.descriptors:
        os.close(descriptor)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())  # as Python begins with it
    text = json.loads(asked.data)
    os.umask(text["umask"])
    options.set_anew(text["environment"], _CHANGING)
    sys.argv[:] = text["argv"]
    random.seed()
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()
    send(way, b"%d" % os.getpid())
    threading.Thread(target=_end_with, args=(way,), daemon=True).start()
    return way


def _end_with(way: socket.socket) -> None:
    """Interrupts this process when the command that it works for is not there any more."""
    with suppress(OSError):
        if not way.recv(1):
            os.kill(os.getpid(), signal.SIGINT)


def _tell(way: socket.socket, code: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who is told leaves, and we end anyway
    with suppress(OSError):
        send(way, b"%d" % code)
