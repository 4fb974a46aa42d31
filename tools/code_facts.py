"""Facts about our own sources, by `ast` and by counting lines.

The base of `make size` and of the tests that hold the import rules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHON_ROOTS = ("aot", "runtime/aot_runtime", "tools")
NATIVE_ROOTS = ("cpp", "runtime", "aot")
NATIVE_SUFFIXES = (".cc", ".cpp", ".h", ".hpp")
THIRD_PARTY = ("cpp/include/aot/dlpack.h",)

DEVICE_WORDS = ("cpu", "cuda")
ARCH_PREFIXES = ("x86-64", "cuda:", "sm_")
BROAD = ("Exception", "BaseException")
ENVIRONMENT_READS = ("os.environ", "os.getenv", "os.environb")

Def = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Function:
    """A function or method.

    Attributes:
        name: Qualified by classes and outer functions.
        line: First line, decorators left out.
        lines: Number of lines.
        public: No part of the name begins with an underscore, and it is in no other function.
        documented: Has a docstring.
        annotated: All parameters and the result have types, or it is Triton's, which has none.
    """

    name: str
    line: int
    lines: int
    public: bool
    documented: bool
    annotated: bool


@dataclass(frozen=True)
class Import:
    """An imported name with its module; `local` when the statement stands in a function.

    `level`: dots of a relative import.
    """

    module: str
    line: int
    local: bool
    level: int = 0


@dataclass(frozen=True)
class Finding:
    """Something at a line that a rule is about."""

    line: int
    text: str


@dataclass(frozen=True)
class PythonFile:
    """What is counted in one Python file. `path` is relative to the repository."""

    path: Path
    lines: int
    functions: tuple[Function, ...]
    undocumented_classes: tuple[Finding, ...]
    public_classes: int
    imports: tuple[Import, ...]
    imports_for_types: tuple[Import, ...]
    broad_excepts: tuple[Finding, ...]
    environment_reads: tuple[Finding, ...]
    device_literals: tuple[Finding, ...]
    hidden_inputs: tuple[Finding, ...]
    mutable_dataclasses: tuple[Finding, ...]
    sets_after_init: tuple[Finding, ...]
    attributes: tuple[Finding, ...]
    """Names that are read as attributes; those that are called end in "()"."""
    tested_classes: tuple[Finding, ...]
    """Names of classes that values are tested for, by `isinstance` or in a pattern."""


def python_files() -> list[PythonFile]:
    """Facts of every Python file that ships or serves developers, sorted by path."""
    paths = [p for root in PYTHON_ROOTS for p in sorted((ROOT / root).rglob("*.py"))]
    return [read_python(path) for path in paths if path.name != "__pycache__"]


def native_files() -> list[tuple[Path, int]]:
    """(path relative to the repository, lines) of every C and C++ file of ours."""
    paths = {
        path.relative_to(ROOT)
        for root in NATIVE_ROOTS
        for path in (ROOT / root).rglob("*")
        if path.suffix in NATIVE_SUFFIXES
    }
    return [
        (path, len((ROOT / path).read_text(encoding="utf-8").splitlines()))
        for path in sorted(paths)
        if str(path) not in THIRD_PARTY
    ]


def read_python(path: Path) -> PythonFile:
    """Facts of one file, which is read once. Raises SyntaxError when it is no Python."""
    found = path.stat()
    return _read(path, found.st_mtime_ns, found.st_size)


@cache
def _read(path: Path, changed: int, nbytes: int) -> PythonFile:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    nodes = list(ast.walk(tree))
    classes = [(name, node) for name, node in _definitions(tree) if isinstance(node, ast.ClassDef)]
    public = [(name, node) for name, node in classes if _is_public(name)]
    functions = [
        _function(name, node) for name, node in _definitions(tree) if isinstance(node, Def)
    ]
    return PythonFile(
        path=path.relative_to(ROOT) if path.is_relative_to(ROOT) else path,
        lines=len(text.splitlines()),
        functions=tuple(functions),
        undocumented_classes=tuple(
            Finding(node.lineno, name) for name, node in public if not ast.get_docstring(node)
        ),
        public_classes=len(public),
        imports=tuple(_imports(tree, local=False)),
        imports_for_types=tuple(
            found
            for node in nodes
            if _is_type_checking(node)
            for found in _imports(node, local=False)
        ),
        broad_excepts=tuple(_broad_excepts(nodes)),
        environment_reads=tuple(_environment_reads(nodes)),
        device_literals=tuple(_device_literals(tree, nodes)),
        hidden_inputs=tuple(_hidden_inputs(nodes)),
        attributes=tuple(_attributes(nodes)),
        tested_classes=tuple(found for node in nodes for found in _tested(node)),
        mutable_dataclasses=tuple(
            Finding(node.lineno, name) for name, node in classes if _is_mutable_dataclass(node)
        ),
        sets_after_init=tuple(_sets_after_init(nodes)),
    )


def _definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Functions and classes with their names; what is inside a function is called `f.<inner>`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Def | ast.ClassDef):
            yield prefix + node.name, node
            inner = "<" if isinstance(node, Def) else ""
            yield from _definitions(node, f"{prefix}{node.name}.{inner}")
        else:
            yield from _definitions(node, prefix)


def _is_public(name: str) -> bool:
    return not any(part.startswith(("_", "<")) for part in name.split("."))


def _function(name: str, node: Def) -> Function:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    bare = [a for a in every if a.annotation is None and a.arg not in ("self", "cls")]
    return Function(
        name=name.replace("<", ""),
        line=node.lineno,
        lines=(node.end_lineno or node.lineno) - node.lineno + 1,
        public=_is_public(name),
        documented=ast.get_docstring(node) is not None or _is_overload(node),
        annotated=(not bare and node.returns is not None) or _is_on_device(node),
    )


def _is_overload(node: Def) -> bool:
    """A type of a function that is documented where it is written."""
    return any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)


_ON_DEVICE = ("triton.jit", "gluon.jit", "gluon.constexpr_function")
"""Decorators of functions in Triton's languages, in which nothing has a type."""


def _is_on_device(node: Def) -> bool:
    return any(ast.unparse(decorator) in _ON_DEVICE for decorator in node.decorator_list)


def _imports(node: ast.AST, local: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, local) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (
                Import(f"{child.module}.{alias.name}", child.lineno, local, child.level)
                for alias in child.names
            )
        elif _is_type_checking(child):
            continue
        else:
            yield from _imports(child, local or isinstance(child, Def))


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _broad_excepts(nodes: list[ast.AST]) -> Iterator[Finding]:
    for node in nodes:
        if isinstance(node, ast.ExceptHandler):
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(k is None or (isinstance(k, ast.Name) and k.id in BROAD) for k in kinds):
                yield Finding(
                    node.lineno, "except " + (ast.unparse(node.type) if node.type else "")
                )


def _environment_reads(nodes: list[ast.AST]) -> Iterator[Finding]:
    for node in nodes:
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ENVIRONMENT_READS:
            yield Finding(node.lineno, ast.unparse(node))


def _device_literals(tree: ast.Module, nodes: list[ast.AST]) -> Iterator[Finding]:
    docstrings = {
        id(node.body[0].value)
        for node in [tree, *nodes]
        if isinstance(node, Def | ast.ClassDef | ast.Module)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            named = text in DEVICE_WORDS or text.startswith(ARCH_PREFIXES)
            if named and id(node) not in docstrings:
                yield Finding(node.lineno, repr(text))


def _hidden_inputs(nodes: list[ast.AST]) -> Iterator[Finding]:
    for node in nodes:
        if isinstance(node, ast.Global):
            yield Finding(node.lineno, "global " + ", ".join(node.names))
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in ("ContextVar", "threading.local"):
                yield Finding(node.lineno, name)


def _is_mutable_dataclass(node: ast.ClassDef) -> bool:
    for decorator in node.decorator_list:
        text = ast.unparse(decorator)
        if text.split("(")[0] in ("dataclass", "dataclasses.dataclass"):
            return "frozen=True" not in text
    return False


def _sets_after_init(nodes: list[ast.AST]) -> Iterator[Finding]:
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "object.__setattr__",
            "setattr",
        ):
            yield Finding(node.lineno, ast.unparse(node)[:60])


def _tested(node: ast.AST) -> Iterator[Finding]:
    """The classes that a call of isinstance or a pattern names."""
    classes: ast.expr | None = None
    if isinstance(node, ast.MatchClass):
        classes = node.cls
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        classes = node.args[1] if node.func.id == "isinstance" and len(node.args) > 1 else None
    for part in ast.walk(classes) if classes is not None else ():
        if isinstance(part, ast.Name):
            yield Finding(part.lineno, part.id)


def _attributes(nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            yield Finding(node.lineno, node.attr + "()" * (id(node) in called))
