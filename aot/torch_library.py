"""What makes `import torch` shorter in a process of our own.

torch's library, hundreds of megabytes, is linked by the system, which needs nothing of Python: a
fifth of the import's time, beside what Python imports ahead of torch. `import torch` finds it, or
waits for it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from unittest import mock

NO_TORCH = frozenset(
    "inspect plan run verify bench compare keygen sign ops --help -h --version".split()
)
"""First words of command lines that import no torch."""

# As torch itself, and in its order: what other libraries find by name, then its own.
_LIBRARIES = (
    ("libtorch_global_deps.so", os.RTLD_NOW | os.RTLD_GLOBAL),
    ("libtorch_cpu.so", os.RTLD_NOW | os.RTLD_LOCAL),
)


def load_ahead(arguments: Sequence[str]) -> threading.Thread | None:
    """Loads what `import torch` will, in a thread, where the command line is one that imports it.

    Nothing is told of a library that cannot be loaded: `import torch` will say so.
    """
    if not arguments or arguments[0] in NO_TORCH:
        return None
    folder = _folder()
    # A build for CUDA looks for NVIDIA's libraries first, in places that torch knows.
    if folder is None or (folder / "libtorch_cuda.so").exists():
        return None
    thread = threading.Thread(target=_load, args=(folder,), name="torch-library", daemon=True)
    thread.start()
    return thread


def _folder() -> Path | None:
    found = importlib.util.find_spec("torch")
    places = found.submodule_search_locations if found else None
    return Path(places[0]) / "lib" if places else None


def _load(folder: Path) -> None:
    # Called as a C function, which lets other threads use Python meanwhile; `ctypes.CDLL` does not.
    load = ctypes.CDLL(None).dlopen
    load.argtypes, load.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    for name, how in _LIBRARIES:
        load(os.fsencode(folder / name), how)


@contextmanager
def no_source_read() -> Iterator[None]:
    """Within, who asks where a frame is and does not say how much of its text is wanted gets none.

    torch asks for a hundred places of its own while it is imported, and keeps file and line: to
    find the text, `inspect` looks at all modules there are and reads the files.
    """
    found = inspect.getframeinfo

    def place(frame: FrameType | TracebackType, context: int = 0) -> inspect.Traceback:
        return found(frame, context)

    with mock.patch.object(inspect, "getframeinfo", place):
        yield
