"""The package file: safetensors reads it, equal input gives equal bytes, failures lose nothing.

With all weights in it, and with weights in a file of their own.
"""

import dataclasses
import errno
import hashlib
import os
import resource
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aot_runtime.format.container import WEIGHTS_METADATA, decode_header
from aot_runtime.format.reader import PackageFile
from safetensors import safe_open

from aot.errors import (
    CorruptPackage,
    InternalError,
    PackageReadError,
    PackageWriteError,
    UsageError,
)
from aot.link.entry import Entry, bytes_entry
from aot.link.package import Written, check_place, write_package
from aot.options import BuildOptions
from tests.link.plans import small_plan, wide_plan


def array_entry(name: str, array: np.ndarray) -> Entry:
    return Entry(name, str(array.dtype), array.shape, lambda: (array.data,))


def small_entries() -> list[Entry]:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    return [
        array_entry("golden/0/outputs/0", x * 2),
        array_entry("golden/0/inputs/0", x),
        array_entry("weights/w", np.linspace(0, 1, 16, dtype=np.float32)),
        array_entry("weights/mask", np.array([True, False, True])),
        array_entry("weights/empty", np.empty((0, 7), np.int64)),
        array_entry("packed/half", np.arange(5, dtype=np.float16)),
        Entry("weights/brain", "bfloat16", (3,), lambda: (b"\x80\x3f", b"\x00\x40\x40\x40")),
        bytes_entry("kernels/cpu/x86-64-v2", b"\x7fELF" + bytes(100)),
    ]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "small.pkg"
    write_package(path, small_plan(), small_entries())
    return path


def test_safetensors_reads_it(package: Path) -> None:
    with safe_open(package, "np") as file:
        metadata = file.metadata()
        assert (metadata["format"], metadata["format_version"]) == ("aot-package", "1.1")
        plan = file.get_tensor("plan").tobytes()
        assert metadata["plan_sha256"] == hashlib.sha256(plan).hexdigest()
        np.testing.assert_array_equal(
            file.get_tensor("weights/w"), np.linspace(0, 1, 16, dtype=np.float32)
        )
        assert file.get_tensor("weights/empty").shape == (0, 7)
        assert file.get_slice("weights/brain").get_dtype() == "BF16"
        assert file.get_tensor("weights/mask").tolist() == [True, False, True]
        names = list(file.keys())
        assert "plan" in names
        assert not any(file.get_tensor(name).any() for name in names if name.startswith("pad/"))


def test_order_and_alignment(package: Path) -> None:
    with PackageFile(package) as file:
        names = [name for name in file.entries if not name.startswith("pad/")]
        assert names == [
            "plan",
            "manifest",
            "kernels/cpu/x86-64-v2",
            "weights/brain",
            "weights/empty",
            "weights/mask",
            "weights/w",
            "packed/half",
            "golden/0/inputs/0",
            "golden/0/outputs/0",
        ]
        start = package.stat().st_size - max(info.end for info in file.entries.values())
        assert all((start + file.entries[name].begin) % 64 == 0 for name in names)


def test_hashes_are_in_the_plan(package: Path) -> None:
    with PackageFile(package) as file:
        hashes = dict(file.plan.entries)
        others = {n for n in file.entries if not n.startswith("pad/")} - {"plan", "manifest"}
        assert set(hashes) == others
        assert all(file.sha256(name) == value for name, value in hashes.items())
        assert file.plan.programs[0].libraries[0].sha256 == hashes["kernels/cpu/x86-64-v2"]
        assert list(file.damaged()) == []


def test_hashes_of_kernels_with_code_of_their_own(tmp_path: Path) -> None:
    entries = [*small_entries(), bytes_entry("kernels/cuda/sm_90/k0", b"cubin")]
    write_package(tmp_path / "wide.pkg", wide_plan(), entries)
    with PackageFile(tmp_path / "wide.pkg") as file:
        (kernel,) = file.plan.programs[1].kernels
        assert kernel.code.sha256 == hashlib.sha256(b"cubin").hexdigest()


def test_equal_input_gives_equal_bytes(package: Path, tmp_path: Path) -> None:
    other = tmp_path / "deeper" / "other.pkg"
    other.parent.mkdir()
    write_package(other, small_plan(), small_entries()[::-1])
    assert other.read_bytes() == package.read_bytes()


def test_permissions_follow_the_umask(package: Path) -> None:
    mask = os.umask(0)
    os.umask(mask)
    assert package.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_flipped_bit_is_found(package: Path) -> None:
    data = bytearray(package.read_bytes())
    with PackageFile(package) as file:
        start = len(data) - max(info.end for info in file.entries.values())
        data[start + file.entries["weights/w"].begin + 5] ^= 4
    package.write_bytes(data)
    with PackageFile(package) as file:
        assert [info.name for info in file.damaged()] == ["weights/w"]


def test_data_is_taken_in_turn_and_once(tmp_path: Path) -> None:
    calls: list[str] = []

    def watched(entry: Entry) -> Entry:
        def data():
            calls.append(entry.name)
            return entry.data()

        return dataclasses.replace(entry, data=data)

    write_package(tmp_path / "p.pkg", small_plan(), [watched(e) for e in small_entries()])
    assert calls == [
        "kernels/cpu/x86-64-v2",
        "weights/brain",
        "weights/empty",
        "weights/mask",
        "weights/w",
        "packed/half",
        "golden/0/inputs/0",
        "golden/0/outputs/0",
    ]


def test_weights_are_streamed_not_gathered(tmp_path: Path) -> None:
    piece = bytes(1 << 20)
    large = Entry("weights/large", "uint8", (64 << 20,), lambda: (piece for _ in range(64)))
    tracemalloc.start()
    try:
        write_package(tmp_path / "p.pkg", small_plan(), [*small_entries(), large])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def test_wrong_length_leaves_the_old_package(package: Path) -> None:
    before = package.read_bytes()
    short = Entry("weights/short", "float32", (4,), lambda: (bytes(12),))
    with pytest.raises(InternalError, match="gave 12 bytes"):
        write_package(package, small_plan(), [*small_entries(), short])
    assert package.read_bytes() == before
    assert list(package.parent.iterdir()) == [package]


def test_interrupt_leaves_the_old_package(package: Path) -> None:
    before = package.read_bytes()

    def interrupted():
        yield bytes(4)
        raise KeyboardInterrupt

    entry = Entry("weights/z", "float32", (4,), interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_package(package, small_plan(), [*small_entries(), entry])
    assert package.read_bytes() == before
    assert list(package.parent.iterdir()) == [package]


def test_file_size_limit_is_reported(package: Path) -> None:
    before = package.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = Entry("weights/z", "uint8", (1 << 20,), lambda: (bytes(1 << 20),))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(PackageWriteError, match="File too large") as raised:
            write_package(package, small_plan(), [*small_entries(), large])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "ulimit" in raised.value.advice
    assert package.read_bytes() == before
    assert list(package.parent.iterdir()) == [package]


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        ("nowhere/m.pkg", "Create the directory first"),
        ("file/m.pkg", "A part of the path is a file"),
        (".", "give a file name"),
    ],
)
def test_a_place_is_refused_before_anything_is_built(
    tmp_path: Path, place: str, advice: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PackageWriteError, match="cannot write the package") as raised:
        check_place(tmp_path / place)
    assert advice in raised.value.advice
    with pytest.raises(PackageWriteError, match="cannot write the package"):
        write_package(tmp_path / place, small_plan(), small_entries())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    check_place(tmp_path / "m.pkg")


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(PackageWriteError, match="it is a device, pipe or socket") as raised:
        check_place(pipe)
    assert "Give a file name with -o" in raised.value.advice
    with pytest.raises(PackageWriteError, match="it is a device, pipe or socket"):
        write_package(pipe, small_plan(), small_entries())
    assert pipe.is_fifo()


def test_full_disk_is_reported(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = package.read_bytes()

    def full(descriptor: int, data: Sequence[memoryview], offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(PackageWriteError, match="No space left") as raised:
            write_package(package, small_plan(), small_entries())
    assert raised.value.advice.startswith("Free space")
    assert raised.value.exit_code == 5
    assert package.read_bytes() == before
    assert list(package.parent.iterdir()) == [package]


@pytest.mark.parametrize("most", [1, 7, 4096, 1 << 20])
def test_a_system_that_takes_few_bytes_at_a_time_gets_them_all(
    package: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    expected = package.read_bytes()
    real = os.pwritev

    def few(descriptor: int, data: Sequence[memoryview], offset: int) -> int:
        assert 0 < len(data) <= 1024
        whole = [piece for piece in data if len(piece)]
        taken, left = [], most
        for piece in whole:
            taken.append(piece[:left])
            left -= len(taken[-1])
            if not left:
                break
        return real(descriptor, taken, offset)

    monkeypatch.setattr(os, "pwritev", few)
    write_package(package, small_plan(), small_entries())
    assert package.read_bytes() == expected


def test_more_pieces_than_a_system_takes_at_once(tmp_path: Path) -> None:
    each = [bytes([k % 251] * 4) for k in range(3000)]
    pieces = Entry("weights/w", "float32", (3000,), lambda: each)
    others = [e for e in small_entries() if e.name != "weights/w"]
    write_package(tmp_path / "p", small_plan(), [*others, pieces])
    with PackageFile(tmp_path / "p") as file:
        assert bytes(file.data("weights/w")) == b"".join(each)


def test_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PackageWriteError, match="No such file") as raised:
        write_package(tmp_path / "no" / "p.pkg", small_plan(), small_entries())
    assert "Create the directory" in raised.value.advice


def test_directory_as_output_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PackageWriteError, match="Is a directory"):
        write_package(tmp_path, small_plan(), small_entries())
    assert list(tmp_path.iterdir()) == []


def test_duplicate_entry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="named twice: weights/w"):
        write_package(tmp_path / "p", small_plan(), [*small_entries(), small_entries()[2]])


def test_entry_of_no_group_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="none of the groups"):
        write_package(tmp_path / "p", small_plan(), [*small_entries(), bytes_entry("extra", b"")])


def test_plan_that_needs_a_missing_entry_is_refused(tmp_path: Path) -> None:
    entries = [entry for entry in small_entries() if entry.name != "weights/w"]
    with pytest.raises(InternalError, match="invariant"):
        write_package(tmp_path / "p", small_plan(), entries)


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
