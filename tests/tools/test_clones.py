"""Functions that are written twice, in sources made for it."""

from pathlib import Path

from tests.tools.sources import write_sources
from tools.clones import clones


def test_what_is_written_twice_is_found(tmp_path: Path) -> None:
    body = "    total = sum(x)\n    rest = [a for a in y if a > total]\n    return rest\n"
    first = f"def f(x: int, y):\n{body}"
    write_sources(
        tmp_path,
        a=first,
        b=first.replace("total", "all_of").replace("x", "given").replace(": int", ""),
        c=first.replace("sum", "max"),
        d="def g(x):\n    return x\n",
        e="def g(x):\n    return x\n",
    )
    assert clones(tmp_path) == ["aot/a.py:1 f, aot/b.py:1 f"]
