"""The manifest: every byte of a package has a digest, and both readers find what changed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import aot_runtime
import numpy as np
import pytest
from aot_runtime.format.container import NO_HASH, encode_header, lay_out
from aot_runtime.format.manifest import (
    BLOCK_BYTES,
    Digest,
    Hasher,
    decode_manifest,
    digest_of,
    encode_manifest,
    unknown_digest,
)
from aot_runtime.format.reader import PackageFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aot.errors import CorruptPackage, IncompatiblePackage
from tests.trust.packages import X, write


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("manifest") / "p.pkg")


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES])
def test_digests_of_pieces(size: int) -> None:
    data = np.arange(size, dtype=np.uint8).tobytes()
    blocks = [data[k : k + BLOCK_BYTES] for k in range(0, size, BLOCK_BYTES)]
    hashes = tuple(hashlib.sha256(block).hexdigest() for block in blocks)
    wanted = Digest(hashlib.sha256(data).hexdigest(), hashes if len(blocks) > 1 else ())
    assert digest_of(memoryview(data)) == wanted
    hasher = Hasher()
    for start in range(0, size, 1_000_003):
        hasher.update(memoryview(data)[start : start + 1_000_003])
    assert hasher.digest() == wanted
    assert len(unknown_digest(size).blocks) == len(wanted.blocks)


def test_every_entry_is_in_it(package: Path) -> None:
    with PackageFile(package) as file:
        assert file.manifest is not None
        digests = file.manifest.digests()
        names = [name for name in file.entries if not name.startswith("pad/")]
        assert names[:2] == ["plan", "manifest"]
        assert list(digests) == [name for name in names if name != "manifest"]
        assert all(file.sha256(name) == digest.sha256 for name, digest in digests.items())
        assert len(digests["weights/large"].blocks) == 3
        assert file.header.manifest_sha256 == file.sha256("manifest")
        assert decode_manifest(bytes(file.data("manifest"))) == file.manifest
        assert list(file.damaged()) == []


def test_both_readers_take_it(package: Path) -> None:
    model = aot_runtime.load(package, verify="full")
    np.testing.assert_array_equal(model(X)["y"], 2 * (X + np.arange(8)))
    np.testing.assert_array_equal(aot_runtime.load(package, verify="lazy")(X)["y"], model(X)["y"])


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    path = write(tmp_path / "p.pkg", weights_file="p.weights")
    with PackageFile(path) as file:
        assert file.manifest is not None
        assert file.manifest.weights == file.header.weights
        assert file.manifest.weights_rows_sha256
        weights = ["weights/bias", "weights/factor", "weights/large"]
        assert [row.name for row in file.manifest.rows][-3:] == weights
    aot_runtime.load(path, verify="full")
    apart = tmp_path / "p.weights"
    good = apart.read_bytes()
    for position in (9, 70, len(good) // 2, len(good) - 1):
        apart.write_bytes(good[:position] + bytes([good[position] ^ 2]) + good[position + 1 :])
        with pytest.raises(aot_runtime.AotError):
            aot_runtime.load(path, verify="full")
        assert found_by_reader(path) != []


def regions(data: bytes) -> dict[str, tuple[int, int]]:
    """Where each kind of bytes is in the file."""
    start = 8 + int.from_bytes(data[:8], "little")
    table = json.loads(data[8:start])
    places = {"length": (0, 8), "header": (8, start)}
    for name, row in table.items():
        if name == "__metadata__":
            continue
        begin, end = row["data_offsets"]
        places[name] = (start + begin, start + end)
    return places


def found_by_reader(path: Path) -> list[str]:
    """What the reader in Python finds wrong: entries, or that it does not open the file."""
    try:
        with PackageFile(path) as file:
            return [info.name for info in file.damaged()]
    except (CorruptPackage, IncompatiblePackage):
        return ["the file itself"]


FIRST = ("length", "header", "plan", "manifest")
"""What is checked when a package is opened, whoever opens it."""


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_changed_byte_is_found(package: Path, data: st.DataObject) -> None:
    good = package.read_bytes()
    places = regions(good)
    region = data.draw(st.sampled_from(sorted(places)))
    begin, end = places[region]
    position = data.draw(st.integers(begin, end - 1))
    changed = bytearray(good)
    changed[position] ^= data.draw(st.integers(1, 255))
    path = package.with_name("changed.pkg")
    path.write_bytes(changed)
    with pytest.raises(aot_runtime.AotError):
        aot_runtime.load(path, verify="full")
    if region in FIRST:
        with pytest.raises((aot_runtime.CorruptPackage, aot_runtime.Incompatible)):
            aot_runtime.load(path)
    if region.startswith("kernels/"):
        with pytest.raises(aot_runtime.CorruptPackage):
            aot_runtime.load(path)
    found = found_by_reader(path)
    assert found == ["the file itself"] if region in FIRST else found == [region]


def rewrite(path: Path, manifest: bytes, **metadata: str) -> None:
    """Puts another manifest of equal size into a package, with its checksum."""
    with PackageFile(path) as file:
        header, good = file.header, path.read_bytes()
        begin = header.start + file.entries["manifest"].begin
    sha256 = hashlib.sha256(manifest).hexdigest()
    text = good[: header.start].replace(header.manifest_sha256.encode(), sha256.encode())
    data = bytearray(text + good[header.start :])
    data[begin : begin + len(manifest)] = manifest
    path.write_bytes(data)


def test_manifests_that_contradict_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "p.pkg")
    with PackageFile(path) as file:
        good = bytes(file.data("manifest"))
    whole, pieces = "not the one that its manifest describes", "malformed"
    wrong = {
        b"?" + good[1:]: pieces,
        good.replace(b'"blocks":["', b'"blocks":[ "', 1)[: len(good)]: pieces,
        good.replace(b'"block_bytes":4', b'"block_bytes":5'): pieces,
        good.replace(b'"blocks":', b'"blacks":'): pieces,
        good.replace(b'"format":"1.1"', b'"format":"1.9"'): whole,
        good.replace(b'"rows_sha256":"', b'"rows_sha256":"0', 1)[: len(good)]: pieces,
    }
    for text, message in wrong.items():
        write(path)
        rewrite(path, text)
        with pytest.raises(CorruptPackage, match=message):
            PackageFile(path)
        with pytest.raises(aot_runtime.CorruptPackage):
            aot_runtime.load(path, verify="full")
    write(path)
    rewrite(path, good.replace(b"weights/bias", b"weights/bais"))
    with pytest.raises(CorruptPackage, match="other entries"), PackageFile(path) as file:
        list(file.damaged())


def test_a_missing_manifest(tmp_path: Path) -> None:
    layout = lay_out([("plan", "uint8", (2,))])
    for sha256, message in (("0" * 64, "no entry named manifest"), ("", "without a manifest")):
        header = encode_header(layout, hashlib.sha256(b"{}").hexdigest(), None, sha256)
        text = header[8:].rstrip(b" ").replace(b'"1.0"', b'"1.1"')
        text += b" " * (-(8 + len(text)) % 64)
        path = tmp_path / "p.pkg"
        path.write_bytes(len(text).to_bytes(8, "little") + text + b"{}")
        with pytest.raises(CorruptPackage, match=message):
            PackageFile(path)


def test_the_text_is_as_long_before_the_digests_are_known(package: Path) -> None:
    with PackageFile(package) as file:
        manifest = file.manifest
        assert manifest is not None
        unknown = tuple(
            replace(row, digest=unknown_digest(file.entries[row.name].nbytes))
            for row in manifest.rows
        )
        draft = replace(manifest, plan_sha256=NO_HASH, rows_sha256=NO_HASH, rows=unknown)
        assert encode_manifest(manifest) == bytes(file.data("manifest"))
        assert len(encode_manifest(draft)) == file.entries["manifest"].nbytes
