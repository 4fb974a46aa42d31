"""What every backend asks of a kernel: its arguments, its loops, the sizes that its text names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from aot.errors import InternalError
from aot.ir.kernels import (
    FusedKernel,
    Kernel,
    KernelGraph,
    ModelKernel,
    NestKernel,
    Strip,
    TemplateKernel,
    kernel_ops,
)
from aot.ir.nests import Axis, Buffer, LoopNest, Store, View
from aot.ir.scalar import Access, IndexCheck, IndexValue, Node, postorder
from aot.ir.templates.base import K
from aot.ir.tensors import RANDOM_STATE
from aot.symbolic import Expr, Ranges, Symbol, dim, expand


def argument_buffers(kernel: FusedKernel) -> tuple[str, ...]:
    """Buffers in argument order: what is read, then what is only written."""
    return tuple(dict.fromkeys((*kernel.reads, *kernel.writes)))


def kernel_axes(kernel: FusedKernel) -> tuple[Axis, ...]:
    """Every axis of the kernel once: the outer ones, then each stage's loops."""
    found = [*outer_axes(kernel), *(a for s in kernel.stages for a in s.order)]
    return tuple(dict.fromkeys(found))


def outer_axes(kernel: FusedKernel) -> tuple[Axis, ...]:
    """The parallel loops around the kernel's stages; a template has its own."""
    return kernel.outer if isinstance(kernel, NestKernel) else ()


def strip_of(kernel: FusedKernel) -> Strip | None:
    """The strips of a nest kernel; None without; templates have tiles of their own."""
    return kernel.strip if isinstance(kernel, NestKernel) else None


def template_call(kernel: TemplateKernel, kind: type[K]) -> K:
    """The kernel's template.

    Raises:
        InternalError: It is of another kind.
    """
    if not isinstance(kernel.template, kind):
        raise InternalError(f"{kernel.name} has no template of the kind {kind.kind}")
    return kernel.template


def template_views(kernel: FusedKernel) -> tuple[View, ...]:
    """The views of the kernel's template call, its output first; none without a template."""
    if not isinstance(kernel, TemplateKernel):
        return ()
    return (kernel.template.output, *(v for _, v in kernel.template.operands))


def kernel_sizes(
    kernel: FusedKernel, buffers: Mapping[str, Buffer], dims: Iterable[Symbol]
) -> tuple[Symbol, ...]:
    """The dims that the kernel's text names, sorted by name."""
    exprs: list[Expr] = [a.extent for a in kernel_axes(kernel)]
    for name in (*argument_buffers(kernel), *kernel.local):
        exprs += [*buffers[name].shape, *(buffers[name].strides or ())]
    for view in template_views(kernel):
        exprs += [*view.index, *(a.extent for a in view.axes)]
    prologue = kernel.prologue if isinstance(kernel, TemplateKernel) else ()
    for nest in (*prologue, *(n for s in kernel.stages for n in s.nests)):
        exprs += [e for s in nest.stores for e in s.index]
        for node in postorder(nest.roots):
            exprs += index_exprs(node)
    found = {s for e in exprs for s in e.free_symbols}
    return tuple(sorted(found & set(dims), key=str))


def index_exprs(node: Node) -> tuple[Expr, ...]:
    """The index expressions that a node itself holds."""
    if isinstance(node.attr, Access):
        return node.attr.index
    if isinstance(node.attr, IndexValue):
        return (node.attr.expr,)
    return (node.attr.size,) if isinstance(node.attr, IndexCheck) else ()


def share_level(store: Store, dimension: int, loops: Sequence[Axis]) -> int:
    """The innermost of the loops on which a dimension's index depends; -1: none."""
    used = set(store.index[dimension].free_symbols)
    for symbol, bound in store.binds:
        if symbol in used:
            exprs = (e for node in postorder([bound]) for e in index_exprs(node))
            used.update(s for expr in exprs for s in expr.free_symbols)
    return max((k for k, axis in enumerate(loops) if axis.symbol in used), default=-1)


def maybe_empty(bound: Iterable[Node], ranges: Ranges) -> tuple[Expr, ...]:
    """The sizes that may be 0, of those that indirect indices (`bound`) were checked against.

    An empty dimension has no valid index, so a kernel masks its reads and writes there.
    """
    sizes = (node.attr.size for node in bound if isinstance(node.attr, IndexCheck))
    return tuple(dict.fromkeys(s for s in sizes if not ranges.nonnegative(expand(s - 1))))


def checks_indices(kernel: Kernel) -> bool:
    """Whether the kernel tests indices that data decide, and reports wrong ones."""
    nests = (op for op in kernel_ops(kernel) if isinstance(op, LoopNest))
    return any(isinstance(n.attr, IndexCheck) for nest in nests for n in postorder(nest.roots))


def graph_dims(graph: KernelGraph) -> frozenset[Symbol]:
    """The symbols of the graph's dims."""
    return frozenset(dim(d.name) for d in graph.dims)


def calls_kernels(graph: KernelGraph) -> bool:
    """Whether it launches kernels of the model's own."""
    return any(isinstance(kernel, ModelKernel) for kernel in graph.kernels)


def draws_numbers(graph: KernelGraph) -> bool:
    """Whether its results are random."""
    return any(b.kind == "state" and b.fqn == RANDOM_STATE for b in graph.buffers.values())
