"""Device functions that kernels call; a kernel's text carries those that it uses.

They are Triton source in `device/`, which is read here and not imported: a build writes kernels
where Triton need not be.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

_FILES = (
    *("integers", "float8", "combining", "sorting", "special", "loops", "memory"),
    *("scan", "gemv", "matmul", "argsort", "digits", "conv", "attention", "recurrence", "bags"),
    *("attention_groups", "matmul_groups", "matmul_doubles", "conv_groups", "true_places"),
    *("linalg", "quotients", "orthogonal", "powers"),
)
"""Of `device/`, in the order in which a kernel's text has their functions."""


@dataclass(frozen=True)
class _Function:
    """A device function: its text without comments, and every name that it reads."""

    text: str
    names: frozenset[str]


def definitions(text: str) -> str:
    """The device functions that `text` calls, and those that they call, as source.

    Not those that the text defines itself.
    """
    tree = ast.parse(text)
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    library = _library()
    used: set[str] = set()
    pending = _names(tree)
    while pending:
        found = (pending & library.keys()) - used - own
        used |= found
        pending = frozenset[str]().union(*(library[name].names for name in found))
    return "".join(f"{library[name].text}\n\n" for name in library if name in used)


@cache
def gluon_imports() -> str:
    """What functions in Gluon import beside Triton, as source."""
    text = _text("attention_groups")
    first, *_, last = (
        n for n in ast.parse(text).body if isinstance(n, ast.ImportFrom | ast.Assign)
    )
    return "".join(text.splitlines(keepends=True)[first.lineno - 1 : last.end_lineno])


@cache
def _library() -> Mapping[str, _Function]:
    """All device functions by name, in the order of their files."""
    return {name: function for file in _FILES for name, function in _functions(_text(file))}


def _text(file: str) -> str:
    folder = resources.files("aot.backends.triton").joinpath("device")
    return folder.joinpath(f"{file}.py").read_text(encoding="utf-8")


def _functions(text: str) -> Iterator[tuple[str, _Function]]:
    """The functions of one file by name."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            document = node.body[0]
            head = lines[node.decorator_list[0].lineno - 1 : document.lineno - 1]
            code = [*head, *lines[document.end_lineno : node.end_lineno]]
            kept = [line for line in code if not line.lstrip().startswith("#")]
            yield node.name, _Function("\n".join(kept) + "\n", _names(node))


def _names(tree: ast.AST) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
