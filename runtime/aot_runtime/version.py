"""The version of the runtime and of the compiler, which are released together.

This is the one place where it is written: both `pyproject.toml` files and CMake read it here.
"""

VERSION = "0.1.0"
