"""Packages of format 1.1 that run, from the hand-written ones: no model, no compiler of ours."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from aot_runtime.format.container import FROM_SAFETENSORS, encode_header, lay_out
from aot_runtime.format.manifest import BLOCK_BYTES
from aot_runtime.format.plan_json import decode_plan
from aot_runtime.format.reader import PackageFile

from aot.link.entry import Entry
from aot.link.package import write_package
from aot.link.provenance import BuildFacts, Tool, provenance_documents
from tests.runtime.make_package import Package, small_package

X = np.arange(16, dtype=np.float32).reshape(2, 8)

FACTS = BuildFacts(
    "small",
    ("model.py", "ab" * 32),
    (Tool("c++", "g++ 12.2"), Tool("torch", "2.11.0")),
    {"targets": ["cpu"], "swappable": False},
)


def runnable() -> Package:
    """The runtime tests' package, with a weight of three blocks that nothing reads."""
    package = small_package()
    for step in package.program["steps"]:
        step["origin"] = 0  # the compiler's own plans have one for each
    package.add("weights/large", np.zeros(2 * BLOCK_BYTES // 4 + 100, np.float32))
    return package


def write(path: Path, package: Package | None = None, weights_file: str = "") -> Path:
    """Writes a package with the compiler's own writer."""
    given = package or runnable()
    entries = [
        Entry(e.name, FROM_SAFETENSORS[e.dtype], tuple(e.shape), lambda e=e: (e.data,))
        for e in given.entries
    ]
    apart = path.with_name(weights_file) if weights_file else None
    plan = decode_plan(json.dumps(given.plan).encode())
    write_package(path, plan, entries, apart, provenance_documents(FACTS))
    return path


def write_old(path: Path) -> Path:
    """Writes the same package as format 1.0 has it: without a manifest."""
    with PackageFile(write(path)) as file:
        infos = [i for n, i in file.entries.items() if n != "manifest" and n[:4] != "pad/"]
        layout = lay_out([(info.name, info.dtype, info.shape) for info in infos])
        data = bytearray(layout[-1].end)
        for info in layout:
            if info.name in file.entries and info.name[:4] != "pad/":
                data[info.begin : info.end] = file.data(info.name)
        header = encode_header(layout, file.header.plan_sha256)
    path.write_bytes(header + data)
    return path
