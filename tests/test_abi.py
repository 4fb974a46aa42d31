"""The C interface only grows: today's headers against those of the last release.

`cpp/tests/abi/1.0` keeps the headers of the first interface. `cpp/tests/abi/program_1_0.cc` is a
program of theirs, which runs with today's library; this is the rest: what stands in the old headers
stands in today's at the same place. A release adds a folder of its own, and none is changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TODAY = ROOT / "cpp" / "include" / "aot"
RECORDS = sorted((ROOT / "cpp" / "tests" / "abi").glob("*/aot"))
HEADERS = ("abi.h", "dlpack.h", "kernel_abi.h", "operator_abi.h")

POINTER = 8
SIZES = {
    "size_t": 8,
    "int64_t": 8,
    "uint64_t": 8,
    "int32_t": 4,
    "uint32_t": 4,
    "double": 8,
    "DLDataType": 4,
    "DLDevice": 8,
}
"""Sizes of types that stand in structs by value, on the machines that the runtime is for."""


@dataclass(frozen=True)
class Header:
    """What a header declares, as normalised text.

    Attributes:
        structs: By name, the declarations of the fields in order.
        enums: By name, the enumerators with their values.
        rest: Functions, types of functions, constants.
    """

    structs: dict[str, list[str]]
    enums: dict[str, list[str]]
    rest: set[str]


def read(path: Path) -> Header:
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text("utf-8"), flags=re.S)
    constants = set(re.findall(r"^#define (\w+ +[^\s\\].*?) *$", text, flags=re.M))
    text = re.sub(r"^#.*?(?<!\\)$", " ", text, flags=re.M | re.S)
    text = re.sub(r"\s+", " ", text)
    structs: dict[str, list[str]] = {}
    enums: dict[str, list[str]] = {}

    def keep(match: re.Match[str]) -> str:
        kind, before, body, after = match.groups()
        name = after.strip() or before.split(":")[0].strip()
        separator = ";" if kind == "struct" else ","
        rows = [row.strip() for row in body.split(separator) if row.strip()]
        (structs if kind == "struct" else enums)[name] = rows
        return " "

    text = re.sub(r"(?:typedef )?(struct|enum)([\w :]*)\{(.*?)\}([\w ]*);", keep, text)
    rest = {" ".join(row.split()) for row in text.split(";") if row.strip(" {}")}
    return Header(structs, enums, {row for row in rest if row.strip("{} ")} | constants)


def size_of(field: str) -> int:
    if "*" in field:
        return POINTER
    words = [word for word in field.split() if word != "const"]
    return POINTER if words[0].endswith("_fn") else SIZES[words[0]]


def span_of(fields: list[str]) -> tuple[int, int]:
    """Where the last field ends, and the size of the struct with its padding."""
    end, largest = 0, 1
    for field in fields:
        size = size_of(field)
        alignment = min(size, POINTER) if "DLD" not in field else 4
        end = (end + alignment - 1) // alignment * alignment + size
        largest = max(largest, alignment)
    return end, (end + largest - 1) // largest * largest


def test_there_is_a_record() -> None:
    assert [path.parent.name for path in RECORDS] == ["1.0"]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.parent.name)
def test_headers_only_grow(record: Path, header: str) -> None:
    old, new = read(record / header), read(TODAY / header)
    assert old.structs or old.enums
    for name, fields in old.structs.items():
        assert new.structs[name][: len(fields)] == fields, name
    for name, values in old.enums.items():
        # A last row may have had no comma behind it; values are written out in each.
        assert new.enums[name][: len(values)] == values, name
    assert old.rest <= new.rest


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.parent.name)
def test_nothing_new_lies_in_old_padding(record: Path) -> None:
    """An old program never wrote its padding, which may hold anything: no field may mean it."""
    old, new = read(record / "abi.h"), read(TODAY / "abi.h")
    grown = {name: f for name, f in old.structs.items() if len(new.structs[name]) > len(f)}
    for name, fields in grown.items():
        _, size = span_of(fields)
        for count in range(len(fields) + 1, len(new.structs[name]) + 1):
            added = new.structs[name][count - 1]
            end, _ = span_of(new.structs[name][:count])
            assert "reserved" in added or end - size_of(added) >= size, f"{name}: {added}"


def test_todays_option_structs_end_without_padding() -> None:
    """What lies behind an older library's struct must be zero: padding need not be."""
    old = read(RECORDS[-1] / "abi.h").structs
    for name, fields in read(TODAY / "abi.h").structs.items():
        if fields[0] != "size_t struct_size" or fields == old.get(name):
            continue
        end, size = span_of(fields)
        assert end == size, f"{name} ends in padding: add `int32_t reserved`"


def test_structs_in_arrays_never_grow() -> None:
    old, new = read(RECORDS[0] / "abi.h"), read(TODAY / "abi.h")
    for name in ("aot_dim_info", "aot_step_profile"):
        assert old.structs[name] == new.structs[name]


def test_a_change_is_found(tmp_path: Path) -> None:
    """The reader sees fields, values, functions and constants."""
    text = (TODAY / "abi.h").read_text("utf-8")
    whole = read(TODAY / "abi.h")
    assert whole.structs["aot_run_options"][1] == "void* stream"
    assert "AOT_OPERATOR_FAILED = 11" in whole.enums["aot_code"]
    assert any("aot_session_run_with(" in row for row in whole.rest)
    assert "AOT_ABI_VERSION 1u" in whole.rest
    for before, after in (
        ("void* stream; ", "int64_t stream; "),
        ("AOT_INTERNAL = 10", "AOT_INTERNAL = 19"),
        ("AOT_API void aot_status_free(", "AOT_API int aot_status_free("),
        ("AOT_ABI_VERSION 1u", "AOT_ABI_VERSION 2u"),
    ):
        assert before in text
        changed = tmp_path / "abi.h"
        changed.write_text(text.replace(before, after, 1), "utf-8")
        assert read(changed) != whole


def test_features_are_documented() -> None:
    source = (ROOT / "cpp" / "src" / "c_api_growth.cc").read_text("utf-8")
    table = re.search(r"kFeatures\[\] = \{(.*?)\};", source, re.S)
    assert table is not None
    names = re.findall(r'"(\w+)"', re.sub(r"//[^\n]*", "", table[1]))
    document = (ROOT / "docs" / "abi.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", document.split("## Features")[1].split("\n## ")[0], re.M)
    assert listed == names


def test_every_public_struct_tells_its_size() -> None:
    source = (ROOT / "cpp" / "src" / "c_api_growth.cc").read_text("utf-8")
    known = re.findall(r'\{"(\w+)", sizeof\(\1\)\}', source)
    assert sorted(known) == sorted(read(TODAY / "abi.h").structs)


def test_the_library_exports_what_the_headers_declare() -> None:
    """Names that cpp/src/exports.map lets out, for all functions of every record."""
    exports = (ROOT / "cpp" / "src" / "exports.map").read_text("utf-8")
    assert "global: aot_*;" in exports
    for record in RECORDS:
        functions = {
            found[1]
            for row in read(record / "abi.h").rest
            if (found := re.search(r"AOT_API .*?\b(aot_\w+)\(", row))
        }
        assert len(functions) >= 40
        definitions = "".join(
            path.read_text("utf-8") for path in (ROOT / "cpp" / "src").glob("*.cc")
        )
        for name in functions:
            assert re.search(rf"\b{name}\(", definitions), name
