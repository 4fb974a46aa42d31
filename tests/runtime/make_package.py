"""Hand-written packages for the runtime's tests: no compiler of ours, only g++ and JSON.

`Writer` lays out a safetensors container exactly as docs/format.md says; `small_package` makes a
package with a dynamic batch, weights, a temporary, two outputs and nested signature.
As a program: `make_package.py OUT.pkg [work]` writes it for the C++ tests.
"""

from __future__ import annotations

import copy
import hashlib
import json
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

ISA_FLAGS = {
    "x86-64-v2": "-march=x86-64-v2",
    "x86-64-v3": "-march=x86-64-v3",
    "x86-64-v4": "-march=x86-64-v4",
}
DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
CPP = Path(__file__).resolve().parents[2] / "cpp"

KERNEL_NAMES = ["add_bias", "scale", "row_sum", "gather", "copy_bytes"]


def compile_kernels(isa: str = "x86-64-v2", label: str | None = None, abi: int = 1) -> bytes:
    """The kernel library for `isa` as ELF bytes; `label` is the level that it claims to be."""
    key = (isa, label, abi)
    if key not in _LIBRARIES:
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder, "kernels.so")
            subprocess.run(
                [
                    "gcc",
                    "-O2",
                    "-std=c11",
                    "-shared",
                    "-fPIC",
                    "-fvisibility=hidden",
                    "-s",
                    ISA_FLAGS[isa],
                    f'-DISA="{label or isa}"',
                    f"-DABI={abi}u",
                    f"-I{CPP / 'include'}",
                    str(CPP / "tests" / "test_kernels.c"),
                    "-o",
                    str(library),
                ],
                check=True,
            )
            _LIBRARIES[key] = library.read_bytes()
    return _LIBRARIES[key]


_LIBRARIES: dict[tuple[str, str | None, int], bytes] = {}


@dataclass
class Entry:
    """One tensor of the container."""

    name: str
    dtype: str
    shape: list[int]
    data: bytes


@dataclass
class Package:
    """A package in parts, so that a test can break one of them before it is written."""

    plan: dict[str, Any]
    entries: list[Entry] = field(default_factory=list)
    metadata: dict[str, str] = field(
        default_factory=lambda: {"format": "aot-package", "format_version": "1.0"}
    )

    @property
    def program(self) -> dict[str, Any]:
        """The plan's program for the CPU."""
        return self.plan["programs"][0]

    def add(self, name: str, array: np.ndarray) -> None:
        """Adds an array as an entry and its checksum to the plan."""
        data = np.ascontiguousarray(array).tobytes()
        self.entries.append(Entry(name, DTYPES[str(array.dtype)], list(array.shape), data))
        self.plan["entries"][name] = hashlib.sha256(data).hexdigest()

    def add_library(self, isa: str, binary: bytes) -> None:
        """Adds a kernel library and its row in the plan."""
        name = f"kernels/cpu/{isa}"
        self.add(name, np.frombuffer(binary, np.uint8))
        self.program["libraries"].append(
            {"entry": name, "isa": isa, "sha256": self.plan["entries"][name]}
        )

    def copy(self) -> Package:
        """A copy that shares nothing."""
        return copy.deepcopy(self)

    def layout(self) -> tuple[dict[str, Any], bytes]:
        """The header and the data section."""
        plan = json.dumps(self.plan).encode()
        order = ["plan", "kernels", "weights", "packed", "golden"]
        rows = [Entry("plan", "U8", [len(plan)], plan), *self.entries]
        rows.sort(key=lambda e: (order.index(e.name.split("/")[0]), e.name))
        digest = hashlib.sha256(plan).hexdigest()
        header: dict[str, Any] = {"__metadata__": {**self.metadata, "plan_sha256": digest}}
        data, pads = b"", 0
        for row in rows:
            if len(data) % 64:
                gap = 64 - len(data) % 64
                header[f"pad/{pads}"] = {
                    "dtype": "U8",
                    "shape": [gap],
                    "data_offsets": [len(data), len(data) + gap],
                }
                data, pads = data + bytes(gap), pads + 1
            header[row.name] = {
                "dtype": row.dtype,
                "shape": row.shape,
                "data_offsets": [len(data), len(data) + len(row.data)],
            }
            data += row.data
        return header, data

    def to_bytes(self) -> bytes:
        """The file."""
        return assemble(*self.layout())

    def write(self, path: Path) -> Path:
        """Writes the file and gives its path back."""
        path.write_bytes(self.to_bytes())
        return path


def assemble(header: dict[str, Any] | bytes, data: bytes) -> bytes:
    """Length, padded header, data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    return struct.pack("<Q", len(text)) + text + data


def empty_plan(model: str) -> dict[str, Any]:
    """A plan with every key and nothing in it."""
    return {
        "format": [1, 0],
        "compiler": "by hand",
        "model": model,
        "dims": [],
        "inputs": [],
        "outputs": [],
        "signature": {"parameters": [], "result": {"tuple": []}},
        "checks": [],
        "origins": [],
        "programs": [
            {
                "device": "cpu",
                "arch": "",
                "buffers": [],
                "arena": [],
                "libraries": [],
                "kernels": [{"name": n} for n in KERNEL_NAMES],
                "steps": [],
                "outputs": [],
            }
        ],
        "entries": {},
        "golden": [],
    }


def buffer(name: str, size: Any, kind: str, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    """One row of `buffers`."""
    return {"name": name, "dtype": dtype, "bytes": size, "storage": {"kind": kind, **more}}


def tensor(
    name: str, shape: list[Any], strides: list[Any], dtype: str = "float32"
) -> dict[str, Any]:
    """One row of `inputs` or `outputs`."""
    return {"name": name, "dtype": dtype, "shape": shape, "strides": strides}


def step(
    kernel: str,
    buffers: list[int],
    sizes: list[Any],
    work: Any,
    *,
    grain: int = 1,
    scratch: Any = 0,
    origin: int | None = None,
) -> dict[str, Any]:
    """One row of `steps`."""
    return {
        "kernel": KERNEL_NAMES.index(kernel),
        "buffers": buffers,
        "sizes": sizes,
        "work": work,
        "grain": grain,
        "scratch": scratch,
        "origin": origin,
    }


def small_package(
    isas: tuple[str, ...] = ("x86-64-v2",), width: int = 8, most: int | None = 64
) -> Package:
    """y = 2 · (x + bias), total = y.sum(1), with x of [batch, width].

    `forward(x, *, mode="plain")` gives {"y": y, "rest": (total, [7])}.
    """
    plan = empty_plan("small")
    rows = width * 4
    plan["dims"] = [
        {
            "name": "s0",
            "label": "batch",
            "min": 0,
            "max": most,
            "multiple_of": 1,
            "source": {"input": 0, "axis": 0, "divisor": 1, "offset": 0},
        }
    ]
    plan["inputs"] = [tensor("x", ["s0", width], [width, 1])]
    plan["outputs"] = [tensor("y", ["s0", width], [width, 1]), tensor("total", ["s0"], [1])]
    plan["programs"][0]["outputs"] = [4, 5]
    plan["signature"] = {
        "parameters": [
            {"name": "x", "kind": "positional", "tree": {"input": 0}},
            {"name": "mode", "kind": "keyword", "tree": {"constant": "plain"}},
        ],
        "result": {
            "dict": [
                ["y", {"output": 0}],
                ["rest", {"tuple": [{"output": 1}, {"list": [{"constant": 7}]}]}],
            ]
        },
    }
    plan["programs"][0]["buffers"] = [
        buffer("x", ["*", rows, "s0"], "input", index=0),
        buffer("bias", rows, "entry", entry="weights/bias", offset=0),
        buffer("factor", 4, "entry", entry="weights/factor", offset=0),
        buffer("sum", ["*", rows, "s0"], "arena"),
        buffer("y", ["*", rows, "s0"], "output", index=0),
        buffer("total", ["*", 4, "s0"], "output", index=1),
    ]
    plan["programs"][0]["arena"] = [{"buffer": 3, "above": []}]
    plan["origins"] = [
        {"file": "small.py", "line": 3, "operator": "aten.add.Tensor", "code": "x + b"}
    ]
    plan["programs"][0]["steps"] = [
        step("add_bias", [0, 1, 3], [width], "s0", grain=4, origin=0),
        step("scale", [3, 2, 4], [], ["*", width, "s0"], grain=32),
        step("row_sum", [4, 5], [width], "s0", grain=4, scratch=rows),
    ]
    package = Package(plan)
    package.add("weights/bias", np.arange(width, dtype=np.float32))
    package.add("weights/factor", np.array([2], np.float32))
    for isa in isas:
        package.add_library(isa, compile_kernels(isa))
    return package


def expected_small(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What `small_package` computes."""
    y = np.float32(2) * (x + np.arange(x.shape[1], dtype=np.float32))
    return y, y.sum(1)


def gather_package() -> Package:
    """y = table[index], with index of [n] in int64 and a table of five values."""
    plan = empty_plan("gather")
    plan["dims"] = [
        {
            "name": "n",
            "label": "n",
            "min": 0,
            "max": None,
            "multiple_of": 1,
            "source": {"input": 0, "axis": 0, "divisor": 1, "offset": 0},
        }
    ]
    plan["inputs"] = [tensor("index", ["n"], [1], "int64")]
    plan["outputs"] = [tensor("y", ["n"], [1])]
    plan["programs"][0]["outputs"] = [2]
    plan["signature"] = {
        "parameters": [{"name": "index", "kind": "positional", "tree": {"input": 0}}],
        "result": {"output": 0},
    }
    plan["programs"][0]["buffers"] = [
        buffer("table", 20, "entry", entry="weights/table", offset=0),
        buffer("index", ["*", 8, "n"], "input", "int64", index=0),
        buffer("y", ["*", 4, "n"], "output", index=0),
    ]
    plan["origins"] = [
        {"file": "model.py", "line": 12, "operator": "aten.embedding.default", "code": "table[i]"}
    ]
    plan["programs"][0]["steps"] = [step("gather", [0, 1, 2], [5], "n", origin=0)]
    package = Package(plan)
    package.add("weights/table", np.array([10, 11, 12, 13, 14], np.float32))
    package.add_library("x86-64-v2", compile_kernels())
    return package


def copy_package(dtype: str, shape: list[int], strides: list[int]) -> Package:
    """output = input, of any type, stored in the given strides (which must fill a block)."""
    plan = empty_plan("copy")
    size = {
        "float64": 8,
        "int64": 8,
        "float32": 4,
        "int32": 4,
        "float16": 2,
        "bfloat16": 2,
        "int16": 2,
        "int8": 1,
        "uint8": 1,
        "bool": 1,
    }[dtype] * int(np.prod(shape))
    plan["inputs"] = [tensor("x", list(shape), list(strides), dtype)]
    plan["outputs"] = [tensor("y", list(shape), list(strides), dtype)]
    plan["programs"][0]["outputs"] = [1]
    plan["signature"] = {
        "parameters": [{"name": "x", "kind": "positional", "tree": {"input": 0}}],
        "result": {"output": 0},
    }
    plan["programs"][0]["buffers"] = [
        buffer("x", size, "input", dtype, index=0),
        buffer("y", size, "output", dtype, index=0),
    ]
    plan["programs"][0]["steps"] = [step("copy_bytes", [0, 1], [], size)]
    package = Package(plan)
    package.add_library("x86-64-v2", compile_kernels())
    return package


def chain_package(length: int = 40) -> Package:
    """`length` tiny steps on [8, 16]: what a call costs beyond its kernels."""
    plan = empty_plan("chain")
    plan["inputs"] = [tensor("x", [8, 16], [16, 1])]
    plan["outputs"] = [tensor("y", [8, 16], [16, 1])]
    plan["programs"][0]["outputs"] = [4]
    plan["signature"] = {
        "parameters": [{"name": "x", "kind": "positional", "tree": {"input": 0}}],
        "result": {"output": 0},
    }
    plan["programs"][0]["buffers"] = [
        buffer("x", 512, "input", index=0),
        buffer("bias", 64, "entry", entry="weights/bias", offset=0),
        buffer("a", 512, "arena"),
        buffer("b", 512, "arena"),
        buffer("y", 512, "output", index=0),
    ]
    plan["programs"][0]["arena"] = [{"buffer": 2, "above": []}, {"buffer": 3, "above": [2]}]
    ids = [0, *[2 + i % 2 for i in range(length - 1)], 4]
    plan["programs"][0]["steps"] = [
        step("add_bias", [a, 1, b], [16], 8, grain=64) for a, b in pairwise(ids)
    ]
    package = Package(plan)
    package.add("weights/bias", np.ones(16, np.float32))
    package.add_library("x86-64-v2", compile_kernels())
    return package


def main() -> None:
    """Writes one of the packages above: OUT.pkg [small|gather|chain|large]."""
    kinds = {
        "small": small_package,
        "gather": gather_package,
        "chain": chain_package,
        "large": lambda: small_package(width=1024, most=None),
    }
    kinds[sys.argv[2] if len(sys.argv) > 2 else "small"]().write(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
