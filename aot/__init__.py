"""aot: an ahead-of-time compiler and packager for PyTorch models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aot.version import VERSION as __version__

if TYPE_CHECKING:
    from aot.api import package

__all__ = ["__version__", "package"]


def __getattr__(name: str) -> Any:
    # torch is imported when a model is packaged, not when a part of the compiler is.
    if name == "package":
        from aot.api import package

        return package
    raise AttributeError(f"module 'aot' has no attribute {name!r}")
