"""Facts of machines: what counts as one, where, and that ours are where they belong."""

from pathlib import Path

import pytest

from tools.machine_facts import MACHINE, NO_FACTS, machine_facts, unused_exceptions


def test_what_serves_all_devices_knows_none() -> None:
    assert machine_facts() == []


def test_every_exception_is_of_something_that_is_there() -> None:
    assert unused_exceptions() == []


@pytest.mark.parametrize(
    ("where", "text", "found"),
    [
        ("lowering/a", "LANES = 16\n", "1: LANES"),
        ("schedule/a", 'STRIP = 64\n"""Elements of four vectors."""\n', "1: STRIP"),
        ("ir/a", "# What a cache holds\n# of these.\nMOST = 1 << 18\n", "3: MOST"),
        ("passes/a", "ROWS = (4, *range(8, 17))  # of a tile\n", "1: ROWS"),
        ("ir/a", "class A:\n    WARPS: int = 4\n", "2: WARPS"),
        (
            "ir/a",
            'class A:\n    """One.\n\n    most: Registers.\n    """\n\n    most: int = 4\n',
            "7: most",
        ),
        ("schedule/a", "def f(x):\n    return x > 512\n", "2: 512"),
        ("passes/a", "def f(x=1 << 15):\n    return x\n", "1: 15"),
        ("ir/a", 'def f(x):\n    return x == "cuda"\n', "2: 'cuda'"),
        ("passes/a", "def f(x):\n    return x.arch in y\n", "2: arch"),
    ],
)
def test_planted_facts_are_counted(tmp_path: Path, where: str, text: str, found: str) -> None:
    _write(tmp_path, f"aot/{where}.py", text)
    assert machine_facts(tmp_path) == [f"aot/{where}.py:{found}"]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("lowering/a", 'DEGREE = 24\n"""Bits of a float."""\n'),
        ("lowering/a", 'WORD = "lanes"\n'),
        ("lowering/a", "def f(x):\n    return x & 0xFFFF\n"),
        ("schedule/a", "def f(x):\n    return 8 * x\n"),
        ("ir/a", "class Sorts(Support[Sort]):\n    lanes: int = 4\n"),
        ("backends/a", "LANES = 16\n"),
        (MACHINE.removeprefix("aot/").removesuffix(".py"), "LANES = 16\n"),
    ],
)
def test_numbers_of_something_else_are_not(tmp_path: Path, where: str, text: str) -> None:
    _write(tmp_path, f"aot/{where}.py", text)
    assert machine_facts(tmp_path) == []


def test_an_exception_without_its_constant_is_told_of(tmp_path: Path) -> None:
    kept, *gone = NO_FACTS
    path, _, name = kept.partition(": ")
    _write(tmp_path, path, f"{name} = 4  # of a cache\n")
    assert machine_facts(tmp_path) == []
    assert unused_exceptions(tmp_path) == gone


def _write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")
