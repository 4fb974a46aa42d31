"""Results of templates are rounded where they are stored, if every reader rounds them.

Products and attention of half types give float32, which what follows rounds once. Where the
rounding is part of another kernel's body (it costs nothing there), memory would hold twice the
bytes: the template stores the rounded numbers then, as an epilogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from aot.ir.decisions import Decision
from aot.ir.dtypes import BFLOAT16, FLOAT16, DType
from aot.ir.kernel_facts import template_views
from aot.ir.kernels import FusedKernel, KernelGraph, Stage, TemplateKernel
from aot.ir.nests import Buffer, LoopNest, Store
from aot.ir.rewrite import with_roots
from aot.ir.scalar import Access, Node, cast, load, make, postorder, rebuild, with_args

_HALVES = (BFLOAT16, FLOAT16)


def round_early(graph: KernelGraph) -> KernelGraph:
    """The graph whose templates round what all of their readers round.

    Control flow names buffers, so a graph with some stays.
    """
    kept = {*graph.outputs, *graph.inputs, *(m.value for m in graph.mutations)}
    kernels = [k for k in graph.kernels if isinstance(k, FusedKernel)]
    if graph.flow or len(kernels) < len(graph.kernels):
        return graph
    current = {kernel.name: kernel for kernel in kernels}
    users: dict[str, list[str]] = {}
    for kernel in kernels:
        for name in {*kernel.reads, *kernel.writes}:
            users.setdefault(name, []).append(kernel.name)
    buffers, decisions = dict(graph.buffers), list(graph.decisions)
    for kernel in kernels:
        if not isinstance(kernel, TemplateKernel) or not _takes_more(kernel):
            continue
        name = kernel.template.output.buffer
        own = [current[user] for user in users.get(name, ())]
        wanted = None if name in kept or name not in kernel.writes else _rounded(own, name)
        if wanted is None:
            continue
        rounded = replace(buffers[name], name=f"{name}_rounded", dtype=wanted)
        current.update({k.name: _reading(k, name, rounded) for k in own})
        current[kernel.name] = _storing(current[kernel.name], buffers[name], rounded)
        buffers[rounded.name] = rounded
        reason = f"all that read {name} round it"
        decisions.append(Decision("rounding", (kernel.name,), wanted.name, reason))
    if len(decisions) == len(graph.decisions):
        return graph
    changed = tuple(current[kernel.name] for kernel in kernels)
    return replace(graph, buffers=buffers, kernels=changed, decisions=tuple(decisions))


def _takes_more(kernel: TemplateKernel) -> bool:
    """Whether its epilogue is over its result's own axes, as another nest of it would be."""
    return all(stage.inner == kernel.template.output.axes for stage in kernel.stages)


def _nests(kernel: FusedKernel) -> Iterator[LoopNest]:
    for stage in kernel.stages:
        yield from stage.nests
    if isinstance(kernel, TemplateKernel):
        yield from kernel.prologue


def _reads(node: Node, buffer: str) -> bool:
    return isinstance(node.attr, Access) and node.attr.buffer == buffer


def _rounded(users: Iterable[FusedKernel], buffer: str) -> DType | None:
    """The half type that every reader of a buffer rounds it to; None: there is no such one."""
    found: set[DType] = set()
    for kernel in users:
        views = template_views(kernel)
        if any(v.buffer == buffer for v in views[1:]):
            return None
        for nest in _nests(kernel):
            if any(buffer in (store.buffer, store.base) for store in nest.stores):
                return None
            types = _types(nest.roots, buffer)
            if types is None:
                return None
            found |= types
    return found.pop() if len(found) == 1 and found.issubset(_HALVES) else None


def _types(roots: Iterable[Node], buffer: str) -> set[DType] | None:
    """What elements of a buffer are cast to; None where some is used as it is."""
    roots = tuple(roots)
    found = set()
    for node in postorder(roots):
        if any(_reads(argument, buffer) for argument in node.args):
            if node.op != "cast":
                return None
            found.add(node.dtype)
    return None if any(_reads(root, buffer) for root in roots) else found


def _storing(kernel: FusedKernel, result: Buffer, rounded: Buffer) -> TemplateKernel:
    """The kernel of a template that rounds its result, besides what its epilogue does."""
    assert isinstance(kernel, TemplateKernel)
    view, axes = kernel.template.output, kernel.template.output.axes
    value = cast(load(result.name, result.dtype, view.index), rounded.dtype)
    store = Store(rounded.name, view.index, value)
    nest = LoopNest(rounded.name, axes, (), (store,), kernel.template.origin)
    stage = kernel.stages[0] if kernel.stages else Stage(axes, (), axes, axes[-1], ())
    return replace(
        kernel,
        stages=(replace(stage, nests=(*stage.nests, nest)),),
        local=(*kernel.local, result.name),
        writes=tuple(rounded.name if b == result.name else b for b in kernel.writes),
    )


def _reading(kernel: FusedKernel, buffer: str, rounded: Buffer) -> FusedKernel:
    """The kernel with the rounded buffer in place of the other one."""
    if buffer not in kernel.reads:
        return kernel

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if node.op == "cast" and _reads(node.args[0], buffer):
            read = args[0]
            assert isinstance(read.attr, Access)
            attr = replace(read.attr, buffer=rounded.name)
            return make(read.op, rounded.dtype, *read.args, attr=attr)
        return with_args(node, args)

    def changed(nest: LoopNest) -> LoopNest:
        return with_roots(nest, rebuild(nest.roots, visit))

    stages = tuple(replace(s, nests=tuple(map(changed, s.nests))) for s in kernel.stages)
    reads = tuple(rounded.name if b == buffer else b for b in kernel.reads)
    if isinstance(kernel, TemplateKernel):
        prologue = tuple(map(changed, kernel.prologue))
        return replace(kernel, stages=stages, reads=reads, prologue=prologue)
    return replace(kernel, stages=stages, reads=reads)
