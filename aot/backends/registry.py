"""The backends that there are. A backend is one folder and one line here."""

from __future__ import annotations

from aot.backends.base import Backend, HostCalls
from aot.backends.cpp.backend import CppBackend, CppHostCalls
from aot.backends.triton.backend import TritonBackend
from aot.errors import UsageError
from aot.options import BuildOptions, Target

BACKENDS: tuple[Backend, ...] = (CppBackend(), TritonBackend())


HOST_CALLS: HostCalls = CppHostCalls()
"""What the host computes for programs of other devices."""


def backend_for(target: Target) -> Backend:
    """The first backend that supports the target.

    Raises:
        UsageError: No backend does.
    """
    for backend in BACKENDS:
        if backend.supports(target):
            return backend
    raise UsageError(f"no backend makes code for {target}")


def begin(options: BuildOptions) -> None:
    """Starts, beside the caller, what compiling for the options' targets wants for any model.

    Raises:
        UsageError: No backend makes code for a target.
    """
    if options.compiles:
        for target in options.targets:
            backend_for(target).begin(target, options)
