"""Matching of iteration spaces: which axes of two groups run over the same elements.

The producer's store is inverted: for a consumer's load, the coordinates of the producer's loops at
the element that it reads, as expressions over the consumer's loops. An axis pair may be shared by
both when, for every load, that coordinate is exactly the consumer's loop variable.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis
from aot.ir.scalar import Access, loads
from aot.ir.templates.base import TemplateCall
from aot.schedule.groups import Group, rename_group, split_in_group, with_outer
from aot.symbolic import (
    Expr,
    FloorDiv,
    Modulo,
    Symbol,
    affine_coefficients,
    coefficient_of,
    exact_quotient,
    product,
    remainders,
    replace_parts,
    substitute,
    var,
)

MAX_REFINEMENTS = 6

IndexTerm = tuple[str, int, Expr]
"""A buffer, one of its dimensions, and a loop variable's coefficient in the index there."""


@dataclass(frozen=True)
class Matched:
    """Two groups rewritten onto common outer axes (equal `outer`)."""

    first: Group
    second: Group


@dataclass(frozen=True)
class Dependence:
    """A flow dependence: one load of the second group from a buffer that the first group writes.

    `coordinates`: producer loop variable -> its value at the element read, over consumer loops.
    """

    buffer: str
    consumer: str
    coordinates: dict[Symbol, Expr]


def dependences(graph: LoopGraph, first: Group, second: Group) -> list[Dependence] | None:
    """Every dependence of the second group on the first; None when a store cannot be inverted."""
    found: list[Dependence] = []
    stores = _stores(first)
    for nest in second.nests:
        ranges = graph.ranges(*nest.axes, *nest.reduction)
        seen: set[tuple[str, tuple[Expr, ...]]] = set()
        for node in loads(nest.roots):
            access = node.attr
            assert isinstance(access, Access)
            key = (access.buffer, access.index)
            if access.buffer not in stores or key in seen:
                continue
            seen.add(key)
            axes, index = stores[access.buffer]
            inverse = invert(axes, index, access.index)
            if inverse is None:
                return None
            solved = {s: ranges.simplify(e) for s, e in inverse.items()}
            found.append(Dependence(access.buffer, nest.name, solved))
    return found


def _stores(group: Group) -> dict[str, tuple[tuple[Axis, ...], tuple[Expr, ...]]]:
    found: dict[str, tuple[tuple[Axis, ...], tuple[Expr, ...]]] = {}
    if isinstance(group.template, TemplateCall):
        view = group.template.output
        found[view.buffer] = (view.axes, view.index)
    for nest in group.nests:
        for store in nest.stores:
            found[store.buffer] = (nest.axes, store.index)
    return found


def invert(
    axes: tuple[Axis, ...], index: tuple[Expr, ...], element: tuple[Expr, ...]
) -> dict[Symbol, Expr] | None:
    """The loop variables at which the store index `index` is `element`; None when not invertible.

    An index is invertible where each dimension is a loop variable or a mixed-radix number of some.
    """
    solved: dict[Symbol, Expr] = {}
    extents = {a.symbol: a.extent for a in axes}
    for expr, wanted in zip(index, element, strict=True):
        if expr.is_Integer:
            continue
        if expr.is_Symbol and expr in extents:
            solved[expr] = wanted
            continue
        digits = mixed_radix(expr, extents)
        if digits is None:
            return None
        for symbol, weight in digits:
            quotient = FloorDiv(wanted, weight) if weight != 1 else wanted
            first = digits[0][0] == symbol
            solved[symbol] = quotient if first else Modulo(quotient, extents[symbol])
    return solved if len(solved) == len(axes) else None


def invert_turned(
    axes: tuple[Axis, ...], index: tuple[Expr, ...], element: tuple[Expr, ...]
) -> dict[Symbol, Expr] | None:
    """As `invert`, of an index with remainders and quotients of shifted loop variables.

    (i + s) % t tells i if i counts to t, else together with (i + s) // t; and what depends on known
    variables alone may be added to one. A variable may be told to be outside of its loop: then no
    point of the loops has the element.
    """
    extents = {a.symbol: a.extent for a in axes}
    solved: dict[Symbol, Expr] = {}
    left: dict[tuple[Symbol, Expr, Expr], Expr] = {}
    rest: list[tuple[Expr, Expr]] = []
    for expr, wanted in zip(index, element, strict=True):
        found = None if expr.has(FloorDiv) else _digits_told(expr, wanted, extents)
        if found is None:
            rest.append((expr, wanted))
            continue
        solved.update(found[0])
        left.update(found[1])
    for expr, wanted in rest:
        unknown = [s for s in expr.free_symbols if s in extents and s not in solved]
        if len(unknown) != 1:
            return None
        told = _told(expr, wanted, unknown[0], left)
        if told is None:
            return None
        solved[unknown[0]] = substitute(told, solved)
    return solved if len(solved) == len(axes) else None


_Left = dict[tuple[Symbol, Expr, Expr], Expr]
"""(variable, shift, divisor) -> what is left of the shifted variable."""


def _digits_told(
    expr: Expr, wanted: Expr, extents: dict[Symbol, Expr]
) -> tuple[dict[Symbol, Expr], _Left] | None:
    """The variables, and the remainders, that are digits of a number; None of other expressions."""
    turned: dict[Symbol, tuple[Symbol, Expr, Expr]] = {}
    for number, remainder in enumerate(sorted(remainders(expr), key=str)):
        inside, size = remainder.args
        symbols = [s for s in inside.free_symbols if s in extents]
        if len(symbols) != 1 or not (inside - symbols[0]).is_Integer:
            return None
        name = var(f"turned{number}")
        turned[name] = (symbols[0], inside - symbols[0], size)
        expr = replace_parts(expr, {remainder: name})
    known = {**extents, **{name: size for name, (_, _, size) in turned.items()}}
    inner = tuple(Axis(s, known[s]) for s in expr.free_symbols if s in known)
    found = invert(inner, (expr,), (wanted,))
    if found is None:
        return None
    left: _Left = {}
    for name, (symbol, shift, size) in turned.items():
        if extents[symbol] == size:
            found[symbol] = Modulo(found.pop(name) - shift, size)
        else:
            left[symbol, shift, size] = found.pop(name)
    return found, left


def _told(expr: Expr, wanted: Expr, symbol: Symbol, left: _Left) -> Expr | None:
    """The variable at which an expression is `wanted`; None where it does not tell."""
    if isinstance(expr, FloorDiv):
        inside, size = expr.args
        remainder = left.get((symbol, inside - symbol, size))
        told = None if remainder is None else wanted * size + remainder - (inside - symbol)
        return told
    return None if (expr - symbol).has(symbol) else wanted - (expr - symbol)


def mixed_radix(expr: Expr, extents: dict[Symbol, Expr]) -> tuple[tuple[Symbol, Expr], ...] | None:
    """(symbol, weight) per digit, highest first, when `expr` numbers the points of axes densely.

    sum(weight * symbol) with each weight the product of the extents of the lower digits.
    """
    symbols = [s for s in extents if s in expr.free_symbols]
    solved = affine_coefficients(expr, symbols)
    if not symbols or solved is None or solved[1] != 0:
        return None
    weights = dict(zip(symbols, solved[0], strict=True))
    digits: list[tuple[Symbol, Expr]] = []
    running: Expr = weights[symbols[0]] * 0 + 1
    left = list(symbols)
    while left:
        found = next((s for s in left if weights[s] == running), None)
        if found is None:
            return None
        digits.append((found, running))
        running = product((running, extents[found]))
        left.remove(found)
    return tuple(reversed(digits))


def match(graph: LoopGraph, first: Group, second: Group) -> Matched | str:
    """The groups on their greatest set of common outer axes; a reason when there is none.

    Without a dependence between them, axes are paired by the buffers that both read.
    """
    for _ in range(MAX_REFINEMENTS):
        found = dependences(graph, first, second)
        if found is None:
            return "a store of the producer cannot be inverted"
        refined = _refine(first, second, found)
        if refined is None:
            break
        first, second = refined
    if found:
        return _apply(first, second, _dependence_pairs(first, second, found))
    first, second = _refine_shared(first, second)
    return _apply(first, second, _shared_read_pairs(first, second))


def _apply(first: Group, second: Group, pairs: dict[Symbol, Symbol]) -> Matched:
    """On these pairs of axes, by the names of the group that has more nests.

    What was found of a nest is found of its name for loops alone: so most of it is kept.
    """
    outer = tuple(a for a in first.outer if a.symbol in pairs)
    if len(second.nests) > len(first.nests):
        first = rename_group(first, {a.symbol: pairs[a.symbol] for a in outer})
        outer = tuple(Axis(pairs[a.symbol], a.extent) for a in outer)
    else:
        second = rename_group(second, {pairs[a.symbol]: a.symbol for a in outer})
    return Matched(with_outer(first, outer), with_outer(second, outer))


def _dependence_pairs(first: Group, second: Group, found: list[Dependence]) -> dict[Symbol, Symbol]:
    """Outer axes of the first group -> those of the second that run over the same elements."""
    extents = {a.symbol: a.extent for a in second.outer}
    pairs: dict[Symbol, Symbol] = {}
    for axis in first.outer:
        values = {f.coordinates[axis.symbol] for f in found}
        if len(values) != 1:
            continue
        (value,) = values
        if value in extents and extents[value] == axis.extent and value not in pairs.values():
            pairs[axis.symbol] = value
    return pairs


def _refine(first: Group, second: Group, found: list[Dependence]) -> tuple[Group, Group] | None:
    """Splits one axis so that more coordinates become plain loop variables; None if none does."""
    for flow in found:
        nest = next(n for n in second.nests if n.name == flow.consumer)
        extents = {a.symbol: a.extent for a in (*nest.axes, *nest.reduction)}
        for axis in first.outer:
            value = flow.coordinates[axis.symbol]
            if value.is_Symbol or value.is_Integer:
                continue
            digits = mixed_radix(value, extents)
            if digits is not None and first.template is None:
                sizes = tuple(extents[s] for s, _ in digits)
                if product(sizes) == axis.extent:
                    return split_in_group(first, axis, sizes), second
            divided = _divided_symbol(value, extents)
            if divided is not None and second.template is None:
                symbol, divisor = divided
                quotient = exact_quotient(extents[symbol], divisor)
                if quotient is not None and divisor != extents[symbol]:
                    target = Axis(symbol, extents[symbol])
                    return first, split_in_group(second, target, (quotient, divisor))
    return None


def _divided_symbol(expr: Expr, extents: dict[Symbol, Expr]) -> tuple[Symbol, Expr] | None:
    """(s, d) when `expr` is s // d or s % d, perhaps inside another remainder."""
    if isinstance(expr, Modulo) and not expr.args[0].is_Symbol:
        expr = expr.args[0]
    if isinstance(expr, (FloorDiv, Modulo)) and expr.args[0] in extents:
        return expr.args[0], expr.args[1]
    return None


def _shared_read_pairs(first: Group, second: Group) -> dict[Symbol, Symbol]:
    """Pairs outer axes that index the same dimensions of buffers read by both, consistently."""
    ours, theirs = _outer_positions(first), _outer_positions(second)
    votes: dict[tuple[Symbol, Symbol], int] = {}
    for key, symbols in ours.items():
        for a in symbols:
            for b in theirs.get(key, ()):
                votes[a, b] = votes.get((a, b), 0) + 1
    extent_a = {x.symbol: x.extent for x in first.outer}
    extent_b = {x.symbol: x.extent for x in second.outer}
    pairs: dict[Symbol, Symbol] = {}
    for (a, b), _ in sorted(votes.items(), key=lambda v: (-v[1], str(v[0]))):
        if a not in pairs and b not in pairs.values() and extent_a[a] == extent_b[b]:
            pairs[a] = b
    if not pairs and not ours:
        return _same_shape_pairs(first, second)
    return pairs


def _same_shape_pairs(first: Group, second: Group) -> dict[Symbol, Symbol]:
    """The outer axes in order, for groups that read nothing in common; none for other shapes."""
    if [a.extent for a in first.outer] != [a.extent for a in second.outer]:
        return {}
    return {a.symbol: b.symbol for a, b in zip(first.outer, second.outer, strict=True)}


def _outer_positions(group: Group) -> dict[IndexTerm, set[Symbol]]:
    """Where outer axes index buffers: by themselves, or as a digit of the index."""
    found: dict[IndexTerm, set[Symbol]] = {}
    for place, expr in _read_indices(group):
        for axis in group.outer:
            weight = coefficient_of(expr, axis.symbol)
            if weight is not None and weight != 0:
                found.setdefault((*place, weight), set()).add(axis.symbol)
    return found


def _read_indices(group: Group) -> list[tuple[tuple[str, int], Expr]]:
    accesses = [n.attr for nest in group.nests for n in loads(nest.roots)]
    return [
        ((a.buffer, k), expr)
        for a in accesses
        if isinstance(a, Access)
        for k, expr in enumerate(a.index)
        if not expr.is_Integer
    ]


def _refine_shared(first: Group, second: Group) -> tuple[Group, Group]:
    """Splits an outer axis of one group where the other reads the same dimension in blocks."""
    second = _split_like(second, first)
    return _split_like(first, second), second


def _split_like(group: Group, model: Group) -> Group:
    """`group` with an outer axis split as `model` splits that dimension of a buffer both read."""
    by_symbol = {a.symbol: a for a in group.outer}
    plain = {place: by_symbol[e] for place, e in _read_indices(group) if e in by_symbol}
    extents = {a.symbol: a.extent for n in model.nests for a in (*n.axes, *n.reduction)}
    outer = {a.symbol for a in model.outer}
    for place, expr in _read_indices(model):
        axis = plain.get(place)
        digits = mixed_radix(expr, extents) if axis is not None else None
        if axis is None or digits is None or len(digits) < 2 or digits[0][0] not in outer:
            continue
        sizes = tuple(extents[s] for s, _ in digits)
        if product(sizes) == axis.extent:
            return split_in_group(group, axis, sizes)
    return group
