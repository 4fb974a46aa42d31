"""Errors: every one says what, where and what to do, and docs/errors.md lists them all."""

import re
from pathlib import Path

import aot_runtime
import pytest

from aot import errors
from aot.errors import (
    AotError,
    CompilerFailed,
    KernelRefused,
    MissingOperator,
    Origin,
    UnsupportedOperators,
)

ROOT = Path(__file__).parents[1]


def make(kind: type[AotError]) -> AotError:
    """An instance of any error class."""
    if kind is UnsupportedOperators:
        return UnsupportedOperators([MissingOperator("aten.x.default", (Origin("m.py", 3),))])
    if kind is CompilerFailed:
        return CompilerFailed(["g++", "k.cc"], "k.cc:1: error", Path("/tmp/k.cc"))
    if kind is KernelRefused:
        return KernelRefused("k0", "sm_90", "at 3:7: undefined name", "sum at m.py:3")
    return kind("it broke", where="m.py:3")


def test_codes_are_distinct_words() -> None:
    codes = [kind.code for kind in errors.all_errors()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[A-Z_]+", code) for code in codes)


@pytest.mark.parametrize("kind", list(errors.all_errors()))
def test_every_error_says_what_where_and_what_to_do(kind: type[AotError]) -> None:
    error = make(kind)
    assert error.message in str(error)
    assert error.where
    assert f"where: {error.where}" in str(error)
    bases = (AotError, errors.UserError, errors.ToolchainError, errors.PackageError)
    if kind not in bases:
        assert "what to do: " in str(error)
    assert error.to_json()["code"] == kind.code
    assert error.to_json()["exit_code"] == kind.exit_code


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        (errors.UsageError, 2),
        (errors.ModelFileError, 3),
        (errors.InputMismatch, 3),
        (errors.ExportError, 3),
        (errors.DynamicShapeError, 3),
        (errors.UnsupportedOperators, 3),
        (errors.ToolchainMissing, 4),
        (errors.CompilerFailed, 4),
        (errors.KernelRefused, 4),
        (errors.PackageWriteError, 5),
        (errors.PackageReadError, 5),
        (errors.CorruptPackage, 5),
        (errors.IncompatiblePackage, 5),
        (errors.VerificationFailed, 1),
        (errors.InternalError, 70),
    ],
)
def test_exit_codes_are_the_documented_ones(kind: type[AotError], exit_code: int) -> None:
    assert kind.exit_code == exit_code


def test_all_missing_operators_are_listed_with_their_lines() -> None:
    error = UnsupportedOperators(
        [
            MissingOperator(
                "aten._fft_r2c.default",
                (Origin("m.py", 7, code="torch.fft.rfft(x)"), Origin("m.py", 9)),
                "complex numbers",
            ),
            MissingOperator("aten.nonzero.default", (Origin(),)),
        ]
    )
    text = str(error)
    assert text.startswith("2 operators have no lowering: aten._fft_r2c.default, aten.nonzero")
    assert "aten._fft_r2c.default: complex numbers" in text
    assert "m.py:7  torch.fft.rfft(x)" in text
    assert "m.py:9" in text
    assert "unknown line" in text
    assert error.where == "m.py:7"
    assert [m["operator"] for m in error.to_json()["missing"]] == [
        "aten._fft_r2c.default",
        "aten.nonzero.default",
    ]


def test_compiler_failure_keeps_everything() -> None:
    error = CompilerFailed(["g++", "-O3", "k.cc"], "k.cc:1: bad\n", Path("kept/k.cc"), -9)
    text = str(error)
    assert "killed by signal 9: g++ -O3 k.cc" in text
    assert "where: kept/k.cc" in text
    assert "| k.cc:1: bad" in text
    assert "report" in text


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (Origin("m.py", 3, "aten.add.Tensor"), "m.py:3 (aten.add.Tensor)"),
        (Origin("m.py", 3), "m.py:3"),
        (Origin("", 0, "aten.add.Tensor"), "aten.add.Tensor"),
        (Origin("", 0, "aten.add.Tensor", 'Linear "0"'), 'Linear "0" (aten.add.Tensor)'),
        (Origin(), ""),
    ],
)
def test_origin_as_text(origin: Origin, text: str) -> None:
    assert str(origin) == text


def test_the_document_has_the_generated_table() -> None:
    document = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert errors.markdown_table() in document, "run `python -m aot.errors` and paste its table"


def test_the_document_lists_every_runtime_code() -> None:
    document = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    header = (ROOT / "cpp" / "include" / "aot" / "abi.h").read_text(encoding="utf-8")
    codes = re.findall(r"^\s*AOT_([A-Z_]+) = (\d+)", header.split("} aot_code;")[0], re.MULTILINE)
    assert len(codes) >= 11
    missing = [name for name, _ in codes if name != "OK" and f"`{name}`" not in document]
    assert missing == []


def test_the_document_lists_the_loaders_classes() -> None:
    document = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    for code, kind in aot_runtime.errors.BY_CODE.items():
        bases = [b.__name__ for b in kind.__bases__ if b is not aot_runtime.AotError]
        also = f" (`{bases[0]}`)" if bases else ""
        assert f"| `{code}` | `{kind.__name__}`{also} |" in document
