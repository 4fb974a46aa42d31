"""The architecture's rules, on the sources as they are; and the rules themselves, on examples."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tools.clones import clones
from tools.code_facts import PythonFile, python_files, read_python
from tools.import_rules import ALLOWED, breaches, circles, kind_tests, problem_with
from tools.size import MAX_LOCAL_IMPORTS, table
from tools.unused import unused_names

_table = cache(table)  # which reads all sources


def test_every_import_follows_the_arrows() -> None:
    assert list(breaches(python_files())) == []


def test_local_imports_are_few() -> None:
    local = [f"{f.path}:{i.line} {i.module}" for f in python_files() for i in f.imports if i.local]
    assert len(local) <= MAX_LOCAL_IMPORTS, local


@pytest.mark.parametrize(
    "question",
    [
        "hidden inputs outside cli.py",
        "device names outside backends/, options.py",
        "broad excepts outside cli.py",
        "dataclasses in ir/ that are not frozen",
        "attributes set from outside",
        "annotated functions",
        "documented public names",
        "lines in files > 600",
        "functions > 60 lines",
        "files that import each other",
        "names that only tests use",
        "functions that are written twice",
        "kinds asked for outside the templates",
        "attributes looked up by name",
    ],
)
def test_the_size_table_holds(question: str) -> None:
    row = next(row for row in _table() if row.question == question)
    assert row.holds, "\n".join(row.places)


def planted(tmp_path: Path, where: str, text: str) -> PythonFile:
    """What is counted in a file of that text, as if it stood there."""
    source = tmp_path / "planted.py"
    source.write_text(text)
    return replace(read_python(source), path=Path(where))


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


def test_attributes_have_types(tmp_path: Path) -> None:
    file = planted(
        tmp_path, "aot/ir/some.py", "def f(c):\n    return c.attr('k'), c.attr, c.attrs\n"
    )
    found = sorted(found.text for found in file.attributes)
    assert found == ["attr", "attr()", "attrs"]


def test_only_options_reads_the_environment() -> None:
    readers = {str(f.path) for f in python_files() if f.environment_reads}
    assert readers <= {"aot/options.py", "tools/code_facts.py"}


def test_nothing_imports_the_command_line() -> None:
    assert all("cli" not in allowed for allowed in ALLOWED.values())


@pytest.mark.parametrize(
    ("path", "module", "problem"),
    [
        ("aot/ir/loops.py", "aot.symbolic.Expr", ""),
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


BAD = """
import os
from dataclasses import dataclass

@dataclass
class Mutable:
    x: int

def public(a, b: int) -> None:
    import json
    global counter
    def inner(): pass
    try:
        object.__setattr__(a, "x", os.environ["HOME"])
    except (ValueError, Exception):
        return {"cpu": "x86-64-v9"}
    except:
        pass
"""


def test_every_fact_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(BAD)
    facts = read_python(path)
    assert [(i.module, i.local) for i in facts.imports] == [
        ("os", False),
        ("dataclasses.dataclass", False),
        ("json", True),
    ]
    assert len(facts.broad_excepts) == 2
    assert [f.text for f in facts.environment_reads] == ["os.environ"]
    assert [f.text for f in facts.device_literals] == ["'cpu'", "'x86-64-v9'"]
    assert [f.text for f in facts.hidden_inputs] == ["global counter"]
    assert [f.text for f in facts.mutable_dataclasses] == ["Mutable"]
    assert len(facts.sets_after_init) == 1
    public, inner = facts.functions
    assert (public.public, public.annotated, public.documented) == (True, False, False)
    assert (inner.name, inner.public) == ("public.inner", False)
    assert [c.text for c in facts.undocumented_classes] == ["Mutable"]


def _sources(root: Path, **texts: str) -> None:
    (root / "aot").mkdir()
    for name, text in texts.items():
        (root / "aot" / f"{name}.py").write_text(text)


def test_circles_are_found_among_types_too(tmp_path: Path) -> None:
    _sources(
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


def test_what_nobody_uses_is_found(tmp_path: Path) -> None:
    _sources(
        tmp_path,
        a="SIZE, LEFT = 1, 2\ndef used(): return SIZE\ndef lost(): pass\n@row\ndef given(): pass\n",
        b="class C:\n    def m(self): return used()\n    def n(self): pass\n",
        c="C().m()\n",
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("from aot.a import lost\nlost()\n")
    found = [f"{path.name} {one.text}" for path, one in unused_names(tmp_path)]
    assert found == ["a.py LEFT", "a.py lost", "b.py C.n"]


def test_what_is_written_twice_is_found(tmp_path: Path) -> None:
    body = "    total = sum(x)\n    rest = [a for a in y if a > total]\n    return rest\n"
    first = f"def f(x: int, y):\n{body}"
    _sources(
        tmp_path,
        a=first,
        b=first.replace("total", "all_of").replace("x", "given").replace(": int", ""),
        c=first.replace("sum", "max"),
        d="def g(x):\n    return x\n",
        e="def g(x):\n    return x\n",
    )
    assert clones(tmp_path) == ["aot/a.py:1 f, aot/b.py:1 f"]
