"""Facts of machines that stand outside of `Machine` and the backends.

What serves all devices alike may know none of them. So there, these are counted:

- constants of modules, and defaults of fields, that are numbers and speak of hardware: in their
  name, in the text below or beside them, or in the class's docstring;
- numbers above SMALL in functions of the passes and the scheduler, whose thresholds are all choices
  for a device;
- questions after a device by its name: a string that names one, or an attribute that holds it.

A backend's `Support` for a kind of template is a part of its `Machine`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.code_facts import ROOT, Finding, read_python

FOLDERS = ("ir", "lowering", "passes", "schedule", "symbolic")
CHOOSING = ("passes", "schedule")
MACHINE = "aot/ir/machine.py"

SMALL = 8
"""Numbers up to this one count dimensions, and factors of what was asked of the machine."""

HARDWARE = frozenset(
    """alu bandwidth block blocks cache cached caches core cores cpu flops gpu hardware instruction
    instructions l1 l2 lane lanes occupancy processor processors register registers simd thread
    threads tile tiles unit units vector vectors warp warps worker workers""".split()
)
NAMED = frozenset(["arch", "archs", "backend", "device", "isa", "language"])
"""Attributes that tell which device it is."""

NO_FACTS: Mapping[str, str] = {
    "aot/ir/interpreter_nest.py: BLOCK_POINTS": "of the host that packages; no code depends on it",
    "aot/ir/operations.py: CHEAP": "an operation's price is in the one table of operations,",
    "aot/ir/operations.py: MIDDLE": "as a multiple of an addition's:",
    "aot/ir/operations.py: DEAR": "the same on every device so far",
    "aot/ir/operations.py: LOOPED": "as the others of the table",
    "aot/ir/templates/conv_rounding.py: ROUNDED_FLOPS": "what eager does, which we are held to",
    "aot/schedule/index_set_splitting.py: MAX_BLOCKS": "bounds a kernel's text",
    "aot/schedule/legality.py: TOLERATED_SHARE": "how far prices are trusted, in whatever unit",
}
"""File and name -> what it is instead."""


def machine_facts(root: Path = ROOT) -> list[str]:
    """Each place outside of the machine that says something of a device, as "file:line: text"."""
    return [
        f"{path}:{found.line}: {found.text}"
        for path, found in _everything(root)
        if f"{path}: {found.text}" not in NO_FACTS
    ]


def unused_exceptions(root: Path = ROOT) -> list[str]:
    """Entries of `NO_FACTS` that nothing is found for any more."""
    found = {f"{path}: {finding.text}" for path, finding in _everything(root)}
    return [entry for entry in NO_FACTS if entry not in found]


def _everything(root: Path) -> Iterator[tuple[str, Finding]]:
    for folder in FOLDERS:
        for path in sorted((root / "aot" / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if name != MACHINE:
                for found in _facts(path, choosing=folder in CHOOSING):
                    yield name, found


def _facts(path: Path, *, choosing: bool) -> Iterator[Finding]:
    text = path.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    for constant in _constants(tree):
        if constant.is_of(lines) & HARDWARE:
            yield Finding(constant.line, constant.name)
    facts = read_python(path)
    yield from facts.device_literals
    yield from (found for found in facts.attributes if found.text in NAMED)
    if choosing:
        yield from _large_numbers(tree)


@dataclass(frozen=True)
class _Constant:
    """A number with a name. `told`: what a docstring says of it."""

    name: str
    line: int
    told: str

    def is_of(self, lines: list[str]) -> set[str]:
        """The words that stand at it, its comments' among them."""
        above = self.line - 1
        while above > 0 and lines[above - 1].lstrip().startswith("#"):
            above -= 1
        comments = (line.partition("#")[2] for line in lines[above : self.line])
        return set(re.findall("[a-z0-9]+", " ".join((self.name, self.told, *comments)).lower()))


def _constants(tree: ast.Module) -> Iterator[_Constant]:
    yield from _of_body(tree.body, "")
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not _is_support(node):
            yield from _of_body(node.body, ast.get_docstring(node) or "")


def _of_body(body: list[ast.stmt], about: str) -> Iterator[_Constant]:
    """The numbers of a module, or of a class whose docstring is `about`."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or not _is_number(node.value):
            continue
        below = after.value if isinstance(after, ast.Expr) else None
        told = str(below.value) if isinstance(below, ast.Constant) else ""
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for name in ast.walk(target):
                if isinstance(name, ast.Name):
                    entry = re.search(rf"^ *`?{name.id}`?: (.*)", about, re.MULTILINE)
                    said = entry.group(1) if entry else ""
                    yield _Constant(name.id, node.lineno, f"{told} {said}")


def _is_number(value: ast.expr | None) -> bool:
    """Whether numbers alone make the value: 64, 1 << 20, (16, *range(8, 16))."""
    if value is None:
        return False
    leaves = [n for n in ast.walk(value) if isinstance(n, (ast.Constant, ast.Name))]
    numbers = [isinstance(n, ast.Constant) and _is_plain(n.value) for n in leaves]
    others = [n for n, plain in zip(leaves, numbers, strict=True) if not plain]
    return any(numbers) and all(isinstance(n, ast.Name) and n.id == "range" for n in others)


def _is_plain(value: object, above: float = -1) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > above


def _is_support(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).startswith("Support[") for base in node.bases)


def _large_numbers(tree: ast.Module) -> Iterator[Finding]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Constant) and _is_plain(node.value, above=SMALL):
                    yield Finding(node.lineno, str(node.value))
