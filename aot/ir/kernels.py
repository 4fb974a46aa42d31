"""The kernel graph: fused nests with their loop structure, in execution order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aot.ir.decisions import Decision
from aot.ir.flow import CustomCall, Flow, Span
from aot.ir.loops import bases
from aot.ir.nests import Axis, Buffer, DerivedWeight, LoopNest
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.ir.tensors import Dim, Mutation, Signature, SizeRelation
from aot.symbolic import Expr, integer

__all__ = [
    "ALWAYS",
    "Decision",
    "FusedKernel",
    "Grid",
    "JoinedKernel",
    "Kernel",
    "KernelGraph",
    "Launch",
    "MemoryPlan",
    "ModelKernel",
    "NestKernel",
    "Packed",
    "Placement",
    "Shares",
    "Stage",
    "Strip",
    "TemplateKernel",
    "WorkUnits",
    "fused_parts",
    "kernel_bases",
    "kernel_ops",
    "launched",
    "launches_by_kernel",
    "side_by_side",
]


@dataclass(frozen=True)
class Stage:
    """Nests that share one set of inner loops inside the kernel's outer loops.

    Without a `reduction`, every nest has the axes `outer + inner` and none reduces. With one, a
    nest either reduces over it (axes `outer + inner`, the same reduction) or is pointwise over the
    whole domain (axes `outer + inner + reduction`, no reduction of its own).
    In a stage for tiles, nests may also cross: keep the axes `outer + reduction` and reduce over
    `inner`, all of which is then in one tile.
    Nests are evaluated point by point in order: at each point of the whole domain the pointwise
    nests store and the reducing ones accumulate; the reducing nests store when the reduction's
    loops have ended. A nest reads no buffer that another nest of its stage writes (such values
    have been substituted; equal nodes of several nests are the same object, computed once a point).
    `order`: all of the stage's loops, inner and reduction axes, outermost first; a reduction axis
    may stand outside inner ones (then there is an accumulator for each point of those).
    `vector`: the axis of `order` that is vectorised, None for scalar code. It is the last one, but
    without a reduction one loop may run within it.
    """

    inner: tuple[Axis, ...]
    reduction: tuple[Axis, ...]
    order: tuple[Axis, ...]
    vector: Axis | None
    nests: tuple[LoopNest, ...]


@dataclass(frozen=True)
class Strip:
    """The parallel work of a kernel also splits this axis (inner in every stage) into strips.

    `size` elements of `axis` per work unit.
    """

    axis: Axis
    size: int


@dataclass(frozen=True)
class Shares:
    """Points that may meet are shared among workers by where they store.

    The work units are the indices of one `dimension` of the buffer that the kernel's only store
    writes. A worker goes through all points and does those whose index is among its units, so the
    points of an element keep their order. `most`: shares from which looking for its points costs a
    worker more than doing them.
    """

    dimension: int
    most: int


@dataclass(frozen=True)
class NestKernel:
    """Loop nests in one launch: for each point of `outer`, each stage in turn.

    `outer` is the parallel work, times the strips. `local`: buffers that live only inside one work
    unit: they hold the inner extents of their nest for the current point of `outer` (dimensions
    indexed by outer axes alone vanish).
    `reads`/`writes`: buffers outside the kernel, in argument order.
    `shares`: what the work is divided by instead; then there are no `outer` loops and no strips.
    """

    name: str
    outer: tuple[Axis, ...]
    stages: tuple[Stage, ...]
    strip: Strip | None
    local: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    shares: Shares | None = None


@dataclass(frozen=True)
class Packed:
    """A weight in the layout that a kernel wants: it reads `form` in place of `operand`.

    Both are buffers of the graph; a derived weight says how `form` is computed.
    """

    operand: str
    form: str


@dataclass(frozen=True)
class TemplateKernel:
    """A template call in one launch, with what is fused into it.

    `template` computes tiles of its output, and `stages` (pointwise, one or none) is evaluated on
    each tile, its axes being the template's output axes; the template's output buffer is then in
    `local` unless something else reads it. Of a template `by_parts`, more stages may read
    neighbouring columns of each row: their axes are the rows and as many points. `prologue`:
    pointwise nests over the axes of an operand's view that store its buffer, at the view's index;
    the template evaluates them where it would load, and the buffer is in `local`.
    `reads`/`writes`: buffers outside the kernel, in argument order.
    What a backend's `prepare` adds: `packed`, the operand that is read in another layout; and
    `workspace`, one of `writes` that nothing else uses, "" without: what work units tell each other
    or their own threads; and `finishes_once`: `stages` is evaluated once for each element, by one
    work unit, which loads what it reads at an element before it stores there.
    """

    name: str
    template: TemplateCall
    stages: tuple[Stage, ...]
    local: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    prologue: tuple[LoopNest, ...] = ()
    packed: Packed | None = None
    workspace: str = ""
    finishes_once: bool = False

    def argument(self, operand: str) -> str:
        """The buffer that is passed for an operand of the template."""
        packed = self.packed
        return packed.form if packed is not None and packed.operand == operand else operand


@dataclass(frozen=True)
class ModelKernel:
    """The launch of a kernel that the model brings along.

    `reads`/`writes`: the buffers of `call`, each once.
    """

    name: str
    call: CustomCall
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class JoinedKernel:
    """Kernels that one launch computes side by side, none of which needs another."""

    name: str
    parts: tuple[FusedKernel, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """Buffers outside the parts that some read, each once."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.reads))

    @property
    def writes(self) -> tuple[str, ...]:
        """Buffers outside the parts that some write, each once."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.writes))


FusedKernel = NestKernel | TemplateKernel
"""A launch whose function is generated from loops."""

Kernel = NestKernel | TemplateKernel | ModelKernel | JoinedKernel
"""One launch."""


@dataclass(frozen=True)
class KernelGraph:
    """Kernels in execution order over buffers whose strides are all fixed.

    Fusion gives nests, templates and the model's own kernels; a backend's `prepare` adds packed
    weights and workspaces, and joins launches.

    `mutations`: as in a loop graph.
    `flow`: what runs which of them when, as spans of `kernels`; empty where all run once, in order.
    """

    name: str
    dims: tuple[Dim, ...]
    buffers: Mapping[str, Buffer]
    kernels: tuple[Kernel, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    signature: Signature
    relations: tuple[SizeRelation, ...]
    decisions: tuple[Decision, ...]
    derived: tuple[DerivedWeight, ...] = ()
    mutations: tuple[Mutation, ...] = ()
    flow: Flow[Span] = ()

    @property
    def results(self) -> tuple[str, ...]:
        """Buffers that must hold their value when the run is over: outputs and new values."""
        return (*self.outputs, *(m.value for m in self.mutations))


@dataclass(frozen=True)
class Placement:
    """A temporary in the arena: at or above the ends of the `above` buffers. `size` in bytes.

    Temporaries whose sizes need measured dims lie in an arena of their own, which is made when
    these dims are known: all of `above` lie in the same one.
    """

    buffer: str
    size: Expr
    above: tuple[str, ...]


@dataclass(frozen=True)
class MemoryPlan:
    """Arena placements in order, and in-place pairs (result buffer -> the dead input's buffer).

    A new value of a state that is written straight into it is such a pair. `copied`: the mutations
    whose value has memory of its own and is copied to its target when all steps have succeeded.
    """

    placements: tuple[Placement, ...]
    in_place: tuple[tuple[str, str], ...]
    copied: tuple[Mutation, ...] = ()


@dataclass(frozen=True)
class WorkUnits:
    """A launch on threads of the host: `units` of independent work.

    `grain`: least units worth a thread. `scratch`: bytes per worker.
    """

    units: Expr
    grain: Expr
    scratch: Expr


@dataclass(frozen=True)
class Grid:
    """A launch on a device that counts program instances in three dimensions."""

    x: Expr
    y: Expr
    z: Expr


ALWAYS = integer(1)
"""Of a launch that runs at all sizes (`Launch.when`)."""


@dataclass(frozen=True)
class Launch:
    """How the runtime calls a kernel: a step of the plan, still with names and expressions.

    `function`: name of the compiled function (kernels of equal text share one). `buffers` and
    `sizes` in argument order. `over`: how much there is to do. `values`: what the variables of the
    function's declaration stand for (`declarations.Declaration`). `when`: 1 where it is done; 0 for
    sizes at which another launch does it, of the same kernel.
    """

    kernel: str
    function: str
    buffers: tuple[str, ...]
    sizes: tuple[Expr, ...]
    over: WorkUnits | Grid
    values: tuple[Expr, ...] = ()
    when: Expr = ALWAYS


def launches_by_kernel(
    kernels: Iterable[Kernel], launches: Iterable[Launch]
) -> tuple[tuple[Launch, ...], ...]:
    """Each kernel's launches, of which one runs."""
    found: dict[str, list[Launch]] = {}
    for launch in launches:
        found.setdefault(launch.kernel, []).append(launch)
    return tuple(tuple(found[kernel.name]) for kernel in kernels)


def launched(
    kernels: Sequence[Kernel], launches: Iterable[Launch]
) -> Iterator[tuple[Kernel, Launch]]:
    """Every launch of these kernels, with its kernel."""
    for kernel, own in zip(kernels, launches_by_kernel(kernels, launches), strict=True):
        yield from ((kernel, launch) for launch in own)


def side_by_side(parts: Sequence[FusedKernel]) -> JoinedKernel:
    """One launch of several kernels, under the name of the first."""
    return JoinedKernel(parts[0].name, tuple(parts))


def fused_parts(kernel: Kernel) -> tuple[FusedKernel, ...]:
    """The kernels of the launch whose functions are generated: itself, its parts, or none."""
    match kernel:
        case NestKernel() | TemplateKernel():
            return (kernel,)
        case JoinedKernel():
            return kernel.parts
        case ModelKernel():
            return ()


def kernel_ops(kernel: Kernel) -> Iterator[LoopOp]:
    """The prologue, the template and the nests of a kernel and its parts in execution order."""
    for part in fused_parts(kernel):
        if isinstance(part, TemplateKernel):
            yield from part.prologue
            yield part.template
        for stage in part.stages:
            yield from stage.nests


def kernel_bases(kernel: Kernel) -> dict[str, str]:
    """As `bases`, of all that a kernel computes."""
    return {name: base for op in kernel_ops(kernel) for name, base in bases(op).items()}
