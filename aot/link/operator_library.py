"""Shared objects with custom operators that a package carries: read, and asked what they hold."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aot.errors import UsageError
from aot.ir.flow import Call, items_of
from aot.ir.kernels import KernelGraph

_ABI_VERSION = 1
_INIT = "aot_operator_library_init"
_ADVICE = (
    f"Give a shared object for this machine that exports {_INIT} (aot/operator_abi.h); "
    "docs/custom-operators.md has an example."
)


@dataclass(frozen=True)
class OperatorCode:
    """One library. `operators`: the names that it registers, sorted."""

    name: str
    data: bytes
    operators: tuple[str, ...]


def read_libraries(paths: Sequence[Path]) -> tuple[OperatorCode, ...]:
    """The libraries at these paths, each loaded into this process to ask for its operators.

    Raises:
        UsageError: A file cannot be loaded, does not serve operators, or two have one name.
    """
    libraries = tuple(_read(path) for path in paths)
    names = [library.name for library in libraries]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"two operator libraries are called {twice[0]}", advice="Rename one of the files."
        )
    return libraries


def used_libraries(
    graph: KernelGraph, libraries: Sequence[OperatorCode]
) -> tuple[OperatorCode, ...]:
    """The libraries with an operator that the graph calls."""
    called = {item.name for item in items_of(graph.flow) if isinstance(item, Call)}
    return tuple(library for library in libraries if called.intersection(library.operators))


def _read(path: Path) -> OperatorCode:
    try:
        data = path.read_bytes()
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise UsageError(
            f"cannot load the operator library: {error}", where=path, advice=_ADVICE
        ) from error
    if not hasattr(library, _INIT):
        raise UsageError(f"the library does not export {_INIT}", where=path, advice=_ADVICE)
    found: list[str] = []
    result = getattr(library, _INIT)(ctypes.byref(_registry(found)))
    if result != 0:
        raise UsageError(
            f"{_INIT} gave {result} for version {_ABI_VERSION} of the operators' interface",
            where=path,
            advice="Build the library with the headers of this version.",
        )
    if not found:
        raise UsageError("the library registers no operator", where=path, advice=_ADVICE)
    return OperatorCode(path.name, data, tuple(sorted(set(found))))


_Add = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)


class _Registry(ctypes.Structure):
    """`aot_operator_registry` of aot/operator_abi.h."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("abi_version", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("add", _Add),
    )


def _registry(found: list[str]) -> _Registry:
    """A registry that keeps the names alone."""

    def add(_registry: int, name: bytes | None, function: int, _user: int, _release: int) -> int:
        if not name or not function:
            return 1
        found.append(name.decode("utf-8", "replace"))
        return 0

    return _Registry(ctypes.sizeof(_Registry), _ABI_VERSION, None, _Add(add))
