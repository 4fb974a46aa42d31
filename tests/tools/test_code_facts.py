"""Facts about sources: each is seen in a file that has it."""

from pathlib import Path

from tests.tools.sources import planted
from tools.code_facts import read_python


def test_attributes_have_types(tmp_path: Path) -> None:
    file = planted(
        tmp_path, "aot/ir/some.py", "def f(c):\n    return c.attr('k'), c.attr, c.attrs\n"
    )
    found = sorted(found.text for found in file.attributes)
    assert found == ["attr", "attr()", "attrs"]


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
