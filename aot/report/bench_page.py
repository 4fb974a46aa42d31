"""The page of `bench --html`: what a package took, kernel by kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from aot_runtime.format.errors import CorruptPackage
from aot_runtime.format.expr import evaluate
from aot_runtime.format.plan import (
    ArenaStorage,
    Buffer,
    EntryStorage,
    Expr,
    InputStorage,
    OutputStorage,
    Plan,
    Program,
    SliceStorage,
    StateStorage,
    Step,
    Storage,
)
from aot_runtime.format.reader import PackageFile
from aot_runtime.format.steps_json import origin_of
from aot_runtime.tools.bench import BenchResult, Observed, percentiles_text
from aot_runtime.tools.inspect import declared_kernels
from aot_runtime.tools.units import format_seconds
from aot_runtime.trace import TraceEvent

from aot.report.model import BufferReport
from aot.report.page import Page, PageKernel, PageProgram, TimelineEvent

KINDS: Mapping[type[Storage], str] = {
    InputStorage: "input",
    OutputStorage: "output",
    EntryStorage: "weight",
    ArenaStorage: "temporary",
    StateStorage: "state",
    SliceStorage: "part of a buffer",
}
"""Where a buffer lies, in the words of `explain`."""

TRACKS = {"kernel": "kernels", "chunk": "worker", "copy": "copies", "wait": "waits"}
"""Kinds of events that the timeline shows, and the names of their tracks."""


def bench_page(package: PackageFile, result: BenchResult, observed: Observed) -> Page:
    """What the page shows.

    Args:
        package: The package that was timed.
        result: Load, latency and throughput.
        observed: The times of its steps, a timeline of one run, and the sizes of both.
    """
    plan, program = package.plan, observed.program
    found = [(n, step) for n, step in enumerate(program.steps) if isinstance(step, Step)]
    access = _access(package, program)
    buffers = _buffers(program, observed.sizes)
    kernels = tuple(
        replace(_kernel(plan, program, step, access, buffers), seconds=observed.seconds[number])
        for number, step in found
    )
    place = {number: index for index, (number, _) in enumerate(found)}
    total = sum(kernel.seconds or 0.0 for kernel in kernels)
    shown = PageProgram(
        title=result.isa,
        facts=(
            f"{len(kernels)} launches take {format_seconds(total)} in all: the median of each "
            "over the profiled runs. Bytes are those of the buffers that a launch names, also "
            "where it reads a part.",
        ),
        kernels=kernels,
        buffers=buffers,
        events=tuple(_events(observed.events, place)),
        timed=True,
    )
    return Page(
        model=plan.model,
        title="timed",
        facts=tuple(_facts(result)),
        programs=(shown,),
    )


def _facts(result: BenchResult) -> Iterator[str]:
    yield f"Loaded in {format_seconds(result.load)}; first run {format_seconds(result.first)}."
    spread = percentiles_text(result.percentiles)
    yield f"Latency of {result.runs} runs: best {format_seconds(result.best)}, {spread}."
    if result.rival is not None:
        yield f"Eager PyTorch, in turn with it: {percentiles_text(result.rival)}."
    if result.throughput is not None:
        many = result.throughput
        yield f"{many.sessions} sessions at once: {many.together:,.0f} runs a second."


def _access(package: PackageFile, program: Program) -> Mapping[str, tuple[str, ...]]:
    """For each kernel that says so, what it does with its buffers: read, write or update."""
    declared = declared_kernels(package, program) or ()
    return {d.name: tuple(b.access for b in d.declaration.buffers) for d in declared}


def _buffers(program: Program, sizes: Mapping[str, int]) -> tuple[BufferReport, ...]:
    """All buffers of a program, those of the arena placed; bytes that data decides count as 0."""
    nbytes = [_nbytes(buffer.bytes, sizes) for buffer in program.buffers]
    offsets: dict[int, int] = {}
    for slot in program.arena:
        start = max((offsets[above] + nbytes[above] for above in slot.above), default=0)
        offsets[slot.buffer] = start + -start % 64
    return tuple(
        BufferReport(_name(buffer, index), KINDS[type(buffer.storage)], size, offsets.get(index))
        for index, (buffer, size) in enumerate(zip(program.buffers, nbytes, strict=True))
    )


def _name(buffer: Buffer, index: int) -> str:
    return buffer.name or f"buffer {index}"


def _nbytes(expr: Expr, sizes: Mapping[str, int]) -> int:
    try:
        return evaluate(expr, sizes)
    except CorruptPackage:
        return 0  # it needs a dim that a step of the run binds


def _kernel(
    plan: Plan,
    program: Program,
    step: Step,
    access: Mapping[str, tuple[str, ...]],
    buffers: Sequence[BufferReport],
) -> PageKernel:
    name = program.kernels[step.kernel].name
    kinds = access.get(name, ("update",) * len(step.buffers))
    named = [(buffers[b], kind) for b, kind in zip(step.buffers, kinds, strict=False)]
    origin = origin_of(plan, step)
    return PageKernel(
        name=name,
        kind=_short_operator(origin.operator),
        places=((origin.place, (origin.operator,) if origin.operator else ()),),
        reads=tuple(buffer.name for buffer, kind in named if kind != "write"),
        writes=tuple(buffer.name for buffer, kind in named if kind != "read"),
        nbytes=sum(buffers[b].nbytes for b in dict.fromkeys(step.buffers)),
    )


def _short_operator(operator: str) -> str:
    """The word for people in an operator's name: "layer_norm" of "aten.layer_norm.default"."""
    return ".".join(operator.split(".")[1:2])


def _events(events: Sequence[TraceEvent], place: Mapping[int, int]) -> Iterator[TimelineEvent]:
    """A timeline from its first event on; what workers did stands below what their kernel did."""
    begin = min((event.begin_ns for event in events), default=0)
    for event in events:
        if event.kind in TRACKS:
            track = TRACKS[event.kind]
            step = event.step if event.kind in {"kernel", "chunk"} else None
            yield TimelineEvent(
                name=event.name or event.what,
                track=f"{track} {event.worker}" if event.kind == "chunk" else track,
                begin=(event.begin_ns - begin) * 1e-9,
                end=(event.end_ns - begin) * 1e-9,
                kernel=None if step is None else place.get(step),
            )
