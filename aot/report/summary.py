"""Counts what each kernel does: the `KernelReport` of every kernel of a graph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from aot_runtime.format.devices import on_host

import aot.symbolic as sym
from aot.errors import Origin
from aot.ir.flow import CustomCall, items_of
from aot.ir.kernels import (
    JoinedKernel,
    Kernel,
    KernelGraph,
    MemoryPlan,
    ModelKernel,
    NestKernel,
    TemplateKernel,
    kernel_ops,
)
from aot.ir.nests import LoopNest
from aot.ir.printer import print_kernel
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.ir.work import buffer_bytes, kernel_bytes, kernel_flops
from aot.link.operator_library import OperatorCode
from aot.report.model import (
    BufferReport,
    BuildReport,
    HostCallReport,
    KernelReport,
    OperatorUse,
    PerProgram,
    ProgramReport,
    StageTime,
)
from aot.symbolic import Expr, Symbol

SizeValues = Mapping[Symbol, int]


def example_sizes(graph: KernelGraph) -> SizeValues:
    """The value of every dim in the example inputs."""
    return {sym.dim(d.name): d.hint for d in graph.dims}


def kernel_reports(graph: KernelGraph) -> tuple[KernelReport, ...]:
    """Counts every kernel, at the example's sizes."""
    sizes = example_sizes(graph)
    return tuple(_report(graph, kernel, sizes) for kernel in graph.kernels)


def operator_uses(
    targets: Sequence[str], graphs: Sequence[KernelGraph], libraries: Sequence[OperatorCode]
) -> tuple[OperatorUse, ...]:
    """The custom operators that programs call, and the libraries that hold their code.

    Args:
        targets: Of each program.
        graphs: The same programs' kernels.
        libraries: Those that the package may carry.
    """
    called = [
        (item.name, target.partition(":")[0])
        for target, graph in zip(targets, graphs, strict=True)
        for item in items_of(graph.flow)
        if isinstance(item, CustomCall) and item.template is None
    ]
    homes = {key: library.name for library in reversed(libraries) for key in library.operators}
    return tuple(OperatorUse(*key, homes.get(key, "")) for key in dict.fromkeys(called))


def partial_report(values: Mapping[str, object], timings: Sequence[StageTime]) -> BuildReport:
    """The report of a build that stopped early: what is known from the stages that ended.

    Args:
        values: Stage to the value that it gave.
        timings: Seconds of each stage.
    """
    kernels, prepared = values.get("fuse"), values.get("prepare")
    memory = values.get("plan_memory")
    report = BuildReport("", None, 0, 0, (), (), tuple(timings))
    if not isinstance(kernels, PerProgram):
        return report
    graphs: Sequence[KernelGraph] = kernels.values
    plans = memory.values if isinstance(memory, PerProgram) else [None] * len(graphs)
    sizes = example_sizes(graphs[0])
    weights = {
        b.fqn: buffer_nbytes(graph, name, sizes)
        for graph in graphs
        for name, b in graph.buffers.items()
        if b.kind == "weight"
    }
    if isinstance(prepared, PerProgram):
        # Launches as they are; not for the weights above, which backends have packed copies of.
        graphs = prepared.values
    return replace(
        report,
        model=graphs[0].name,
        programs=tuple(
            program_report(name, graph, plan)
            for name, graph, plan in zip(kernels.names, graphs, plans, strict=True)
        ),
        weight_bytes=sum(weights.values()),
        sizes=tuple((d.label or d.name, d.hint) for d in graphs[0].dims),
    )


def by_labels(text: str, graph: KernelGraph) -> str:
    """The text with the user's names of sizes in place of ours: "batch" for "s31"."""
    labels = {dim.name: dim.label for dim in graph.dims if dim.label}
    if not labels:
        return text
    names = "|".join(map(re.escape, labels))
    return re.sub(rf"\b(?:{names})\b", lambda found: labels[found[0]], text)


def program_report(target: str, graph: KernelGraph, memory: MemoryPlan | None) -> ProgramReport:
    """The report of one program; without a memory plan its arena counts as empty."""
    decisions = tuple(replace(d, reason=by_labels(d.reason, graph)) for d in graph.decisions)
    return ProgramReport(
        target=target,
        kernels=kernel_reports(graph),
        decisions=decisions,
        arena_bytes=0 if memory is None else arena_nbytes(memory, example_sizes(graph)),
        on_host=on_host(target),
        buffers=buffer_reports(graph, memory),
        host_calls=host_call_reports(graph),
    )


def host_call_reports(graph: KernelGraph) -> tuple[HostCallReport, ...]:
    """What the program of a device leaves to the host."""
    sizes = example_sizes(graph)
    return tuple(
        HostCallReport(
            repr(dict(call.attributes).get("routine", call.kind)).partition(" ")[0],
            str(replace(call.origin, operator="")).strip() if call.origin.line else "",
            sum(buffer_nbytes(graph, name, sizes) for name in (*item.operands, *item.results)),
            _number(call.flops(), sizes),
        )
        for item in items_of(graph.flow)
        if isinstance(item, CustomCall) and (call := item.template) is not None
    )


def buffer_reports(graph: KernelGraph, memory: MemoryPlan | None) -> tuple[BufferReport, ...]:
    """What kernels read and write, at the example's sizes, in the order of their first launch.

    What takes over another buffer's memory lies where that one does.
    """
    sizes = example_sizes(graph)
    offsets = {} if memory is None else arena_offsets(memory, sizes)
    for result, base in () if memory is None else memory.in_place:
        if base in offsets:
            offsets[result] = offsets[base]
    named = dict.fromkeys(n for k in graph.kernels for n in (*k.reads, *k.writes))
    return tuple(
        BufferReport(
            name, graph.buffers[name].kind, buffer_nbytes(graph, name, sizes), offsets.get(name)
        )
        for name in named
    )


def buffer_nbytes(graph: KernelGraph, name: str, sizes: SizeValues) -> int:
    """Bytes of a buffer at the given sizes."""
    return _number(buffer_bytes(graph.buffers[name]), sizes)


def arena_nbytes(memory: MemoryPlan, sizes: SizeValues) -> int:
    """Bytes of the arena at the given sizes, placed as docs/format.md says."""
    offsets = arena_offsets(memory, sizes)
    ends = (offsets[p.buffer] + _number(p.size, sizes) for p in memory.placements)
    return max(ends, default=0)


def arena_offsets(memory: MemoryPlan, sizes: SizeValues) -> dict[str, int]:
    """Where in the arena each temporary lies at the given sizes, as docs/format.md says."""
    offsets: dict[str, int] = {}
    ends: dict[str, int] = {}
    for placement in memory.placements:
        start = max((ends[name] for name in placement.above), default=0)
        offsets[placement.buffer] = start + -start % 64
        ends[placement.buffer] = offsets[placement.buffer] + _number(placement.size, sizes)
    return offsets


def _report(graph: KernelGraph, kernel: Kernel, sizes: SizeValues) -> KernelReport:
    members = sorted(kernel_ops(kernel), key=lambda op: isinstance(op, LoopNest))
    nests = [op for op in members if isinstance(op, LoopNest)]
    found = [origin for member in members for origin in _origins(member)]
    found += [kernel.call.origin] if isinstance(kernel, ModelKernel) else []
    origins = tuple(dict.fromkeys(found))
    return KernelReport(
        name=kernel.name,
        kind=_kind(kernel, nests),
        origins=origins,
        operators=tuple(origin.operator for origin in origins),
        nests=tuple(member.name for member in members),
        reads=kernel.reads,
        writes=kernel.writes,
        nbytes=_number(kernel_bytes(kernel, graph.buffers), sizes),
        flops=_number(kernel_flops(kernel), sizes),
        text=by_labels(print_kernel(kernel), graph),
    )


def _kind(kernel: Kernel, nests: Sequence[LoopNest]) -> str:
    match kernel:
        case JoinedKernel():
            return f"{len(kernel.parts)} together"
        case TemplateKernel():
            return kernel.template.kind
        case ModelKernel():
            return kernel.call.name
        case NestKernel():
            return "reduction" if any(nest.reduction for nest in nests) else "pointwise"


def _origins(op: LoopOp) -> tuple[Origin, ...]:
    return (op.origin,) if isinstance(op, TemplateCall) else (*op.absorbed, op.origin)


def _number(expr: Expr, sizes: SizeValues) -> int:
    return int(sym.evaluate(sym.as_expr(expr), sizes))
