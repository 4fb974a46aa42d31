"""Functions that are written twice: equal but for the names of their own variables.

Annotations, docstrings and the function's name do not count; what it calls, and constants, do.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.code_facts import PYTHON_ROOTS, ROOT

LEAST_NODES = 24
"""Nodes of the smallest function that is worth telling of: about three lines."""


def clones(root: Path = ROOT) -> list[str]:
    """Each group of equal functions of different files, as "file:line name, file:line name"."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for folder in PYTHON_ROOTS:
        for path in sorted((root / folder).rglob("*.py")):
            file = path.relative_to(root).as_posix()
            for function in _functions(ast.parse(path.read_text(encoding="utf-8"))):
                text = _normal(function)
                if text is not None:
                    found[text].append((file, f"{file}:{function.lineno} {function.name}"))
    groups = (places for places in found.values() if len({file for file, _ in places}) > 1)
    return [", ".join(place for _, place in places) for places in groups]


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _normal(function: ast.FunctionDef) -> str | None:
    """The function with its variables numbered; None for one that is too small."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    nodes = [node for statement in body for node in ast.walk(statement)]
    if len(nodes) < LEAST_NODES:
        return None
    own = {a.arg for a in _arguments(function)}
    own |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    numbers: dict[str, str] = {}
    for name in (*(a.arg for a in _arguments(function)), *_names(nodes)):
        if name in own:
            numbers.setdefault(name, f"_{len(numbers)}")
    renamed = _Renaming(numbers)
    copied = [renamed.visit(ast.parse(ast.unparse(statement))) for statement in body]
    return "\n".join([str(len(_arguments(function))), *map(ast.dump, copied)])


def _arguments(function: ast.FunctionDef) -> list[ast.arg]:
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    return (node.id for node in nodes if isinstance(node, ast.Name))


class _Renaming(ast.NodeTransformer):
    """Replaces names of variables, and drops annotations."""

    def __init__(self, numbers: dict[str, str]) -> None:
        self._numbers = numbers

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._numbers.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(self._numbers.get(node.arg, node.arg))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        target = self.visit(node.target)
        value = None if node.value is None else self.visit(node.value)
        return ast.Assign([target], value or ast.Constant(None))
