"""Packages whose weights are in a file of their own: writing, reading as data, damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from aot.errors import CorruptPackage, PackageReadError, UsageError
from aot.link.container import WEIGHTS_METADATA, decode_header
from aot.link.package import Written, write_package
from aot.link.reader import PackageFile
from aot.options import BuildOptions
from tests.link.plans import small_plan
from tests.link.test_package import array_entry, small_entries

WEIGHTS = {"weights/w", "weights/mask", "weights/empty", "weights/brain", "packed/half"}


def write(folder: Path, name: str = "p.pkg") -> Written:
    return write_package(folder / name, small_plan(), small_entries(), folder / "p.weights")


def names(file: Any) -> list[str]:
    return [name for name in file.keys() if not name.startswith("pad/")]  # noqa: SIM118  no dict


def test_weights_are_there_and_nowhere_else(tmp_path: Path) -> None:
    written = write(tmp_path)
    with safe_open(tmp_path / "p.weights", "np") as file:
        assert set(names(file)) == WEIGHTS
        assert file.metadata()["format"] == WEIGHTS_METADATA["format"]
    with safe_open(tmp_path / "p.pkg", "np") as file:
        assert not WEIGHTS.intersection(names(file))
        assert file.metadata()["weights_file"] == "p.weights"
    sizes = [(tmp_path / name).stat().st_size for name in ("p.pkg", "p.weights")]
    assert written.nbytes == sum(sizes)


def test_the_reader_sees_one_package(tmp_path: Path) -> None:
    write(tmp_path)
    write_package(tmp_path / "whole.pkg", small_plan(), small_entries())
    with PackageFile(tmp_path / "p.pkg") as apart, PackageFile(tmp_path / "whole.pkg") as whole:
        assert apart.plan == whole.plan
        for entry in small_entries():
            assert bytes(apart.data(entry.name)) == bytes(whole.data(entry.name))
        assert list(apart.damaged()) == []


def test_equal_weights_of_two_packages_are_one_file(tmp_path: Path) -> None:
    write(tmp_path)
    before = (tmp_path / "p.weights").read_bytes()
    write(tmp_path, "q.pkg")
    assert (tmp_path / "p.weights").read_bytes() == before
    with PackageFile(tmp_path / "p.pkg") as file:
        assert list(file.damaged()) == []


def test_damaged_weights_are_named(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "p.weights"
    data = bytearray(path.read_bytes())
    data[decode_header(memoryview(bytes(data)), WEIGHTS_METADATA).start] ^= 1
    path.write_bytes(data)
    with PackageFile(tmp_path / "p.pkg") as file:
        assert [info.name for info in file.damaged()] == ["weights/brain"]


def test_no_weights_beside_the_package(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "p.weights").unlink()
    with pytest.raises(PackageReadError, match="No such file") as raised:
        PackageFile(tmp_path / "p.pkg")
    assert "p.weights" in str(raised.value.where)


def test_weights_of_another_package(tmp_path: Path) -> None:
    write(tmp_path)
    other = [e for e in small_entries() if e.name != "weights/w"]
    other.append(array_entry("weights/w", np.zeros(16, np.float32)))
    write_package(tmp_path / "q.pkg", small_plan(), other, tmp_path / "q.weights")
    (tmp_path / "q.weights").rename(tmp_path / "p.weights")
    with pytest.raises(CorruptPackage, match="weights of another package"):
        PackageFile(tmp_path / "p.pkg")


def test_a_package_is_no_file_of_weights(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "p.weights").write_bytes((tmp_path / "p.pkg").read_bytes())
    with pytest.raises(CorruptPackage, match="does not say format=aot-weights"):
        PackageFile(tmp_path / "p.pkg")


@pytest.mark.parametrize("name", ["../w", "a/b", ".", "..", "p.pkg"])
def test_names_that_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="weights"):
        BuildOptions(output=tmp_path / "p.pkg", weights_file=name)


@pytest.mark.parametrize("name", ["../w", "/etc/passwd", ".."])
def test_a_header_that_leads_elsewhere(name: str, tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "p.pkg"
    data = path.read_bytes()
    size = 8 + int.from_bytes(data[:8], "little")
    header = data[8:size].replace(b'"p.weights"', f'"{name}"'.encode())
    header = header.rstrip() + b" " * (size - 8 - len(header.rstrip()))
    path.write_bytes(data[:8] + header[: size - 8] + data[size:])
    with pytest.raises(CorruptPackage, match="no plain file name"):
        PackageFile(path)
