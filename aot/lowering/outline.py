"""Takes a tensor graph with control flow apart into straight parts and the flow around them.

Operators are sorted by what they wait for: those that need no result of a control operator make
one part, those that wait for one such operator the next, and so on. So as much as possible stands
in one part, where the passes and the scheduler see it together. An assertion cuts nothing: its
condition is one more result of its part, and is looked at when the part has run. A custom operator
stands between parts as control operators do: nothing is fused across it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aot.ir.flow import (
    Assert,
    Branch,
    Copy,
    CustomCall,
    Flow,
    Item,
    Measured,
    Outline,
    Repeat,
    Slice,
    Straight,
)
from aot.ir.layouts import dense_or_row_major
from aot.ir.origin import NO_ORIGIN, Origin
from aot.ir.tensors import (
    Assertion,
    Block,
    Cond,
    ControlOp,
    GraphOp,
    Loop,
    OperatorCall,
    Signature,
    SizeRead,
    TensorGraph,
    TensorOp,
    TensorType,
    Tree,
    ValueRef,
    blocks_of,
    dims_in,
    reads_of,
)
from aot.lowering.reals import in_reals
from aot.symbolic import row_major_strides

_NO_SIGNATURE = Signature((), Tree("tuple"))
_CONSTANTS = frozenset(
    f"aten.{name}"
    for name in """full.default zeros.default ones.default scalar_tensor.default eye.default
    arange.default arange.start arange.start_step""".split()
)
"""Operators without tensors as arguments that always give the same."""


def outline(graph: TensorGraph) -> Outline[TensorGraph]:
    """The straight parts of a graph, in the order and under the conditions in which they run.

    A graph without control flow is its own only part. Values that pass between parts have dense
    strides: eager's where they are, else row-major. Complex values become pairs of reals first.
    """
    graph = in_reals(graph)
    if all(isinstance(op, TensorOp) for op in graph.ops):
        return Outline(graph, (Straight(graph),))
    state = _Outline(graph, dict(graph.types))
    state.find_constants(graph.ops, frozenset(_demanded(graph.ops)))
    for name in graph.outputs:
        state.constants.pop(name, None)
    mutations = [replace(m, value=f"{m.target}.new") for m in graph.mutations]
    copies = [
        state.copy(old.value, new.value, NO_ORIGIN)
        for old, new in zip(graph.mutations, mutations, strict=True)
    ]
    wanted = (*graph.outputs, *(m.value for m in mutations))
    flow = state.block(Block((*graph.ops, *copies), wanted), frozenset(wanted))
    return Outline(replace(graph, types=state.types, mutations=tuple(mutations)), flow)


@dataclass
class _Outline:
    """One walk over a graph's blocks. `types`: also of the values that the walk makes up."""

    graph: TensorGraph
    types: dict[str, TensorType]
    constants: dict[str, TensorOp] = field(default_factory=dict)
    parts: int = 0

    def find_constants(self, ops: Iterable[GraphOp], demanded: frozenset[str]) -> None:
        """Finds operators on weights alone: each part that reads one has it, and folds it.

        `demanded`: values that control operators read from memory; they are computed once, where
        they stand.
        """
        known = {name for name, _ in self.graph.weights}
        for op in ops:
            for block in blocks_of(op):
                self.find_constants(block.ops, demanded)
            if not isinstance(op, TensorOp) or any(dims_in((op.args, op.kwargs))):
                continue
            if demanded.intersection(op.outputs):
                continue
            given = reads_of(op)
            if all(n in known or n in self.constants for n in given) and (
                given or op.target in _CONSTANTS
            ):
                self.constants.update({name: op for name in op.outputs if name is not None})

    def block(self, block: Block, wanted: frozenset[str]) -> Flow[TensorGraph]:
        """The flow of a block. `wanted`: values that are read when it has run."""
        ops = [op for op in block.ops if not self._is_constant(op)]
        levels = _levels(ops, self.types)
        return self._from_level(0, levels, wanted)

    def _is_constant(self, op: GraphOp) -> bool:
        return isinstance(op, TensorOp) and any(
            name in self.constants for name in op.outputs if name
        )

    def _constant_ops(self, names: Iterable[str]) -> Iterator[TensorOp]:
        for name in names:
            op = self.constants[name]
            yield from self._constant_ops(n for n in reads_of(op) if n in self.constants)
            yield op

    def _from_level(
        self, level: int, levels: Sequence[Sequence[GraphOp]], wanted: frozenset[str]
    ) -> Flow[TensorGraph]:
        if level == len(levels):
            return ()
        here = [op for op in levels[level] if isinstance(op, TensorOp)]
        control = [op for op in levels[level] if not isinstance(op, TensorOp)]
        later = [op for ops in levels[level + 1 :] for op in ops]
        # A call reads its operands, or copies that its part makes of them.
        users = [op for op in control if not isinstance(op, OperatorCall)]
        read = {name for op in (*users, *later) for name in reads_of(op)} | wanted
        before: list[TensorOp] = []
        after: list[Item[TensorGraph]] = []
        for op in control:
            if not isinstance(op, SizeRead):
                made, items = self._control(op)
                before += made
                after += items
                read |= {name for m in made for name in m.outputs if name}
                read |= {
                    name for item in items if isinstance(item, CustomCall) for name in item.operands
                }
        flow: list[Item[TensorGraph]] = [*self._part([*here, *before], read), *after]
        rest = self._from_level(level + 1, levels, wanted)
        sizes = [op for op in control if isinstance(op, SizeRead)]
        if not sizes:
            return (*flow, *rest)
        pairs = tuple((op.dim, op.value) for op in sizes)
        return (*flow, Measured(pairs, rest, sizes[0].origin))

    def _part(self, ops: Sequence[TensorOp], read: set[str]) -> list[Item[TensorGraph]]:
        """A straight part: `ops` and the constants that they read."""
        made = {name for op in ops for name in op.outputs if name}
        needed = [n for op in ops for n in reads_of(op) if n in self.constants and n not in made]
        ops = [*dict.fromkeys(self._constant_ops(needed)), *ops]
        made = {name for op in ops for name in op.outputs if name}
        made_here = [n for op in ops for n in op.outputs if n and n not in self.constants]
        outputs = tuple(n for n in made_here if n in read)
        if not outputs:
            return []
        fqns, states = dict(self.graph.weights), dict(self.graph.states)
        given = tuple(dict.fromkeys(n for op in ops for n in reads_of(op) if n not in made))
        for name in (*given, *outputs):
            if name not in self.graph.inputs and name not in fqns and name not in states:
                self.types[name] = dense_or_row_major(self.types[name])
        self.parts += 1
        graph = TensorGraph(
            f"{self.graph.name}.{self.parts}",
            self.graph.dims,
            tuple(n for n in given if n not in fqns and n not in states),
            tuple((n, fqns[n]) for n in given if n in fqns),
            tuple(ops),
            outputs,
            {n: self.types[n] for n in (*given, *made)},
            _NO_SIGNATURE,
            states=tuple((n, states[n]) for n in given if n in states),
            prefix=f"p{self.parts}.",
            tf32=self.graph.tf32,
        )
        return [Straight(graph)]

    def _control(self, op: ControlOp) -> tuple[list[TensorOp], list[Item[TensorGraph]]]:
        """Operators that must run before a control operator, and its items."""
        if isinstance(op, Cond):
            return [], [self._cond(op)]
        if isinstance(op, Loop):
            return self._loop(op)
        if isinstance(op, OperatorCall):
            return self._call(op)
        assert isinstance(op, Assertion)
        return [], [Assert(op.value, op.message, op.origin)]

    def _cond(self, op: Cond) -> Item[TensorGraph]:
        def arm(block: Block) -> Flow[TensorGraph]:
            copies = [
                self.copy(result, made, op.origin)
                for result, made in zip(block.results, op.outputs, strict=True)
            ]
            return self.block(Block((*block.ops, *copies), op.outputs), frozenset(op.outputs))

        return Branch(op.predicate, arm(op.then), arm(op.otherwise), op.origin)

    def _loop(self, op: Loop) -> tuple[list[TensorOp], list[Item[TensorGraph]]]:
        before: list[TensorOp] = []
        start: list[Item[TensorGraph]] = []
        for name, value in op.carried:
            self.types[name] = dense_or_row_major(self.types[name])
            first = f"{name}.first"
            before.append(self.copy(value, first, op.origin, self.types[name]))
            start.append(Copy(first, name, op.origin))
        slices = [self._element(name, value, op, before) for name, value in op.slices]
        body, ends, places = self._body(op)
        condition: Flow[TensorGraph] = ()
        predicate = ""
        if op.condition is not None:
            predicate = f"{op.outputs[0]}.again"
            again = self.copy(op.condition.results[0], predicate, op.origin)
            block = Block((*op.condition.ops, again), (predicate,))
            condition = self.block(block, frozenset([predicate]))
        repeat: Item[TensorGraph] = Repeat(
            condition, predicate, op.count, (*slices, *places), (*body, *ends), op.origin
        )
        return before, [*start, repeat]

    def _element(self, name: str, value: str, op: Loop, before: list[TensorOp]) -> Slice:
        """Element k along axis 0: a slice of the value, if that is row-major, else of a copy."""
        type_ = self.types[value]
        self.types[name] = replace(
            self.types[name], strides=row_major_strides(self.types[name].shape)
        )
        source = value
        if type_.strides != row_major_strides(type_.shape) or value in dict(self.graph.weights):
            source = f"{name}.all"
            whole = replace(type_, strides=row_major_strides(type_.shape))
            before.append(self.copy(value, source, op.origin, whole))
        return Slice(name, source)

    def _body(self, op: Loop) -> tuple[Flow[TensorGraph], list[Item[TensorGraph]], list[Slice]]:
        """The body's flow, the copies that end it, and the elements that it writes."""
        copies: list[TensorOp] = []
        ends: list[Item[TensorGraph]] = []
        places: list[Slice] = []
        for (name, _), result in zip(op.carried, op.body.results, strict=False):
            if result != name:
                after = f"{name}.next"
                copies.append(self.copy(result, after, op.origin, self.types[name]))
                ends.append(Copy(after, name, op.origin))
        for name, result in zip(op.stacked, op.body.results[len(op.carried) :], strict=True):
            self.types[name] = _row_major(self.types[name])
            element = f"{name}.element"
            copies.append(self.copy(result, element, op.origin, _row_major(self.types[result])))
            places.append(Slice(element, name))
        results = tuple(n for copy in copies for n in copy.outputs if n)
        block = Block((*op.body.ops, *copies), results)
        return self.block(block, frozenset(results)), ends, places

    def _call(self, op: OperatorCall) -> tuple[list[TensorOp], list[Item[TensorGraph]]]:
        """A custom operator reads values where they lie if they are row-major, else copies.

        A kernel is told of strides, and reads all where they lie.
        """
        before: list[TensorOp] = []

        def dense(argument: Any) -> Any:
            if isinstance(argument, tuple):
                return tuple(dense(part) for part in argument)
            if not isinstance(argument, ValueRef) or op.kernel is not None:
                return argument
            known = self.types[argument.name]
            type_ = _row_major(known)
            if type_ == known:
                return argument
            name = f"{op.outputs[0]}.operand{len(before)}"
            before.append(self.copy(argument.name, name, op.origin, type_))
            return ValueRef(name)

        for name, value in op.changed:
            before.append(self.copy(value, name, op.origin))
        arguments = tuple((name, kind, dense(value)) for name, kind, value in op.arguments)
        changed = tuple(name for name, _ in op.changed)
        return before, [CustomCall(op.name, arguments, op.results, op.origin, changed, op.kernel)]

    def copy(
        self, value: str, made: str, origin: Origin, type_: TensorType | None = None
    ) -> TensorOp:
        """An operator that makes `made` of a value, in other strides if `type_` says so."""
        self.types.setdefault(made, type_ or self.types[value])
        return TensorOp("aten.clone.default", (ValueRef(value),), (), (made,), origin)


def _demanded(ops: Iterable[GraphOp]) -> Iterator[str]:
    """What control operators themselves read."""
    for op in ops:
        yield from _own_reads(op)
        for block in blocks_of(op):
            yield from _demanded(block.ops)


def _own_reads(op: GraphOp) -> tuple[str, ...]:
    """What a control operator itself reads from memory, without its blocks and copies."""
    if isinstance(op, Cond):
        return (op.predicate,)
    if isinstance(op, Loop):
        return tuple(value for _, value in op.slices)
    if isinstance(op, OperatorCall):
        return op.operands
    return () if isinstance(op, TensorOp) else (op.value,)


def _row_major(type_: TensorType) -> TensorType:
    return replace(type_, strides=row_major_strides(type_.shape))


def _levels(ops: Sequence[GraphOp], types: Mapping[str, TensorType]) -> list[list[GraphOp]]:
    """The operators by the number of control operators, one after another, that they wait for."""
    ready: dict[str, int] = {}  # value or dim -> level
    levels: list[list[GraphOp]] = []
    for op in ops:
        waits = [*reads_of(op), *_dims_of(op, types)]
        level = max((ready.get(name, 0) for name in waits), default=0)
        while len(levels) <= level:
            levels.append([])
        levels[level].append(op)
        after = level if isinstance(op, TensorOp) else level + 1
        if isinstance(op, SizeRead):
            ready[op.dim] = after
        ready.update({name: after for name in op.outputs if name})
    return levels


def _dims_of(op: GraphOp, types: Mapping[str, TensorType]) -> set[str]:
    """Dims that an operator's arguments and results mention."""
    found: set[str] = set()
    if isinstance(op, TensorOp):
        found.update(dims_in((op.args, op.kwargs)))
    elif isinstance(op, Loop) and op.count is not None:
        found.update(dims_in(op.count))
    elif isinstance(op, OperatorCall):
        found.update(dims_in(tuple(value for _, _, value in op.arguments)))
    shapes: list[Any] = [types[name].shape for name in op.outputs if name]
    found.update(dims_in(tuple(shapes)))
    return found.union(*(_dims_of(inner, types) for b in blocks_of(op) for inner in b.ops))
