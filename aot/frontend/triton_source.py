"""The source of a user's Triton kernel as a module of its own, with all that it calls.

A kernel reads names of the module around it: other functions of `triton.jit`, constants, modules.
Functions and constants come along; what belongs to Triton is imported.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import re
import sys
import types
from collections.abc import Iterator
from typing import Any


def kernel_module(function: Any) -> str:
    """The text of a module that defines a function of `triton.jit` under its own name.

    Raises ValueError, with the reason, for a name that stands for something else.
    """
    module = _Module()
    module.add_function(function)
    return module.text()


def literal(value: Any) -> str:
    """The text of a constant.

    Raises:
        ValueError: Constants of its type have none.
    """
    value = getattr(value, "value", value) if _type_name(value) == "constexpr" else value
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        items = [literal(item) for item in value]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if _of_triton(value) and _type_name(value) == "dtype":
        return repr(value)
    raise ValueError(f"it uses a constant of type {_type_name(value)}")


_TAKEN = re.compile(r"k\d+")
"""Names of kernels in a package: the module gets a function of such a name besides."""


class _Module:
    """Definitions by name, in the order in which they must stand."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._meanings: dict[str, Any] = {}
        for name, module in (("triton", "triton"), ("tl", "triton.language")):
            self._add_import(name, sys.modules[module])

    def text(self) -> str:
        """All of it."""
        return "\n".join(self._lines.values()) + "\n"

    def add_function(self, function: Any) -> None:
        """A function of `triton.jit`, behind what it calls."""
        own = function.fn.__name__
        if self._meanings.get(own) is function:
            return
        self._define(own, function, "")  # what it calls may call it
        source = function.src.rstrip()
        for name, value in _outside(source, function.fn):
            self._add(name, value)
        noinline = getattr(function, "noinline", False)
        jit = "@triton.jit(noinline=True)" if noinline else "@triton.jit"
        del self._lines[own]
        self._lines[own] = f"\n\n{jit}\n{source}"

    def _add(self, name: str, value: Any) -> None:
        if self._meanings.get(name) is value:
            return
        if isinstance(value, types.ModuleType):
            self._add_import(name, value)
        elif _of_triton(value) and not _is_constant(value) and hasattr(value, "__name__"):
            line = f"from {value.__module__} import {value.__name__} as {name}"
            self._define(name, value, line)
        elif _type_name(value) == "JITFunction":
            self.add_function(value)
            if value.fn.__name__ != name:
                self._define(name, value, f"{name} = {value.fn.__name__}")
        elif _is_constant(value):
            self._define(name, value, f"{name} = tl.constexpr({literal(value)})")
        else:
            raise ValueError(f"it uses {name}, a {_type_name(value)}, of the module around it")

    def _add_import(self, name: str, module: types.ModuleType) -> None:
        if module.__name__.partition(".")[0] != "triton":
            raise ValueError(f"it uses the module {module.__name__}; import what it needs by name")
        self._define(name, module, f"import {module.__name__} as {name}")

    def _define(self, name: str, value: Any, line: str) -> None:
        if _TAKEN.fullmatch(name):
            raise ValueError(f"it uses the name {name}, as kernels of packages have; rename that")
        if self._meanings.setdefault(name, value) is not value:
            raise ValueError(f"it uses two things that are called {name}")
        self._lines.setdefault(name, line)


def _outside(source: str, function: Any) -> Iterator[tuple[str, Any]]:
    """Names in the source that the module or the functions around it give a meaning."""
    cells = inspect.getclosurevars(function).nonlocals
    known = {**function.__globals__, **cells}
    tree = ast.parse(source)
    local = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    local |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    for name in dict.fromkeys(node.id for node in names):
        if name in known and name not in local and known[name] is not getattr(builtins, name, None):
            yield name, known[name]


def _is_constant(value: Any) -> bool:
    plain = value is None or isinstance(value, (bool, int, float, str, tuple))
    return plain or _type_name(value) in ("constexpr", "dtype")


def _of_triton(value: Any) -> bool:
    home = getattr(value, "__module__", None) or type(value).__module__
    return str(home).partition(".")[0] == "triton"


def _type_name(value: Any) -> str:
    return type(value).__name__
