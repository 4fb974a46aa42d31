"""Names that only tests use, in sources made for it."""

from pathlib import Path

from tests.tools.sources import write_sources
from tools.unused import unused_names


def test_what_nobody_uses_is_found(tmp_path: Path) -> None:
    write_sources(
        tmp_path,
        a="SIZE, LEFT = 1, 2\ndef used(): return SIZE\ndef lost(): pass\n@row\ndef given(): pass\n",
        b="class C:\n    def m(self): return used()\n    def n(self): pass\n",
        c="C().m()\n",
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("from aot.a import lost\nlost()\n")
    found = [f"{path.name} {one.text}" for path, one in unused_names(tmp_path)]
    assert found == ["a.py LEFT", "a.py lost", "b.py C.n"]
