"""Every status code from Python, with messages that say what, where, and what is allowed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
from aot_runtime.errors import BY_CODE, from_status

from tests.runtime.make_package import (
    Package,
    assemble,
    compile_kernels,
    gather_package,
    small_package,
)


def load(tmp_path: Path, package: Package, **options: Any) -> aot_runtime.Model:
    return aot_runtime.load(package.write(tmp_path / "m.pkg"), **options)


def test_each_code_has_a_class() -> None:
    assert sorted(BY_CODE) == sorted(
        [
            "INVALID_ARGUMENT",
            "SHAPE_MISMATCH",
            "NOT_FOUND",
            "CORRUPT_PACKAGE",
            "INCOMPATIBLE",
            "UNAVAILABLE",
            "OUT_OF_MEMORY",
            "DEVICE_ERROR",
            "UNSUPPORTED",
            "INTERNAL",
            "OPERATOR_FAILED",
            "CANCELLED",
            "DEADLINE_EXCEEDED",
            "LIMIT_EXCEEDED",
            "REFUSED",
        ]
    )
    for code, kind in BY_CODE.items():
        error = from_status(code, "text", "m.py:1 op")
        assert type(error) is kind
        assert (error.code, str(error), error.origin) == (code, "text", "m.py:1 op")
    assert isinstance(from_status("NEW_CODE", "", ""), aot_runtime.InternalError)


@pytest.mark.parametrize(
    ("x", "kind", "message"),
    [
        (
            np.zeros((65, 8), np.float32),
            "ShapeMismatch",
            r"input 'x' \(number 0\), dimension 0 \('batch'\): size 65, allowed 0 to 64",
        ),
        (np.zeros((2, 9), np.float32), "ShapeMismatch", "dimension 1: size 9, must be 8"),
        (np.zeros(8, np.float32), "ShapeMismatch", "has 1 dimensions, the model takes 2"),
        (1.5, "ShapeMismatch", "has 0 dimensions, the model takes 2"),
        (np.zeros((2, 8)), "InvalidArgument", "has dtype float64, the model takes float32"),
        (np.zeros((2, 8), np.uint32), "InvalidArgument", "has dtype uint32"),
        (np.zeros((2, 8), np.complex64), "InvalidArgument", "has dtype complex64"),
        (np.zeros((2, 8), np.clongdouble), "InvalidArgument", "elements of format 'Zg'"),
        (1 + 2j, "InvalidArgument", r"is the number \(1\+2j\), which float32 does not hold"),
        (np.zeros((2, 8), ">f4"), "InvalidArgument", "elements of format '>f'"),
        (
            np.zeros((2, 8), [("a", "f4"), ("b", "u1")])["a"],
            "InvalidArgument",
            "strides that are no",
        ),
        ([[1.0] * 8], "InvalidArgument", "is of type list; give a NumPy array"),
        (None, "InvalidArgument", "is of type NoneType"),
    ],
)
def test_inputs_that_break_the_contract(tmp_path: Path, x: object, kind: str, message: str) -> None:
    model = load(tmp_path, small_package())
    with pytest.raises(getattr(aot_runtime, kind), match=message):
        model(x)
    model(np.zeros((2, 8), np.float32))  # still usable


def test_tensors_that_do_not_give_their_memory(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = load(tmp_path, small_package())
    for x in (torch.zeros(2, 8, requires_grad=True), torch.zeros(2, 8, device="meta")):
        with pytest.raises(aot_runtime.InvalidArgument, match="'x' does not give its memory: "):
            model(x)


def test_bad_index_names_the_models_line(tmp_path: Path) -> None:
    model = load(tmp_path, gather_package())
    with pytest.raises(aot_runtime.InvalidArgument, match=r"model\.py:12") as caught:
        model(np.array([0, 5]))
    assert caught.value.origin == "model.py:12 aten.embedding.default"


def test_missing_file() -> None:
    with pytest.raises(aot_runtime.NotFound, match=r"cannot open package '/no/such\.pkg'"):
        aot_runtime.load("/no/such.pkg")
    with pytest.raises(FileNotFoundError):
        aot_runtime.load("/no/such.pkg")


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(aot_runtime.DeviceError, match="is not a regular file"):
        aot_runtime.load(tmp_path)


def test_kernels_that_the_system_cannot_load(tmp_path: Path) -> None:
    package = small_package(isas=())
    package.add_library("x86-64-v2", b"not ELF")
    with pytest.raises(aot_runtime.DeviceError, match="cannot load 'kernels/cpu/x86-64-v2'"):
        load(tmp_path, package)


def test_kernels_of_another_abi(tmp_path: Path) -> None:
    package = small_package(isas=())
    package.add_library("x86-64-v2", compile_kernels(abi=2))
    with pytest.raises(aot_runtime.Incompatible, match="does not serve kernel ABI version 1"):
        load(tmp_path, package)


def test_instruction_sets(tmp_path: Path) -> None:
    path = small_package(isas=("x86-64-v2", "x86-64-v3")).write(tmp_path / "m.pkg")
    assert aot_runtime.load(path, isa="x86-64-v2").isa == "x86-64-v2"
    best = min(aot_runtime.cpu_isa(), "x86-64-v3")
    assert aot_runtime.load(path).isa == best
    with pytest.raises(
        aot_runtime.Unavailable,
        match="x86-64-v4: the package has x86-64-v2, x86-64-v3; this CPU supports",
    ):
        aot_runtime.load(path, isa="x86-64-v4")
    with pytest.raises(aot_runtime.Unavailable, match="no CPU kernels for sse9"):
        aot_runtime.load(path, isa="sse9")


def test_only_levels_above_this_cpu(tmp_path: Path) -> None:
    package = small_package(isas=())
    package.add_library("x86-64-v9", compile_kernels(label="x86-64-v9"))
    with pytest.raises(aot_runtime.Unavailable, match="no CPU kernels for this CPU"):
        load(tmp_path, package)


@pytest.mark.parametrize("threads", [0, -3])
def test_thread_counts(tmp_path: Path, threads: int) -> None:
    with pytest.raises(aot_runtime.InvalidArgument, match="must be at least 1"):
        load(tmp_path, small_package(), num_threads=threads)


def test_no_memory_for_the_arena(tmp_path: Path) -> None:
    package = small_package()
    package.program["buffers"][3]["bytes"] = ["*", 1 << 57, "s0"]
    model = load(tmp_path, package)
    with pytest.raises(aot_runtime.OutOfMemory, match="bytes of temporaries"):
        model(np.zeros((3, 8), np.float32))
    with pytest.raises(MemoryError):
        model(np.zeros((3, 8), np.float32))
    model(np.zeros((0, 8), np.float32))


def test_words_of_a_newer_minor_version(tmp_path: Path) -> None:
    package = small_package()
    package.program["buffers"][3]["dtype"] = "float4"
    with pytest.raises(aot_runtime.Unsupported, match="float4"):
        load(tmp_path, package)


def test_bfloat16_without_ml_dtypes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.runtime.make_package import copy_package

    model = load(tmp_path, copy_package("bfloat16", [], []))
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with pytest.raises(aot_runtime.Unsupported, match="install ml_dtypes"):
        model(1.5)


# ---------------------------------------------------------------- damaged files

Damage = Callable[[Package], bytes]


def header_and_data(package: Package) -> tuple[dict[str, Any], bytes]:
    return package.layout()


def retitle(package: Package, **metadata: str) -> bytes:
    package.metadata.update(metadata)
    return package.to_bytes()


def shifted(package: Package, name: str, by: int) -> bytes:
    header, data = package.layout()
    header[name]["data_offsets"] = [o + by for o in header[name]["data_offsets"]]
    return assemble(header, data)


def without(package: Package, name: str) -> bytes:
    header, data = package.layout()
    del header[name]
    return assemble(header, data)


def doubled(package: Package) -> bytes:
    header, data = package.layout()
    text = json.dumps(header)
    row = json.dumps(header["weights/bias"])
    return assemble((text[:-1] + f', "weights/bias": {row}}}').encode(), data)


def flipped(package: Package, name: str) -> bytes:
    header, data = package.layout()
    at = sum(header[name]["data_offsets"]) // 2
    return assemble(header, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


DAMAGES: dict[str, tuple[Damage, str, str]] = {
    "empty": (lambda p: b"", "CorruptPackage", "the file is empty"),
    "text": (lambda p: b"hello, world! " * 9, "CorruptPackage", "not an aot package"),
    "only the length": (lambda p: p.to_bytes()[:8], "CorruptPackage", "truncated: header"),
    "half a header": (lambda p: p.to_bytes()[:500], "CorruptPackage", "truncated: header"),
    "half the data": (lambda p: p.to_bytes()[:9000], "CorruptPackage", "truncated: entry"),
    "last byte gone": (lambda p: p.to_bytes()[:-1], "CorruptPackage", "truncated: entry"),
    "a byte more": (lambda p: p.to_bytes() + b"\0", "CorruptPackage", "oversized: 1 bytes"),
    "huge header": (lambda p: b"\0\0\0\0\1" + p.to_bytes()[5:], "CorruptPackage", "at most"),
    "bad UTF-8": (
        lambda p: p.to_bytes().replace(b"weights/bias", b"weights/bi\xff\xff"),
        "CorruptPackage",
        "header: not valid UTF-8",
    ),
    "bad JSON": (
        lambda p: p.to_bytes().replace(b'"shape"', b'"shape";', 1)[:-1],
        "CorruptPackage",
        "header: not valid JSON",
    ),
    "duplicate": (doubled, "CorruptPackage", "duplicate key 'weights/bias'"),
    "overlap": (lambda p: shifted(p, "weights/factor", -64), "CorruptPackage", "overlaps"),
    "hole": (lambda p: without(p, "weights/bias"), "CorruptPackage", "hole in the data"),
    "misaligned": (lambda p: shifted(p, "weights/factor", -4), "CorruptPackage", "misaligned"),
    "no plan": (lambda p: without(p, "plan"), "CorruptPackage", "hole in the data|no plan"),
    "other safetensors": (lambda p: retitle(p, format="pt"), "CorruptPackage", "format 'pt'"),
    "newer container": (lambda p: retitle(p, format_version="2.1"), "Incompatible", "format 2.1"),
    "flipped code": (
        lambda p: flipped(p, "kernels/cpu/x86-64-v2"),
        "CorruptPackage",
        "checksum of 'kernels/cpu/x86-64-v2'",
    ),
    "flipped plan": (lambda p: flipped(p, "plan"), "CorruptPackage", "plan"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files(tmp_path: Path, name: str) -> None:
    damage, kind, message = DAMAGES[name]
    path = tmp_path / "m.pkg"
    path.write_bytes(damage(small_package()))
    with pytest.raises(getattr(aot_runtime, kind), match=message):
        aot_runtime.load(path)


def test_newer_plan(tmp_path: Path) -> None:
    package = small_package()
    package.plan["format"] = [2, 0]
    with pytest.raises(aot_runtime.Incompatible, match="plan format 2"):
        load(tmp_path, package)
