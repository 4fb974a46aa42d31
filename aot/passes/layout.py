"""Layouts: every temporary gets its strides, chosen from its users, then frozen.

Orders of dimensions are decided in this sequence: promises to the caller; what template calls want
of operands and results; what neighbouring nests already use (a nest writes in the order in which
it reads most). Row-major is the default. Operands that still are no plain strides get a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aot.errors import InternalError
from aot.ir.decisions import Decision
from aot.ir.dtypes import INT64
from aot.ir.hints import Hints, hints_of, larger_hints
from aot.ir.layouts import is_dense
from aot.ir.loops import LoopGraph, bases, reads
from aot.ir.machine import Machine
from aot.ir.nests import Axis, Buffer, DerivedWeight, LoopNest, Store, View, numbered_axes
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import Access, Node, const, load, loads
from aot.ir.templates.base import LoopOp, Strides, Support, TemplateCall, operand_dtype
from aot.ir.templates.builder import is_fixed, multiple_of, stored_weight
from aot.ir.views import strides_of_order, view_strides, wanted_order
from aot.passes.lines import in_lines
from aot.symbolic import (
    Expr,
    Symbol,
    coefficient_of,
    integer,
    is_multiple,
    product,
    row_major_strides,
    substitute,
)

Order = tuple[int, ...]

_MOST_OF_ROW = 1.25
"""Of a weight's rows, what whole lines of them may take: 16384 x 4744 by 4744 x 424 halves took 148
us on an H200 where each row of the weight begins elsewhere in a line, eager 118."""

_FAR = 1 << 60
"""Stride of a loop whose variable chooses what is gathered: it becomes the outermost one."""


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
        ops.append(_copy_nest(copy, source, numbered_axes("i", source.shape)))
        outputs.append(copy)
    if tuple(outputs) == graph.outputs:
        return graph
    return replace(graph, buffers=buffers, ops=tuple(ops), outputs=tuple(outputs))


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
    """The promises with those of updates and their bases, which share memory and so strides."""
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
    """Strides decided so far; local to one run of the pass.

    `summed`: what nests with reductions read -> these nests, in order.
    """

    graph: LoopGraph
    machine: Machine
    hints: Hints
    summed: Mapping[str, Sequence[LoopNest]]
    strides: dict[str, tuple[Expr, ...]] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)

    def open(self, name: str) -> bool:
        """True for a temporary whose strides are not decided yet."""
        return name not in self.strides and self.graph.buffers[name].kind == "temp"

    def decide(self, name: str, order: Order, reason: str) -> None:
        """Gives a temporary dense strides, its dimensions in that order, outermost first."""
        shape = self.graph.buffers[name].shape
        self.strides[name] = strides_of_order(shape, order)
        if order != tuple(range(len(shape))):
            text = f"dimensions in the order {','.join(map(str, order))}"
            self.decisions.append(Decision("layout", (name,), text, reason))

    @property
    def buffers(self) -> dict[str, Buffer]:
        """All buffers, with their strides; temporaries that nobody decided are row-major."""
        return {
            name: replace(b, strides=self.strides.get(name, row_major_strides(b.shape)))
            if b.kind == "temp"
            else b
            for name, b in self.graph.buffers.items()
        }

    def of(self, name: str) -> tuple[Expr, ...]:
        """The strides of a buffer that has some."""
        return self.strides.get(name, self.graph.buffers[name].strides or ())


def choose_layouts(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with strides for every temporary, and copies for operands that need them."""
    graph = _separate_outputs(graph)
    layouts = _decided(graph, machine)
    decisions = (*graph.decisions, *layouts.decisions)
    laid = replace(graph, buffers=layouts.buffers, decisions=decisions)
    return _copy_operands(in_lines(laid, machine), machine)


def expected_strides(graph: LoopGraph, machine: Machine) -> dict[str, tuple[Expr, ...]]:
    """The strides that buffers will have, as far as can be told while some calls have no nests.

    These lay their results out as the operand that they follow.
    """
    ops = tuple(
        _in_order_of(graph, op)
        if isinstance(op, TemplateCall) and machine.support(type(op)) is None
        else op
        for op in graph.ops
    )
    buffers = _decided(replace(graph, ops=ops), machine).buffers
    return {name: b.strides or row_major_strides(b.shape) for name, b in buffers.items()}


def _in_order_of(graph: LoopGraph, call: TemplateCall) -> LoopNest:
    """A nest that stands for a call: it reads the operand whose layout the result follows."""
    axes, followed = call.output.axes, dict(call.operands).get(call.follows)
    value: Node = const(0, INT64)
    if followed is not None and len(followed.axes) == len(axes):
        onto = {a.symbol: b.symbol for a, b in zip(followed.axes, axes, strict=True)}
        index = tuple(substitute(i, onto) for i in followed.index)
        value = load(followed.buffer, graph.buffers[followed.buffer].dtype, index)
    return LoopNest(
        call.name, axes, (), (Store(call.output.buffer, call.output.index, value),), call.origin
    )


def _decided(graph: LoopGraph, machine: Machine) -> _Layouts:
    """What is decided for all temporaries."""
    summed = _readers(op for op in graph.ops if isinstance(op, LoopNest) and op.reduction)
    layouts = _Layouts(graph, machine, hints_of(graph.dims), summed, dict(promised_strides(graph)))
    for op in graph.ops:
        if isinstance(op, TemplateCall):
            _ask_template(layouts, op)
    for op in graph.ops:
        if isinstance(op, LoopNest):
            _follow_reads(layouts, op)
        else:
            _default(layouts, op)
    return layouts


def _readers(nests: Iterable[LoopNest]) -> dict[str, list[LoopNest]]:
    """Buffer -> the nests that read it, in their order: looked at once for all buffers."""
    found: dict[str, list[LoopNest]] = {}
    for nest in nests:
        for name in reads(nest):
            found.setdefault(name, []).append(nest)
    return found


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
        ops.append(_copy_nest(result.name, buffers[raw], numbered_axes("i", result.shape)))
    return graph if len(ops) == len(graph.ops) else replace(graph, buffers=buffers, ops=tuple(ops))


def _ask_template(layouts: _Layouts, call: TemplateCall) -> None:
    """What a template call wants of its temporaries."""
    support = _support(layouts.machine, call, layouts.graph.buffers)
    for role, view in call.operands:
        if not layouts.open(view.buffer):
            continue
        walk = call.walk(role, support, {})
        shape = layouts.graph.buffers[view.buffer].shape
        order = wanted_order(view, shape, walk or view.axes)
        plain = view_strides(view, row_major_strides(shape), layouts.graph.ranges(*view.axes))
        if order is not None and (plain is None or walk is not None):
            layouts.decide(view.buffer, order, f"{call.name} reads it as its operand {role}")
    walk = call.walk("output", support, {})
    if walk is not None and layouts.open(call.output.buffer):
        order = tuple(call.output.axes.index(axis) for axis in walk)
        order = (_order_of_sums(layouts, call) if call.is_partial else None) or order
        layouts.decide(call.output.buffer, order, f"{call.name} writes it in that order")


def _order_of_sums(layouts: _Layouts, call: TemplateCall) -> Order | None:
    """The order of what nests make of a result, point by point; None where it is open, too."""
    name, rank = call.output.buffer, len(call.output.axes)
    while True:
        nest = next(
            (n for n in layouts.graph.ops if isinstance(n, LoopNest) and name in reads(n)), None
        )
        if nest is None or len(nest.stores) != 1:
            return None
        name = nest.stores[0].buffer
        if len(layouts.graph.buffers[name].shape) != rank:
            return None
        if not layouts.open(name):
            strides = [layouts.hints.value(s) for s in layouts.of(name)]
            return tuple(sorted(range(rank), key=lambda k: -strides[k]))


def _support(machine: Machine, call: TemplateCall, buffers: Mapping[str, Buffer]) -> Support[Any]:
    """What the device has for a call; only calls that it has a template for are left by now.

    Raises:
        InternalError: The device has no template for the call.
    """
    found = machine.support(type(call))
    if found is None:
        raise InternalError(f"{call.name}: layouts for {call.kind}, which the device has not")
    return found.of_type(operand_dtype(call, buffers))


def _default(layouts: _Layouts, call: TemplateCall) -> None:
    name = call.output.buffer
    if not layouts.open(name):
        return
    order = tuple(range(len(layouts.graph.buffers[name].shape)))
    role = call.followed(_support(layouts.machine, call, layouts.graph.buffers))
    if role:
        order = _order_of(layouts, dict(call.operands)[role]) or order
    layouts.decide(name, order, f"{call.name} reads its operand {role} in that order")


def _order_of(layouts: _Layouts, view: View) -> Order | None:
    """The view's axes by falling stride; None when no strides describe it."""
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
        reader, order = _often_read(layouts, store.buffer)
        if order is not None:
            layouts.decide(store.buffer, order, f"{reader} reads it again and again in that order")
            continue
        leader = _leader(layouts, nest, layouts.hints.elements(shape))
        order = _store_order(layouts, nest, store, leader) if leader is not None else None
        access = leader.attr if leader is not None else None
        source = access.buffer if isinstance(access, Access) else ""
        reason = f"{nest.name} reads {source} in that order" if source else ""
        layouts.decide(store.buffer, order or tuple(range(len(shape))), reason)


def _often_read(layouts: _Layouts, buffer: str) -> tuple[str, Order | None]:
    """A nest that reads each element many times, and the order of dimensions in which it runs.

    What it sums over comes first: so the neighbours of its results are neighbours in the buffer.
    None where there is no such nest, or vectors of its results would not be full.
    """
    shape = layouts.graph.buffers[buffer].shape
    least = max(1, layouts.hints.elements(shape)) * layouts.machine.cheap_repeats
    for nest in layouts.summed.get(buffer, ()):
        depth = {axis.symbol: k for k, axis in enumerate(nest.axes)}
        if layouts.hints.volume((*nest.axes, *nest.reduction)) < least:
            continue
        for access in (n.attr for n in loads(nest.roots)):
            if not isinstance(access, Access) or access.buffer != buffer or access.binds:
                continue
            inner = [
                max((depth.get(s, -1) for s in i.free_symbols), default=-1) for i in access.index
            ]
            order = tuple(sorted(range(len(shape)), key=lambda k: (inner[k], k)))
            full = (
                layouts.hints.value(shape[order[-1]]) >= layouts.machine.lanes if order else False
            )
            if full and inner[order[-1]] == len(nest.axes) - 1:
                return nest.name, order
    return "", None


def _leader(layouts: _Layouts, nest: LoopNest, elements: int) -> Node | None:
    """The load whose layout the result takes: of the largest buffer, direct ones before gathers.

    None where all are less than half of the result's `elements` and do not move along all loops, as
    what is resized does.
    """
    moving = {axis.symbol for axis in nest.axes if axis.extent != 1}
    best: tuple[tuple[bool, int], Node] | None = None
    for node in loads(nest.roots):
        access = node.attr
        assert isinstance(access, Access)
        source = layouts.graph.buffers[access.buffer]
        size = layouts.hints.elements(source.shape) * source.dtype.itemsize
        few = 2 * size < elements * source.dtype.itemsize
        if few and not _loop_variables((node,)) >= moving:
            continue
        rank = (not access.binds, size)
        if best is None or rank > best[0]:
            best = (rank, node)
    return best[1] if best is not None else None


def _store_order(layouts: _Layouts, nest: LoopNest, store: Store, leader: Node) -> Order | None:
    """The result's dimensions by falling stride of the leader along their loops; None: unknown."""
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
            moves.append((2 * _FAR, k))
        elif not symbols:
            return None
        else:
            moves.append((min(reach[s] for s in symbols), k))
    # Dimensions along which the leader does not move (stride 0) stay where row-major has them; the
    # others change places.
    moving = iter(k for _, k in sorted((m for m in moves if m[0]), key=lambda m: (-m[0], m[1])))
    return tuple(k if not reached else next(moving) for reached, k in moves)


def _loop_variables(roots: Sequence[Node]) -> set[Symbol]:
    accesses = [n.attr for n in loads(roots)]
    indices = [e for a in accesses if isinstance(a, Access) for e in a.index]
    return {s for e in indices for s in e.free_symbols}


def _copy_operands(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """Copies for operands whose view is not affine or whose vectors would not be contiguous."""
    nests = _readers(op for op in graph.ops if isinstance(op, LoopNest))
    hints, larger = hints_of(graph.dims), larger_hints(graph.dims)
    read = Counter(_read(graph))
    copies = _Copies(graph, machine, dict(graph.buffers), read, nests, hints, larger)
    ops = [op for whole in graph.ops for op in copies.of(whole)]
    if not copies.decisions:
        return graph
    return replace(
        graph,
        buffers=copies.buffers,
        ops=tuple(ops),
        derived=(*graph.derived, *copies.derived),
        decisions=(*graph.decisions, *copies.decisions),
    )


def _read(graph: LoopGraph) -> Iterator[str]:
    for op in graph.ops:
        yield from reads(op)


@dataclass
class _Copies:
    """The copies that calls need; local to one run of the pass.

    `readers`: operations that read a buffer. `nests`: those of them that are nests. `larger`: what
    a copy has to be worth its time at, which costs small sizes a launch.
    """

    graph: LoopGraph
    machine: Machine
    buffers: dict[str, Buffer]
    readers: Mapping[str, int]
    nests: Mapping[str, Sequence[LoopNest]]
    hints: Hints
    larger: Hints
    derived: list[DerivedWeight] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def of(self, op: LoopOp) -> list[LoopOp]:
        """The operation behind the copies that it needs."""
        if isinstance(op, LoopNest):
            return [op]
        support = _support(self.machine, op, self.graph.buffers)
        strides = {role: self._strides(view) for role, view in op.operands}
        strides["output"] = self._stored(op.output.buffer)
        copies: list[LoopOp] = []

        def fitting(role: str, view: View) -> View:
            reason = self._unfit(op, role, view, support, strides)
            if not reason:
                return view
            self.decisions.append(Decision("layout", (view.buffer, op.name), "copied", reason))
            walk = self._walk(op, role, view, support, strides)
            row_bytes = self._row(op, role, view, support)
            nest, seen = self._copy(op, role, view, walk, row_bytes)
            if nest is not None:
                copies.append(nest)
            return seen

        fitted = op.with_views(fitting)  # makes the copies
        return [*copies, fitted]

    def _stored(self, result: str) -> Sequence[Expr] | None:
        """The strides of what nests store from a call's result; None where these differ."""
        names = [store.buffer for nest in self.nests.get(result, ()) for store in nest.stores]
        found = {tuple(self.graph.buffers[name].strides or ()) for name in names}
        return found.pop() if len(found) == 1 else None

    def _strides(self, view: View) -> Sequence[Expr] | None:
        """Elements between neighbours along the view's axes; None when it is no plain view."""
        source = self.graph.buffers[view.buffer]
        known = source.strides or row_major_strides(source.shape)
        found = view_strides(view, known, self.graph.ranges(*view.axes))
        return None if found is None else found[0]

    def _unfit(
        self, call: TemplateCall, role: str, view: View, support: Support[Any], strides: Strides
    ) -> str:
        """Why the template cannot read an operand through its view; "" when it can."""
        if self.graph.buffers[view.buffer].kind == "weight" and call.packs(role, support):
            return ""
        if strides[role] is None:
            return "" if support.any_view else f"operand {role} is no plain view of it"
        if self._stored_walk(call, role, view, support, strides) is not None:
            return f"the template reads operand {role} in another order of memory"
        unfit = call.misfit(role, support, strides, self.hints)
        return unfit or self._odd_rows(call, role, view, support)

    def _stored_walk(
        self, call: TemplateCall, role: str, view: View, support: Support[Any], strides: Strides
    ) -> tuple[Axis, ...] | None:
        """The order in which a weight is stored anew, at no cost when the package runs."""
        source = self.graph.buffers[view.buffer]
        return call.stored_walk(role, support, strides) if is_fixed(view, source) else None

    def _odd_rows(self, call: TemplateCall, role: str, view: View, support: Support[Any]) -> str:
        """Says so where an operand's rows start where the template reads them slowly."""
        strides, wanted = self._strides(view), call.row_words(role, support, self.larger)
        wanted = max(wanted, self._line(call, role, view, support))
        if wanted == 1:
            return ""
        size = self.graph.buffers[view.buffer].dtype.itemsize
        steps = [s for s in strides or () if s not in (0, 1)]
        if all(is_multiple(s * size, wanted) for s in steps):
            return ""
        return f"rows of operand {role} do not start at multiples of {wanted} bytes"

    def _row(self, call: TemplateCall, role: str, view: View, support: Support[Any]) -> int:
        """What rows of a copy start at multiples of."""
        wanted = call.row_bytes(role, support, self.larger)
        return max(wanted, self._line(call, role, view, support))

    def _line(self, call: TemplateCall, role: str, view: View, support: Support[Any]) -> int:
        """What rows of a weight that nobody else reads had better start at multiples of."""
        source = self.graph.buffers[view.buffer]
        if not is_fixed(view, source) or self.readers[view.buffer] > 1:
            return 1
        wanted, strides = call.line_bytes(role, support, self.larger), self._strides(view)
        size = source.dtype.itemsize
        rows = [int(a.extent) for a, s in zip(view.axes, strides or (), strict=False) if s == 1]
        lines = [-(-row * size // wanted) * wanted for row in rows]
        worth = all(n <= _MOST_OF_ROW * row * size for n, row in zip(lines, rows, strict=True))
        return wanted if rows and worth else 1

    def _walk(
        self, call: TemplateCall, role: str, view: View, support: Support[Any], strides: Strides
    ) -> tuple[Axis, ...]:
        """The axes of a copy in the best order of memory, or in the one that they are in."""
        stored = self._stored_walk(call, role, view, support, strides)
        best, known = stored or call.walk(role, support, strides), strides[role]
        aligned = self._row(call, role, view, support) > 1
        if best is not None or known is None or not aligned:
            return best or view.axes
        (last,) = [k for k, s in enumerate(known) if s == 1][-1:] or [len(known) - 1]
        return (*(a for k, a in enumerate(view.axes) if k != last), view.axes[last])

    def _copy(
        self, call: TemplateCall, role: str, view: View, walk: tuple[Axis, ...], row_bytes: int
    ) -> tuple[LoopNest | None, View]:
        """The nest that copies an operand, its axes in memory as given, and the view of the copy.

        Its rows start at multiples of `row_bytes`; what may have stride 0 is copied once. No
        nest for a part of a weight, which is stored so when the package is built.
        """
        source, name = self.graph.buffers[view.buffer], f"{call.name}_{role}"
        # What splitting has copied has that name by now.
        name = f"{name}_rows" if name in self.buffers else name
        each = max(1, row_bytes // source.dtype.itemsize)
        repeated = _repeated(view) if role in call.broadcasts else ()
        axes = tuple(a for a in view.axes if a not in repeated)
        walk = tuple(a for a in walk if a not in repeated)
        if is_fixed(view, source):
            stored = stored_weight(name, source, view, walk, call.origin, each)
            self.buffers[name] = stored.buffer
            self.derived.append(stored.derived)
            return None, stored.view
        shape = tuple(multiple_of(each, a.extent) if a == walk[-1] else a.extent for a in axes)
        point = tuple(a.symbol for a in axes)
        value = load(source.name, source.dtype, view.index)
        strides = strides_of_order(shape, tuple(axes.index(axis) for axis in walk))
        self.buffers[name] = Buffer(name, source.dtype, shape, strides, "temp")
        nest = LoopNest(name, axes, (), (Store(name, point, value),), call.origin)
        return nest, View(name, view.axes, point)


def _repeated(view: View) -> tuple[Axis, ...]:
    """The axes but the last along which a view stays at one element."""
    symbols = {s for e in view.index for s in e.free_symbols}
    return tuple(a for a in view.axes[:-1] if a.symbol not in symbols)
