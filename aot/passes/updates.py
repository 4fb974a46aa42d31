"""Updates: an operation that writes a part of a tensor takes over the memory of the whole.

`own_bases` sees to it that every base may be overwritten, by a copy where it may not;
`narrow_updates` finds nests that write a state's old value back almost everywhere, such as a slice
of a cache, and lets them write the rest only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from aot.ir.conditions import at_least, fold_conditions
from aot.ir.decisions import Decision
from aot.ir.loops import LoopGraph, bases, reads, writes
from aot.ir.nests import Axis, Buffer, LoopNest, Store
from aot.ir.rewrite import simplify_indices, substitute_axes, with_roots
from aot.ir.scalar import Access, Node, load, loads
from aot.ir.templates.base import LoopOp
from aot.passes.dead_code import remove_dead_code
from aot.symbolic import Expr, Ranges, Symbol, coefficient_of, integer, var


def own_bases(graph: LoopGraph) -> LoopGraph:
    """The graph in which the base of every update may be overwritten.

    That is a temporary, or a state whose new value the updates make; nothing that runs later
    reads it, and the update itself reads it only where it writes. Other bases are copied first.
    """
    if not any(bases(op) for op in graph.ops):
        return graph
    graph = remove_dead_code(_past_copies(graph))
    owner = _Owner(graph)
    refused: dict[str, str] = {}
    for position in reversed(range(len(graph.ops))):
        for result, base in bases(graph.ops[position]).items():
            reason = owner.refuse(position, result, base)
            if reason:
                refused[result] = reason
            else:
                owner.take(position, result, base)
    return _with_copies(graph, refused)


@dataclass
class _Owner:
    """Which bases are overwritten; updates are decided from the last to the first.

    `taken`: bases that an update overwrites. `ends`: base -> the last result of the chain of
    updates that begins with it. `followers`: operation -> those that must come after it.
    """

    graph: LoopGraph
    ends: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    followers: list[set[int]] = field(init=False)
    readers: dict[str, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        """Indexes the operations."""
        self.readers = {}
        for k, op in enumerate(self.graph.ops):
            for name in reads(op):
                self.readers.setdefault(name, []).append(k)
        self.followers = [
            {k for name in writes(op) for k in self.readers.get(name, ())} for op in self.graph.ops
        ]

    def refuse(self, position: int, result: str, base: str) -> str:
        """Why the update may not overwrite its base; "" when it may."""
        buffer, end = self.graph.buffers[base], self.ends.get(result, result)
        if buffer.kind == "state":
            if not any((m.target, m.value) == (base, end) for m in self.graph.mutations):
                return "the state keeps its value"
        elif buffer.kind != "temp" or base in self.graph.results:
            return "it is not a temporary"
        if base in self.taken:
            return "another update takes its memory"
        if not _reads_where_it_writes(self.graph, self.graph.ops[position], result, base):
            return "the update reads elements that it has overwritten"
        if any(self._follows(k, position) for k in self.readers[base] if k != position):
            return "its old value is needed later"
        return ""

    def take(self, position: int, result: str, base: str) -> None:
        """Gives the base's memory to the update's result."""
        self.taken.add(base)
        self.ends[base] = self.ends.get(result, result)
        for reader in self.readers[base]:
            if reader != position:
                self.followers[reader].add(position)

    def _follows(self, later: int, earlier: int) -> bool:
        seen: set[int] = set()
        stack = [earlier]
        while stack:
            position = stack.pop()
            if position == later:
                return True
            if position not in seen:
                seen.add(position)
                stack.extend(self.followers[position])
        return False


def _reads_where_it_writes(graph: LoopGraph, op: LoopOp, result: str, base: str) -> bool:
    assert isinstance(op, LoopNest)
    store = next(s for s in op.stores if s.buffer == result)
    ranges = graph.ranges(*op.axes)
    place = [ranges.simplify(i) for i in store.index]
    found = [n.attr for n in loads(op.roots) if isinstance(n.attr, Access)]
    return all(
        not store.binds and [ranges.simplify(i) for i in a.index] == place
        for a in found
        if a.buffer == base
    )


def _past_copies(graph: LoopGraph) -> LoopGraph:
    """The graph with the copied buffer as the base, where a base is a mere copy of it."""
    copies: dict[str, str] = {}
    for op in graph.ops:
        if not isinstance(op, LoopNest) or op.reduction or len(op.stores) != 1 or bases(op):
            continue
        store = op.stores[0]
        source = _plain_access(store.value)
        if source is None or source.index != store.index or store.buffer in graph.results:
            continue
        whole = graph.buffers[source.buffer].shape == graph.buffers[store.buffer].shape
        if whole and set(store.index) == {a.symbol for a in op.axes}:
            copies[store.buffer] = copies.get(source.buffer, source.buffer)
    ops = tuple(_with_bases(op, copies) for op in graph.ops)
    return graph if ops == graph.ops else replace(graph, ops=ops)


def _with_bases(op: LoopOp, other: Mapping[str, str]) -> LoopOp:
    if not any(base in other for base in bases(op).values()):
        return op
    assert isinstance(op, LoopNest)
    return replace(op, stores=tuple(replace(s, base=other.get(s.base, s.base)) for s in op.stores))


def _with_copies(graph: LoopGraph, refused: Mapping[str, str]) -> LoopGraph:
    if not refused:
        return graph
    buffers = dict(graph.buffers)
    ops: list[LoopOp] = []
    decisions: list[Decision] = []
    for op in graph.ops:
        for result, base in bases(op).items():
            if result not in refused:
                continue
            assert isinstance(op, LoopNest)
            name, source = f"{result}_base", graph.buffers[base]
            buffers[name] = replace(source, name=name, strides=None, kind="temp", fqn="")
            ops.append(_copy(name, source, op))
            stores = (replace(s, base=name) if s.buffer == result else s for s in op.stores)
            op = replace(op, stores=tuple(stores))  # noqa: PLW2901  one store after the other
            decisions.append(Decision("update", (base, result), "copied", refused[result]))
        ops.append(op)
    decided = (*graph.decisions, *decisions)
    return replace(graph, buffers=buffers, ops=tuple(ops), decisions=decided)


def _copy(name: str, source: Buffer, op: LoopNest) -> LoopNest:
    axes = tuple(Axis(var(f"i{k}"), size) for k, size in enumerate(source.shape))
    point = tuple(a.symbol for a in axes)
    value = load(source.name, source.dtype, point)
    return LoopNest(f"{op.name}_base", axes, (), (Store(name, point, value),), op.origin)


def narrow_updates(graph: LoopGraph) -> LoopGraph:
    """The graph whose nests write back no element of a state that they only read for that."""
    writer = {name: op for op in graph.ops for name in writes(op)}
    found: dict[str, str] = {}
    for mutation in graph.mutations:
        if graph.buffers[mutation.target].kind == "state":
            found.update(_bases_down_to(mutation.target, mutation.value, writer))
    if not found:
        return graph
    ops = tuple(
        _narrowed(graph, op, found[op.stores[0].buffer])
        if isinstance(op, LoopNest) and op.stores[0].buffer in found and not op.stores[0].base
        else op
        for op in graph.ops
    )
    return graph if ops == graph.ops else replace(graph, ops=ops)


def _bases_down_to(state: str, value: str, writer: Mapping[str, LoopOp]) -> dict[str, str]:
    """Result -> the buffer that it replaces elements of, from the new value to the state's old.

    Empty when the new value is not made in this way.
    """
    found: dict[str, str] = {}
    while value != state:
        op = writer.get(value)
        if not isinstance(op, LoopNest) or op.reduction or len(op.stores) != 1:
            return {}
        store = op.stores[0]
        old = store.value.args[2].attr if store.value.op == "where" else None
        base = store.base or (old.buffer if isinstance(old, Access) else "")
        if not base:
            return {}
        found[value] = base
        value = base
    return found


def _narrowed(graph: LoopGraph, nest: LoopNest, base: str) -> LoopNest:
    """The nest without the points at which it stores the base's own element."""
    while True:
        (store,) = nest.stores
        if store.value.op != "where" or not _is_old(store.value.args[2], base, store):
            return nest
        smaller = _within(graph, nest, store.value.args[0])
        if smaller is None:
            return nest
        (moved,) = smaller.stores
        ranges = graph.ranges(*smaller.axes)
        roots = fold_conditions(smaller.roots, ranges)
        nest = with_roots(replace(smaller, stores=(replace(moved, base=base),)), roots)
        nest = simplify_indices(nest, ranges)


def _is_old(node: Node, base: str, store: Store) -> bool:
    access = _plain_access(node)
    return access is not None and (access.buffer, access.index) == (base, store.index)


def _plain_access(node: Node) -> Access | None:
    """What a load reads that is neither masked nor indirect; None for other nodes."""
    access = node.attr
    if isinstance(access, Access) and not access.masked and not access.binds:
        return access
    return None


def _within(graph: LoopGraph, nest: LoopNest, condition: Node) -> LoopNest | None:
    """The nest over the points at which the bounds in `condition` hold; None if it has none."""
    ranges = graph.ranges(*nest.axes)
    axes: list[Axis] = []
    mapping: dict[Symbol, Expr] = {}
    for axis in nest.axes:
        low, high = _interval(condition, axis, ranges)
        extent = (high - low).expand()
        if extent == 1 and axis.extent != 1:
            mapping[axis.symbol] = low
            continue
        axes.append(Axis(axis.symbol, extent))
        if low != 0:
            mapping[axis.symbol] = axis.symbol + low
    if tuple(axes) == nest.axes:
        return None
    return substitute_axes(nest, mapping, tuple(axes), ())


def _interval(condition: Node, axis: Axis, ranges: Ranges) -> tuple[Expr, Expr]:
    """[begin, end) of the axis's values that the comparisons of `condition` allow.

    A bound that is not known to lie within the axis is left out.
    """
    low, high = integer(0), axis.extent
    for comparison in _conjuncts(condition):
        found = at_least(comparison)
        if found is None:
            continue
        expr = found[0] if found[1] else (-found[0] - 1).expand()
        factor = coefficient_of(expr, axis.symbol)
        if factor is None or abs(factor) != 1:
            continue
        rest = (expr - factor * axis.symbol).expand()
        if rest.free_symbols & set(ranges.extents):
            continue
        if factor == 1 and ranges.at_most(low, -rest) and ranges.at_most(-rest, high):
            low = -rest
        if factor == -1 and ranges.at_most(low, rest + 1) and ranges.at_most(rest + 1, high):
            high = (rest + 1).expand()
    return low, high


def _conjuncts(condition: Node) -> Iterable[Node]:
    if condition.op == "and":
        for part in condition.args:
            yield from _conjuncts(part)
    else:
        yield condition
