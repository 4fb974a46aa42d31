"""Tests mirror sources by name: on our tree as it is; and the rule itself, on trees made for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.mirror_rules import LARGE, OURS, Rules

LONG = "def f(): pass\n" * (LARGE + 1)
SHORT = "def f(): pass\n"
OTHERS = "see tools/mirror_rules.py"


def test_ours_keep_the_rule() -> None:
    assert list(OURS.breaches()) == []


def test_every_row_says_what_is_tested() -> None:
    assert all(reason.strip() for reason in OURS.spanning.values())
    assert all(rows for rows in OURS.through.values())


def found(
    root: Path,
    files: Mapping[str, str],
    spanning: Mapping[str, str] | None = None,
    through: Mapping[str, tuple[str, ...]] | None = None,
) -> list[str]:
    """What is wrong with a tree of these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return list(Rules(root, spanning or {}, through or {}).breaches())


@pytest.mark.parametrize(
    ("source", "test"),
    [
        ("aot/cli.py", "tests/test_cli.py"),
        ("aot/ir/scalar.py", "tests/ir/test_scalar.py"),
        ("aot/ir/templates/conv.py", "tests/ir/test_templates.py"),
        ("aot/backends/cpp/include/aot/vec/arith.h", "tests/backends/cpp/vec/test_arith.py"),
        ("runtime/aot_runtime/model.py", "tests/runtime/test_model.py"),
        ("tools/size.py", "tests/tools/test_size.py"),
        ("scripts/matrix", "tests/scripts/test_matrix.py"),
        ("tests/ir/nests.py", "tests/ir/test_nests.py"),
    ],
)
def test_a_test_is_named_after_its_source(tmp_path: Path, source: str, test: str) -> None:
    assert found(tmp_path, {source: SHORT, test: ""}) == []
    assert found(tmp_path / "bare", {test: ""}) == [f"{test}: no source has that name; {OTHERS}"]


@pytest.mark.parametrize(
    "test", ["tests/test_scalar.py", "tests/lowering/test_scalar.py", "tests/ir/test_scalars.py"]
)
def test_a_name_elsewhere_is_another_name(tmp_path: Path, test: str) -> None:
    (problem,) = found(tmp_path, {"aot/ir/scalar.py": SHORT, test: ""})
    assert problem == f"{test}: no source has that name; {OTHERS}"


@pytest.mark.parametrize("row", ["tests/programs/", "tests/programs/test_programs.py"])
def test_tests_of_more_than_one_source_are_listed(tmp_path: Path, row: str) -> None:
    files = {"tests/programs/test_programs.py": ""}
    assert found(tmp_path, files, {row: "random programs"}) == []
    (named,) = found(tmp_path, {"tests/programs/programs.py": ""}, {row: "random programs"})
    assert named == f"{row}: is listed as spanning sources, and is named after one"


def test_rows_are_of_tests_that_exist(tmp_path: Path) -> None:
    problems = found(tmp_path, {}, {"tests/gone/": "x"}, {"tests/test_lost.py": ()})
    assert problems == [
        "tests/gone/: is listed as spanning sources, and does not exist",
        "tests/test_lost.py: is listed as a test of other modules, and does not exist",
    ]


def test_large_modules_have_a_test(tmp_path: Path) -> None:
    files = {"aot/ir/large.py": LONG, "aot/ir/small.py": SHORT, "aot/ir/__init__.py": LONG}
    missing = f"aot/ir/large.py: there is no tests/ir/test_large.py; {OTHERS}"
    assert found(tmp_path, files) == [missing]
    through = {"tests/ir/test_small.py": ("aot/ir/large.py",)}
    assert found(tmp_path, {"tests/ir/test_small.py": ""}, through=through) == []
    (idle,) = found(tmp_path, {"tests/ir/test_large.py": ""}, through=through)
    assert idle == "aot/ir/large.py: is listed below tests/ir/test_small.py, and needs no row"


def test_parts_are_tested_with_the_whole(tmp_path: Path) -> None:
    files = {"aot/ir/plan.py": LONG, "aot/ir/plan_json.py": LONG, "tests/ir/test_plan.py": ""}
    assert found(tmp_path, files) == []
    (problem,) = found(tmp_path, {"aot/ir/planner.py": LONG})
    assert problem == f"aot/ir/planner.py: there is no tests/ir/test_planner.py; {OTHERS}"


@pytest.mark.parametrize("folder", ["passes", "schedule"])
def test_every_pass_has_a_test_of_its_own(tmp_path: Path, folder: str) -> None:
    files = {
        f"aot/{folder}/split.py": SHORT,
        f"aot/{folder}/split_more.py": SHORT,
        f"aot/{folder}/names.py": "NAMES = ()\n",
        f"tests/{folder}/test_split.py": "",
    }
    through = {f"tests/{folder}/test_split.py": (f"aot/{folder}/",)}
    for rows in ({}, through):
        (problem,) = found(tmp_path, files, through=rows)
        assert problem == (
            f"aot/{folder}/split_more.py: there is no tests/{folder}/test_split_more.py; {OTHERS}"
        )
