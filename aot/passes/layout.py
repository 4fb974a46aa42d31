"""Layouts: every temporary gets its strides, chosen from its users, then frozen.

Orders of dimensions are decided in this sequence: promises to the caller; what template calls want
of operands and results; what neighbouring nests already use (a nest writes in the order in which
it reads most). Row-major is the default. Operands that still are no plain strides get a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from aot.ir.conv_operands import (
    channels_last,
    is_depthwise,
    misfit_input,
    misfit_weight,
    stored_weight,
    weight_axes,
)
from aot.ir.decisions import Decision
from aot.ir.hints import Hints, hints_of
from aot.ir.layouts import is_dense
from aot.ir.loops import (
    Axis,
    Buffer,
    DerivedWeight,
    LoopGraph,
    LoopNest,
    LoopOp,
    Store,
    TemplateCall,
    View,
    bases,
)
from aot.ir.machine import Machine
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import Access, Node, load, loads
from aot.ir.views import strides_of_order, view_strides, wanted_order
from aot.symbolic import (
    Expr,
    Symbol,
    coefficient_of,
    integer,
    product,
    row_major_strides,
    var,
)

Order = tuple[int, ...]

_FAR = 1 << 60
"""How far a loop moves that gathers: outside of all others."""


def own_outputs(graph: LoopGraph) -> LoopGraph:
    """The graph with a copy nest for each output that is an input or a weight itself."""
    buffers = dict(graph.buffers)
    ops: list[LoopOp] = list(graph.ops)
    outputs: list[str] = []
    for name in graph.outputs:
        source = graph.buffers[name]
        if source.kind == "temp":
            outputs.append(name)
            continue
        copy = f"out{len(outputs)}_{name}"
        buffers[copy] = Buffer(copy, source.dtype, source.shape, None, "temp")
        ops.append(_copy_nest(copy, source, _axes(source.shape)))
        outputs.append(copy)
    if tuple(outputs) == graph.outputs:
        return graph
    return replace(graph, buffers=buffers, ops=tuple(ops), outputs=tuple(outputs))


def _axes(shape: Sequence[Expr]) -> tuple[Axis, ...]:
    return tuple(Axis(var(f"i{k}"), size) for k, size in enumerate(shape))


def _copy_nest(target: str, source: Buffer, axes: tuple[Axis, ...]) -> LoopNest:
    point = tuple(a.symbol for a in axes)
    store = Store(target, point, load(source.name, source.dtype, point))
    return LoopNest(f"copy_{target}", axes, (), (store,), NO_ORIGIN)


def promised_strides(graph: LoopGraph) -> dict[str, tuple[Expr, ...]]:
    """Output buffer -> strides to honour: as promised if dense, else row-major.

    A buffer that is several outputs has the first one's promise. The new value of a state or an
    input has the target's strides.
    """
    promised: dict[str, tuple[Expr, ...]] = {}
    for name, strides in zip(graph.outputs, graph.output_strides, strict=True):
        shape = graph.buffers[name].shape
        dense = strides if is_dense(shape, strides) else row_major_strides(shape)
        promised.setdefault(name, dense)
    for mutation in graph.mutations:
        target = graph.buffers[mutation.target]
        promised[mutation.value] = target.strides or row_major_strides(target.shape)
    return _shared_by_updates(graph, promised)


def _shared_by_updates(
    graph: LoopGraph, promised: dict[str, tuple[Expr, ...]]
) -> dict[str, tuple[Expr, ...]]:
    """The same with the strides of updates, which are those of their bases."""
    pairs = [pair for op in graph.ops for pair in bases(op).items()]
    for result, base in reversed(pairs):
        if result in promised and graph.buffers[base].kind == "temp":
            promised.setdefault(base, promised[result])
    for result, base in pairs:
        source = graph.buffers[base]
        known = promised.get(base) or source.strides or row_major_strides(source.shape)
        promised.setdefault(result, known)
        if source.kind == "temp":
            promised.setdefault(base, known)
    return promised


@dataclass
class _Layouts:
    """Strides decided so far; local to one run of the pass."""

    graph: LoopGraph
    machine: Machine
    hints: Hints
    strides: dict[str, tuple[Expr, ...]] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)

    def open(self, name: str) -> bool:
        """True for a temporary without a decision."""
        return name not in self.strides and self.graph.buffers[name].kind == "temp"

    def decide(self, name: str, order: Order, reason: str) -> None:
        """Lays a temporary's dimensions out in that order, outermost first."""
        shape = self.graph.buffers[name].shape
        self.strides[name] = strides_of_order(shape, order)
        if order != tuple(range(len(shape))):
            text = f"dimensions in the order {','.join(map(str, order))}"
            self.decisions.append(Decision("layout", (name,), text, reason))

    def of(self, name: str) -> tuple[Expr, ...]:
        """The strides of a buffer that has some."""
        return self.strides.get(name, self.graph.buffers[name].strides or ())


def choose_layouts(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with strides for every temporary, and copies for operands that need them."""
    graph = _separate_outputs(graph)
    layouts = _Layouts(graph, machine, hints_of(graph.dims), dict(promised_strides(graph)))
    for op in graph.ops:
        if isinstance(op, TemplateCall):
            _ask_template(layouts, op)
    for op in graph.ops:
        if isinstance(op, LoopNest):
            _follow_reads(layouts, op)
        else:
            _default(layouts, op)
    buffers = {
        name: replace(b, strides=layouts.strides.get(name, row_major_strides(b.shape)))
        if b.kind == "temp"
        else b
        for name, b in graph.buffers.items()
    }
    decisions = (*graph.decisions, *layouts.decisions)
    laid = replace(graph, buffers=buffers, decisions=decisions)
    return _copy_operands(laid, machine)


def _separate_outputs(graph: LoopGraph) -> LoopGraph:
    """A template never writes a result of the model directly: a copy, its epilogue, does."""
    buffers = dict(graph.buffers)
    ops: list[LoopOp] = []
    for op in graph.ops:
        if isinstance(op, LoopNest) or op.output.buffer not in graph.results:
            ops.append(op)
            continue
        result = graph.buffers[op.output.buffer]
        raw = f"{result.name}_raw"
        buffers[raw] = replace(result, name=raw)
        ops.append(replace(op, output=replace(op.output, buffer=raw)))
        ops.append(_copy_nest(result.name, buffers[raw], _axes(result.shape)))
    return graph if len(ops) == len(graph.ops) else replace(graph, buffers=buffers, ops=tuple(ops))


def _conv_order(layouts: _Layouts, rank: int) -> Order:
    if layouts.machine.preferred_conv_layout == "channels_last":
        return (0, *range(2, rank), 1)
    return tuple(range(rank))


def _ask_template(layouts: _Layouts, call: TemplateCall) -> None:
    """What a template call wants of its temporaries."""
    for role, view in call.operands:
        if not layouts.open(view.buffer):
            continue
        axes = view.axes
        if call.kind == "conv" and role == "x":
            axes = tuple(axes[k] for k in _conv_order(layouts, len(axes)))
        if call.kind == "conv" and role == "w" and layouts.machine.conv_in_place:
            axes = weight_axes(call, last=True)
        shape = layouts.graph.buffers[view.buffer].shape
        order = wanted_order(view, shape, axes)
        plain = view_strides(view, row_major_strides(shape), layouts.graph.ranges(*view.axes))
        if order is not None and (plain is None or call.kind == "conv"):
            layouts.decide(view.buffer, order, f"{call.name} reads it as its operand {role}")
    if call.kind == "conv" and layouts.open(call.output.buffer):
        order = _conv_order(layouts, len(call.output.axes))
        layouts.decide(call.output.buffer, order, f"{call.name} computes channels last")


def _default(layouts: _Layouts, call: TemplateCall) -> None:
    name = call.output.buffer
    if not layouts.open(name):
        return
    order = tuple(range(len(layouts.graph.buffers[name].shape)))
    if call.kind in ("resample", "resample2"):
        order = _order_of(layouts, call.operand("x")) or order
    layouts.decide(name, order, f"{call.name} reads its operand x in that order")


def _order_of(layouts: _Layouts, view: View) -> Order | None:
    """The view's axes in the order of memory; None when it is no plain strides."""
    found = view_strides(view, layouts.of(view.buffer), layouts.graph.ranges(*view.axes))
    if found is None:
        return None
    steps = [layouts.hints.value(step) for step in found[0]]
    return tuple(sorted(range(len(steps)), key=lambda k: -steps[k]))


def _follow_reads(layouts: _Layouts, nest: LoopNest) -> None:
    """Results of the nest take the order in which its greatest operand is laid out."""
    for store in nest.stores:
        if not layouts.open(store.buffer):
            continue
        shape = layouts.graph.buffers[store.buffer].shape
        leader = _leader(layouts, nest, layouts.hints.elements(shape))
        order = _store_order(layouts, nest, store, leader) if leader is not None else None
        access = leader.attr if leader is not None else None
        source = access.buffer if isinstance(access, Access) else ""
        reason = f"{nest.name} reads {source} in that order" if source else ""
        layouts.decide(store.buffer, order or tuple(range(len(shape))), reason)


def _leader(layouts: _Layouts, nest: LoopNest, elements: int) -> Node | None:
    """The greatest read, of at least half the result's size; direct ones before gathers."""
    best: tuple[tuple[bool, int], Node] | None = None
    for node in loads(nest.roots):
        access = node.attr
        assert isinstance(access, Access)
        source = layouts.graph.buffers[access.buffer]
        size = layouts.hints.elements(source.shape) * source.dtype.itemsize
        if 2 * size < elements * source.dtype.itemsize:
            continue
        rank = (not access.binds, size)
        if best is None or rank > best[0]:
            best = (rank, node)
    return best[1] if best is not None else None


def _store_order(layouts: _Layouts, nest: LoopNest, store: Store, leader: Node) -> Order | None:
    """Dimensions of the result ordered by how far the leader moves along their loops."""
    access = leader.attr
    assert isinstance(access, Access)
    strides = layouts.of(access.buffer)
    ranges = layouts.graph.ranges(*nest.axes, *nest.reduction)
    total: Expr = integer(0)
    for expr, stride in zip(access.index, strides, strict=True):
        total = total + product((expr, stride))
    offset = ranges.simplify(total)
    reach: dict[Symbol, int] = {}
    gathering = _loop_variables(leader.args[: len(access.binds)])
    for axis in nest.axes:
        if axis.symbol in gathering:
            reach[axis.symbol] = _FAR
            continue
        stride = coefficient_of(offset, axis.symbol)
        if stride is None or stride.free_symbols - set(layouts.hints.dims):
            return None
        reach[axis.symbol] = abs(layouts.hints.value(stride))
    moves: list[tuple[int, int]] = []
    for k, expr in enumerate(store.index):
        symbols = [s for s in expr.free_symbols if s in reach]
        if not symbols and expr.is_Integer:
            moves.append((1 << 62, k))
        elif not symbols:
            return None
        else:
            moves.append((min(reach[s] for s in symbols), k))
    # Broadcast dimensions (reach 0) stay where row-major has them; the others change places.
    moving = iter(k for _, k in sorted((m for m in moves if m[0]), key=lambda m: (-m[0], m[1])))
    return tuple(k if not reached else next(moving) for reached, k in moves)


def _loop_variables(roots: Sequence[Node]) -> set[Symbol]:
    accesses = [n.attr for n in loads(roots)]
    indices = [e for a in accesses if isinstance(a, Access) for e in a.index]
    return {s for e in indices for s in e.free_symbols}


def _copy_operands(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """Copies for operands whose view is not affine or whose vectors would not be contiguous."""
    buffers = dict(graph.buffers)
    ops: list[LoopOp] = []
    derived: list[DerivedWeight] = []
    decisions: list[Decision] = []
    for op in graph.ops:
        if isinstance(op, LoopNest):
            ops.append(op)
            continue
        call = op
        for role, view in op.operands:
            reason = _unfit(graph, op, role, view, machine)
            if not reason:
                continue
            name = f"{op.name}_{role}"
            if (op.kind, role) == ("conv", "w") and graph.buffers[view.buffer].kind == "weight":
                source, last = graph.buffers[view.buffer], _channels_last(graph, op)
                buffers[name], weight, seen = stored_weight(name, source, op, last)
                derived.append(weight)
            else:
                nest, buffers[name] = _materialise(graph, name, role, op, view, machine)
                ops.append(nest)
                seen = View(name, view.axes, tuple(a.symbol for a in view.axes))
            operands = tuple((r, seen if r == role else v) for r, v in call.operands)
            call = replace(call, operands=operands)
            decisions.append(Decision("layout", (view.buffer, op.name), "copied", reason))
        ops.append(call)
    if not decisions:
        return graph
    return replace(
        graph,
        buffers=buffers,
        ops=tuple(ops),
        derived=(*graph.derived, *derived),
        decisions=(*graph.decisions, *decisions),
    )


def _unfit(graph: LoopGraph, call: TemplateCall, role: str, view: View, machine: Machine) -> str:
    """Why the template cannot read an operand through its view; "" when it can."""
    source = graph.buffers[view.buffer]
    in_place = call.kind == "conv" and machine.conv_in_place
    packed = (call.kind, role) in (("matmul", "b"), ("conv", "w")) and not in_place
    if source.kind == "weight" and packed:
        return ""
    strides = source.strides or row_major_strides(source.shape)
    found = view_strides(view, strides, graph.ranges(*view.axes))
    if found is None:
        return f"operand {role} is no plain view of it"
    if in_place and role == "w":
        return misfit_weight(call, found[0], _channels_last(graph, call))
    if in_place:
        return misfit_input(call, found[0])
    contiguous = {"attention": len(view.axes) - 1}
    if call.kind == "conv" and role == "x" and is_depthwise(call):
        contiguous["conv"] = 1
    axis = contiguous.get(call.kind)
    if axis is None or role == "mask" or view.axes[axis].extent == 1:
        return ""
    return "" if found[0][axis] == 1 else f"operand {role} is not contiguous along its vectors"


def _channels_last(graph: LoopGraph, call: TemplateCall) -> bool:
    view = call.operand("x")
    source = graph.buffers[view.buffer]
    strides = source.strides or row_major_strides(source.shape)
    found = view_strides(view, strides, graph.ranges(*view.axes))
    return found is None or channels_last(call, found[0])


def _materialise(
    graph: LoopGraph,
    name: str,
    role: str,
    call: TemplateCall,
    view: View,
    machine: Machine,
) -> tuple[LoopNest, Buffer]:
    source = graph.buffers[view.buffer]
    shape = tuple(a.extent for a in view.axes)
    point = tuple(a.symbol for a in view.axes)
    order: Order = tuple(range(len(shape)))
    last = machine.preferred_conv_layout == "channels_last"
    if call.kind == "conv" and role == "x" and last:
        order = (0, *range(2, len(shape)), 1)
    if call.kind == "conv" and role == "w" and machine.conv_in_place:
        order = tuple(view.axes.index(a) for a in weight_axes(call, _channels_last(graph, call)))
    buffer = Buffer(name, source.dtype, shape, strides_of_order(shape, order), "temp")
    value = load(source.name, source.dtype, view.index)
    nest = LoopNest(name, view.axes, (), (Store(name, point, value),), call.origin)
    return nest, buffer
