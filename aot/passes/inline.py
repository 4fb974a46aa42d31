"""Inlining: producers' bodies move into their consumers, and only worthwhile buffers remain.

Views, constants and other trivial bodies are always inlined, also into the views of template calls.
Pointwise producers are inlined when that saves memory traffic without repeating work: see
`_Choice`. Reductions, scatters and template calls always keep their buffers. So do views that bend
(a padding by reflection) and are read again and again, as windows read them: what bends is
gathered, lane by lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from aot.ir.conditions import fold_conditions
from aot.ir.decisions import Decision
from aot.ir.hints import Hints, body_weight, hints_of, is_dear
from aot.ir.loops import LoopGraph, writes
from aot.ir.machine import Machine
from aot.ir.nests import LoopNest, Store
from aot.ir.origin import Origin
from aot.ir.rewrite import fresh_binds, simplify_indices, with_roots
from aot.ir.scalar import (
    Access,
    Node,
    guarded,
    loads,
    mask_of,
    postorder,
    rebuild,
    substitute_index,
    where,
    with_args,
)
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.passes.compose import Inlined, compose_views
from aot.passes.dead_code import remove_dead_code
from aot.symbolic import (
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    Modulo,
    Symbol,
    affine_coefficients,
    is_int,
    product,
    substitute,
)

MAX_PIECES = 8
"""Concatenations of more pieces keep their conditions (see schedule/index_set_splitting.py)."""

_ONCE = 1.01
"""Evaluations of each element that count as one."""

MAX_NODES = 400
"""Bodies larger than this are not grown further."""


@dataclass(frozen=True)
class Uses:
    """Who reads a buffer: nests with the evaluations that they would make, and template calls.

    `evaluations` counts a guarded read where its guard holds (long loops are split there later, see
    schedule/index_set_splitting.py); `at_worst` counts it at every point.
    """

    nests: tuple[str, ...] = ()
    evaluations: int = 0
    at_worst: int = 0
    templates: int = 0


def inline_producers(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with producers inlined, dead operations removed and the choices recorded."""
    hints = hints_of(graph.dims)
    uses = buffer_uses(graph, hints)
    writers = _writer_counts(graph)
    from_template = {
        op.output.buffer: hints.volume(op.output.axes)
        for op in graph.ops
        if isinstance(op, TemplateCall)
    }
    choice = _Choice(graph, hints, machine, from_template, _in_turn(graph, uses))
    inlined: dict[str, Inlined] = {}
    ops: list[LoopOp] = []
    decisions: list[Decision] = []
    for op in graph.ops:
        if isinstance(op, TemplateCall):
            ops.append(compose_views(graph, op, inlined))
            continue
        nest = _with_inlined(op, inlined, graph)
        ops.append(nest)
        for store in nest.stores:
            if writers[store.buffer] > 1 or not _eligible(nest, store):
                continue
            used = uses.get(store.buffer, Uses())
            verdict, reason = choice.verdict(nest, store, used)
            if verdict:
                origins = (*nest.absorbed, nest.origin)
                inlined[store.buffer] = Inlined(_bare_symbols(store), store.value, origins)
            if used.nests:
                word = "inlined" if verdict else "stored"
                decisions.append(Decision("inline", (store.buffer, *used.nests), word, reason))
    merged = replace(graph, ops=tuple(ops), decisions=(*graph.decisions, *decisions))
    return remove_dead_code(merged)


def free_values(nests: Iterable[LoopNest], graph: LoopGraph) -> dict[str, Inlined]:
    """What is a view, a position or a constant, seen through the others, by the buffer's name."""
    found: dict[str, Inlined] = {}
    for op in nests:
        nest = _with_inlined(op, found, graph)
        for store in nest.stores:
            if is_trivial(store.value) and _eligible(nest, store):
                origins = (*nest.absorbed, nest.origin)
                found[store.buffer] = Inlined(_bare_symbols(store), store.value, origins)
    return found


def _with_inlined(op: LoopNest, inlined: Mapping[str, Inlined], graph: LoopGraph) -> LoopNest:
    """The nest with the values of `inlined` in its body, conditions that ranges decide folded."""
    ranges = graph.ranges(*op.axes, *op.reduction)
    nest = simplify_indices(inline_into(op, inlined), ranges)
    return with_roots(nest, fold_conditions(nest.roots, ranges))


def buffer_uses(graph: LoopGraph, hints: Hints) -> dict[str, Uses]:
    """The users of every buffer."""
    found: dict[str, Uses] = {}
    for op in graph.ops:
        if isinstance(op, TemplateCall):
            for _, view in op.operands:
                old = found.get(view.buffer, Uses())
                found[view.buffer] = replace(old, templates=old.templates + 1)
            continue
        points = hints.volume((*op.axes, *op.reduction))
        for node in loads(op.roots):
            assert isinstance(node.attr, Access)
            old = found.get(node.attr.buffer, Uses())
            names = old.nests if op.name in old.nests else (*old.nests, op.name)
            # A guarded read is a piece of a concatenation or the inside of a padding.
            elements = hints.elements(graph.buffers[node.attr.buffer].shape)
            count = min(points, elements) if node.attr.masked else points
            found[node.attr.buffer] = Uses(
                names, old.evaluations + count, old.at_worst + points, old.templates
            )
    return found


def _writer_counts(graph: LoopGraph) -> dict[str, int]:
    counts: dict[str, int] = {}
    for op in graph.ops:
        for name in writes(op):
            counts[name] = counts.get(name, 0) + 1
    return counts


def _bare_symbols(store: Store) -> tuple[Symbol, ...]:
    return tuple(e for e in store.index)


def _eligible(nest: LoopNest, store: Store) -> bool:
    """A plain pointwise store of the whole buffer, indexed by the nest's own axes."""
    symbols = {a.symbol for a in nest.axes}
    return (
        not nest.reduction
        and store.mode == "set"
        and not store.binds
        and not store.base
        and len(store.index) == len(nest.axes)
        and set(store.index) == symbols
    )


@dataclass(frozen=True)
class _Choice:
    """Decides which producers are inlined.

    `from_template`: points of what template calls write, by buffer. `in_turn`: nests that are every
    so many elements of a buffer, for template calls.
    """

    graph: LoopGraph
    hints: Hints
    machine: Machine
    from_template: Mapping[str, int]
    in_turn: frozenset[str]

    def verdict(self, nest: LoopNest, store: Store, used: Uses) -> tuple[bool, str]:
        """Whether a producer is inlined into all nests that read it, and why."""
        graph, hints, machine = self.graph, self.hints, self.machine
        value = store.value
        nodes = postorder((value,))
        points = max(1, hints.volume(nest.axes))
        # The nest itself goes on computing the value for its other results.
        own = points if len(nest.stores) > 1 else 0
        repeats = (used.evaluations + own) / points
        bent = _bent_loads(nodes)
        if is_trivial(value) and (not bent or repeats <= _ONCE):
            return True, "a view or a constant costs nothing"
        if store.buffer in graph.results:
            return False, "it is a result of the model, so it is stored anyway"
        if used.templates:
            return False, "a template call reads it, so it is stored anyway"
        if len(nodes) > MAX_NODES:
            return False, f"its body has {len(nodes)} operations"
        if len(used.nests) > 1 and self.in_turn.issuperset(used.nests):
            return False, "a template call reads its elements in turn, so it is stored once"
        sources = {n.attr.buffer for n in nodes if isinstance(n.attr, Access)}
        if self._covers_template(nest, nodes, repeats) and not _same_space(graph, used, nest):
            return False, "it can be an epilogue of the template call that it reads"
        if is_dear((value,)) and used.at_worst > MAX_PIECES * points:
            return (
                False,
                "a transcendental function would be evaluated where its guard does not hold",
            )
        if repeats <= _ONCE:
            return True, "no element is evaluated twice"
        weight = body_weight((value,)) + machine.division_weight * (
            _divided_loads(nodes) + 2 * bent
        )
        if is_dear((value,)):
            return False, f"a transcendental function would be evaluated {repeats:.1f} times"
        big = sum(hints.elements(graph.buffers[b].shape) * 2 >= points for b in sources)
        limit = machine.cheap_weight if repeats <= machine.cheap_repeats else 1
        if weight > limit:
            return False, f"{weight} operations would be repeated {repeats:.1f} times"
        if big > 1:
            return False, f"its users would read {big} buffers in place of one"
        return True, f"repeating {weight} cheap operations beats storing it"

    def _covers_template(self, nest: LoopNest, nodes: Sequence[Node], repeats: float) -> bool:
        """Whether a nest has the points of a template call's result.

        What a mask moves (a shift by a padding) is no epilogue where only a part of it is read.
        """
        accesses = [n.attr for n in nodes if isinstance(n.attr, Access)]
        points = self.hints.volume(nest.axes)
        return any(
            self.from_template.get(a.buffer) == points and not (a.masked and repeats < 1)
            for a in accesses
        )


def _in_turn(graph: LoopGraph, uses: Mapping[str, Uses]) -> frozenset[str]:
    """Nests that are every so many elements of a buffer, which template calls alone read."""
    found = []
    for op in graph.ops:
        if isinstance(op, TemplateCall) or len(op.stores) != 1 or not _eligible(op, op.stores[0]):
            continue
        (store,) = op.stores
        used, load = uses.get(store.buffer, Uses()), store.value.attr
        if not isinstance(load, Access) or not used.templates or used.nests:
            continue
        steps = [affine_coefficients(e, [a.symbol for a in op.axes]) for e in load.index]
        if any(c and any(is_int(k) and int(k) > 1 for k in c[0]) for c in steps):
            found.append(op.name)
    return frozenset(found)


def _bent_loads(nodes: Sequence[Node]) -> int:
    """Loads with minima and maxima in their index, a comparison on either side: gathers."""
    accesses = [n.attr for n in nodes if isinstance(n.attr, Access)]
    return sum(any(e.has(Minimum, Maximum) for e in a.index) for a in accesses)


def _divided_loads(nodes: Sequence[Node]) -> int:
    accesses = [n.attr for n in nodes if isinstance(n.attr, Access)]
    return sum(any(e.has(FloorDiv, Modulo) for e in a.index) for a in accesses)


def _same_space(graph: LoopGraph, used: Uses, nest: LoopNest) -> bool:
    """True when the only user is pointwise over as many points."""
    if len(used.nests) != 1:
        return False
    user = next((op for op in graph.ops if op.name in used.nests), None)
    if not isinstance(user, LoopNest) or user.reduction:
        return False
    points = product([a.extent for a in nest.axes])
    return bool(product([a.extent for a in user.axes]) == points)


def is_trivial(value: Node) -> bool:
    """A constant, an index, or an element of a buffer at a direct index, perhaps cast."""
    if value.op == "cast" and value.args[0].op in ("load", "const", "index"):
        inner = value.args[0]
        return inner.op != "load" or not inner.args
    return value.op == "const" or (value.op in ("load", "index") and not value.args)


def inline_into(nest: LoopNest, inlined: Mapping[str, Inlined]) -> LoopNest:
    """The nest with every load of an inlined buffer replaced by the producer's value."""
    if not inlined:
        return nest
    counter = 0
    absorbed: dict[Origin, None] = {}

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        nonlocal counter
        fresh = with_args(node, args)
        if fresh.op == "where":
            return _fold_where(fresh)
        attr = fresh.attr
        if not isinstance(attr, Access) or attr.buffer not in inlined:
            return fresh
        counter += 1
        body = inlined[attr.buffer]
        absorbed.update(dict.fromkeys(body.origins))
        return inline_load(fresh, body.symbols, body.value, counter)

    made = with_roots(nest, rebuild(nest.roots, visit))
    return replace(made, absorbed=(*made.absorbed, *absorbed)) if absorbed else made


def inline_load(node: Node, symbols: tuple[Symbol, ...], value: Node, serial: int = 0) -> Node:
    """The producer's `value`, a function of `symbols`, at the index of the load `node`.

    `serial` makes the names of indirect symbols unique within the consumer.
    """
    attr = node.attr
    assert isinstance(attr, Access)
    renaming, binds = fresh_binds(node, f"q{serial}")
    mapping: dict[Symbol, Expr] = {
        s: substitute(e, renaming) for s, e in zip(symbols, attr.index, strict=True)
    }
    (moved,) = substitute_index((value,), mapping, binds)
    mask = mask_of(node)
    # The indices of a load are values of the consumer, which it has in any case.
    return moved if mask is None else guarded(moved, mask, frozenset(binds.values()))


def _fold_where(node: Node) -> Node:
    """where(c, where(c, a, _), b) is where(c, a, b); the same for the other branch."""
    condition, a, b = node.args
    if a.op == "where" and a.args[0] is condition:
        a = a.args[1]
    if b.op == "where" and b.args[0] is condition:
        b = b.args[2]
    if condition.op == "const":
        return a if condition.attr is True else b
    return where(condition, a, b)
