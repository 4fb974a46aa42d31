"""Tests mirror sources by name: the rule as data, and a check of it.

`tests/F/test_X.py` tests `aot/F/X.py` (or the folder `aot/F/X`), and its parts `X_part.py`. A test
of more than one source, and a source whose tests have another's name, stand in the tables below; a
row that is wrong or not needed any more is a breach too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.code_facts import ROOT, read_python

MIRRORED = (
    ("aot", "tests"),
    ("aot/backends/cpp/include/aot", "tests/backends/cpp"),
    ("runtime/aot_runtime", "tests/runtime"),
    ("tools", "tests/tools"),
    ("scripts", "tests/scripts"),
    ("tests", "tests"),  # what tests are made of is tested beside it
)
"""(folder of sources, folder of their tests), with all that is below."""

ENDINGS = ("", ".py", ".h")
"""Of a source: a folder or script, a module, a header for kernels."""

LARGE = 100
"""Lines above which a module of `aot` wants a test of its name: half the median that we allow. The
smaller ones are read and tested together with whoever calls them."""

EACH = ("aot/passes/", "aot/schedule/")
"""Where every module with a public function has one: a wrong rewrite is found by looking at what
this one makes, and by running that, not by the end of a build."""

SPANNING: Mapping[str, str] = {}
"""Tests, or folders of tests, of more than one source -> what they test."""

THROUGH: Mapping[str, tuple[str, ...]] = {}
"""Tests -> the large modules, or folders of them, that are tested here and by no test of their
name."""


@dataclass(frozen=True)
class Rules:
    """The tables, and the tree that they are about."""

    root: Path
    spanning: Mapping[str, str]
    through: Mapping[str, tuple[str, ...]]

    def breaches(self) -> Iterator[str]:
        """Everything that breaks the rule, as `path: sentence`."""
        tests = sorted(p.relative_to(self.root) for p in self.root.glob("tests/**/test_*.py"))
        unnamed = [test.as_posix() for test in tests if not self._has_source(test)]
        for test in unnamed:
            if not any(_covers(row, test) for row in self.spanning):
                yield f"{test}: no source has that name; see tools/mirror_rules.py"
        for row in self.spanning:
            if not (self.root / row).exists():
                yield f"{row}: is listed as spanning sources, and does not exist"
            elif not any(_covers(row, test) for test in unnamed):
                yield f"{row}: is listed as spanning sources, and is named after one"
        yield from self._untested()

    def _has_source(self, test: Path) -> bool:
        """True when one of the mirrored folders has what the test is named after."""
        name = test.stem.removeprefix("test_")
        return any(
            (self.root / source / test.parent.relative_to(folder) / (name + ending)).exists()
            for source, folder in MIRRORED
            if test.is_relative_to(folder)
            for ending in ENDINGS
        )

    def _untested(self) -> Iterator[str]:
        """Modules that want a test and have none, and rows about others."""
        modules = (p.relative_to(self.root).as_posix() for p in self.root.glob("aot/**/*.py"))
        wanting = [m for m in sorted(modules) if self._wants_test(m) and not self._has_test(m)]
        listed = [row for rows in self.through.values() for row in rows]
        for module in wanting:
            if module.startswith(EACH) or not any(_covers(row, module) for row in listed):
                yield f"{module}: there is no {_test_of(module)}; see tools/mirror_rules.py"
        for test, rows in self.through.items():
            if not (self.root / test).exists():
                yield f"{test}: is listed as a test of other modules, and does not exist"
            for row in rows:
                if not any(_covers(row, module) for module in wanting):
                    yield f"{row}: is listed below {test}, and wants no other's test"

    def _wants_test(self, module: str) -> bool:
        if module.endswith("__init__.py"):
            return False
        facts = read_python(self.root / module)
        if module.startswith(EACH):
            return any(function.public for function in facts.functions)
        return facts.lines > LARGE

    def _has_test(self, module: str) -> bool:
        """True with a test of its name, or of what its name says that it is a part of."""
        words = Path(module).stem.split("_")
        names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
        whole = self.root / _test_of(module)
        return any((whole.with_name(f"test_{name}.py")).exists() for name in names)


def _test_of(module: str) -> str:
    """Where the test of a module of `aot` is."""
    folder, _, name = module.rpartition("/")
    return f"tests{folder.removeprefix('aot')}/test_{name}"


def _covers(row: str, path: str) -> bool:
    """True when the row is the path, or a folder ("…/") above it."""
    return path == row or (row.endswith("/") and path.startswith(row))


OURS = Rules(ROOT, SPANNING, THROUGH)


def main() -> int:
    """Print what breaks the rule; 1 when something does."""
    found = list(OURS.breaches())
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
