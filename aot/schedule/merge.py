"""Loop merging (coalescing): two loops that every access walks with one even stride become one."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.nests import Axis, LoopNest
from aot.ir.rewrite import substitute_axes
from aot.ir.scalar import postorder
from aot.schedule.groups import Group
from aot.schedule.scheduler import Scheduler
from aot.schedule.strides import StridedAccess, adjacent, symbols_as_values
from aot.symbolic import Expr, FloorDiv, Modulo, Symbol, product, var


def merge_outer(scheduler: Scheduler, group: Group) -> Group:
    """The group with mergeable neighbours among its outer axes merged."""
    if group.template is not None or not group.nests:
        return group
    merged = merge_axes(scheduler, group.nests, group.outer)
    return group if merged is None else Group(group.position, merged[1], merged[0])


def merge_axes(
    scheduler: Scheduler, nests: tuple[LoopNest, ...], axes: Sequence[Axis]
) -> tuple[tuple[LoopNest, ...], tuple[Axis, ...]] | None:
    """Merges neighbours among `axes` (of every nest) while possible; None when nothing merges.

    Axes whose values a body computes with stay apart. Returns the nests and the remaining axes,
    ordered so that the outermost moves farthest.
    """
    fixed = frozenset[Symbol]().union(*(_fixed(n) for n in nests))
    moves = [m for n in nests for m in scheduler.moves(n)]
    left = list(axes)
    changed = False
    while True:
        pair = _mergeable(left, moves, fixed)
        if pair is None:
            break
        a, b = pair
        nests = tuple(_merge(n, a, b) for n in nests)
        whole = merged_axis(a, b)
        left = [whole if x == a else x for x in left if x != b]
        moves = [m for n in nests for m in scheduler.moves(n)]
        changed = True
    return (nests, tuple(left)) if changed else None


def _fixed(nest: LoopNest) -> frozenset[Symbol]:
    """Symbols that must stay: used as values, or whose order an arg-reduction counts in."""
    values = symbols_as_values(nest.roots)
    nodes = postorder(nest.roots)
    if any(n.op == "reduce" and n.attr in ("argmin", "argmax") for n in nodes):
        return values.union(a.symbol for a in nest.reduction)
    return values


def _mergeable(
    axes: Sequence[Axis], moves: Sequence[StridedAccess], fixed: frozenset[Symbol]
) -> tuple[Axis, Axis] | None:
    for a in axes:
        for b in axes:
            free = a.symbol not in fixed and b.symbol not in fixed
            if a != b and free and adjacent(moves, a, b):
                return a, b
    return None


def merged_axis(a: Axis, b: Axis) -> Axis:
    """The loop over all points of `a` (outer) and `b` (inner)."""
    return Axis(var(f"{a.symbol}_{b.symbol}"), product((a.extent, b.extent)))


def _merge(nest: LoopNest, a: Axis, b: Axis) -> LoopNest:
    if a not in nest.axes and a not in nest.reduction:
        return nest
    whole = merged_axis(a, b)
    mapping: dict[Symbol, Expr] = {
        a.symbol: FloorDiv(whole.symbol, b.extent),
        b.symbol: Modulo(whole.symbol, b.extent),
    }

    def shrink(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(whole if x == a else x for x in axes if x != b)

    return substitute_axes(nest, mapping, shrink(nest.axes), shrink(nest.reduction))
