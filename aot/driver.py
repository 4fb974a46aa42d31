"""The compiler's table of contents: from a model to a package, one stage after the other.

Every stage is a function from one immutable value to the next; observers look at what passes by.
Only `build` (compilers) and `write` (the file) have effects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from aot.backends.base import Backend, EmittedGraph, KernelBinary
from aot.backends.registry import backend_for
from aot.errors import UsageError
from aot.frontend.capture import Captured, capture_file
from aot.frontend.golden import examples
from aot.frontend.ingest import ingest
from aot.ir.capabilities import Capabilities
from aot.ir.kernels import KernelGraph, MemoryPlan
from aot.ir.loops import LoopGraph
from aot.ir.weights import WeightStore
from aot.link.assemble import Assembly, LibraryBinary, assemble
from aot.link.derive import DerivedStore
from aot.link.entries import golden_entries, weight_entries
from aot.link.package import Entry, bytes_entry, write_package
from aot.link.plan import Plan
from aot.lowering.lower import lower
from aot.options import BuildOptions, Target
from aot.passes.dead_code import remove_dead_code
from aot.passes.expand_templates import expand_templates
from aot.passes.fold_weights import fold_weights
from aot.passes.inline import inline_producers
from aot.passes.layout import choose_layouts, own_outputs
from aot.passes.normalize_axes import normalize_axes
from aot.report.model import BuildReport, StageTime
from aot.report.observers import Observer, Silent
from aot.report.summary import arena_nbytes, example_sizes, kernel_reports
from aot.schedule.fusion import fuse
from aot.schedule.memory import plan_memory
from aot.version import COMPILER

T = TypeVar("T")


@dataclass(frozen=True)
class Linked:
    """A plan and the entries that complete its package."""

    plan: Plan
    entries: tuple[Entry, ...]


def build(
    source: Path | Captured, options: BuildOptions, observer: Observer | None = None
) -> BuildReport:
    """Packages a model.

    Args:
        source: A model file, a saved ExportedProgram (`.pt2`), or a captured module.
        options: Where to, for which targets, how far.
        observer: Told of every stage.

    Returns:
        What was built and why; without an output path nothing is written.

    Raises:
        AotError: See aot.errors.
    """
    stages = _Stages(observer or Silent(), options.stop_after)
    target = _only(options.targets)
    backend = backend_for(target)
    capabilities = backend.capabilities(target)

    captured = stages.run(
        "capture", lambda: capture_file(source) if isinstance(source, Path) else source
    )
    graph, weights = stages.run("ingest", lambda: ingest(captured))
    loops = stages.run("lower", lambda: lower(graph))
    loops = stages.run("passes", lambda: run_passes(loops, capabilities))
    kernels = stages.run("fuse", lambda: fuse(loops, capabilities))
    memory = stages.run("plan_memory", lambda: plan_memory(kernels))
    emitted = stages.run("emit", lambda: backend.emit(kernels, target))
    binaries = stages.run("build", lambda: backend.compile(emitted, target, options))
    linked = stages.run(
        "assemble",
        lambda: _link(captured, emitted.graph, memory, emitted, binaries, weights, backend, options),
    )
    nbytes = stages.run("write", lambda: _write(options.output, linked))
    return _report(kernels, memory, linked, nbytes, options, stages.times)


def run_passes(graph: LoopGraph, capabilities: Capabilities) -> LoopGraph:
    """The passes over the loop graph, in order."""
    graph = remove_dead_code(graph)
    graph = own_outputs(graph)
    graph = expand_templates(graph, capabilities)
    # Folding comes before inlining, which would mix constants with what varies.
    graph = fold_weights(graph)
    # Views vanish first, so that what remains shows its real accesses to every later choice.
    graph = inline_producers(graph)
    graph = normalize_axes(graph)
    return choose_layouts(graph, capabilities)


class Stopped(Exception):
    """The stage named by `BuildOptions.stop_after` has ended."""


@dataclass
class _Stages:
    """Runs stages in order: times them, tells the observer, stops where asked."""

    observer: Observer
    stop_after: str | None
    times: list[StageTime] = field(default_factory=list)

    def run(self, name: str, stage: Callable[[], T]) -> T:
        self.observer.stage_begin(name)
        start = time.perf_counter()
        value = stage()
        seconds = time.perf_counter() - start
        self.times.append(StageTime(name, seconds))
        self.observer.stage_end(name, value, seconds)
        if name == self.stop_after:
            raise Stopped(name)
        return value


def _only(targets: Sequence[Target]) -> Target:
    if len(targets) != 1:
        raise UsageError("a package has one device", advice="Give one --target.")
    return targets[0]


def _link(
    captured: Captured,
    kernels: KernelGraph,
    memory: MemoryPlan,
    emitted: EmittedGraph,
    binaries: Sequence[KernelBinary],
    weights: WeightStore,
    backend: Backend,
    options: BuildOptions,
) -> Linked:
    libraries = tuple(LibraryBinary(b.device, b.arch, b.data) for b in binaries)
    golden = golden_entries(
        [(e.inputs, e.outputs) for e in examples(captured)] if options.golden else []
    )
    plan = assemble(
        Assembly(
            kernels,
            memory,
            emitted.launches,
            [f.name for f in emitted.functions],
            libraries,
            frozenset(d.name for d in kernels.derived),
            COMPILER,
            golden.records,
        )
    )
    store = DerivedStore(weights, kernels.derived, kernels.buffers, backend.recipes())
    return Linked(
        plan,
        (
            *(bytes_entry(library.entry, library.data) for library in libraries),
            *weight_entries(plan, kernels, store),
            *golden.entries,
        ),
    )


def _write(output: Path | None, linked: Linked) -> int:
    """Bytes written; 0 without an output path."""
    return write_package(output, linked.plan, linked.entries).nbytes if output else 0


def _report(
    kernels: KernelGraph,
    memory: MemoryPlan,
    linked: Linked,
    nbytes: int,
    options: BuildOptions,
    times: Sequence[StageTime],
) -> BuildReport:
    sizes = example_sizes(kernels)
    return BuildReport(
        model=kernels.name,
        output=options.output,
        nbytes=nbytes,
        weight_bytes=sum(e.nbytes for e in linked.entries if e.name.startswith(_WEIGHT_GROUPS)),
        arena_bytes=arena_nbytes(memory, sizes),
        targets=tuple(f"{library.device}:{library.isa}" for library in linked.plan.libraries),
        kernels=kernel_reports(kernels),
        decisions=kernels.decisions,
        timings=tuple(times),
        sizes=tuple((d.label or d.name, d.hint) for d in kernels.dims),
    )


_WEIGHT_GROUPS = ("weights/", "packed/")
