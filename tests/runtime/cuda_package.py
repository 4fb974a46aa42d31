"""Programs for GPUs added to the packages of make_package: for the fake driver, and real ones."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.once import digest_of, made_once
from tests.runtime.make_package import CPP, Package

FAKE_PARAMETERS = {"add_bias": 6, "scale": 6, "row_sum": 5, "gather": 7}

TRITON = """
import triton
import triton.language as tl


@triton.jit
def add_bias(x, bias, out, width):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, 64)
    mask = columns < width
    value = tl.load(x + row * width + columns, mask) + tl.load(bias + columns, mask)
    tl.store(out + row * width + columns, value, mask)


@triton.jit
def scale(x, factor, y, count):
    at = tl.program_id(0).to(tl.int64) * 128 + tl.arange(0, 128)
    mask = at < count
    tl.store(y + at, tl.load(x + at, mask) * tl.load(factor), mask)


@triton.jit
def row_sum(y, total, width):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, 64)
    value = tl.load(y + row * width + columns, columns < width, 0.0)
    tl.store(total + row, tl.sum(value, 0))


@triton.jit
def gather(table, index, y, fault, rows):
    at = tl.program_id(0).to(tl.int64)
    row = tl.load(index + at)
    good = (row >= 0) & (row < rows)
    tl.store(fault, 1, ~good)
    tl.store(y + at, tl.load(table + row, good, 0.0))
"""
SIGNATURES = {
    "add_bias": ("*fp32", "*fp32", "*fp32", "i64"),
    "scale": ("*fp32", "*fp32", "*fp32", "i64"),
    "row_sum": ("*fp32", "*fp32", "i64"),
    "gather": ("*fp32", "*i64", "*fp32", "*i32", "i64"),
}


def _fake_cubin(arch: str, functions: str) -> bytes:
    """What looks like a cubin: an ELF header for CUDA without tables, then the fake's own text."""
    flags = int(arch.removeprefix("sm_"))
    ident = b"\x7fELF" + bytes([2, 1]) + bytes(10)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 0, 190, 0, 0, 0, 0, flags, 0, 0, 0, 0, 0, 0)
    return header + f"FAKE {arch}\n{functions}\nend\n".encode()


def fake_kernels(arch: str) -> dict[str, dict[str, Any]]:
    """Kernels of the fake driver: rows of a program's `kernels`, with `data`."""
    rows: dict[str, dict[str, Any]] = {}
    for name, parameters in FAKE_PARAMETERS.items():
        rows[name] = {
            "data": _fake_cubin(arch, f"{name} {parameters}"),
            "symbol": name,
            "threads": 128,
            "shared": 0,
            "scratch": 32 if name == "row_sum" else 0,
            "scratch_alignment": 128,
        }
    return rows


def triton_kernels(arch: str, jobs: int = 2) -> dict[str, dict[str, Any]]:
    """The same kernels for real GPUs, compiled without one."""
    from aot.backends.base import KernelSource
    from aot.backends.triton.compile import compile_kernels

    options = (("num_warps", 4),)
    parts = TRITON.split("\n\n\n")
    head, functions = parts[0], parts[1:]
    sources = [
        KernelSource(name, f"{head}\n\n\n{text}\n", signature=signature, options=options)
        for (name, signature), text in zip(SIGNATURES.items(), functions, strict=True)
    ]
    rows: dict[str, dict[str, Any]] = {}
    for image in compile_kernels(sources, arch, jobs, None):
        rows[image.name] = {
            "data": image.data,
            "symbol": image.symbol,
            "threads": image.threads,
            "shared": image.shared,
            "scratch": image.scratch,
            "scratch_alignment": image.scratch_alignment,
        }
    return rows


def add_cuda(package: Package, arch: str, kernels: Mapping[str, Mapping[str, Any]]) -> Package:
    """Adds a program with the CPU program's buffers and steps; gives the package back."""
    program = Package(package.plan).copy().program
    rows = []
    for name, kernel in kernels.items():
        entry = f"kernels/cuda/{arch}/{name}"
        package.add(entry, np.frombuffer(kernel["data"], np.uint8))
        more = {key: value for key, value in kernel.items() if key != "data"}
        rows.append(
            {
                "name": name,
                "entry": entry,
                "sha256": package.plan["entries"][entry],
                "faults": name == "gather",
                **more,
            }
        )
    for step in program["steps"]:
        if "work" not in step:  # a control step
            continue
        work = step.pop("work")
        del step["grain"], step["scratch"]
        step["grid"] = [work, 1, 1]
        if rows[step["kernel"]]["name"] == "scale":
            step["sizes"] = [work]
            step["grid"] = [["//", ["+", work, 127], 128], 1, 1]
    program.update(device="cuda", arch=arch, libraries=[], kernels=rows)
    package.plan["programs"].append(program)
    return package


def fake_driver() -> Path:
    """The folder for LD_LIBRARY_PATH, in which the fake driver is libcuda.so.1."""
    names = ("cuda_fake", "cuda_fake_kernels", "cuda_fake_names")
    sources = [str(CPP / "tests" / f"{name}.cc") for name in names]
    flags = ["-O1", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{CPP / 'src'}"]

    def make(folder: Path) -> None:
        target = folder / "libcuda.so.1"
        subprocess.run(["g++", *flags, *sources, "-o", str(target)], check=True)

    headers = [*CPP.glob("tests/*.h"), *CPP.glob("src/**/*.h")]
    parts = (*flags, *map(Path, sources), *sorted(headers))
    return made_once("fake_driver", digest_of(*parts), make)
