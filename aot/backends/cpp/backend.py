"""The CPU backend: vector C++ from one source for several ISA levels."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aot_runtime.format.declarations import Declaration

from aot.backends.base import UNNAMED, EmittedGraph, HostKernel, KernelBinary, KernelSource
from aot.backends.cpp.build import Builder, make_units
from aot.backends.cpp.host_calls import build_host_library, emit_host_calls
from aot.backends.cpp.kernel import (
    EmittedKernel,
    base_offsets,
    base_reaches,
    emit_kernel,
    unnamed_text,
)
from aot.backends.cpp.launch import grain_of
from aot.backends.cpp.levels import LEVELS, Level
from aot.backends.cpp.operands import packing_recipes
from aot.backends.cpp.precompiled import start
from aot.backends.cpp.prepare import prepare_kernels
from aot.backends.cpp.streaming import streamed_buffers
from aot.backends.cpp.templates import TEMPLATES, template_of
from aot.backends.cpp.toolchain import find_toolchain
from aot.errors import InternalError
from aot.ir.declarations import declare
from aot.ir.kernels import FusedKernel, KernelGraph, Launch, NestKernel, WorkUnits
from aot.ir.likeness import Likeness, likeness_of
from aot.ir.machine import Machine
from aot.ir.weights import Recipe
from aot.options import BuildOptions, Target
from aot.symbolic import integer

_ISA = (
    '#if defined(__AVX512F__)\n#define AOT_ISA_NAME "x86-64-v4"\n'
    '#elif defined(__AVX2__)\n#define AOT_ISA_NAME "x86-64-v3"\n'
    '#else\n#define AOT_ISA_NAME "x86-64-v2"\n#endif\n'
)


@dataclass(frozen=True)
class CppBackend:
    """Generates C++17 against aot/vec and aot/tmpl, compiles it with the host's compiler.

    `levels`: what there are targets for.
    """

    levels: tuple[Level, ...] = LEVELS

    @property
    def name(self) -> str:
        """The backend's name in the registry."""
        return "cpp"

    def supports(self, target: Target) -> bool:
        """True for the CPU levels that aot/vec knows."""
        known = {level.name for level in self.levels}
        return target.device == "cpu" and known.issuperset(target.archs)

    def programs(self, target: Target) -> tuple[Target, ...]:
        """One for all levels of equal machines, which are libraries of the same kernels."""
        alike: dict[Machine, list[str]] = {}
        for arch in target.archs:
            machine = self.machine(Target(target.device, (arch,)))
            alike.setdefault(machine, []).append(arch)
        return tuple(Target(target.device, tuple(archs)) for archs in alike.values())

    def machine(self, target: Target) -> Machine:
        """What the scheduler may assume of a current x86-64 server core at the target's levels."""
        return Machine(
            lanes=max(level.lanes for level in self.levels if level.name in target.archs),
            local_bytes=256 * 1024,
            templates=tuple(row.support for row in TEMPLATES.values()),
            grain_bytes=64 * 1024,
        )

    def recipes(self) -> Mapping[str, Recipe]:
        """The packing functions that `prepare` names in derived weights."""
        return packing_recipes()

    def tools(self, target: Target, options: BuildOptions) -> tuple[tuple[str, str], ...]:
        """The host's C++ compiler."""
        return (("c++", find_toolchain(options.compiler).version),)

    def begin(self, target: Target, options: BuildOptions) -> None:
        """Precompiles the headers of the target's levels, where they can be kept."""
        place = options.headers_dir or options.cache_dir
        if place is not None:
            start(options.compiler, target.archs, place, options.jobs)

    def prepare(self, graph: KernelGraph, target: Target) -> KernelGraph:
        """The graph with packed weights."""
        return prepare_kernels(graph)

    def emit(self, graph: KernelGraph, target: Target) -> EmittedGraph:
        """Sources and launches; kernels of equal text that declare the same share a function.

        Kernels that differ in names alone are emitted once.

        Raises:
            InternalError: A kernel is not a fused one.
        """
        grain_bytes = self.machine(target).grain_bytes
        names: dict[tuple[str, str, Declaration], str] = {}
        functions: list[KernelSource] = []
        launches: list[Launch] = []
        known: dict[Hashable, _Emitted] = {}
        for kernel in graph.kernels:
            if not isinstance(kernel, FusedKernel):
                raise InternalError(f"{kernel.name}: the C++ backend has no such launch")
            like = likeness_of(kernel, graph.buffers)
            # Of the graph a kernel's text knows its sizes, and which results nobody reads.
            alike = like.key, like.numbers(streamed_buffers(kernel, graph))
            if alike not in known:
                known[alike] = _emitted(kernel, like, graph, grain_bytes)
            emitted, declaration = known[alike].text, known[alike].declaration
            launch = known[alike].launch_of(kernel, like)
            key = (emitted.head, emitted.body, declaration)
            if key not in names:
                names[key] = kernel.name
                functions.append(_source(kernel.name, emitted, declaration))
            launches.append(replace(launch, function=names[key]))
        return EmittedGraph(graph, tuple(functions), tuple(launches))

    def compile(
        self, source: EmittedGraph, target: Target, options: BuildOptions
    ) -> tuple[KernelBinary, ...]:
        """One shared object an ISA level.

        Raises:
            ToolchainError: No compiler was found, or it refused the source.
        """
        builder = _builder(options)
        toolchain = builder.toolchain
        units = make_units(
            source.functions,
            "AOT_ISA_NAME",
            few=not toolchain.precompiles,
            apart=toolchain.tells_symbols,
        )
        units = (*units[:-1], replace(units[-1], text=_ISA + units[-1].text))
        built = builder.build(units, target.archs)
        return tuple(KernelBinary("cpu", arch, built[arch]) for arch in target.archs)


@dataclass(frozen=True)
class CppHostCalls:
    """Kernels of this backend as custom operators of programs for other devices."""

    def emit(self, graph: KernelGraph) -> tuple[KernelGraph, tuple[HostKernel, ...]]:
        """As `emit_host_calls`."""
        return emit_host_calls(graph)

    def compile(self, kernels: Mapping[HostKernel, Sequence[str]], options: BuildOptions) -> bytes:
        """As `build_host_library`.

        Raises:
            ToolchainError: No compiler was found, or it refused a source.
        """
        return build_host_library(_builder(options), kernels)


@dataclass(frozen=True)
class _Emitted:
    """What is emitted for one of several kernels that differ in names."""

    text: EmittedKernel
    launch: Launch
    declaration: Declaration
    like: Likeness

    def launch_of(self, kernel: FusedKernel, like: Likeness) -> Launch:
        """How another of these kernels is called, its function still unnamed."""
        buffers = self.like.renamed(self.launch.buffers, like)
        return replace(self.launch, kernel=kernel.name, buffers=buffers)


def _emitted(kernel: FusedKernel, like: Likeness, graph: KernelGraph, grain_bytes: int) -> _Emitted:
    text = _emit(kernel, graph)
    return _Emitted(text, *_launch(kernel, text, graph, grain_bytes), like)


def _emit(kernel: FusedKernel, graph: KernelGraph) -> EmittedKernel:
    if isinstance(kernel, NestKernel):
        return emit_kernel(kernel, graph)
    return template_of(kernel).emit(kernel, graph)


def _launch(
    kernel: FusedKernel, emitted: EmittedKernel, graph: KernelGraph, grain_bytes: int
) -> tuple[Launch, Declaration]:
    """How the kernel is called, its function still unnamed, and what that function declares."""
    reaches = base_reaches(kernel, graph)
    grain = (
        integer(emitted.grain)
        if emitted.grain is not None
        else grain_of(kernel, graph, emitted.work, grain_bytes)
    )
    launch = Launch(
        kernel.name,
        "",
        emitted.buffers,
        (*emitted.sizes, *base_offsets(kernel, graph.buffers).values()),
        WorkUnits(emitted.work, grain, emitted.scratch),
    )
    begins = {len(emitted.sizes) + k: reach for k, reach in enumerate(reaches)}
    declaration, values = declare(graph, kernel, launch, begins)
    return replace(launch, values=values), declaration


def _source(name: str, emitted: EmittedKernel, declaration: Declaration) -> KernelSource:
    unnamed = unnamed_text(emitted)
    text = unnamed.replace(UNNAMED, name)
    return KernelSource(
        name,
        text,
        emitted.headers,
        declaration=declaration,
        unnamed=unnamed,
        tables=emitted.tables,
    )


def _builder(options: BuildOptions) -> Builder:
    keep = options.dump_dir or options.cache_dir or Path(tempfile.gettempdir()) / "aot-package"
    toolchain = find_toolchain(options.compiler)
    where = (options.cache_dir, options.jobs, keep / "failed", options.headers_dir)
    return Builder(toolchain, *where, exact=options.exact_jobs)
