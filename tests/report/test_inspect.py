"""`inspect` reads everything from the file's data."""

from pathlib import Path

import pytest

from aot.link.package import write_package
from aot.link.reader import PackageFile
from aot.report.inspect import expr_text, group_sizes, inspect_json, inspect_text
from tests.link.plans import small_plan
from tests.link.test_package import small_entries


@pytest.fixture
def package(tmp_path: Path) -> PackageFile:
    path = tmp_path / "small.pkg"
    write_package(path, small_plan(), small_entries())
    return PackageFile(path)


def test_text(package: PackageFile, golden) -> None:
    golden("small.txt", inspect_text(package, weights=True))


def test_weights_are_summed_unless_asked_for(package: PackageFile) -> None:
    assert "weights/mask" not in inspect_text(package)


def test_json_is_about_the_same_file(package: PackageFile) -> None:
    value = inspect_json(package)
    assert value["bytes"] == package.path.stat().st_size
    assert value["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["s0", 4]}]
    assert value["dims"] == [{"name": "s0", "label": "batch", "min": 0, "max": 64, "multiple": 1}]
    assert [w["name"] for w in value["weights"]][-1] == "packed/half"


def test_groups_cover_all_data(package: PackageFile) -> None:
    end = max(info.end for info in package.entries.values())
    assert sum(group_sizes(package).values()) == end


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (4, "4"),
        ("s0", "s0"),
        (("//", ("+", "s0", 3), 4), "(s0 + 3) // 4"),
        (("max", ("*", 2, "s0"), 1), "max(2 * s0, 1)"),
        (("*", ("min", "s0", 4), "s1"), "min(s0, 4) * s1"),
    ],
)
def test_expressions_as_arithmetic(expr: object, text: str) -> None:
    assert expr_text(expr) == text
