"""The CPU backend: vector C++ from one source for several ISA levels."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aot.backends.base import EmittedGraph, KernelBinary, KernelSource
from aot.backends.cpp.build import Builder, Unit, make_units
from aot.backends.cpp.kernel import SIGNATURE, EmittedKernel, emit_kernel
from aot.backends.cpp.packing import RECIPES
from aot.backends.cpp.launch import grain_of
from aot.backends.cpp.toolchain import find_toolchain
from aot.ir.capabilities import Capabilities
from aot.ir.kernels import Kernel, KernelGraph, Launch
from aot.options import CPU_LEVELS, BuildOptions, Target

_ISA = (
    '#if defined(__AVX512F__)\n#define AOT_ISA_NAME "x86-64-v4"\n'
    '#elif defined(__AVX2__)\n#define AOT_ISA_NAME "x86-64-v3"\n'
    '#else\n#define AOT_ISA_NAME "x86-64-v2"\n#endif\n'
)


@dataclass(frozen=True)
class CppBackend:
    """Generates C++17 against aot/vec and aot/tmpl, compiles it with the host's compiler."""

    @property
    def name(self) -> str:
        """The backend's name in the registry."""
        return "cpp"

    def supports(self, target: Target) -> bool:
        """True for the CPU levels that aot/vec knows."""
        return target.device == "cpu" and all(a in CPU_LEVELS for a in target.archs)

    def capabilities(self, target: Target) -> Capabilities:
        """What the scheduler may assume of a current x86-64 server core."""
        return Capabilities(
            vector_bytes=64 if CPU_LEVELS[-1] in target.archs else 32,
            l1_bytes=32 * 1024,
            l2_bytes=1024 * 1024,
            local_bytes=256 * 1024,
            templates=frozenset(),
            preferred_conv_layout="channels_last",
            grain_bytes=64 * 1024,
        )

    def recipes(self) -> Mapping[str, Callable[..., np.ndarray[Any, Any]]]:
        """Packing functions by the names that `aot.passes.pack_weights` uses."""
        return RECIPES

    def emit(self, graph: KernelGraph, target: Target) -> EmittedGraph:
        """Sources and launches; kernels whose text is equal share a function."""
        grain_bytes = self.capabilities(target).grain_bytes
        names: dict[str, str] = {}
        functions: list[KernelSource] = []
        launches: list[Launch] = []
        for kernel in graph.kernels:
            emitted = _emit(kernel, graph)
            name = names.get(emitted.body)
            if name is None:
                name = names[emitted.body] = kernel.name
                text = f'extern "C" void {name}{SIGNATURE} {{\n{emitted.body}}}\n'
                functions.append(KernelSource(name, text))
            launches.append(
                Launch(
                    kernel.name,
                    name,
                    emitted.buffers,
                    emitted.sizes,
                    emitted.work,
                    grain_of(kernel, graph, emitted.work, grain_bytes),
                    emitted.scratch,
                )
            )
        return EmittedGraph(tuple(functions), tuple(launches))

    def compile(
        self, source: EmittedGraph, target: Target, options: BuildOptions
    ) -> tuple[KernelBinary, ...]:
        """One shared object an ISA level.

        Raises:
            ToolchainError: No compiler was found, or it refused the source.
        """
        built = _builder(options).build(_units(source), target.archs)
        return tuple(KernelBinary("cpu", arch, built[arch]) for arch in target.archs)

    def cache_key(self, source: EmittedGraph, target: Target, options: BuildOptions) -> str:
        """A hash of all that the binaries depend on."""
        builder, units = _builder(options), _units(source)
        keys = [builder.key(units, arch) for arch in target.archs]
        return hashlib.sha256("".join(keys).encode()).hexdigest()


def _emit(kernel: Kernel, graph: KernelGraph) -> EmittedKernel:
    return emit_kernel(kernel, graph)


def _units(source: EmittedGraph) -> tuple[Unit, ...]:
    units = make_units(source.functions, "AOT_ISA_NAME")
    return (*units[:-1], Unit(units[-1].name, _ISA + units[-1].text))


def _builder(options: BuildOptions) -> Builder:
    keep = options.dump_dir or options.cache_dir or Path(tempfile.gettempdir()) / "aot-package"
    toolchain = find_toolchain(options.compiler)
    return Builder(toolchain, options.cache_dir, options.jobs, keep / "failed")
