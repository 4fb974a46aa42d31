"""The GPU backend: Triton kernels, compiled for named architectures with no GPU present."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from aot_runtime.format.declarations import Declaration

from aot.backends.base import EmittedGraph, KernelBinary, KernelSource
from aot.backends.by_size import Choice, by_size, spots
from aot.backends.triton.body import ATOMICS
from aot.backends.triton.by_rounding import rounded_choices
from aot.backends.triton.compile import ALIGNMENT, begin, compile_kernels
from aot.backends.triton.context import narrow_when, narrowed
from aot.backends.triton.even_rows import with_even
from aot.backends.triton.gpu import GPUS, Gpu
from aot.backends.triton.held_rows import row_choices
from aot.backends.triton.kernel import NAME, EmittedKernel, emit_kernel
from aot.backends.triton.prepare import has_room, prepare_kernels
from aot.backends.triton.ready import READY
from aot.backends.triton.side_by_side import joined
from aot.backends.triton.templates import supports, template_of
from aot.backends.triton.toolchain import SHARED_LIMIT, find_triton
from aot.backends.triton.tuning import Chooser, default_database
from aot.backends.triton.user_kernel import emit_user_kernel
from aot.ir.decisions import Decision
from aot.ir.declarations import declare
from aot.ir.hints import Hints, hints_of
from aot.ir.kernels import (
    Grid,
    JoinedKernel,
    Kernel,
    KernelGraph,
    Launch,
    ModelKernel,
    NestKernel,
    TemplateKernel,
    fused_parts,
)
from aot.ir.machine import CrossedTile, Machine
from aot.ir.user_kernel import TRITON
from aot.ir.weights import Recipe
from aot.options import BuildOptions, Target

COLUMN_UNITS = 4
"""Strips of columns that take as much of a device as another program: means of 1912 x 35090 float16
took 98 us on an H200 with 549 programs, 50 with 2196."""


@dataclass(frozen=True)
class TritonBackend:
    """Generates Triton modules, one kernel each, and compiles them to cubins.

    `tuning`: decides between a template's configurations where something was measured.
    """

    tuning: Chooser = field(default_factory=default_database)

    @property
    def name(self) -> str:
        """The backend's name in the registry."""
        return "triton"

    def supports(self, target: Target) -> bool:
        """True for the GPU architectures that there is an assembler for."""
        return target.device == "cuda" and all(a in SHARED_LIMIT for a in target.archs)

    def programs(self, target: Target) -> tuple[Target, ...]:
        """One program an architecture: tiles differ between them."""
        return tuple(Target(target.device, (arch,)) for arch in target.archs)

    def machine(self, target: Target) -> Machine:
        """What the scheduler may assume of a GPU for servers."""
        return Machine(
            local_bytes=64 * 1024,
            templates=supports(GPUS[target.archs[0]]),
            grain_bytes=64 * 1024,
            local_buffers=False,
            crossed=CrossedTile(),
            gathers=True,
            alignment=ALIGNMENT,
            units=self._gpu(target).units,
            wide_units=2,
            column_units=COLUMN_UNITS * self._gpu(target).units,
            line_elements=256,
            languages=frozenset((TRITON,)),
            joins=ATOMICS,
            in_order=False,
            private_points=1 << 17,
            # One program takes 100 us for four times as many that it looks up by index.
            simple_points=1 << 14,
        )

    def _gpu(self, target: Target) -> Gpu:
        (arch,) = target.archs
        return replace(GPUS[arch], tuning=self.tuning)

    def recipes(self) -> Mapping[str, Recipe]:
        """No weights are packed: tensor cores take them as they are."""
        return {}

    def tools(self, target: Target, options: BuildOptions) -> tuple[tuple[str, str], ...]:
        """Triton, and the assembler that it brings along."""
        (arch,) = target.archs
        triton = find_triton(arch)
        return ("triton", triton.version), ("ptxas", triton.assembler_version.splitlines()[-1])

    def begin(self, target: Target, options: BuildOptions) -> None:
        """Compilers import Triton."""
        begin(target.archs[0], options.jobs)

    def prepare(self, graph: KernelGraph, target: Target) -> KernelGraph:
        """The graph with workspaces and joined launches."""
        return prepare_kernels(graph, self._gpu(target))

    def emit(self, graph: KernelGraph, target: Target) -> EmittedGraph:
        """Sources and launches; kernels of equal text that declare the same share a function."""
        gpu, hints = self._gpu(target), hints_of(graph.dims)
        names: dict[object, str] = {}
        functions: list[KernelSource] = []
        launches: list[Launch] = []
        decisions: list[Decision] = []
        known: dict[object, tuple[Choice[EmittedKernel], ...]] = {}
        for kernel in graph.kernels:
            own = _emit(kernel, graph, hints, gpu)
            alike = _alike(own, graph)
            if alike not in known:
                known[alike] = _choices(kernel, graph, own, gpu)
            choices = _of_kernel(kernel, own, known[alike])
            for choice in choices:
                launch = _launch(kernel, choice)
                declaration, values = declare(graph, kernel, launch)
                made = choice.emitted
                key = (made.function, made.signature, made.options, declaration)
                if key not in names:
                    names[key] = choice.name
                    functions.append(_source(choice.name, made, declaration))
                launches.append(replace(launch, function=names[key], values=values))
            if len(choices) > 1:
                decisions.append(_decision(kernel, choices))
        emitted = replace(graph, decisions=(*graph.decisions, *decisions))
        return EmittedGraph(emitted, tuple(functions), tuple(launches))

    def compile(
        self, source: EmittedGraph, target: Target, options: BuildOptions
    ) -> tuple[KernelBinary, ...]:
        """The images of one architecture.

        Raises:
            ToolchainError: Triton is missing, or refuses a kernel.
        """
        (arch,) = target.archs
        places = {launch.function: _place(kernel) for kernel, launch in source.kernels()}
        try:
            images = compile_kernels(
                source.functions, arch, options.jobs, options.cache_dir, places
            )
        finally:
            READY.drop()
        return (KernelBinary(target.device, arch, b"", images),)


def _choices(
    kernel: Kernel, graph: KernelGraph, own: EmittedKernel, gpu: Gpu
) -> tuple[Choice[EmittedKernel], ...]:
    """The kernel's functions, for all sizes that it may run at.

    Where these may be too many for indices of 32 bits there is one more with wide ones: they cost
    registers and time, and descriptors take none.
    """

    def emitted(at: KernelGraph) -> EmittedKernel | None:
        made = _emit(kernel, at, hints_of(at.dims), gpu) if has_room(kernel, at, gpu) else None
        return made if made is None or set(made.buffers) <= set(own.buffers) else None

    parts = fused_parts(kernel)
    small = narrowed(parts, graph)

    def sized(at: KernelGraph, first: EmittedKernel | None) -> tuple[Choice[EmittedKernel], ...]:
        if first is None:
            return ()
        return rounded_choices(kernel, at, first, emitted, _function) or by_size(
            kernel, at, first, emitted, _function
        )

    # Functions by a row's length need none at the example's.
    found = row_choices(kernel, small, emitted)
    if not found:
        found = sized(small, own if small is graph else emitted(small))
    if not found:
        small, found = graph, sized(graph, own)

    def made(at: KernelGraph) -> tuple[Choice[EmittedKernel], ...]:
        return row_choices(kernel, at, emitted) or sized(at, emitted(at))

    found = with_even(kernel, small, found, made)
    if small is graph:
        return found
    narrow, wide = narrow_when(parts, graph)
    at_most = [choice.within(narrow) for choice in found]
    large = emitted(spots(kernel, graph)[-1]) or own
    return (*at_most, Choice(large, wide, f"{kernel.name}_wide"))


def _function(emitted: EmittedKernel) -> object:
    """What emitted kernels have in common that are one function."""
    return emitted.function, emitted.signature, emitted.options


def _alike(own: EmittedKernel, graph: KernelGraph) -> object:
    """What kernels have in common whose functions for all sizes are the same."""
    buffers = [graph.buffers[name] for name in own.buffers]
    types = tuple((b.dtype, b.shape, b.strides) for b in buffers)
    places = tuple(own.buffers.index(name) for name in own.buffers)
    return own.function, own.signature, own.options, own.sizes, own.grid, types, places


def _of_kernel(
    kernel: Kernel, own: EmittedKernel, choices: Sequence[Choice[EmittedKernel]]
) -> tuple[Choice[EmittedKernel], ...]:
    """The functions of a kernel that is like another: of its own buffers, under its own name."""
    first = choices[0]
    names = dict(zip(first.emitted.buffers, own.buffers, strict=True))
    return tuple(
        replace(
            choice.renamed(first.name, kernel.name),
            emitted=replace(
                choice.emitted, buffers=tuple(names[b] for b in choice.emitted.buffers)
            ),
        )
        for choice in choices
    )


def _launch(kernel: Kernel, choice: Choice[EmittedKernel]) -> Launch:
    made = choice.emitted
    return Launch(kernel.name, "", made.buffers, made.sizes, Grid(*made.grid), when=choice.when)


def _decision(kernel: Kernel, choices: Sequence[Choice[EmittedKernel]]) -> Decision:
    reason = "what is fastest depends on sizes that are known when it runs"
    return Decision("sizes", (kernel.name,), f"{len(choices)} functions", reason)


def _emit(kernel: Kernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> EmittedKernel:
    match kernel:
        case ModelKernel():
            return emit_user_kernel(kernel, graph, hints, gpu)
        case NestKernel():
            return emit_kernel(kernel, graph, hints, gpu)
        case TemplateKernel():
            return template_of(kernel).emit(kernel, graph, hints, gpu)
        case JoinedKernel():
            return joined([_emit(part, graph, hints, gpu) for part in kernel.parts])


def _source(name: str, emitted: EmittedKernel, declaration: Declaration) -> KernelSource:
    return KernelSource(
        name,
        emitted.text.replace(NAME, name),
        signature=emitted.signature,
        options=emitted.options,
        faults=emitted.faults,
        waits=emitted.waits,
        declaration=declaration,
    )


def _place(kernel: Kernel) -> str:
    """What of the model a kernel computes, for messages."""
    match kernel:
        case JoinedKernel():
            return ", ".join(_place(part) for part in kernel.parts)
        case TemplateKernel():
            return f"{kernel.template.name} at {kernel.template.origin}"
        case ModelKernel():
            return f"{kernel.call.name} at {kernel.call.origin}"
        case NestKernel():
            nests = [n for s in kernel.stages for n in s.nests]
            return ", ".join(f"{n.name} at {n.origin}" for n in nests)
