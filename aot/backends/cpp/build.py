"""Builds shared objects from kernel sources: in parallel, cached by content, reproducibly."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from aot.backends.base import KernelSource
from aot.backends.cpp.toolchain import Toolchain, headers_digest, include_directories
from aot.backends.kept import keep
from aot.errors import CompilerFailed

_UNITS = 2


@dataclass(frozen=True)
class Unit:
    """A translation unit: file name without suffix, and text."""

    name: str
    text: str


@dataclass(frozen=True)
class Builder:
    """Compiles units for several ISA levels. `keep`: where sources stay when a compiler fails."""

    toolchain: Toolchain
    cache: Path | None
    jobs: int
    keep: Path

    def key(self, units: Sequence[Unit], arch: str) -> str:
        """The content hash of one ISA level's shared object."""
        digest = hashlib.sha256()
        for part in (
            self.toolchain.key(),
            headers_digest(include_directories()),
            *self.toolchain.compile_flags(arch),
            *self.toolchain.link_flags(arch),
            *(u.name + "\0" + u.text for u in units),
        ):
            digest.update(part.encode())
            digest.update(b"\0")
        return digest.hexdigest()

    def build(self, units: Sequence[Unit], archs: Sequence[str]) -> dict[str, bytes]:
        """The shared object of each ISA level.

        Raises:
            CompilerFailed: With the command, its stderr and the kept source.
        """
        found = {arch: self._cached(self.key(units, arch)) for arch in archs}
        missing = [arch for arch, data in found.items() if data is None]
        if missing:
            with tempfile.TemporaryDirectory(prefix="aot-build-") as name:
                found.update(self._build_missing(units, missing, Path(name)))
        return {arch: data for arch, data in found.items() if data is not None}

    def _build_missing(
        self, units: Sequence[Unit], archs: Sequence[str], root: Path
    ) -> dict[str, bytes]:
        for unit in units:
            (root / f"{unit.name}.cpp").write_text(unit.text, encoding="utf-8")
        # Largest units first, so that no long job is left for the end.
        order = sorted(units, key=lambda u: -len(u.text))
        jobs = [(arch, unit) for unit in order for arch in reversed(archs)]
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(lambda job: self._compile(root, *job), jobs))
            objects = pool.map(lambda arch: self._link(root, arch, units), archs)
            built = dict(zip(archs, objects, strict=True))
        for arch, data in built.items():
            self._keep_cached(self.key(units, arch), data)
        return built

    def _compile(self, root: Path, arch: str, unit: Unit) -> None:
        includes = [f"-I{d}" for d in include_directories()]
        flags = self.toolchain.compile_flags(arch)
        source, target = f"{unit.name}.cpp", f"{unit.name}.{arch}.o"
        command = [*self.toolchain.command, *flags, *includes, "-c", source, "-o", target]
        self._run(command, root, unit)

    def _link(self, root: Path, arch: str, units: Sequence[Unit]) -> bytes:
        target = f"kernels.{arch}.so"
        objects = [f"{u.name}.{arch}.o" for u in units]
        flags = self.toolchain.link_flags(arch)
        self._run([*self.toolchain.command, *objects, *flags, "-o", target], root, units[0])
        return (root / target).read_bytes()

    def _run(self, command: Sequence[str], root: Path, unit: Unit) -> None:
        ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            return
        self.keep.mkdir(parents=True, exist_ok=True)
        kept = self.keep / f"{unit.name}-{hashlib.sha256(unit.text.encode()).hexdigest()[:12]}.cpp"
        kept.write_text(unit.text, encoding="utf-8")
        raise CompilerFailed(command, ran.stderr, kept, ran.returncode)

    def _path(self, key: str) -> Path | None:
        return None if self.cache is None else self.cache / "cpp" / key[:2] / f"{key}.so"

    def _cached(self, key: str) -> bytes | None:
        path = self._path(key)
        if path is None or not path.is_file():
            return None
        return path.read_bytes()

    def _keep_cached(self, key: str, data: bytes) -> None:
        path = self._path(key)
        if path is not None:
            keep(path, data)


def make_units(functions: Sequence[KernelSource], isa_placeholder: str) -> tuple[Unit, ...]:
    """Distributes functions over translation units of about equal length, and adds the table.

    `isa_placeholder`: the C++ expression of the ISA level's name.
    """
    count = max(1, min(_UNITS, len(functions)))
    buckets: list[list[KernelSource]] = [[] for _ in range(count)]
    lengths = [0] * count
    for function in sorted(functions, key=lambda f: (-len(f.text), f.name)):
        smallest = lengths.index(min(lengths))
        buckets[smallest].append(function)
        lengths[smallest] += len(function.text)
    position = {f.name: k for k, f in enumerate(functions)}
    units = []
    for k, bucket in enumerate(buckets):
        ordered = sorted(bucket, key=lambda f: position[f.name])
        headers = sorted({h for f in ordered for h in f.headers})
        includes = "".join(f'#include "{h}"\n' for h in headers)
        text = "\n".join([_HEAD + includes, *(f.text for f in ordered)])
        units.append(Unit(f"kernels{k}", text))
    return (*units, Unit("table", _table(functions, isa_placeholder)))


_HEAD = '#include "aot/kernel/prelude.h"\n'


def _table(functions: Sequence[KernelSource], isa: str) -> str:
    signature = "(const aot_kernel_args*, int64_t, int64_t);"
    lines = ['#include "aot/kernel_abi.h"', 'extern "C" {']
    lines += [f"void {f.name}{signature}" for f in functions]
    lines += ["}", "namespace {", "const aot_kernel_entry kEntries[] = {"]
    lines += [f'    {{"{f.name}", {f.name}}},' for f in functions] or ["    {nullptr, nullptr},"]
    lines += [
        "};",
        f"const aot_kernel_library kLibrary = {{AOT_KERNEL_ABI_VERSION, {len(functions)}, "
        f"{isa}, kEntries}};",
        "}",
        'extern "C" __attribute__((visibility("default"))) const aot_kernel_library*',
        "aot_kernel_library_query(uint32_t version) {",
        "  return version == AOT_KERNEL_ABI_VERSION ? &kLibrary : nullptr;",
        "}",
    ]
    return "\n".join(lines) + "\n"
