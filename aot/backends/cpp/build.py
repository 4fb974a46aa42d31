"""Builds shared objects from kernel sources: in parallel, cached by content, reproducibly."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

from aot.backends.base import UNNAMED, KernelSource
from aot.backends.cpp import apart as apart_units
from aot.backends.cpp.precompiled import flags_at_hand, header_flags
from aot.backends.cpp.toolchain import Toolchain, headers_digest, include_directories
from aot.backends.kept import keep
from aot.errors import CompilerFailed, ToolchainError

_UNIT_TEXT = 16 << 10
"""Characters of functions after which a unit ends."""

_UNIT_FUNCTIONS = 4
"""Functions of a unit in the mean; fewer are compiled again when one changes, more at less cost."""

_TOGETHER = 3
"""Functions of the same templates that are one unit where a library has no more of them.

They share what they instantiate, a product's micro-kernels above all: three products take half as
long as three units of one. Where there are many, what compiling takes after a change counts more.
"""

_ALONE = 3
"""Compilations of a level by which precompiling the headers for them alone is paid for.

What has no more does not wait for a file that is not there."""


@dataclass(frozen=True)
class Unit:
    """A translation unit: file name without suffix, and text.

    `vectors`: whether it includes more than the kernels' contract. `long`: whether compiling it
    takes longer than its text tells. `shared`: whether models share it, and it is kept where
    headers are.
    """

    name: str
    text: str
    vectors: bool = True
    long: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Builder:
    """Compiles units for several ISA levels. `keep`: where sources stay when a compiler fails.

    Objects are kept as well as libraries: after a change of a model, what has not changed is linked
    as it is. `headers`: where precompiled headers are kept, if not in the cache. `exact`: whether
    no more than `jobs` may run (`_at_once`).
    """

    toolchain: Toolchain
    cache: Path | None
    jobs: int
    keep: Path
    headers: Path | None = None
    exact: bool = True

    @cached_property
    def _headers(self) -> str:
        return headers_digest(include_directories())

    @cached_property
    def _tools(self) -> str:
        return self.toolchain.key()

    def key(self, units: Sequence[Unit], arch: str) -> str:
        """The content hash of one ISA level's shared object."""
        texts = (part for unit in units for part in (unit.name, unit.text))
        return self._digest(arch, *self.toolchain.link_flags(arch), *texts)

    def _digest(self, arch: str, *parts: str) -> str:
        digest = hashlib.sha256()
        compiler = (self._tools, self._headers, *self.toolchain.compile_flags(arch))
        for part in (*compiler, *parts):
            text = part.encode()
            digest.update(b"%d\0" % len(text) + text)
        return digest.hexdigest()

    def build(self, units: Sequence[Unit], archs: Sequence[str]) -> dict[str, bytes]:
        """The shared object of each ISA level.

        Raises:
            CompilerFailed: With the command, its stderr and the kept source.
        """
        found = {arch: self._cached(self.key(units, arch), "so") for arch in archs}
        missing = [arch for arch, data in found.items() if data is None]
        if missing:
            with tempfile.TemporaryDirectory(prefix="aot-build-") as name:
                found.update(self._build_missing(units, missing, Path(name)))
        return {arch: data for arch, data in found.items() if data is not None}

    def build_together(self, units: Sequence[tuple[Unit, str]]) -> bytes:
        """One shared object of units for several ISA levels, in the order of the linker.

        Args:
            units: With their levels; no two have one name. The first one's level is that of the
                machines that the object is for.

        Raises:
            CompilerFailed: With the command, its stderr and the kept source.
        """
        narrowest = units[0][1]
        texts = (part for unit, arch in units for part in (unit.name, arch, unit.text))
        key = self._digest(narrowest, *self.toolchain.link_flags(narrowest), *texts)
        found = self._cached(key, "so")
        if found is not None:
            return found
        with tempfile.TemporaryDirectory(prefix="aot-build-") as name:
            root = Path(name)
            missing = [job for job in units if not self._take_kept(root, *job)]
            _write_texts(root, missing)
            with ThreadPoolExecutor(self.jobs) as pool:
                list(pool.map(lambda job: self._compile(root, job[0], job[1], {}), missing))
            found = self._link(root, narrowest, units, ("-lpthread", "-ldl"))
        self._keep_cached(key, "so", found)
        return found

    def _build_missing(
        self, units: Sequence[Unit], archs: Sequence[str], root: Path
    ) -> dict[str, bytes]:
        # Largest units first, so that no long job is left for the end.
        order = sorted(units, key=lambda u: (not u.long, -len(u.text)))
        jobs = [
            (unit, arch)
            for unit in order
            for arch in reversed(archs)
            if not self._take_kept(root, unit, arch)
        ]
        _write_texts(root, jobs)
        with ThreadPoolExecutor(self._at_once(archs)) as pool:
            with ExitStack() as held:
                headers = self._header_flags(jobs, root, pool, held)
                list(pool.map(lambda job: self._compile(root, job[0], job[1], headers), jobs))
            apart = self._build_apart(units, archs, root, pool)
            parts = ([(unit, arch) for unit in (*units, *apart[arch])] for arch in archs)
            objects = pool.map(lambda part: self._link(root, part[0][1], part), parts)
            built = dict(zip(archs, objects, strict=True))
        for arch, data in built.items():
            self._keep_cached(self.key(units, arch), "so", data)
        return built

    def _at_once(self, archs: Sequence[str]) -> int:
        """How many compilers run: `jobs`, or the next number that holds all levels of a unit.

        These take about as long. Three that two processors share are done sooner than two, and
        then one beside which a processor has nothing to do.
        """
        whole = len(archs)
        return self.jobs if self.exact or self.jobs == 1 else -(-self.jobs // whole) * whole

    def _build_apart(
        self, units: Sequence[Unit], archs: Sequence[str], root: Path, pool: ThreadPoolExecutor
    ) -> dict[str, list[Unit]]:
        """For each level, the units of what others call and none has; they are compiled."""
        found: dict[str, list[Unit]] = {}
        for arch in archs:
            objects = ((root / _object(unit, arch)).read_bytes() for unit in units)
            symbols = apart_units.wanted(objects)
            found[arch] = [Unit(s, apart_units.text_of(s), shared=True) for s in symbols]
        jobs = [
            (unit, arch)
            for arch in reversed(archs)
            for unit in found[arch]
            if not self._take_kept(root, unit, arch)
        ]
        _write_texts(root, jobs)
        with ExitStack() as held:
            headers = self._header_flags(jobs, root, pool, held)
            list(pool.map(lambda job: self._compile(root, job[0], job[1], headers), jobs))
        return found

    def _header_flags(
        self,
        jobs: Sequence[tuple[Unit, str]],
        root: Path,
        pool: ThreadPoolExecutor,
        held: ExitStack,
    ) -> dict[str, tuple[str, ...]]:
        """For each level that has something to compile, what its precompiled headers are used by.

        Where there is enough to compile they are made, or waited for: without a place that keeps
        them, for this build. `held` ends with the build.
        """
        counts = Counter(arch for unit, arch in jobs if unit.vectors)
        tools, place = self.toolchain, self.headers or self.cache
        few = [arch for arch, count in counts.items() if count <= _ALONE]
        found: dict[str, tuple[str, ...]] = {}
        if place is not None:
            known = partial(flags_at_hand, tools, cache=place, headers=self._headers)
            found = {a: held.enter_context(known(arch=a)) for a in few}
        many = [arch for arch in counts if arch not in few]
        flags = pool.map(lambda arch: header_flags(tools, arch, place or root, self._headers), many)
        return found | dict(zip(many, flags, strict=True))

    def _take_kept(self, root: Path, unit: Unit, arch: str) -> bool:
        """Puts the object that an earlier build has kept, if there is one, where it is linked."""
        data = self._cached(self._digest(arch, unit.text), "o", shared=unit.shared)
        if data is not None:
            (root / _object(unit, arch)).write_bytes(data)
        return data is not None

    def _compile(
        self, root: Path, unit: Unit, arch: str, headers: Mapping[str, Sequence[str]]
    ) -> None:
        precompiled = headers.get(arch, ()) if unit.vectors else ()
        includes = [*precompiled, *(f"-I{d}" for d in include_directories())]
        flags = self.toolchain.compile_flags(arch)
        source, target = f"{unit.name}.cpp", _object(unit, arch)
        command = [*self.toolchain.command, *flags, *includes, "-c", source, "-o", target]
        self._run(command, root, unit)
        data = (root / target).read_bytes()
        self._keep_cached(self._digest(arch, unit.text), "o", data, shared=unit.shared)

    def _link(
        self, root: Path, arch: str, units: Sequence[tuple[Unit, str]], more: Sequence[str] = ()
    ) -> bytes:
        target = f"kernels.{arch}.so"
        objects = [_object(*unit) for unit in units]
        flags = (*self.toolchain.link_flags(arch), *more)
        self._run([*self.toolchain.command, *objects, *flags, "-o", target], root, units[0][0])
        return (root / target).read_bytes()

    def _run(self, command: Sequence[str], root: Path, unit: Unit) -> None:
        ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            return
        self.keep.mkdir(parents=True, exist_ok=True)
        kept = self.keep / f"{unit.name}-{hashlib.sha256(unit.text.encode()).hexdigest()[:12]}.cpp"
        kept.write_text(unit.text, encoding="utf-8")
        raise CompilerFailed(command, ran.stderr, kept, ran.returncode)

    def _path(self, key: str, suffix: str, shared: bool) -> Path | None:
        if shared:
            place = self.headers or self.cache
            return None if place is None else place / "cpp" / "shared" / f"{key}.{suffix}"
        return None if self.cache is None else self.cache / "cpp" / key[:2] / f"{key}.{suffix}"

    def _cached(self, key: str, suffix: str, *, shared: bool = False) -> bytes | None:
        path = self._path(key, suffix, shared)
        if path is None or not path.is_file():
            return None
        return path.read_bytes()

    def _keep_cached(self, key: str, suffix: str, data: bytes, *, shared: bool = False) -> None:
        path = self._path(key, suffix, shared)
        if path is None:
            return
        # Where headers cannot be kept, neither can what is kept with them; nobody need be told.
        with suppress(ToolchainError) if shared else nullcontext():
            keep(path, data)


def _write_texts(root: Path, jobs: Sequence[tuple[Unit, str]]) -> None:
    for unit, _ in jobs:
        (root / f"{unit.name}.cpp").write_text(unit.text, encoding="utf-8")


def _object(unit: Unit, arch: str) -> str:
    return f"{unit.name}.{arch}.o"


def make_units(
    functions: Sequence[KernelSource],
    isa_placeholder: str,
    *,
    few: bool = False,
    apart: bool = False,
) -> tuple[Unit, ...]:
    """Distributes functions over translation units, and adds the table.

    Equal functions are one, known by its text and not by the name in the plan: a changed kernel
    changes its own unit and the table, wherever it is.

    Args:
        functions: In the order of the table.
        isa_placeholder: The C++ expression of the ISA level's name.
        few: Two units, for a compiler that reads all headers again for each.
        apart: What all models share is called from units of its own, which the builder adds.
    """
    symbols = {f.name: _symbol(f) for f in functions}
    once = {symbols[f.name]: f for f in reversed(functions)}
    buckets = _buckets([f for f in functions if once[symbols[f.name]] is f])
    if few:
        buckets = [list(chain(*bucket)) for bucket in (buckets[::2], buckets[1::2]) if bucket]
    units = []
    for k, bucket in enumerate(buckets):
        headers = sorted({h for f in bucket for h in f.headers})
        if headers and apart:
            headers.append(apart_units.DECLARED)
        includes = "".join(f'#include "{h}"\n' for h in headers)
        texts = (f.unnamed.replace(UNNAMED, symbols[f.name]) or f.text for f in bucket)
        units.append(Unit(f"kernels{k}", "\n".join([_HEAD + includes, *texts])))
    types = sorted({table for f in functions for table in f.tables})
    units += [Unit(f"tables{k}", _shared(kind), long=True) for k, kind in enumerate(types)]
    table = _table(functions, symbols, isa_placeholder)
    if len(units) == 1 and not any(f.headers for f in functions):
        # Of a few small kernels: starting a compiler takes as long as they do.
        return (replace(units[0], text=f"{units[0].text}\n{table}"),)
    return (*units, Unit("table", table, vectors=False))


def _shared(kind: str) -> str:
    """The unit that defines a type's micro-kernels of all heights: the same for all models."""
    operation = f"MultiplyAdd<{kind}>"
    tables = {
        f"MicroTable<{kind}> SharedTables<{operation}>::whole": (
            f"kMicroTable<{operation}, kAllHeights>"
        ),
        f"HalfTable<{kind}> SharedTables<{operation}>::half": f"all_halves<{operation}>()",
    }
    defined = "\n".join(f"template <>\nconst {at} = {value};" for at, value in tables.items())
    return f'{_HEAD}#include "aot/tmpl/gemm.h"\n\nnamespace aot::tmpl {{\n{defined}\n}}\n'


def _symbol(function: KernelSource) -> str:
    """What the linker calls it: stripped in the end, so no package has it."""
    if not function.unnamed:
        return function.name
    return f"kernel_{_digest(function)}"


def _buckets(functions: Sequence[KernelSource]) -> list[list[KernelSource]]:
    """What is compiled together: functions that instantiate templates are, or are alone, if many.

    Of the others, the text alone decides whether a unit ends with it, so that the units after a
    changed one stay as they are.
    """
    buckets: list[list[KernelSource]] = [[]]
    for function in functions:
        if function.headers:
            continue
        buckets[-1].append(function)
        full = sum(len(f.text) for f in buckets[-1]) > _UNIT_TEXT
        if full or int(_digest(function), 16) % _UNIT_FUNCTIONS == 0:
            buckets.append([])
    alike: dict[tuple[str, ...], list[KernelSource]] = {}
    for function in functions:
        if function.headers:
            alike.setdefault(tuple(function.headers), []).append(function)
    templates = chain.from_iterable(
        [same] if len(same) <= _TOGETHER else ([f] for f in same) for same in alike.values()
    )
    return [*templates, *filter(None, buckets)]


def _digest(function: KernelSource) -> str:
    return hashlib.sha256((function.unnamed or function.text).encode()).hexdigest()[:24]


_HEAD = '#include "aot/kernel/prelude.h"\n'


def _table(functions: Sequence[KernelSource], symbols: Mapping[str, str], isa: str) -> str:
    signature = "(const aot_kernel_args*, int64_t, int64_t);"
    lines = ['#include "aot/kernel_abi.h"', 'extern "C" {']
    lines += [f"void {symbol}{signature}" for symbol in dict.fromkeys(symbols.values())]
    lines += ["}", "namespace {", "const aot_kernel_entry kEntries[] = {"]
    entries = [f'    {{"{f.name}", {symbols[f.name]}}},' for f in functions]
    lines += entries or ["    {nullptr, nullptr},"]
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
