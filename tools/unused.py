"""Names of the compiler that nothing but tests uses.

A name counts as used when it is read anywhere in what ships or serves developers, by itself or as
an attribute; so equal names hide each other, and what is found is certainly unused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tools.code_facts import ROOT, Finding

DEFINING = ("aot",)
USING = ("aot", "runtime/aot_runtime", "tools", "benchmarks", "examples")
FOR_OTHERS = frozenset(["get_current_target", "visit_Subscript"])
"""Triton and the walk of `ast.NodeTransformer` call them."""


def unused_names(root: Path = ROOT) -> list[tuple[Path, Finding]]:
    """Each name with its file, relative to `root`, and line; in order of files."""
    used: set[str] = set(FOR_OTHERS)
    for path in _files(root, USING):
        used.update(_used(ast.parse(path.read_text(encoding="utf-8"))))
    return [
        (path.relative_to(root), finding)
        for path in _files(root, DEFINING)
        for finding in _defined(ast.parse(path.read_text(encoding="utf-8")).body)
        if finding.text.rpartition(".")[2] not in used
    ]


def _files(root: Path, folders: tuple[str, ...]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((root / folder).rglob("*.py"))


def _used(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value  # names in __all__, and those that getattr is given


def _defined(body: list[ast.stmt], owner: str = "") -> Iterator[Finding]:
    """Functions, classes and constants; methods too. What a decorator takes is used by it."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield Finding(node.lineno, owner + node.name)
            yield from _defined(node.body, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith(("__", "_repr_")):
            if not _registered(node):
                yield Finding(node.lineno, owner + node.name)
        elif isinstance(node, ast.Assign) and not owner:
            for name in ast.walk(ast.Tuple(node.targets)):
                if isinstance(name, ast.Name) and not name.id.startswith("__"):
                    yield Finding(node.lineno, name.id)


def _registered(node: ast.FunctionDef) -> bool:
    plain = ("property", "staticmethod", "classmethod", "override", "cached_property")
    return any(not isinstance(d, ast.Name) or d.id not in plain for d in node.decorator_list)
