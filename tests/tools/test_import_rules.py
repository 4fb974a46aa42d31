"""The architecture's rules, on the sources as they are; and the rules themselves, on examples."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.sources import planted, write_sources
from tools.code_facts import python_files, read_python
from tools.import_rules import ALLOWED, breaches, circles, kind_tests, problem_with
from tools.size import MAX_LOCAL_IMPORTS


def test_every_import_follows_the_arrows() -> None:
    assert list(breaches(python_files())) == []


def test_local_imports_are_few() -> None:
    local = [f"{f.path}:{i.line} {i.module}" for f in python_files() for i in f.imports if i.local]
    assert len(local) <= MAX_LOCAL_IMPORTS, local


def test_members_of_one_algebra_are_for_symbolic_alone(tmp_path: Path) -> None:
    text = "def f(e):\n    return e.as_coeff_Mul()[0], e.free_symbols\n"
    (problem,) = breaches([planted(tmp_path, "aot/passes/some.py", text)])
    assert problem == "aot/passes/some.py:2: as_coeff_Mul(): use aot.symbolic's functions"
    assert not list(breaches([planted(tmp_path, "aot/symbolic/some.py", text)]))


def test_kinds_of_calls_are_asked_for_in_templates_alone(tmp_path: Path) -> None:
    asked = "def f(c):\n    return isinstance(c, (Conv, int))\n"
    matched = "def f(c):\n    match c:\n        case Matmul():\n            return 1\n"
    for text, kind, line in ((asked, "Conv", 2), (matched, "Matmul", 3)):
        (problem,) = kind_tests([planted(tmp_path, "aot/schedule/some.py", text)])
        assert problem == f"aot/schedule/some.py:{line}: asks whether a call is a {kind}"
        for place in ("aot/ir/templates/some.py", "aot/backends/some/template_some.py"):
            assert not list(kind_tests([planted(tmp_path, place, text)]))


def test_only_options_reads_the_environment() -> None:
    readers = {str(f.path) for f in python_files() if f.environment_reads}
    assert readers <= {"aot/options.py", "tools/code_facts.py"}


def test_nothing_imports_the_command_line() -> None:
    assert all("cli" not in allowed for allowed in ALLOWED.values())


@pytest.mark.parametrize(
    ("path", "module", "problem"),
    [
        ("aot/ir/loops.py", "aot.symbolic.Expr", ""),
        ("runtime/aot_runtime/model.py", "tokenizers", "the runtime's loader does not import toke"),
        ("runtime/aot_runtime/embeddings/encoder.py", "tokenizers.models", ""),
        ("aot/ir/loops.py", "aot.lowering.rows", "ir does not import lowering"),
        ("aot/schedule/fuse.py", "aot.passes.dce", "schedule does not import passes"),
        ("aot/backends/cpp/emit.py", "aot.report.dump", "backends does not import report"),
        ("aot/lowering/a.py", "torch", "torch is imported in aot/frontend/, aot/api.py only"),
        ("aot/frontend/capture.py", "torch.export", ""),
        ("aot/frontend/capture.py", "torch._dynamo.config", "nobody imports torch._dynamo"),
        ("tools/x.py", "torch._inductor", "nobody imports torch._inductor"),
        ("aot/passes/a.py", "sympy", "sympy is imported in aot/symbolic/ only"),
        ("runtime/aot_runtime/model.py", "aot.errors", "loader does not import aot"),
        ("runtime/aot_runtime/model.py", "torch", "loader does not import torch"),
        ("runtime/aot_runtime/model.py", "numpy", ""),
        ("aot/new/thing.py", "aot.ir", "new is no part of the architecture"),
        ("aot/cli.py", "aot.driver.build", ""),
        ("aot/driver.py", "aot.cli.main", "driver does not import cli"),
    ],
)
def test_the_rules_themselves(path: str, module: str, problem: str) -> None:
    found = problem_with(path, module)
    assert found == "" if problem == "" else problem in found


def test_circles_are_found_among_types_too(tmp_path: Path) -> None:
    write_sources(
        tmp_path,
        a="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from aot.b import B\n",
        b="from aot import a\n",
        c="from . import d\n",
        d="from .c import f\nimport os\n",
        e="from aot.a import A\n",
    )
    files = [read_python(path) for path in sorted((tmp_path / "aot").iterdir())]
    moved = [replace(f, path=f.path.relative_to(tmp_path)) for f in files]
    assert list(circles(moved)) == ["aot/a.py, aot/b.py", "aot/c.py, aot/d.py"]
