"""The compiler's table of contents: from a model to a package, one stage after the other.

Every stage is a function from one immutable value to the next; observers look at what passes by.
Only `build` (compilers) and `write` (the file) have effects.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from aot_runtime.format.container import WEIGHT_GROUPS
from aot_runtime.format.declarations import Declaration
from aot_runtime.format.plan import Plan

from aot.backends.base import Backend, EmittedGraph, HostKernel, KernelBinary, KernelSource
from aot.backends.registry import HOST_CALLS, backend_for
from aot.errors import InternalError, UsageError
from aot.frontend.capture import Captured, capture_file
from aot.frontend.golden import examples, refused_by_eager
from aot.frontend.ingest import ingest
from aot.frontend.operators import is_given
from aot.frontend.typical import with_typical
from aot.ir.flow import Outline
from aot.ir.kernel_facts import calls_kernels, draws_numbers
from aot.ir.kernels import KernelGraph, MemoryPlan
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.tensors import OperatorCall, TensorGraph, all_ops
from aot.ir.weights import WeightStore
from aot.link.assemble import Assembly, ProgramParts, RoutineParts, assemble
from aot.link.declaration_check import check_declarations
from aot.link.derive import DerivedStore
from aot.link.entries import golden_entries
from aot.link.entry import Entry, bytes_entry
from aot.link.files import file_entries
from aot.link.operator_library import (
    HOST_LIBRARY,
    OperatorCode,
    read_libraries,
    require_code,
    used_libraries,
)
from aot.link.package import Document, check_place, write_package
from aot.link.placing import place_weights, weight_entries
from aot.link.provenance import BuildFacts, provenance_documents, tools_of
from aot.link.replaceable import original_entries, weight_specs
from aot.link.states import place_states
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline
from aot.options import BuildOptions, Target
from aot.passes.pipeline import Watch, run_passes
from aot.report.model import BuildReport, PerProgram, StageTime
from aot.report.observers import Keep, Observer, Several, Silent
from aot.report.summary import operator_uses, program_report
from aot.schedule.fusion import fuse
from aot.schedule.join import join
from aot.schedule.memory import plan_memory
from aot.version import COMPILER
from aot.weight_program import with_weight_program

T = TypeVar("T")
Choose = Callable[[Target], Backend]

Capture = Callable[[Sequence[str]], Captured]
"""Captures a model; it is given the operators that stay calls, as `--operator` names them."""


@dataclass(frozen=True)
class Linked:
    """A plan and the entries that complete its package."""

    plan: Plan
    entries: tuple[Entry, ...]
    documents: tuple[Document, ...] = ()


@dataclass(frozen=True)
class Tuned:
    """The backends of a build that know what was measured for it, and what that was, in lines."""

    choose: Choose
    found: tuple[str, ...]


Tune = Callable[[Captured, TensorGraph, BuildOptions], Tuned]
"""Measures for a build."""


@dataclass(frozen=True)
class Program:
    """What the plan gets one program for: a target, and the backend that makes its code."""

    target: Target
    backend: Backend

    @property
    def machine(self) -> Machine:
        """Facts for the scheduler."""
        return self.backend.machine(self.target)


def build(
    source: Path | Captured | Capture,
    options: BuildOptions,
    observer: Observer | None = None,
    choose: Choose | None = None,
    tune: Tune | None = None,
) -> BuildReport:
    """Packages a model.

    Args:
        source: A model file, a saved ExportedProgram (`.pt2`), a captured module, or what captures
            one.
        options: Where to, for which targets, how far.
        observer: Told of every stage.
        choose: The backend of a target; None takes the registered one.
        tune: Measures where `options.tune` asks for it; its backends are taken then.

    Returns:
        What was built and why; without an output path nothing is written.

    Raises:
        AotError: See aot.errors.
    """
    kept = Keep()
    stages = _Stages(Several([kept, observer or Silent()]), options.stop_after)
    programs = choose_programs(options.targets, choose)
    if options.output is not None:
        check_place(options.output)
    carried = read_libraries(options.operator_libraries)
    files = file_entries(options.files)
    given = (*options.operators, *(name for library in carried for name, _ in library.operators))

    captured = stages.run("capture", lambda: _capture(source, given, options))
    graph, weights = stages.run("ingest", lambda: _ingest(captured, given, options))
    refuse_kernels(graph, programs)
    check_operators(graph, programs, options.operators, carried)
    measure = None if tune is None else partial(tune, captured, graph, options)
    programs, measured = _tuned(stages, measure, programs, options)
    with refused_by_eager(captured):
        lowered = stages.run("lower", lambda: lower_outline(outline(graph)))
        # From here on each program goes its own way: what to fuse depends on the device.
        kernels = _schedule(stages, programs, lowered)
        # Kernels that the backend has put into one launch run at the same time.
        memory = stages.run(
            "plan_memory", lambda: _each(programs, lambda _, k: plan_memory(kernels[k]))
        )
        emitted = stages.run(
            "emit", lambda: _each(programs, lambda p, k: _emit(p, kernels[k], options))
        )
        built = stages.run("build", lambda: _build(programs, emitted, options))
    carried = (*carried, *built.host)
    linked = stages.run(
        "assemble",
        lambda: _link(
            captured, programs, memory, emitted, built.binaries, weights, carried, options
        ),
    )
    linked = _documented(linked, files, _build_facts(captured, source, programs, options))
    nbytes = stages.run("write", lambda: _write(options, linked))
    report = _report(emitted, memory, linked, nbytes, carried, options, kept.timings)
    return replace(report, decided=captured.decided, measured=measured)


def _tuned(
    stages: _Stages,
    tune: Callable[[], Tuned] | None,
    programs: tuple[Program, ...],
    options: BuildOptions,
) -> tuple[tuple[Program, ...], tuple[str, ...]]:
    """The programs with what was measured for them where that is asked for, and what that was."""
    if tune is None or not options.tune:
        return programs, ()
    tuned = stages.run("tune", tune)
    return choose_programs(options.targets, tuned.choose), tuned.found


def _documented(linked: Linked, files: Sequence[Entry], facts: BuildFacts) -> Linked:
    """With the files that the package carries, and what it says of its origin."""
    entries = (*linked.entries, *files)
    return replace(linked, entries=entries, documents=provenance_documents(facts))


def _ingest(
    captured: Captured, operators: Sequence[str], options: BuildOptions
) -> tuple[TensorGraph, WeightStore]:
    exact = replace(captured, tf32=()) if options.exact_floats else captured
    graph, weights = ingest(exact, operators)
    if not options.typical:
        return graph, weights
    return replace(graph, dims=with_typical(graph.dims, dict(options.typical))), weights


def _schedule(
    stages: _Stages, programs: Sequence[Program], lowered: Outline[LoopGraph]
) -> PerProgram[KernelGraph]:
    """The passes, fusion, and what the backend adds to its kernels."""
    loops = stages.run(
        "passes",
        lambda: _each_schedule(
            programs,
            lambda p, _: run_passes(lowered, p.machine, stages.watch(str(p.target))),
        ),
    )
    fused = stages.run(
        "fuse",
        lambda: _each_schedule(
            programs, lambda p, k: join(loops[k].map(lambda part: fuse(part, p.machine)))
        ),
    )
    return stages.run(
        "prepare", lambda: _each(programs, lambda p, k: p.backend.prepare(fused[k], p.target))
    )


def _build_facts(
    captured: Captured,
    source: Path | Captured | Capture,
    programs: Sequence[Program],
    options: BuildOptions,
) -> BuildFacts:
    file = None
    if isinstance(source, Path):
        file = (source.name, hashlib.sha256(source.read_bytes()).hexdigest())
    libraries = [(name, version(name)) for name in ("numpy", "sympy", "torch")]
    used = [p.backend.tools(p.target, options) for p in programs]
    chosen = {
        "targets": [str(program.target) for program in programs],
        "swappable": options.swappable,
        "keep_originals": options.keep_originals,
        "weights_file": options.weights_file,
        "exact_floats": options.exact_floats,
        "decide_as_example": options.decide_as_example,
        "typical": dict(options.typical),
        "tune": options.tune,
        "golden": options.golden,
        "operators": list(options.operators),
        "operator_libraries": [path.name for path in options.operator_libraries],
        "files": [name for name, _ in options.files],
    }
    return BuildFacts(captured.name, file, tools_of([libraries, *used]), chosen)


def _capture(
    source: Path | Captured | Capture, operators: Sequence[str], options: BuildOptions
) -> Captured:
    if isinstance(source, Captured):
        return source
    if isinstance(source, Path):
        return capture_file(source, operators, decide_as_example=options.decide_as_example)
    return source(operators)


def choose_programs(targets: Sequence[Target], choose: Choose | None = None) -> tuple[Program, ...]:
    """The programs that the targets want, in their order, each with the backend of its target.

    Raises:
        UsageError: No backend makes code for a target.
    """
    chosen = [(target, (choose or backend_for)(target)) for target in targets]
    return tuple(Program(part, b) for target, b in chosen for part in b.programs(target))


def refuse_kernels(graph: TensorGraph, programs: Sequence[Program]) -> None:
    """Kernels of the model's own run where their language is known.

    Raises:
        UsageError: There is a program for another device.
    """
    for op in all_ops(graph.ops):
        if not isinstance(op, OperatorCall) or op.kernel is None:
            continue
        language = op.kernel.language
        for program in programs:
            if language not in program.machine.languages:
                raise UsageError(
                    f"the kernel {op.name} is written in {language.title()}, which "
                    f"a program for {program.target} cannot hold",
                    where=op.origin,
                    advice="Package for GPUs alone (--target cuda:sm_90), or name the operator "
                    "that launches it with --operator and give its code: "
                    "docs/custom-operators.md.",
                )


def check_operators(
    graph: TensorGraph,
    programs: Sequence[Program],
    given: Sequence[str],
    carried: Sequence[OperatorCode],
) -> None:
    """Custom operators that nobody has said to give have code for every program.

    Raises:
        UsageError: A library has it for other devices alone.
    """
    calls = [op for op in all_ops(graph.ops) if isinstance(op, OperatorCall)]
    named = [c for c in calls if c.kernel is None and not is_given(c.name, given)]
    for program in programs:
        require_code(named, program.target, carried)


def schedule(graph: TensorGraph, machine: Machine) -> KernelGraph:
    """The kernels of a model on a device: `lower`, `passes` and `fuse` in one.

    Raises:
        UnsupportedOperators: As `lower`.
    """
    loops = run_passes(lower_outline(outline(graph)), machine)
    return join(loops.map(lambda part: fuse(part, machine)))


class Stopped(Exception):
    """The stage named by `BuildOptions.stop_after` has ended."""


@dataclass(frozen=True)
class _Stages:
    """Runs stages in order: tells the observer of each, stops where asked."""

    observer: Observer
    stop_after: str | None

    def run(self, name: str, stage: Callable[[], T]) -> T:
        self.observer.stage_begin(name)
        start = time.perf_counter()
        value = stage()
        seconds = time.perf_counter() - start
        self.observer.stage_end(name, value, seconds)
        if name == self.stop_after:
            raise Stopped(name)
        return value

    def watch(self, target: str) -> Watch:
        """What passes for this program tell of themselves."""

        def told(name: str, loops: Outline[LoopGraph], seconds: float) -> None:
            self.observer.pass_end(name, target, loops, seconds)

        return told


def _each(programs: Sequence[Program], make: Callable[[Program, int], T]) -> PerProgram[T]:
    values = tuple(make(program, k) for k, program in enumerate(programs))
    return PerProgram(tuple(str(program.target) for program in programs), values)


def _each_schedule(programs: Sequence[Program], make: Callable[[Program, int], T]) -> PerProgram[T]:
    """As `_each`; programs for equal machines are scheduled alike, so once for all of them."""
    made: dict[Machine, T] = {}

    def once(program: Program, k: int) -> T:
        if program.machine not in made:
            made[program.machine] = make(program, k)
        return made[program.machine]

    return _each(programs, once)


def _emit(program: Program, kernels: KernelGraph, options: BuildOptions) -> EmittedGraph:
    graph, host = HOST_CALLS.emit(kernels)
    emitted = replace(program.backend.emit(graph, program.target), host=host)
    if not options.has_weight_program:
        return emitted
    return with_weight_program(emitted, program.backend, program.target)


@dataclass(frozen=True)
class Built:
    """What compilers have made.

    Attributes:
        binaries: Of each program.
        host: The library of what programs for devices call on the host, if there is any.
    """

    binaries: PerProgram[tuple[KernelBinary, ...]]
    host: tuple[OperatorCode, ...] = ()


def _build(
    programs: Sequence[Program], emitted: PerProgram[EmittedGraph], options: BuildOptions
) -> Built:
    binaries = _each(programs, lambda p, k: p.backend.compile(emitted[k], p.target, options))
    callers: dict[HostKernel, list[str]] = {}
    for program, made in zip(programs, emitted.values, strict=True):
        for kernel in made.host:
            devices = callers.setdefault(kernel, [])
            if program.target.device not in devices:
                devices.append(program.target.device)
    if not callers:
        return Built(binaries)
    operators = sorted((kernel.name, d) for kernel, devices in callers.items() for d in devices)
    data = HOST_CALLS.compile(callers, options)
    return Built(binaries, (OperatorCode(HOST_LIBRARY, data, tuple(operators)),))


def _link(
    captured: Captured,
    programs: Sequence[Program],
    memory: PerProgram[MemoryPlan],
    emitted: PerProgram[EmittedGraph],
    binaries: PerProgram[tuple[KernelBinary, ...]],
    weights: WeightStore,
    carried: Sequence[OperatorCode],
    options: BuildOptions,
) -> Linked:
    graphs = [e.graph for e in emitted.values]
    placed = place_weights(emitted.names, graphs)
    devices = [program.target.device for program in programs]
    parts = [
        replace(
            _program_parts(
                program,
                memory[k],
                emitted[k],
                binaries[k],
                placed[k],
                alone=devices.count(program.target.device) == 1,
            ),
            operators=used_libraries(emitted[k].graph, program.target.device, carried),
        )
        for k, program in enumerate(programs)
    ]
    # Eager's random numbers are others, and it cannot run the model's own kernels on the host.
    comparable = options.golden and not any(
        draws_numbers(graph) or calls_kernels(graph) for graph in graphs
    )
    golden = golden_entries(
        [(e.inputs, e.outputs, e.others) for e in examples(captured)] if comparable else []
    )
    states = place_states(graphs, weights)
    replaceable = (
        weight_specs(weights, parts, options.keep_originals) if options.has_weight_program else ()
    )
    plan = assemble(Assembly(parts, COMPILER, golden.records, states.specs, replaceable))
    check_declarations(plan, {p.target: p.declared() for p in parts})
    stores = [
        DerivedStore(weights, graph.derived, graph.buffers, program.backend.recipes())
        for program, graph in zip(programs, graphs, strict=True)
    ]
    return Linked(
        plan,
        (
            *_code_entries(parts),
            *weight_entries(plan, graphs, placed, stores),
            *states.entries,
            *original_entries(plan, weights),
            *golden.entries,
        ),
    )


def _code_entries(parts: Sequence[ProgramParts]) -> tuple[Entry, ...]:
    # Programs share libraries of operators.
    code = dict(entry for part in parts for entry in part.code())
    return tuple(bytes_entry(name, data) for name, data in code.items())


def _program_parts(
    program: Program,
    memory: MemoryPlan,
    emitted: EmittedGraph,
    binaries: Sequence[KernelBinary],
    weights: Mapping[str, str],
    *,
    alone: bool,
) -> ProgramParts:
    images = [image for binary in binaries for image in binary.images]
    return ProgramParts(
        device=program.target.device,
        # An architecture's own program says which; the libraries of a device's only one say theirs.
        arch="" if alone and not images else program.target.archs[0],
        graph=emitted.graph,
        memory=memory,
        launches=emitted.launches,
        functions=[f.name for f in emitted.functions],
        declarations=[_declaration(f) for f in emitted.functions],
        weights=weights,
        routines=[RoutineParts(r.graph, r.memory, r.launches) for r in emitted.routines],
        derivations=emitted.derivations,
        libraries=[] if images else [(b.arch, b.data) for b in binaries],
        images=images,
    )


def _declaration(function: KernelSource) -> Declaration:
    if function.declaration is None:
        raise InternalError(f"the function {function.name} declares nothing")
    return function.declaration


def _write(options: BuildOptions, linked: Linked) -> int:
    """Bytes written; 0 without an output path."""
    path, name = options.output, options.weights_file
    if path is None:
        return 0
    apart = path.with_name(name) if name else None
    return write_package(path, linked.plan, linked.entries, apart, linked.documents).nbytes


def _report(
    emitted: PerProgram[EmittedGraph],
    memory: PerProgram[MemoryPlan],
    linked: Linked,
    nbytes: int,
    carried: Sequence[OperatorCode],
    options: BuildOptions,
    times: Sequence[StageTime],
) -> BuildReport:
    graph = emitted[0].graph
    return BuildReport(
        model=graph.name,
        output=options.output,
        nbytes=nbytes,
        weight_bytes=sum(e.nbytes for e in linked.entries if e.name.startswith(WEIGHT_GROUPS)),
        targets=tuple(
            f"{target.device}:{arch}" for target in options.targets for arch in target.archs
        ),
        programs=tuple(
            program_report(name, made.graph, plan)
            for name, made, plan in zip(emitted.names, emitted.values, memory.values, strict=True)
        ),
        timings=tuple(times),
        sizes=tuple((d.label or d.name, d.hint) for d in graph.dims),
        operators=operator_uses(emitted.names, [e.graph for e in emitted.values], carried),
    )
