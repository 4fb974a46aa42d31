"""`inspect` reads everything from the file's data."""

from dataclasses import replace
from pathlib import Path

import pytest
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.inspect import expr_text, group_sizes, inspect_json, inspect_text

from aot.errors import UsageError
from aot.link.package import bytes_entry, write_package
from tests.hostile.packages import build
from tests.link.plans import small_plan, wide_plan
from tests.link.test_package import small_entries

CODE = "kernels/cuda/sm_90/k0"


@pytest.fixture
def package(tmp_path: Path) -> PackageFile:
    path = tmp_path / "small.pkg"
    write_package(path, small_plan(), small_entries())
    return PackageFile(path)


def test_text(package: PackageFile, golden) -> None:
    golden("small.txt", inspect_text(package, weights=True))


@pytest.fixture
def wide(tmp_path: Path) -> PackageFile:
    path = tmp_path / "wide.pkg"
    write_package(path, wide_plan(), [*small_entries(), bytes_entry(CODE, b"cubin")])
    return PackageFile(path)


def test_text_of_several_programs(wide: PackageFile, golden) -> None:
    golden("wide.txt", inspect_text(wide))


def test_one_program_of_several(wide: PackageFile) -> None:
    for target in ("cuda", "cuda:sm_90"):
        text = inspect_text(wide, target=target)
        assert "runs on cuda:sm_90 (5 B of code)" in text
        assert "runs on cpu" not in text
    (program,) = inspect_json(wide, "cuda")["programs"]
    assert program == {
        "device": "cuda",
        "arch": "sm_90",
        "libraries": [],
        "kernels": ["k0"],
        "steps": 1,
        "checks": [],
        "operators": [],
        "operator_libraries": [],
        "bytes": 5,
        "declared": None,
    }
    with pytest.raises(UsageError, match="no program for cuda:sm_80") as raised:
        inspect_text(wide, target="cuda:sm_80")
    assert raised.value.advice == "It has cpu, cuda:sm_90."


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


def test_what_kernels_declare(tmp_path: Path) -> None:
    (path,) = build(tmp_path, ("changed",))
    with PackageFile(path) as file:
        (program,) = inspect_json(file)["programs"]
        text = inspect_text(file)
    assert list(program["declared"]) == program["kernels"]
    (buffers,) = program["declared"].values()
    assert {b["access"] for b in buffers} >= {"read", "write"}
    assert all(b["dtype"] == "float32" and b["bytes"] == "48" for b in buffers)
    assert "trusted" not in text


def test_kernels_of_one_line_are_one_row(tmp_path: Path) -> None:
    plan = small_plan()
    (program,) = plan.programs
    first = program.kernels[0]
    many = tuple(replace(first, name=f"k{i}") for i in range(12))
    steps = tuple(replace(program.steps[0], kernel=i) for i in range(12))
    path = tmp_path / "unrolled.pkg"
    unrolled = replace(plan, programs=(replace(program, kernels=many, steps=steps),))
    write_package(path, unrolled, small_entries())
    with PackageFile(path) as file:
        lines = [line for line in inspect_text(file).splitlines() if line.startswith("    k0")]
    (line,) = lines
    assert line.startswith("    k0, k1 to k11, 12 kernels  ")
