"""Public names of types that two modules define: one word should mean one idea.

Two definitions are one idea when they are the same text (an alias repeated), or when each backend
has its own form. Forms of one idea at several layers are listed here, each with what it is.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.code_facts import ROOT

FOLDERS = ("aot", "runtime/aot_runtime")
BACKENDS = "aot/backends/"

FORMS: Mapping[str, str] = {
    "AotError": "the compiler's base of errors, and the loader's",
    "Array": "NumPy's array, of any type or of none in particular",
    "Buffer": "in graphs by name, in the plan by number",
    "CorruptPackage": "found by the compiler's reader, and by the loader",
    "Dim": "of graphs, of the plan, and as callers of the loader see it",
    "Expr": "as sympy's object, and as the plan's JSON",
    "Grid": "of a launch, and while Triton's kernel is written",
    "InternalError": "the compiler's, and the loader's",
    "Parameter": "of forward: in graphs, and in the plan",
    "Program": "what is built for a target, and what the plan has of it",
    "Signature": "of forward: in graphs, in the plan, and in the loader",
    "Tree": "how arguments nest: in graphs, in the plan, and in the loader",
    "WeightSpec": "of the model, and in the plan",
}
"""Name -> what its forms are; every other name has one meaning."""


def doubled_names(root: Path = ROOT) -> list[str]:
    """Each name with several meanings, as "name: file:line, file:line"."""
    found: dict[str, list[tuple[str, int, str]]] = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            file = path.relative_to(root).as_posix()
            for name, line, text in _types(ast.parse(path.read_text(encoding="utf-8"))):
                found[name].append((file, line, text))
    return [
        f"{name}: " + ", ".join(f"{file}:{line}" for file, line, _ in places)
        for name, places in sorted(found.items())
        if name not in FORMS and not _is_one_idea(places)
    ]


def unused_forms(root: Path = ROOT) -> list[str]:
    """Names of `FORMS` that no two modules define any more."""
    counts: dict[str, set[str]] = defaultdict(set)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            for name, _, _ in _types(ast.parse(path.read_text(encoding="utf-8"))):
                counts[name].add(str(path))
    return [name for name in FORMS if len(counts[name]) < 2]


def _types(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Public classes and aliases of types of a module: name, line, and what an alias stands for."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, node.lineno, ""
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            name = ast.unparse(target)
            if name.isidentifier() and name[0].isupper() and not name.isupper():
                yield name, node.lineno, ast.unparse(node.value)


def _is_one_idea(places: list[tuple[str, int, str]]) -> bool:
    files = [file for file, _, _ in places]
    if len(set(files)) == 1:
        return True
    backends = {file.removeprefix(BACKENDS).partition("/")[0] for file in files}
    if all(file.startswith(BACKENDS) for file in files) and len(backends) == len(files):
        return True
    texts = {text for _, _, text in places}
    return len(texts) == 1 and "" not in texts
