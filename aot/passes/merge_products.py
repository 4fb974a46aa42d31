"""Products of one matrix by several weights as one product, where their results meet at once.

A gated layer (SwiGLU) reads its rows twice, once for either weight. One product by both weights,
side by side, reads them once, and has more blocks to share out; what follows both results reads
them from memory, where the second product's epilogue had read the first one's. The weights are put
together when the package is built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aot.ir.decisions import Decision
from aot.ir.flow import Outline, parts_of
from aot.ir.hints import hints_of
from aot.ir.loops import LoopGraph, bases, reads
from aot.ir.machine import Machine
from aot.ir.nests import Axis, Buffer, LoopNest, Store, View, numbered_axes
from aot.ir.rewrite import with_roots
from aot.ir.scalar import Access, Node, load, make, rebuild, with_args
from aot.ir.templates import Matmul, MatmulSupport
from aot.ir.templates.base import LoopOp
from aot.ir.templates.concat import chosen_part
from aot.symbolic import Expr, as_expr, is_int, substitute, var


def merge_in_parts(loops: Outline[LoopGraph], machine: Machine) -> Outline[LoopGraph]:
    """Every part so merged. A weight that two parts read stays: the package would have it twice."""
    if _merging(machine) is None:
        return loops
    found = Counter(fqn for part in parts_of(loops.flow) for fqn in _weights(part).values())
    shared = frozenset(fqn for fqn, parts in found.items() if parts > 1)
    return loops.map(lambda part: merge_products(part, machine, shared))


def _weights(graph: LoopGraph) -> dict[str, str]:
    """The weights that a graph reads: buffer -> name in the model."""
    named = dict.fromkeys(name for op in graph.ops for name in reads(op))
    return {n: graph.buffers[n].fqn for n in named if graph.buffers[n].kind == "weight"}


def _merging(machine: Machine) -> MatmulSupport | None:
    support = machine.support(Matmul)
    if not isinstance(support, MatmulSupport) or support.merges is None:
        return None
    return support


def merge_products(graph: LoopGraph, machine: Machine, shared: Collection[str] = ()) -> LoopGraph:
    """The graph with one product for those by two weights whose results one nest joins.

    `shared`: names of weights that stay as they are.
    """
    support = _merging(machine)
    if support is None or support.merges is None:
        return graph
    hints, users = hints_of(graph.dims), _users(graph, shared)
    for first, second in list(_pairs(graph, users, support)):
        row, depth = first.a.axes
        widths = int(first.output.axes[1].extent), int(second.output.axes[1].extent)
        dtype = graph.buffers[first.a.buffer].dtype
        if support.merges(hints.some([row]), widths, int(depth.extent), dtype):
            graph = _merged(graph, users, (first, second))
    return graph


@dataclass(frozen=True)
class _Users:
    """Operations by the buffers that they read, how many these are, and weights of other parts."""

    readers: Mapping[str, tuple[LoopOp, ...]]
    counts: Mapping[str, int]
    shared: Collection[str]


def _users(graph: LoopGraph, shared: Collection[str]) -> _Users:
    readers: dict[str, tuple[LoopOp, ...]] = {}
    for op in graph.ops:
        for name in reads(op):
            readers[name] = (*readers.get(name, ()), op)
    return _Users(readers, Counter({name: len(ops) for name, ops in readers.items()}), shared)


def _pairs(
    graph: LoopGraph, users: _Users, support: MatmulSupport
) -> Iterator[tuple[Matmul, Matmul]]:
    """Products of one matrix whose results meet, each in one pair at most."""
    waiting: dict[object, Matmul] = {}
    for op in graph.ops:
        if not isinstance(op, support.kind) or not _may_be_merged(graph, users, op):
            continue
        meeting = _meeting(graph, users, op.output.buffer)
        key = (op.a.buffer, _numbered(op.a), op.precision, meeting)
        if meeting is None:
            continue
        first = waiting.pop(key, None)
        if first is None:
            waiting[key] = op
        else:
            yield first, op


def _may_be_merged(graph: LoopGraph, users: _Users, call: Matmul) -> bool:
    """Whether it is by a whole weight of the model, which nobody else reads."""
    weight, result = graph.buffers[call.b.buffer], call.output
    known = [axis.extent for axis in (*call.b.axes, call.a.axes[-1])]
    if len(result.axes) != 2 or not all(is_int(extent) for extent in known):
        return False
    own = [axis.symbol for axis in call.b.axes]
    whole = sorted(map(str, call.b.index)) == sorted(map(str, own))
    plain = result.index == tuple(axis.symbol for axis in result.axes)
    alone = users.counts[call.b.buffer] == 1 and weight.fqn not in users.shared
    bare = call.marks is None and call.triangle is None
    taken = weight.kind == "weight" and whole and plain and alone and bare
    return taken and result.buffer not in graph.results


def _meeting(graph: LoopGraph, users: _Users, name: str) -> str | None:
    """The nest in which a value meets another one that is computed; None: it has other readers."""
    while name not in graph.results:
        readers = users.readers.get(name, ())
        nest = readers[0] if len(readers) == 1 else None
        if not isinstance(nest, LoopNest) or nest.reduction or len(nest.stores) != 1:
            return None
        if nest.conflicts or bases(nest):
            return None
        computed = [b for b in reads(nest) if graph.buffers[b].kind != "weight"]
        if len(computed) > 1:
            return nest.name
        name = nest.stores[0].buffer
    return None


def _numbered(view: View) -> tuple[object, ...]:
    """A view's extents and index, whatever its axes are called."""
    names = {axis.symbol: var(f"axis{k}") for k, axis in enumerate(view.axes)}
    extents = tuple(axis.extent for axis in view.axes)
    return (extents, tuple(substitute(e, names) for e in view.index))


def _merged(graph: LoopGraph, users: _Users, calls: tuple[Matmul, Matmul]) -> LoopGraph:
    """The graph with one product in place of two."""
    first, second = calls
    kept = graph.buffers[first.output.buffer]
    widths = [call.output.axes[1].extent for call in calls]
    weight, nest = _side_by_side(graph, calls, widths)
    row, column = first.output.axes
    shape = (row.extent, sum(widths, as_expr(0)))
    both = Buffer(f"{first.name}_both", kept.dtype, shape, None, "temp")
    wide, (inner, own) = Axis(column.symbol, both.shape[1]), first.b.axes
    axes = (inner, Axis(own.symbol, both.shape[1]))
    one = replace(
        first,
        output=View(both.name, (row, wide), (row.symbol, wide.symbol)),
        b=View(weight.name, axes, (own.symbol, inner.symbol)),
    )
    starts = dict(zip((c.output.buffer for c in calls), (as_expr(0), widths[0]), strict=True))
    readers = {op.name for name in starts for op in users.readers[name]}
    ops: list[LoopOp] = []
    for op in graph.ops:
        if op.name == first.name:
            ops += [nest, one]
        elif op.name != second.name:
            ops.append(_reading(op, starts, both.name) if op.name in readers else op)
    reason = f"{first.a.buffer} is read once, and their results meet"
    decision = Decision("merge", (first.name, second.name), "one product", reason)
    return replace(
        graph,
        ops=tuple(ops),
        buffers={**graph.buffers, weight.name: weight, both.name: both},
        decisions=(*graph.decisions, decision),
    )


def _side_by_side(
    graph: LoopGraph, calls: Sequence[Matmul], widths: Sequence[Expr]
) -> tuple[Buffer, LoopNest]:
    """Both weights, (columns, depth), and the nest that puts them together."""
    depth = calls[0].b.axes[0].extent
    dtype = graph.buffers[calls[0].b.buffer].dtype
    shape = (sum(widths, as_expr(0)), depth)
    axes = numbered_axes("i", shape)
    column, k = (axis.symbol for axis in axes)

    def element(number: int, own: Expr, mask: Node | None) -> Node:
        view = calls[number].b
        at = dict(zip((axis.symbol for axis in view.axes), (k, own), strict=True))
        index = tuple(substitute(e, at) for e in view.index)
        return load(view.buffer, dtype, index, mask=mask)

    value = chosen_part(column, graph.ranges(*axes), widths, element)
    both = Buffer(f"{calls[0].name}_weights", dtype, shape, None, "temp")
    store = Store(both.name, (column, k), value)
    return both, LoopNest(both.name, axes, (), (store,), calls[0].origin)


def _reading(op: LoopOp, starts: Mapping[str, Expr], both: str) -> LoopOp:
    """The nest with its reads of either result from both."""
    assert isinstance(op, LoopNest)

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        attr = node.attr
        if not isinstance(attr, Access) or attr.buffer not in starts:
            return with_args(node, args)
        row, column = attr.index
        moved = replace(attr, buffer=both, index=(row, column + starts[attr.buffer]))
        return make(node.op, node.dtype, *args, attr=moved)

    return with_roots(op, rebuild(op.roots, visit))
