"""The compiler's name and version, as packages record it."""

from aot_runtime.version import VERSION

__all__ = ["COMPILER", "VERSION"]

COMPILER = f"aot-package {VERSION}"
