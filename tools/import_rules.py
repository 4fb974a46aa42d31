"""Who may import whom: the architecture's arrows as data, and a check of them.

    symbolic <- ir <- {lowering, passes, schedule, backends, link} <- driver <- cli

Siblings in braces do not import each other; `frontend` alone sees torch (and `api`, which takes
torch's modules), and asks `lowering` what it has; `symbolic` alone sees sympy; `report` is imported
by driver, api and cli only; the runtime's loader sees nothing of `aot`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from tools.code_facts import ROOT, Import, PythonFile

BASE = ("errors", "options", "version")
"""Modules without dependencies that everyone in `aot` may import."""

ALLOWED: dict[str, tuple[str, ...]] = {
    "ahead": (),
    "errors": (),
    "garbage": (),
    "kept_code": (*BASE, "backends"),
    "options": ("errors",),
    "resident": (*BASE, "ahead", "torch_library", "watching"),
    "torch_library": (),
    "version": (),
    "symbolic": BASE,
    "ir": (*BASE, "symbolic"),
    "frontend": (*BASE, "symbolic", "ir", "lowering"),
    "lowering": (*BASE, "symbolic", "ir"),
    "passes": (*BASE, "symbolic", "ir"),
    "schedule": (*BASE, "symbolic", "ir"),
    "backends": (*BASE, "symbolic", "ir"),
    "link": (*BASE, "symbolic", "ir"),
    "report": (*BASE, "symbolic", "ir", "link"),
    "trust": (*BASE, "link"),
    "trust_commands": (*BASE, "link", "trust"),
    "weight_program": (*BASE, "ir", "passes", "schedule", "backends"),
    "driver": (
        *BASE,
        *("symbolic", "ir", "frontend", "lowering", "passes", "schedule", "backends", "link"),
        *("weight_program", "report"),
    ),
    "blame": (*BASE, "frontend", "ir", "symbolic"),
    "check": (*BASE, "blame", "driver", "frontend", "ir", "link", "report"),
    "tune": (
        *BASE,
        *("ir", "frontend", "lowering", "schedule", "backends", "link", "driver", "report"),
    ),
    "cli": (
        *BASE,
        *("api", "backends", "driver", "garbage", "kept_code", "report", "link", "lowering"),
        *("torch_library", "trust_commands", "watching"),
    ),
    "api": (*BASE, "backends", "check", "driver", "frontend", "report", "tune"),
    "__init__": ("api", "version"),
    "__main__": (*BASE, "garbage", "resident", "torch_library"),
    "watching": ("ahead",),
}
"""Part of `aot` -> parts that it may import, besides itself."""

ONLY_IN = {
    "torch": ("aot/frontend/", "aot/api.py"),
    "sympy": ("aot/symbolic/",),
    "safetensors": ("aot/frontend/",),
    "cryptography": ("aot/trust/",),
}
"""Third-party package -> the folders that may import it."""

ALGEBRA = frozenset(
    """as_coeff_Add as_coeff_Mul as_independent as_numer_denom as_ordered_terms atoms coeff collect
    doit is_Add is_Mul is_Pow is_Function nsimplify subs xreplace""".split()
)
"""Members of an expression that are one algebra's own (docs/adr/0022-members-of-expressions.md)."""

ALGEBRA_IN = ("aot/symbolic/", "aot/frontend/")
"""Where they may be read: behind the functions, and where torch's expressions come in."""

KINDS_IN = re.compile(r"aot/ir/templates/|aot/backends/\w+/template")
"""Where a call may be asked which it is; everyone else asks what all kinds answer."""

NEVER = ("torch._inductor", "torch._dynamo", "torch.compile")
NEVER_BUT = {"aot/frontend/loop_functions.py": ("torch._dynamo.utils", "torch._dynamo.guards")}
"""Who may import what of these: torch.export makes graphs of loops' functions with it, and which
functions are ours is said there or nowhere."""
RUNTIME = "runtime/aot_runtime/"
RUNTIME_MAY = ("numpy", "aot_runtime", "ml_dtypes")
RUNTIME_NOT = (
    *("aot.", "click", "cryptography", "jinja2", "rich", "safetensors", "sympy", "torch"),
    "triton",
)
RUNTIME_ONLY_IN = {
    "tokenizers": "runtime/aot_runtime/embeddings/",
    "uvicorn": "runtime/aot_runtime/embeddings/",
}
"""What a part of the runtime needs that is installed with it alone (an extra of the wheel)."""


def part_of(path: str) -> str:
    """The part of `aot` that a file belongs to: "ir", "cli", …; "" for other files."""
    parts = path.split("/")
    if parts[0] != "aot":
        return ""
    return parts[1].removesuffix(".py")


@cache
def template_kinds() -> frozenset[str]:
    """The names of the classes of template calls."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "aot/ir/templates").glob("*.py"))
    classes = (n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef))
    return frozenset(c.name for c in classes if "TemplateCall" in map(ast.unparse, c.bases))


def kind_tests(files: Sequence[PythonFile]) -> Iterator[str]:
    """Every place outside of the templates that asks which kind a template call is."""
    kinds = template_kinds()
    for file in files:
        path = file.path.as_posix()
        if path.startswith("aot/") and not KINDS_IN.match(path):
            for found in file.tested_classes:
                if found.text in kinds:
                    yield f"{path}:{found.line}: asks whether a call is a {found.text}"


def breaches(files: Sequence[PythonFile]) -> Iterator[str]:
    """Every import, and member of an expression, that breaks a rule, as `file:line: sentence`."""
    for file in files:
        path = file.path.as_posix()
        if path.startswith("aot/") and not path.startswith(ALGEBRA_IN):
            for found in file.attributes:
                if found.text.removesuffix("()") in ALGEBRA:
                    yield f"{path}:{found.line}: {found.text}: use aot.symbolic's functions"
        for imported in file.imports:
            problem = problem_with(path, imported.module)
            if problem:
                yield f"{path}:{imported.line}: {problem}"


def circles(files: Sequence[PythonFile]) -> Iterator[str]:
    """Every pair of files that import each other, for types alone too, as `file, file`."""
    paths = {_module_of(f.path.as_posix()): f.path.as_posix() for f in files}
    imported = {
        f.path.as_posix(): {
            _file_of(f.path.as_posix(), one, paths) for one in (*f.imports, *f.imports_for_types)
        }
        for f in files
    }
    for first, others in imported.items():
        yield from (f"{first}, {o}" for o in sorted(others) if first < o and first in imported[o])


def _module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _file_of(path: str, imported: Import, paths: Mapping[str, str]) -> str:
    """The file that an import in the file `path` reads; "" for one that is none of ours."""
    whole = imported.module
    if imported.level:
        folder = path.split("/")[: -imported.level]
        whole = ".".join([*folder, whole.removeprefix("None.")])
    if whole in paths or imported.module.startswith("None."):  # a module, not what is in one
        return paths.get(whole, "")
    return paths.get(whole.rpartition(".")[0], "")


def problem_with(path: str, module: str) -> str:
    """What is wrong with the file's importing the module; "" when it may."""
    for never in NEVER if module not in NEVER_BUT.get(path, ()) else ():
        if module == never or module.startswith(never + "."):
            return f"nobody imports {never}"
    top = module.split(".", maxsplit=1)[0]
    if path.startswith(RUNTIME):
        forbidden = module.startswith(RUNTIME_NOT) or module == "aot"
        forbidden |= not path.startswith(RUNTIME_ONLY_IN.get(top, ""))
        return f"the runtime's loader does not import {top}" if forbidden else ""
    if not path.startswith("aot/"):
        return ""
    if top in ONLY_IN and not path.startswith(ONLY_IN[top]):
        return f"{top} is imported in {', '.join(ONLY_IN[top])} only"
    if top != "aot":
        return ""
    part, target = part_of(path), module.split(".")[1] if "." in module else ""
    if part not in ALLOWED:
        return f"{part} is no part of the architecture; add it to tools/import_rules.py"
    if target and target != part and target in ALLOWED and target not in ALLOWED[part]:
        return f"{part} does not import {target}"
    return ""
