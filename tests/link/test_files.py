"""Files that a package carries: as entries, shown by `inspect`, read with checks."""

import json
from pathlib import Path

import aot_runtime
import pytest
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.inspect import inspect_json, inspect_text

from aot.errors import UsageError
from aot.link.entry import Entry, bytes_entry
from aot.link.files import file_entries
from aot.options import parse_file
from tests.kernels import write_kernels
from tests.runtime.make_package import small_package

CONTENTS = {"tokenizer.json": b"{}", "pooling/config.json": bytes(range(256)) * 40}


def carried(folder: Path) -> tuple[Entry, ...]:
    files = []
    for number, (name, content) in enumerate(CONTENTS.items()):
        path = folder / f"file{number}"
        path.write_bytes(content)
        files.append((name, path))
    return file_entries(files)


def test_entries_of_files(tmp_path: Path) -> None:
    entries = carried(tmp_path)
    assert [e.name for e in entries] == ["files/tokenizer.json", "files/pooling/config.json"]
    assert [b"".join(e.data()) for e in entries] == list(CONTENTS.values())


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "a//b", "../a", "a/..", ".", "a\\b", "a\nb", "a\x00", "n" * 201]
)
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="a package cannot carry a file called"):
        file_entries([(name, tmp_path / "a")])


def test_files_that_cannot_be_carried(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(UsageError, match="two files are called x"):
        file_entries([("x", tmp_path / "a")] * 2)
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UsageError, match="cannot read the file for x"):
            file_entries([("x", path)])


def test_the_option() -> None:
    assert parse_file("a.json=x/y=z") == ("a.json", Path("x/y=z"))
    for text in ("a", "=b", "a="):
        with pytest.raises(UsageError, match="does not say which file gets which name"):
            parse_file(text)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_kernels(tmp_path, {"x86-64-v2": "0"}, more=carried(tmp_path))


def test_the_loader_reads_them(package: Path) -> None:
    model = aot_runtime.load(package)
    assert model.files == sorted(CONTENTS)
    assert {name: model.file(name) for name in model.files} == CONTENTS
    with pytest.raises(
        aot_runtime.NotFound,
        match=r"no file 'x'; it carries 'pooling/config\.json', 'tokenizer\.json'",
    ):
        model.file("x")


def test_they_are_checked_when_they_are_read(package: Path) -> None:
    data = bytearray(package.read_bytes())
    data[data.index(CONTENTS["pooling/config.json"])] ^= 1
    package.write_bytes(data)
    model = aot_runtime.load(package)
    with pytest.raises(aot_runtime.CorruptPackage, match="checksum of 'files/pooling/config"):
        model.file("pooling/config.json")
    assert model.file("tokenizer.json") == b"{}"


def test_inspect_shows_them(package: Path) -> None:
    with PackageFile(package) as file:
        text = inspect_text(file)
        told = inspect_json(file)["files"]
    assert "files\n  pooling/config.json: 10.2 kB\n  tokenizer.json: 2 B\n" in text
    assert told == [
        {"name": "pooling/config.json", "bytes": 10240},
        {"name": "tokenizer.json", "bytes": 2},
    ]
    json.dumps(told)


def test_a_package_without_any(tmp_path: Path) -> None:
    model = aot_runtime.load(small_package().write(tmp_path / "small.pkg"))
    assert model.files == []
    assert bytes_entry("files/a", b"").nbytes == 0
