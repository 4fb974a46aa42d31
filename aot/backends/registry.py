"""The backends that there are. A backend is one folder and one line here."""

from __future__ import annotations

from aot.backends.base import Backend
from aot.backends.cpp.backend import CppBackend
from aot.backends.triton.backend import TritonBackend
from aot.errors import UsageError
from aot.options import Target

BACKENDS: tuple[Backend, ...] = (CppBackend(), TritonBackend())


def backend_for(target: Target) -> Backend:
    """The first backend that supports the target.

    Raises:
        UsageError: No backend does.
    """
    for backend in BACKENDS:
        if backend.supports(target):
            return backend
    raise UsageError(f"no backend makes code for {target}")
