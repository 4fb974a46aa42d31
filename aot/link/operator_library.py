"""Shared objects with custom operators that a package carries: read, and asked what they hold."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aot.errors import UsageError
from aot.ir.flow import CustomCall, items_of
from aot.ir.kernels import KernelGraph
from aot.ir.tensors import OperatorCall
from aot.options import DEVICES, HOST, Target

HOST_LIBRARY = "host_calls.so"
"""What programs for devices call on the host is the compiler's own library of this name."""

_ABI_VERSION = 1
_INIT = "aot_operator_library_init"
_ADVICE = (
    f"Give a shared object for this machine that exports {_INIT} (aot/operator_abi.h); "
    "docs/custom-operators.md has an example."
)


@dataclass(frozen=True)
class OperatorCode:
    """One library. `operators`: what it registers, names with kinds of devices, sorted."""

    name: str
    data: bytes
    operators: tuple[tuple[str, str], ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """The kinds of devices that it has code for, sorted."""
        return tuple(sorted({device for _, device in self.operators}))

    def devices_of(self, operator: str) -> tuple[str, ...]:
        """The kinds of devices that it has an operator's code for."""
        return tuple(device for name, device in self.operators if name == operator)


def read_libraries(paths: Sequence[Path]) -> tuple[OperatorCode, ...]:
    """The libraries at these paths, each loaded into this process to ask for its operators.

    Raises:
        UsageError: A file cannot be loaded, does not serve operators, or two have one name, which
            the compiler's own has as well.
    """
    libraries = tuple(_read(path) for path in paths)
    names = [HOST_LIBRARY, *(library.name for library in libraries)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"two operator libraries are called {twice[0]}", advice="Rename one of the files."
        )
    return libraries


def used_libraries(
    graph: KernelGraph, device: str, libraries: Sequence[OperatorCode]
) -> tuple[OperatorCode, ...]:
    """The libraries with code for a kind of device of an operator that the graph calls."""
    called = {(item.name, device) for item in items_of(graph.flow) if isinstance(item, CustomCall)}
    return tuple(library for library in libraries if called.intersection(library.operators))


def require_code(
    calls: Sequence[OperatorCall], target: Target, libraries: Sequence[OperatorCode]
) -> None:
    """Every call finds code for the target in a library.

    Raises:
        UsageError: Some do not.
    """
    homes = {
        call.name: [(lib.name, lib.devices_of(call.name)) for lib in libraries] for call in calls
    }
    lacking = [
        call
        for call in calls
        if not any(target.device in devices for _, devices in homes[call.name])
    ]
    if not lacking:
        return
    names = dict.fromkeys(call.name for call in lacking)
    have = [
        f"{name}: {library} has code for {' and '.join(devices)}"
        for name in names
        for library, devices in homes[name]
        if devices
    ]
    given = " ".join(f"--operator {name}" for name in names)
    raise UsageError(
        f"there is no code for {target} of the custom operator{'s' * (len(names) > 1)} "
        f"{', '.join(names)}",
        where=lacking[0].origin,
        details="\n".join(have),
        advice=f"Give an --operator-library that adds it for {target.device}, say {given} where "
        f"the program that loads the package registers it for {target.device}, or package for "
        "another target.",
    )


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
    found: list[tuple[str, str]] = []
    result = getattr(library, _INIT)(ctypes.byref(_registry(found)))
    if result != 0:
        raise UsageError(
            f"{_INIT} gave {result} for version {_ABI_VERSION} of the operators' interface",
            where=path,
            advice="Build the library with the headers of this version.",
        )
    if not found:
        raise UsageError("the library registers no operator", where=path, advice=_ADVICE)
    for name, device in found:
        if device not in DEVICES:
            raise UsageError(
                f"the library registers {name} for {device!r}, which is no kind of device",
                where=path,
                advice=f"Register it for {' or '.join(DEVICES)}.",
            )
    return OperatorCode(path.name, data, tuple(sorted(set(found))))


_Add = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
_AddFor = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_char_p,
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
        ("add_for", _AddFor),
    )


def _registry(found: list[tuple[str, str]]) -> _Registry:
    """A registry that keeps the names and kinds of devices alone."""

    def add_for(
        _registry: int, device: bytes | None, name: bytes | None, function: int, *_: int
    ) -> int:
        if not device or not name or not function:
            return 1
        found.append((name.decode("utf-8", "replace"), device.decode("utf-8", "replace")))
        return 0

    def add(registry: int, name: bytes | None, function: int, *more: int) -> int:
        return add_for(registry, HOST.encode(), name, function, *more)

    size = ctypes.sizeof(_Registry)
    return _Registry(size, _ABI_VERSION, None, _Add(add), _AddFor(add_for))
