"""The compiler's name and version, as packages record it."""

VERSION = "0.1.0"
COMPILER = f"aot-package {VERSION}"
