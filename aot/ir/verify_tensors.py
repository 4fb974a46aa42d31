"""The invariants of the tensor graph, checked after ingestion.

1. Every value (input, weight, state, result, loop variable; those of blocks too) has one name and a
   type; sizes and strides are expressions over the graph's dims.
2. Operators read what is known where they stand: inputs, weights, states, what operators before
   them made, in their own block or around it, and the values of their loop.
3. Both blocks of a branch have a result for each of its outputs; a loop's body has one for each
   carried and each stacked value, its condition one. A loop has a condition or a count.
4. Outputs are values of the graph itself; so are a mutation's value and its target, which is an
   input or a state and has no other mutation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from aot.errors import InternalError, Origin
from aot.ir.tensors import (
    Block,
    Cond,
    GraphOp,
    Loop,
    OperatorCall,
    TensorGraph,
    TensorOp,
    all_outputs,
    names_in,
)
from aot.symbolic import dim

FailAt = Callable[[str, Origin | None], None]


def verify_tensors(graph: TensorGraph) -> None:
    """Checks the invariants of a tensor graph. Raises InternalError naming the first that fails."""

    def fail(problem: str, origin: Origin | None = None) -> None:
        raise InternalError(f"{graph.name}: {problem}", where=origin)

    given = (*graph.inputs, *(n for n, _ in graph.weights), *(n for n, _ in graph.states))
    _verify_names(graph, (*given, *all_outputs(graph.ops)), fail)
    known = _verify_ops(graph.ops, frozenset(given), fail)
    for name in (*graph.outputs, *(m.value for m in graph.mutations)):
        if name not in known:
            fail(f"the result {name} is not a value of the graph", None)
    changeable = {*graph.inputs, *(n for n, _ in graph.states)}
    for target, count in Counter(m.target for m in graph.mutations).items():
        if target not in changeable or count > 1:
            fail(f"the mutation of {target}: it is no input or state, or has another", None)


def _verify_names(graph: TensorGraph, names: Iterable[str], fail: FailAt) -> None:
    symbols = {dim(d.name) for d in graph.dims}
    for name, count in Counter(names).items():
        if count > 1:
            fail(f"{count} values are called {name}", None)
        if name not in graph.types:
            fail(f"the value {name} has no type", None)
        value = graph.types[name]
        for expr in (*value.shape, *value.strides):
            if not expr.free_symbols <= symbols:
                fail(f"the size or stride {expr} of {name} is not over the dims", None)


def _verify_ops(ops: Iterable[GraphOp], known: frozenset[str], fail: FailAt) -> frozenset[str]:
    """Checks operators where `known` can be read. What is known behind them."""
    for op in ops:
        for name in _operands(op):
            if name not in known:
                fail(f"{name} is read before anything makes it", op.origin)
        if isinstance(op, Cond):
            for block in (op.then, op.otherwise):
                _verify_block(block, known, len(op.outputs), op.origin, fail)
        elif isinstance(op, Loop):
            _verify_loop(op, known, fail)
        known |= {name for name in op.outputs if name is not None}
    return known


def _operands(op: GraphOp) -> tuple[str, ...]:
    """What an operator itself reads, without its blocks."""
    match op:
        case TensorOp():
            return tuple(names_in((op.args, op.kwargs)))
        case OperatorCall():
            return op.operands
        case Cond():
            return (op.predicate,)
        case Loop():
            return tuple(value for _, value in (*op.carried, *op.slices))
    return (op.value,)


def _verify_loop(loop: Loop, known: frozenset[str], fail: FailAt) -> None:
    if (loop.condition is None) == (loop.count is None):
        fail("a loop has either a condition or a count", loop.origin)
    carried = frozenset(name for name, _ in loop.carried)
    if loop.condition is not None:
        _verify_block(loop.condition, known | carried, 1, loop.origin, fail)
    inside = known | carried | {name for name, _ in loop.slices}
    _verify_block(loop.body, inside, len(loop.outputs), loop.origin, fail)


def _verify_block(
    block: Block, known: frozenset[str], results: int, origin: Origin, fail: FailAt
) -> None:
    behind = _verify_ops(block.ops, known, fail)
    if len(block.results) != results:
        fail(f"a block has {len(block.results)} results, {results} are wanted", origin)
    for name in block.results:
        if name not in behind:
            fail(f"the result {name} of a block is unknown there", origin)
