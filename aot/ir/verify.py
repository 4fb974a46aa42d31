"""The invariants of the loop graph and the kernel graph, checked after every pass.

Loop graph:
1. `inputs` are exactly the buffers of kind input; `outputs` are buffers; each has strides of its
   rank.
2. Every buffer is written by at most one operation (in the kernel graph: one kernel, whose nests
   may each write a piece, or one in each arm of a branch), after nothing has read it; inputs,
   weights and states are never written; what is read, returned or left behind has been written.
3. Axes of a nest have distinct symbols, and extents over dims only.
4. An index has one expression per dimension of its buffer; its symbols are the nest's axes, dims,
   or its own binds; outside of a reduction (and in stores) reduction axes do not occur.
5. `reduce` occurs only in nests with reduction axes, and never below another `reduce`.
6. Operand counts and types of every node are right (`verify_nodes`); loads have the buffer's type,
   stores the value's.
7. No index is provably out of bounds, unless it is masked or indirect; values that data decide
   have been checked or clamped (`check_index`, `clamp_index`), unless a mask guards the load.
8. Views of template calls index their buffers as 3, 4 and 7 say.
9. A mutation's target is a state or an input, its value a temporary of the same type that is
   neither an output nor another mutation's value; each target has one.

Kernel graph, besides 2 to 9 for the nests and templates in execution order:
10. Every buffer has strides.
11. A stage's nests have the axes of its kernel and its own inner ones and its reduction, or they
    are pointwise over all of these, or (in scalar stages) keep the reduction and reduce the inner
    ones; none reads what another of the stage writes. `order` holds the
    inner and reduction axes, and the vector axis comes last.
12. A strip's axis is an inner axis of every stage.
13. `reads` and `writes` are the buffers that the nests and the template touch, without `local`,
    with a packed weight in place of its operand, and with workspaces.
14. A packed weight is derived from the operand that it stands for, which is a weight.
15. A workspace is a temporary that no other kernel touches.
16. A kernel whose workers share what it stores to has nothing else that is parallel, one stage of
    one nest that does not reduce, and loops inside those that say whose a point is.
17. Loops of a kernel that have one symbol have one extent, in all of its stages: what is known of
    a variable holds wherever it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from aot.errors import InternalError
from aot.ir.flow import Branch, Flow, Span, items_of, parts_of, slices_of, touched_by
from aot.ir.kernel_facts import kernel_axes, outer_axes, share_level, strip_of
from aot.ir.kernels import (
    FusedKernel,
    Kernel,
    KernelGraph,
    ModelKernel,
    NestKernel,
    Stage,
    TemplateKernel,
    fused_parts,
    kernel_ops,
)
from aot.ir.loops import LoopGraph, reads, writes
from aot.ir.nests import Axis, Buffer, LoopNest, View
from aot.ir.scalar import Access, IndexValue, Node, postorder
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.ir.tensors import Dim
from aot.ir.verify_nodes import node_problem, stays_inside
from aot.symbolic import Expr, Ranges, Symbol, affine_coefficients, dim

Fail = Callable[[str], None]


def verify_loops(graph: LoopGraph) -> None:
    """Checks the invariants of a loop graph. Raises InternalError naming the first that fails."""
    fail = _failure(graph.name)
    inputs = [b.name for b in graph.buffers.values() if b.kind == "input"]
    if sorted(inputs) != sorted(graph.inputs):
        fail(f"inputs are {graph.inputs}, buffers of kind input {inputs}")
    for name, strides in zip(graph.outputs, graph.output_strides, strict=True):
        if len(graph.buffers[name].shape) != len(strides):
            fail(f"output {name}: {len(strides)} strides")
    owned = [(str(k), op) for k, op in enumerate(graph.ops)]
    _verify_mutations(graph, fail)
    given = [b.name for b in graph.buffers.values() if b.kind != "temp"]
    _verify_ops(graph.buffers, graph.dims, owned, graph.results, given, fail)


def verify_kernels(graph: KernelGraph) -> None:
    """Checks the invariants of a kernel graph. Raises InternalError naming the first that fails."""
    fail = _failure(graph.name)
    for buffer in graph.buffers.values():
        if buffer.strides is None or len(buffer.strides) != len(buffer.shape):
            fail(f"buffer {buffer.name} has no strides")
    ops = [(kernel.name, op) for kernel in graph.kernels for op in kernel_ops(kernel)]
    _verify_mutations(graph, fail)
    given = [b.name for b in graph.buffers.values() if b.kind != "temp"]
    shared = _control_buffers(graph)
    _verify_ops(graph.buffers, graph.dims, ops, graph.results, given, fail, shared)
    for kernel in graph.kernels:
        _verify_kernel(kernel, _failure(f"{graph.name}: {kernel.name}"))
    _verify_prepared(graph, fail)


def _control_buffers(graph: KernelGraph) -> frozenset[str]:
    """Buffers that control items or the model's own kernels fill, or both arms of a branch."""
    found = set(slices_of(graph.flow)) | set(slices_of(graph.flow).values())
    for kernel in graph.kernels:
        found.update(kernel.writes if isinstance(kernel, ModelKernel) else ())
    for item in items_of(graph.flow):
        found.update(touched_by(item)[1])
        if isinstance(item, Branch):
            arms = [_written(graph, arm) for arm in (item.then, item.otherwise)]
            found |= arms[0] & arms[1]
    return frozenset(found)


def _written(graph: KernelGraph, flow: Flow[Span]) -> set[str]:
    spans = parts_of(flow)
    kernels = [k for span in spans for k in graph.kernels[span.first :][: span.count]]
    return {name for kernel in kernels for name in kernel.writes}


def _failure(where: str) -> Fail:
    def fail(problem: str) -> None:
        raise InternalError(f"{where}: {problem}")

    return fail


def _verify_mutations(graph: LoopGraph | KernelGraph, fail: Fail) -> None:
    """Invariant 9."""
    taken = set(graph.outputs)
    targets: set[str] = set()
    for mutation in graph.mutations:
        target, value = (graph.buffers[name] for name in (mutation.target, mutation.value))
        if target.kind not in ("state", "input") or target.name in targets:
            fail(f"{target.name} cannot be left with the value {value.name}")
        if value.kind != "temp" or value.name in taken:
            fail(f"{value.name}, the new value of {target.name}, is not its own")
        if (value.dtype, value.shape) != (target.dtype, target.shape):
            fail(f"{value.name} is not of the type of {target.name}, whose new value it is")
        targets.add(target.name)
        taken.add(value.name)


def _verify_ops(
    buffers: Mapping[str, Buffer],
    dims: Sequence[Dim],
    ops: Iterable[tuple[str, LoopOp]],
    results: Sequence[str],
    given: Iterable[str],
    fail: Fail,
    shared: frozenset[str] = frozenset(),
) -> None:
    """`given`: written before; `shared`: written where control flow says, perhaps several times."""
    ready = dict.fromkeys((*given, *shared), "")
    sizes: dict[Symbol, tuple[int, int | None]] = {
        dim(d.name): (d.minimum, d.maximum) for d in dims
    }
    for owner, op in ops:
        where = f"{op.name} ({op.origin})"
        for name in (*reads(op), *writes(op)):
            if name not in buffers:
                fail(f"{where}: no buffer {name}")
        for name in reads(op):
            if name not in ready and name not in writes(op):
                fail(f"{where}: reads {name} before anything writes it")
        for name in writes(op):
            if ready.get(name, owner) != owner and name not in shared:
                fail(f"{where}: writes {name} again")
        ready.update(dict.fromkeys(writes(op), owner))
        check = _Check(buffers, sizes, lambda text, where=where: fail(f"{where}: {text}"))  # type: ignore[misc]
        if isinstance(op, LoopNest):
            check.nest(op)
        else:
            check.template(op)
    for name in results:
        if name not in ready:
            fail(f"result {name} is never written")


class _Check:
    """Checks one operation."""

    def __init__(
        self,
        buffers: Mapping[str, Buffer],
        dims: Mapping[Symbol, tuple[int, int | None]],
        fail: Fail,
    ) -> None:
        self.buffers, self.dims, self.fail = buffers, dims, fail

    def nest(self, nest: LoopNest) -> None:
        """Invariants 3 to 7."""
        axes = (*nest.axes, *nest.reduction)
        self.axes(axes)
        ranges = Ranges({a.symbol: a.extent for a in axes}, self.dims)
        inside = self._below_reductions(nest)
        inner = {a.symbol for a in nest.reduction}
        for node in postorder(nest.roots):
            problem = node_problem(node)
            if problem:
                self.fail(problem)
            if isinstance(node.attr, Access):
                self.access(node, node.attr, ranges)
            elif isinstance(node.attr, IndexValue):
                self.symbols((node.attr.expr,), ranges, node.attr.binds)
        for node in self._outside(nest):
            used = _index_symbols(node)
            if used & inner:
                self.fail(f"{node.op} uses the reduction axis {used & inner} outside of a reduce")
        if not nest.reduction and inside:
            self.fail("reduces without a reduction axis")
        self.stores(nest, Ranges({a.symbol: a.extent for a in nest.axes}, self.dims))

    def stores(self, nest: LoopNest, ranges: Ranges) -> None:
        """Invariants 4, 6 and 7 of a nest's stores."""
        if len({s.buffer for s in nest.stores}) != len(nest.stores):
            self.fail("two stores into one buffer")
        for store in nest.stores:
            buffer = self.buffers[store.buffer]
            if store.base:
                base = self.buffers[store.base]
                if (base.dtype, base.shape) != (buffer.dtype, buffer.shape):
                    self.fail(f"updates {base.name}, which is not of the type of {buffer.name}")
            if store.value.dtype != buffer.dtype:
                self.fail(f"stores {store.value.dtype} into {buffer.name} of {buffer.dtype}")
            binds = tuple(s for s, _ in store.binds)
            if not all(stays_inside(value) for _, value in store.binds):
                self.fail(f"an index of {buffer.name} is data that nothing has checked")
            self.index(store.index, buffer, ranges, binds, checked=not binds and not store.clipped)

    def _below_reductions(self, nest: LoopNest) -> set[int]:
        arguments = [n.args[0] for n in postorder(nest.roots) if n.op == "reduce"]
        below = postorder(arguments)
        if any(n.op == "reduce" for n in below):
            self.fail("reduces inside of a reduce")
        return {id(n) for n in below}

    def _outside(self, nest: LoopNest) -> list[Node]:
        """The nodes that are reached without passing a reduce."""
        seen: dict[int, Node] = {}
        stack = list(nest.roots)
        while stack:
            node = stack.pop()
            if id(node) not in seen:
                seen[id(node)] = node
                stack.extend(() if node.op == "reduce" else node.args)
        return list(seen.values())

    def axes(self, axes: Sequence[Axis]) -> None:
        """Invariant 3."""
        if len({a.symbol for a in axes}) != len(axes):
            self.fail("two axes share a symbol")
        for axis in axes:
            if not axis.extent.free_symbols <= set(self.dims):
                self.fail(f"the extent {axis.extent} of {axis.symbol} is not over dims")

    def access(self, node: Node, access: Access, ranges: Ranges) -> None:
        """Invariants 4, 6 and 7 of a load."""
        buffer = self.buffers[access.buffer]
        if node.dtype != buffer.dtype:
            self.fail(f"loads {buffer.name} of {buffer.dtype} as {node.dtype}")
        bound = node.args[: len(access.binds)]
        if not access.masked and not all(stays_inside(value) for value in bound):
            self.fail(f"an index of {buffer.name} is data that nothing has checked")
        checked = not access.masked and not access.binds
        self.index(access.index, buffer, ranges, access.binds, checked)

    def symbols(self, index: Sequence[Expr], ranges: Ranges, binds: Sequence[Symbol]) -> None:
        """Every symbol of `index` must mean something."""
        known = set(ranges.extents) | set(self.dims) | set(binds)
        for expr in index:
            unknown = expr.free_symbols - known
            if unknown:
                self.fail(f"index {expr} uses {sorted(map(str, unknown))}")

    def index(
        self,
        index: Sequence[Expr],
        buffer: Buffer,
        ranges: Ranges,
        binds: Sequence[Symbol],
        checked: bool,
    ) -> None:
        """Invariants 4 and (when `checked`) 7."""
        if len(index) != len(buffer.shape):
            self.fail(f"{len(index)} indices for {buffer.name} of rank {len(buffer.shape)}")
        self.symbols(index, ranges, binds)
        if checked and not any(e == 0 for e in ranges.extents.values()):
            for expr, size in zip(index, buffer.shape, strict=True):
                if _provably_outside(expr, size, ranges):
                    self.fail(f"index {expr} leaves [0, {size}) of {buffer.name}")

    def template(self, call: TemplateCall) -> None:
        """Invariant 8."""
        for role, view in (*call.operands, ("output", call.output)):
            self.view(role, view)

    def view(self, role: str, view: View) -> None:
        """Invariants 3, 4 and 7 of one view."""
        self.axes(view.axes)
        ranges = Ranges({a.symbol: a.extent for a in view.axes}, self.dims)
        if view.buffer not in self.buffers:
            self.fail(f"{role}: no buffer {view.buffer}")
        self.index(view.index, self.buffers[view.buffer], ranges, (), checked=True)


def _index_symbols(node: Node) -> set[Symbol]:
    attr = node.attr
    exprs = attr.index if isinstance(attr, Access) else ()
    exprs = (attr.expr,) if isinstance(attr, IndexValue) else exprs
    return {s for expr in exprs for s in expr.free_symbols}


def _provably_outside(expr: Expr, size: Expr, ranges: Ranges) -> bool:
    """Whether some point of the loops certainly indexes outside of [0, size).

    Bounds of an affine expression are reached at a corner of the loops; of others they are not
    tight, so those are outside only when all of their range is.
    """
    bounds = ranges.bounds(expr)
    if bounds is None:
        return False
    low, high = bounds
    affine = affine_coefficients(expr, list(ranges.extents)) is not None
    least, greatest = (low, high) if affine else (high, low)
    return ranges.nonnegative(-least - 1) or ranges.nonnegative(greatest - size)


def _verify_kernel(kernel: Kernel, fail: Fail) -> None:
    if isinstance(kernel, ModelKernel):
        if {*kernel.call.results, *kernel.call.changed} != {*kernel.writes}:
            fail(f"launches a kernel that does not write {sorted(kernel.writes)}")
        return
    parts = fused_parts(kernel)
    for part in parts:
        for stage in part.stages:
            _verify_stage(part, stage, fail)
        _verify_shares(part, fail)
        extents: dict[Symbol, Expr] = {}
        for axis in kernel_axes(part):
            if extents.setdefault(axis.symbol, axis.extent) != axis.extent:
                fail(f"{axis.symbol} has two extents: {extents[axis.symbol]} and {axis.extent}")
    ops = list(kernel_ops(kernel))
    local = {name for part in parts for name in part.local}
    written = {name for op in ops for name in writes(op)}
    read = {name for op in ops for name in reads(op)} - written
    templates = [part for part in parts if isinstance(part, TemplateKernel)]
    workspaces = {part.workspace for part in templates}
    if {*kernel.writes} - workspaces != written - local:
        fail(f"writes {sorted(written - local)}, says {sorted(kernel.writes)}")
    packed = [part.packed for part in templates if part.packed is not None]
    read = (read - {p.operand for p in packed}) | {p.form for p in packed}
    if set(kernel.reads) != read - local:
        fail(f"reads {sorted(read - local)}, says {sorted(kernel.reads)}")


def _verify_prepared(graph: KernelGraph, fail: Fail) -> None:
    """Invariants 14 and 15."""
    sources = {weight.name: weight.sources for weight in graph.derived}
    touched = Counter(name for k in graph.kernels for name in (*k.reads, *k.writes))
    parts = [part for kernel in graph.kernels for part in fused_parts(kernel)]
    for part in parts:
        if not isinstance(part, TemplateKernel):
            continue
        own, packed = part.workspace, part.packed
        if own and (graph.buffers[own].kind != "temp" or touched[own] != 1):
            fail(f"{part.name}: its workspace {own} is another's too")
        if packed is None:
            continue
        operand = graph.buffers[packed.operand]
        derived = (operand.fqn or operand.name) in sources.get(packed.form, ())
        if operand.kind != "weight" or not derived:
            fail(f"{part.name}: {packed.form} is not derived from the weight {operand.name}")


def _verify_shares(kernel: FusedKernel, fail: Fail) -> None:
    """Invariant 16."""
    if not isinstance(kernel, NestKernel) or kernel.shares is None:
        return
    nests = [nest for stage in kernel.stages for nest in stage.nests]
    stores = [store for nest in nests for store in nest.stores]
    if kernel.outer or kernel.strip is not None or len(nests) != 1 or len(stores) != 1:
        fail("shares what it stores to, and has more than one nest with one store")
    (stage,) = kernel.stages
    level = share_level(stores[0], kernel.shares.dimension, stage.order)
    if stage.reduction or not 0 <= level < len(stage.order) - 1:
        fail("shares what it stores to, but not by loops outside of others")


def _verify_stage(kernel: FusedKernel, stage: Stage, fail: Fail) -> None:
    """Invariants 11 and 12."""
    axes = {*outer_axes(kernel), *stage.inner}
    inner = set(stage.reduction)
    for nest in stage.nests:
        reduces = set(nest.axes) == axes and set(nest.reduction) == inner
        pointwise = set(nest.axes) == axes | inner and not nest.reduction
        outer = set(outer_axes(kernel))
        crosses = set(nest.axes) == outer | inner and set(nest.reduction) == set(stage.inner)
        if not (reduces or pointwise or (crosses and stage.vector is None)):
            loops = [str(a.symbol) for a in (*nest.axes, *nest.reduction)]
            fail(f"{nest.name} loops over {loops}, not over its stage's axes")
        others = {name for n in stage.nests if n is not nest for name in writes(n)}
        if others & set(reads(nest)):
            fail(f"{nest.name} reads {sorted(others & set(reads(nest)))} of its own stage")
    if set(stage.order) != {*stage.inner, *stage.reduction}:
        fail("a stage's order is not of its own axes")
    if stage.vector is not None and stage.vector not in stage.order:
        fail("a stage's vector axis is none of its loops")
    behind = stage.order[stage.order.index(stage.vector) + 1 :] if stage.vector else ()
    if behind and (stage.reduction or len(behind) > 1):
        fail("more than one loop, or one of a reduction, runs within a stage's vector loop")
    strip = strip_of(kernel)
    if strip is not None and strip.axis not in stage.inner:
        fail(f"the strip's axis {strip.axis.symbol} is not an inner axis of every stage")
