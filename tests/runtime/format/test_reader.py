"""Hostile and damaged files: each way to be wrong has its sentence, none crashes."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aot_runtime.format.container import decode_header, encode_header, lay_out
from aot_runtime.format.plan_json import encode_plan
from aot_runtime.format.reader import PackageFile
from hypothesis import given, settings
from hypothesis import strategies as st

from aot.errors import CorruptPackage, IncompatiblePackage, PackageError, PackageReadError
from aot.link.package import write_package
from tests.link.plans import small_plan
from tests.link.test_package import small_entries


def container(edit: Callable[[dict[str, Any]], None] | None = None, extra: bytes = b"") -> bytes:
    """A tiny container with the entries plan and weights/a, its header's table edited."""
    plan = encode_plan(small_plan())
    layout = lay_out([("plan", "uint8", (len(plan),)), ("weights/a", "float32", (2, 2))])
    header = encode_header(layout, hashlib.sha256(plan).hexdigest())
    table = json.loads(header[8:])
    if edit:
        edit(table)
        text = json.dumps(table).encode()
        text += b" " * (-(8 + len(text)) % 64)
        header = len(text).to_bytes(8, "little") + text
    body = bytearray(layout[-1].end)
    body[: len(plan)] = plan
    return header + body + extra


def shift(name: str, begin: int, end: int) -> Callable[[dict[str, Any]], None]:
    def edit(table: dict[str, Any]) -> None:
        table[name]["data_offsets"][0] += begin
        table[name]["data_offsets"][1] += end

    return edit


def put(name: str, **values: object) -> Callable[[dict[str, Any]], None]:
    return lambda table: table[name].update(values)


WRONG = {
    "at least 8": b"abc",
    "no package, or it was cut off": b"\xff" * 64,
    "no multiple of 64": (3).to_bytes(8, "little") + b"{} ",
    "not JSON": (56).to_bytes(8, "little") + b"?" * 56,
    "no JSON object": (56).to_bytes(8, "little") + b"[]".ljust(56),
    "safetensors file but no package": container(lambda t: t.pop("__metadata__")),
    "metadata does not say": container(put("__metadata__", format="pt")),
    "unknown dtype 'F4'": container(put("weights/a", dtype="F4")),
    "row for entry weights/a is malformed": container(put("weights/a", shape="2x2")),
    "row for entry weights/a is malformed ": container(put("weights/a", data_offsets=[0])),
    "row for entry weights/a is malformed  ": container(put("weights/a", shape=[-2, -2])),
    "row for entry weights/a is malformed   ": container(put("weights/a", shape=[True, 4])),
    "needs 16": container(put("weights/a", dtype="F64")),
    "needs 32": container(put("weights/a", dtype="F64")),
    "overlaps the one before": container(shift("weights/a", -64, -64)),
    "leaves a hole before": container(shift("weights/a", 64, 64)),
    "cut off or has something appended": container(extra=b"x"),
    "cut off": container()[:-1],
    "the plan is not as it was written": container().replace(b'"min":0', b'"min":1'),
    "no entry named plan": container(lambda t: t.update(weights=t.pop("plan"))),
}
WRONG.pop("needs 16")


@pytest.mark.parametrize("message", WRONG)
def test_every_way_to_be_wrong_is_named(message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.pkg"
    path.write_bytes(WRONG[message])
    with pytest.raises(CorruptPackage, match=message.strip()) as raised:
        PackageFile(path)
    assert str(path) in str(raised.value)


def test_duplicate_names_are_refused() -> None:
    text = b'{"__metadata__":{"format":"aot-package"},"a":{},"a":{}}'
    text += b" " * (-(8 + len(text)) % 64)
    with pytest.raises(CorruptPackage, match="names a twice"):
        decode_header(memoryview(len(text).to_bytes(8, "little") + text))


def test_misaligned_entry_is_refused() -> None:
    def edit(table: dict[str, Any]) -> None:
        table["weights/b"] = table.pop("pad/0")

    with pytest.raises(CorruptPackage, match="weights/b begins at byte"):
        decode_header(memoryview(container(edit)))


def test_deeply_nested_header_is_refused() -> None:
    text = b"[" * 200_000
    text += b" " * (-(8 + len(text)) % 64)
    with pytest.raises(CorruptPackage, match="not JSON"):
        decode_header(memoryview(len(text).to_bytes(8, "little") + text))


def test_oversized_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.pkg"
    with path.open("wb") as file:
        file.write((100_000_056).to_bytes(8, "little"))
        file.truncate(100_000_064 + 8)  # sparse: takes no space
    with pytest.raises(CorruptPackage, match="claims 100000056 bytes"):
        PackageFile(path)


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(PackageReadError, match="No such file"):
        PackageFile(tmp_path / "none.pkg")
    (tmp_path / "empty.pkg").touch()
    with pytest.raises(CorruptPackage, match="empty"):
        PackageFile(tmp_path / "empty.pkg")
    with pytest.raises(PackageReadError, match="directory"):
        PackageFile(tmp_path)


def test_newer_format_is_refused(tmp_path: Path) -> None:
    data = container(put("__metadata__", plan_sha256=""))
    data = data.replace(b'{"format":[1,1]', b'{"format":[9,0]')
    path = tmp_path / "new.pkg"
    path.write_bytes(data)
    with pytest.raises(IncompatiblePackage, match=r"format 9\.0"):
        PackageFile(path)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz") / "good.pkg"
    write_package(path, small_plan(), small_entries())
    return path


@settings(max_examples=300, deadline=None)
@given(edits=st.lists(st.tuples(st.integers(0, 6000), st.integers(1, 255)), min_size=1, max_size=4))
def test_flipped_bytes_never_crash(good: Path, edits: list[tuple[int, int]]) -> None:
    data = bytearray(good.read_bytes())
    for position, flip in edits:
        data[position % len(data)] ^= flip
    path = good.with_name("flipped.pkg")
    path.write_bytes(data)
    try:
        with PackageFile(path) as file:
            assert file.plan.programs is not None
            list(file.damaged())
    except PackageError as error:
        assert error.message


@settings(max_examples=100, deadline=None)
@given(length=st.integers(0, 6000))
def test_truncation_is_always_found(good: Path, length: int) -> None:
    data = good.read_bytes()
    path = good.with_name("cut.pkg")
    path.write_bytes(data[: min(length, len(data) - 1)])
    with pytest.raises(CorruptPackage):
        PackageFile(path)
