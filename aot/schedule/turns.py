"""Places where an index turns: it wraps round, or goes over to the other side of an extremum.

Rolls, and padding by what is inside, read along lines that are straight but for these few places:
`(i + 125) % 128`, `max(i - 3, 3 - i)`. Between them neighbours lie side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise

from aot.ir.nests import Axis
from aot.ir.scalar import Access, Node, postorder
from aot.symbolic import (
    Expr,
    Maximum,
    Minimum,
    Modulo,
    coefficient_of,
    extrema,
    integer,
    remainders,
    substitute,
)

MOST_TURNS = 4
"""Of an index along one loop; more make lines too short to matter."""


def turns(indices: Iterable[Expr], axis: Axis) -> list[int]:
    """Where along the axis one of the indices turns, inside of its range.

    Empty for an axis of dynamic extent, and where no part is half of the whole.
    """
    if not axis.extent.is_Integer:
        return []
    found: set[int] = set()
    for index in indices:
        if axis.symbol not in index.free_symbols:
            continue
        for part in remainders(index):
            found.update(_wraps(part, axis))
        for part in extrema(index):
            found.update(_crossings(part, axis))
    places = sorted(place for place in found if 0 < place < int(axis.extent))
    if not places or len(places) > MOST_TURNS:
        return []
    begin, end = longest_part(places, axis)
    return places if 2 * (end - begin) >= int(axis.extent) else []


def longest_part(places: Sequence[int], axis: Axis) -> tuple[int, int]:
    """[begin, end) of the longest part of the axis between neighbouring places."""
    parts = pairwise((0, *places, int(axis.extent)))
    return max(parts, key=lambda part: part[1] - part[0])


def can_turn(index: Expr) -> bool:
    """Whether an index has what may turn."""
    return bool(index.has(Modulo, Minimum, Maximum))


def read_indices(roots: Iterable[Node]) -> tuple[Expr, ...]:
    """The indices of all that is read that can turn at all."""
    exprs = (e for n in postorder(roots) if isinstance(n.attr, Access) for e in n.attr.index)
    return tuple(dict.fromkeys(e for e in exprs if can_turn(e)))


def straightened(
    indices: Sequence[Expr], axes: Iterable[Axis]
) -> tuple[tuple[Expr, ...], tuple[Axis, ...]]:
    """The indices along the longest straight part of each loop, and the loops that get shorter."""
    shorter: list[Axis] = []
    for axis in axes:
        places = turns(indices, axis)
        if places:
            begin, end = longest_part(places, axis)
            mapping = {axis.symbol: axis.symbol + begin}
            indices = [substitute(index, mapping) for index in indices]
            shorter.append(Axis(axis.symbol, integer(end - begin)))
    return tuple(indices), tuple(shorter)


def _wraps(part: Expr, axis: Axis) -> range:
    """Where the quotient of a remainder changes."""
    dividend, divisor = part.args
    slope = coefficient_of(dividend, axis.symbol)
    if slope not in (1, -1) or not divisor.is_Integer:
        return range(0)
    rest = (dividend - slope * axis.symbol).expand()
    if not rest.is_Integer:
        return range(0)
    period = int(divisor)
    # axis + rest is a multiple there; rest - axis was one just before.
    first = -int(rest) if slope == 1 else int(rest) + 1
    places = range(first % period or period, int(axis.extent), period)
    return places if len(places) <= MOST_TURNS else range(0)


def _crossings(part: Expr, axis: Axis) -> Iterable[int]:
    """Where two of what an extremum chooses from change their order."""
    for a, b in combinations(_choices(part), 2):
        difference = (a - b).expand()
        slope = coefficient_of(difference, axis.symbol)
        if slope is None or not slope.is_Integer or slope == 0:
            continue
        rest = (difference - slope * axis.symbol).expand()
        if rest.is_Integer:
            # The first point at which both are equal, or the greater one is another.
            yield -(int(rest) // int(slope)) if slope > 0 else -(-int(rest) // -int(slope))


def _choices(part: Expr) -> list[Expr]:
    if not isinstance(part, (Minimum, Maximum)):
        return [part]
    return [choice for arg in part.args for choice in _choices(arg)]
