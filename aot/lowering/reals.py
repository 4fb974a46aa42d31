"""Complex numbers as pairs of real ones: the tensor graph before anything else looks at it.

A complex tensor's memory is that of a real one with a last dimension of 2, and so is a complex
value where memory is shared with others: inputs, weights, states, outputs, what passes between the
blocks of control flow and to custom operators. There it is **whole**. Everywhere else it is two
values, its **parts**, so that arithmetic is arithmetic on real tensors, which every stage that
follows knows. What joins and separates is `aten.stack` and `aten.select`: views, which cost
nothing where they are inlined.

    %z = aten.mul.Tensor(%x, %y)       %x.re = aten.select.int(%x, -1, 0)  …
                                  ->   %z.re, %z.im = complex.aten.mul.Tensor((%x.re, %x.im), …)
                                       %z = aten.stack.default((%z.re, %z.im), -1)   # an output

ADR 0036 has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aot.ir.origin import NO_ORIGIN, Origin
from aot.ir.tensors import (
    Block,
    ComplexValues,
    Cond,
    GraphOp,
    Loop,
    OperatorCall,
    TensorGraph,
    TensorOp,
    TensorType,
    ValueRef,
    all_ops,
    blocks_of,
    reads_of,
)
from aot.lowering import complex_composed  # noqa: F401  fills the table
from aot.lowering.complex_parts import ComplexCall, ComplexParts, Emitter, apply, stored


def in_reals(graph: TensorGraph) -> TensorGraph:
    """The graph without complex values; itself if it has none.

    Its signature says which inputs, outputs and states are complex for who calls it.
    """
    complex_names = frozenset(n for n, type_ in graph.types.items() if type_.dtype.is_complex)
    if not complex_names:
        return graph
    types = {name: stored(type_) for name, type_ in graph.types.items()}
    walk = _Walk(graph.types, complex_names, _wholes(graph), types)
    given = (*graph.inputs, *(n for n, _ in graph.weights), *(n for n, _ in graph.states))
    ops = walk.block(graph.ops, given, {})
    marks = ComplexValues(
        tuple(k for k, name in enumerate(graph.inputs) if name in complex_names),
        tuple(k for k, name in enumerate(graph.outputs) if name in complex_names),
        tuple(fqn for name, fqn in graph.states if name in complex_names),
    )
    return replace(graph, ops=ops, types=types, signature=replace(graph.signature, complex=marks))


def _wholes(graph: TensorGraph) -> frozenset[str]:
    """What somebody reads whole: results of graphs and blocks, operands of control operators."""
    ops = list(all_ops(graph.ops))
    blocks = [block for op in ops for block in blocks_of(op)]
    return frozenset(
        (
            *graph.outputs,
            *(m.value for m in graph.mutations),
            *(name for block in blocks for name in block.results),
            *(name for op in ops for name in _whole_operands(op)),
        )
    )


def _whole_operands(op: GraphOp) -> tuple[str, ...]:
    match op:
        case Loop():
            return tuple(value for _, value in (*op.carried, *op.slices))
        case OperatorCall():
            return op.operands
        case _:
            return ()


@dataclass(frozen=True)
class _Walk:
    """One walk over a graph and its blocks.

    Attributes:
        source: The types of its values.
        complex_names: Those that are complex.
        wholes: Those that somebody reads whole.
        types: The types of the graph of reals; grows.
    """

    source: Mapping[str, TensorType]
    complex_names: frozenset[str]
    wholes: frozenset[str]
    types: dict[str, TensorType]

    def block(
        self, ops: Iterable[GraphOp], given: Iterable[str], around: Mapping[str, ComplexParts]
    ) -> tuple[GraphOp, ...]:
        """The operators of a block over reals.

        Args:
            ops: Those of the block.
            given: Values that the block begins with, whole ones.
            around: ComplexParts of complex values from around the block.
        """
        emitter, parts = Emitter(self.types), dict(around)
        self._separate(emitter, parts, given, NO_ORIGIN)
        for op in ops:
            emitter.origin = op.origin
            if isinstance(op, TensorOp):
                self._tensor_op(emitter, parts, op)
            else:
                emitter.ops.append(self._control(op, parts))
                self._separate(emitter, parts, op.outputs, op.origin)
        return tuple(emitter.ops)

    def _separate(
        self,
        emitter: Emitter,
        parts: dict[str, ComplexParts],
        names: Iterable[str | None],
        at: Origin,
    ) -> None:
        emitter.origin = at
        for name in names:
            if name is not None and name in self.complex_names:
                parts[name] = emitter.separated(ValueRef(name), name, self.source[name])

    def _control(self, op: GraphOp, parts: Mapping[str, ComplexParts]) -> GraphOp:
        """A control operator with blocks over reals."""

        def inner(block: Block, given: Sequence[str] = ()) -> Block:
            return replace(block, ops=self.block(block.ops, given, parts))

        if isinstance(op, Cond):
            return replace(op, then=inner(op.then), otherwise=inner(op.otherwise))
        if isinstance(op, Loop):
            carried = tuple(name for name, _ in op.carried)
            condition = None if op.condition is None else inner(op.condition, carried)
            body = inner(op.body, (*carried, *(name for name, _ in op.slices)))
            return replace(op, condition=condition, body=body)
        return op

    def _tensor_op(self, emitter: Emitter, parts: dict[str, ComplexParts], op: TensorOp) -> None:
        if self.complex_names.isdisjoint((*reads_of(op), *(n for n in op.outputs if n))):
            emitter.ops.append(op)
            return

        def values(argument: Any) -> Any:
            if isinstance(argument, ValueRef):
                return parts.get(argument.name, argument)
            if isinstance(argument, tuple):
                return tuple(values(a) for a in argument)
            return argument

        results = tuple(None if n is None else (n, self.source[n]) for n in op.outputs)
        kwargs = {name: values(a) for name, a in op.kwargs}
        made = apply(ComplexCall(emitter, op.target, values(op.args), kwargs, results))
        for name, value in zip(op.outputs, made, strict=True):
            if name is None or value is None:
                continue
            if isinstance(value, ValueRef):
                emitter.name(name, "aten.alias.default", (value,))
                continue
            parts[name] = value
            if name in self.wholes:
                emitter.joined(value, name)
