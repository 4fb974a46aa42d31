"""What makes `import torch` shorter in a process of our own.

torch's library, hundreds of megabytes, is linked by the system, which needs nothing of Python: a
fifth of the import's time, beside what Python imports ahead of torch. `import torch` finds it, or
waits for it. The system links one library at a time, so small ones that Python asks for meanwhile
would wait for torch's: they come first.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import inspect
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any
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

_LINKED = (
    *"asyncio cmath decimal hashlib mmap queue random shutil statistics unicodedata uuid".split(),
    *("numpy", "ml_dtypes", "aot_runtime"),
)
"""Modules whose imports link what the command imports ahead of torch."""

_FIRST_ASKED_FOR_BY_A_BUILD = (
    "sympy.tensor.tensor",  # every sum asks whether it is one of tensors
    "torch._export.passes._node_metadata_hook",
    "torch._export.passes.replace_autocast_with_hop_pass",
    "torch._export.passes.replace_set_grad_with_hop_pass",
    "torch._export.passes.replace_with_hop_pass_util",
    "torch._inductor.compiler_bisector",
    "torch._inductor.fx_passes.dedupe_symint_uses",
    "torch._inductor.sizevars",
    "torch._subclasses.schema_check_mode",
    "torch.fx.experimental.validator",
)
"""Modules that sympy and torch import amid every build, as torch 2.13 has them."""


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
    for name in _LINKED:
        with suppress(ImportError):  # told where it is needed
            importlib.import_module(name)
    thread = threading.Thread(target=_load, args=(folder,), name="torch-library", daemon=True)
    thread.start()
    return thread


def import_what_builds_ask_for() -> None:
    """Imports what each build would, so that forks of this process, one a build, have it.

    Another version of torch that has no such module asks for others, or for none.
    """
    for name in _FIRST_ASKED_FOR_BY_A_BUILD:
        with suppress(ImportError):
            importlib.import_module(name)


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
    """Within, nobody reads sources to find what is known, or what only a cache of torch's wants.

    Who asks where a frame is and does not say how much of its text is wanted gets none: torch asks
    for a hundred places of its own while it is imported, and keeps file and line. Whose module a
    frame is, its names say: to find it, `inspect` looks where all modules' files are. And the
    sources of torch's modules of settings are empty: in them it looks for comments that say which
    setting is no part of a key for its compiler.
    """
    found, module, source = inspect.getframeinfo, inspect.getmodule, inspect.getsource

    def place(frame: FrameType | TracebackType, context: int = 0) -> inspect.Traceback:
        return found(frame, context)

    def module_of(thing: object, filename: str | None = None) -> ModuleType | None:
        own = (
            sys.modules.get(thing.f_globals.get("__name__", ""))
            if isinstance(thing, FrameType)
            else None
        )
        return own or module(thing, filename)

    def text_of(thing: Any) -> str:
        settings = isinstance(thing, ModuleType) and thing.__name__.startswith("torch.")
        return "" if settings else source(thing)

    with ExitStack() as patched:
        for name, function in (
            ("getframeinfo", place),
            ("getmodule", module_of),
            ("getsource", text_of),
        ):
            patched.enter_context(mock.patch.object(inspect, name, function))
        yield
