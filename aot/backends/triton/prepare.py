"""What the Triton backend adds to fused kernels: roundings, workspaces, shared launches.

A launch costs a microsecond or two whatever it does, so small kernels that do not need each other
share one (horizontal fusion: Li et al., Automatic Horizontal Fusion for GPU Kernels, CGO 2022).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from aot.backends.by_size import spots
from aot.backends.triton.context import narrowed
from aot.backends.triton.early_rounding import round_early
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.templates import template_of
from aot.ir.decisions import Decision
from aot.ir.hints import Hints, hints_of
from aot.ir.kernel_facts import checks_indices
from aot.ir.kernels import (
    FusedKernel,
    Kernel,
    KernelGraph,
    TemplateKernel,
    fused_parts,
    kernel_bases,
    side_by_side,
)
from aot.ir.nests import Buffer
from aot.ir.templates.base import TemplateCall
from aot.symbolic import Expr, presence, product

MOST_PARTS = 8
"""Kernels of one launch."""

WINDOW = 4
"""Launches that a kernel may move ahead by: what it writes lives that much longer."""

MOST_BYTES = 16 * 1024 * 1024
"""What a kernel that shares a launch may move; longer ones gain nothing by it."""


def prepare_kernels(graph: KernelGraph, gpu: Gpu) -> KernelGraph:
    """The graph with early roundings, workspaces and joined launches."""
    hints = hints_of(graph.dims)
    rounded = _with_precisions(round_early(graph))
    return _with_launches(_with_workspaces(rounded, gpu), hints, gpu)


def _with_precisions(graph: KernelGraph) -> KernelGraph:
    """The graph with a decision for each kernel that rounds its float32 operands."""
    rounding = [
        Decision("precision", (kernel.name,), rounding, "torch's settings let eager do so")
        for kernel in graph.kernels
        if isinstance(kernel, TemplateKernel) and (rounding := _rounding(kernel.template))
    ]
    return replace(graph, decisions=(*graph.decisions, *rounding)) if rounding else graph


def _rounding(call: TemplateCall) -> str | None:
    """What a call rounds its operands to, and where."""
    where = call.rounds
    return call.rounding if where is None else f"tf32 where {where}"


def _with_workspaces(graph: KernelGraph, gpu: Gpu) -> KernelGraph:
    """The graph with the memory that kernels of some templates want for themselves."""
    own: dict[str, Buffer] = {}
    decisions: list[Decision] = []

    def with_workspace(kernel: Kernel) -> Kernel:
        if not isinstance(kernel, TemplateKernel):
            return kernel
        space = _workspace(kernel, graph, gpu)
        if space is None:
            return kernel
        own[space.name] = space
        reason = f"its programs keep {kernel.template.kind} sums there"
        decisions.append(Decision("workspace", (kernel.name,), space.name, reason))
        return replace(kernel, writes=(*kernel.writes, space.name), workspace=space.name)

    kernels = tuple(with_workspace(kernel) for kernel in graph.kernels)
    return replace(
        graph,
        buffers={**graph.buffers, **own},
        kernels=kernels,
        decisions=(*graph.decisions, *decisions),
    )


def _workspace(kernel: TemplateKernel, graph: KernelGraph, gpu: Gpu) -> Buffer | None:
    """The memory that a kernel wants for itself at all sizes that it is made for (`by_size`)."""
    small = narrowed([kernel], graph)
    graphs = (graph,) if small is graph else (small, graph)
    found = [_wanted(kernel, at, gpu) for g in graphs for at in spots(kernel, g)]
    if found[0] is not None and not _is_static(found[0]):
        return found[0]
    fixed = [space for space in found if space is not None and _is_static(space)]
    return max(fixed, key=lambda space: int(product(space.shape)), default=None)


def _wanted(kernel: TemplateKernel, graph: KernelGraph, gpu: Gpu) -> Buffer | None:
    """The memory that a kernel wants for itself at the hints of the graph's dims."""
    wants = template_of(kernel).workspace
    return None if wants is None else wants(kernel, graph, hints_of(graph.dims), gpu)


def _is_static(buffer: Buffer) -> bool:
    return bool(product(buffer.shape).is_Integer)


def has_room(kernel: Kernel, graph: KernelGraph, gpu: Gpu) -> bool:
    """Whether its workspaces do for a prepared kernel at the hints of the graph's dims."""
    return all(
        _does(_wanted(part, graph, gpu), graph.buffers.get(part.workspace))
        for part in fused_parts(kernel)
        if isinstance(part, TemplateKernel)
    )


def _does(wanted: Buffer | None, given: Buffer | None) -> bool:
    if wanted is None or given is None:
        return wanted is None
    if _is_static(wanted) and _is_static(given):
        return int(product(wanted.shape)) <= int(product(given.shape))
    return wanted.shape == given.shape


def _with_launches(graph: KernelGraph, hints: Hints, gpu: Gpu) -> KernelGraph:
    """The graph with small kernels that do not need each other in one launch."""
    decisions: list[Decision] = []
    kernels: list[Kernel] = []
    for group in groups(graph, hints, gpu):
        kernels.append(_together(group))
        if len(group) > 1:
            reason = "they are small, and none needs another"
            names = tuple(kernel.name for kernel in group)
            decisions.append(Decision("launch", names, "one launch", reason))
    return replace(graph, kernels=tuple(kernels), decisions=(*graph.decisions, *decisions))


def _together(kernels: list[Kernel]) -> Kernel:
    if len(kernels) == 1:
        return kernels[0]
    return side_by_side([part for kernel in kernels for part in fused_parts(kernel)])


@dataclass
class _Group:
    """Kernels of one launch.

    Attributes:
        members: The kernels.
        open: More may join.
        checks: One of them tests indices.
        presence: When they run at all: kernels for other sizes would only make them larger.
    """

    members: list[Kernel]
    open: bool
    checks: bool
    presence: frozenset[Expr]


def groups(graph: KernelGraph, hints: Hints, gpu: Gpu) -> list[list[Kernel]]:
    """Which kernels share launches, in the order of launches; the one with checks comes first.

    Control flow counts kernels, so a graph with some keeps its launches.
    """
    if graph.flow:
        return [[kernel] for kernel in graph.kernels]
    left = {m.value for m in graph.mutations}
    found: list[_Group] = []
    touched = _Touched()
    for kernel in graph.kernels:
        small = _is_small(graph, kernel, hints, gpu) and not left.intersection(kernel.writes)
        checks = checks_indices(kernel)
        first = touched.after(kernel)
        place, when = len(found), _presence(graph, kernel)
        if small:
            for g in range(max(first, len(found) - WINDOW), len(found)):
                fits = found[g].open and found[g].presence == when
                if fits and not (checks and found[g].checks):
                    place = g
                    break
        if place == len(found):
            found.append(_Group([], open=small, checks=False, presence=when))
        group = found[place]
        # At most one of a group tests indices.
        group.members.insert(0 if checks else len(group.members), kernel)
        group.checks |= checks
        group.open = small and len(group.members) < MOST_PARTS
        touched.add(kernel, place)
    return [group.members for group in found]


@dataclass
class _Touched:
    """The last launch that reads, and that writes, each buffer; an update writes its base too."""

    read: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)

    def after(self, kernel: Kernel) -> int:
        """The first launch that the kernel may be in."""
        before = [self.written.get(name, -1) for name in (*kernel.reads, *_written(kernel))]
        before += [self.read.get(name, -1) for name in _written(kernel)]
        return 1 + max(before, default=-1)

    def add(self, kernel: Kernel, launch: int) -> None:
        """Notes what a kernel of that launch touches."""
        for name in kernel.reads:
            self.read[name] = max(launch, self.read.get(name, -1))
        for name in _written(kernel):
            self.written[name] = max(launch, self.written.get(name, -1))


def _written(kernel: Kernel) -> tuple[str, ...]:
    return (*kernel.writes, *kernel_bases(kernel).values())


def _presence(graph: KernelGraph, kernel: Kernel) -> frozenset[Expr]:
    """Conditions on sizes under which the kernel has anything to do."""
    shapes = (graph.buffers[name].shape for name in kernel.writes)
    return frozenset(one for shape in shapes for size in shape for one in presence(size))


def _is_small(graph: KernelGraph, kernel: Kernel, hints: Hints, gpu: Gpu) -> bool:
    """Whether the kernel's programs leave a processor room for others, and do not run long."""
    if not isinstance(kernel, FusedKernel):
        return False
    if isinstance(kernel, TemplateKernel) and template_of(kernel).fills(kernel, graph, gpu):
        return False
    buffers = [graph.buffers[name] for name in (*kernel.reads, *kernel.writes)]
    moved = sum(hints.elements(b.shape) * b.dtype.itemsize for b in buffers)
    return moved <= MOST_BYTES
