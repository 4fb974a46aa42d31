"""Index-set splitting: a loop is cut into pieces where a condition on its variable changes.

A concatenation or padding chooses by comparing a loop variable with constants. Cut at those
constants, every piece of the loop runs without conditions and with unmasked vectors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from aot.ir.conditions import changes, fold_conditions
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import Axis, LoopNest
from aot.ir.rewrite import substitute_axes, with_roots
from aot.ir.scalar import postorder
from aot.schedule.canonical import simplify
from aot.schedule.scheduler import Scheduler
from aot.schedule.stages import StageDraft
from aot.symbolic import Expr, Symbol, coefficient_of, integer, product, var

MAX_PIECES = 8
"""Conditions up to which a loop may stay whole; more take longer than any pieces."""

MAX_BLOCKS = 256
"""Pieces of one loop; each is code of its own."""


def split_index_sets(
    scheduler: Scheduler, stages: tuple[StageDraft, ...], whole: Axis | None
) -> tuple[StageDraft, ...]:
    """The stages with their loops in pieces. `whole`: an axis that must stay in one."""
    result: list[StageDraft] = []
    for stage in stages:
        result.extend(_cut(scheduler, stage, whole))
    return tuple(result)


def _cut(scheduler: Scheduler, stage: StageDraft, whole: Axis | None) -> tuple[StageDraft, ...]:
    if stage.reduction:
        return (stage,)
    for axis in stage.inner:
        places = [0, *split_points(stage.nests, axis), *_end(axis)]
        if axis != whole and _worth_cutting(scheduler.machine, stage, axis, len(places) - 1):
            ends = pairwise(places)
            return tuple(_piece(scheduler.graph, stage, axis, *between) for between in ends)
    return (stage,)


def _end(axis: Axis) -> tuple[int, ...]:
    return (int(axis.extent),) if axis.extent.is_Integer else ()


def _worth_cutting(machine: Machine, stage: StageDraft, axis: Axis, count: int) -> bool:
    """Few pieces should be whole vectors on average, or work units of their own."""
    if count < 2 or not axis.extent.is_Integer:
        return False
    if count > MAX_PIECES:
        return count <= MAX_BLOCKS
    if int(axis.extent) >= machine.lanes * count:
        return True
    others = product([a.extent for a in stage.inner if a != axis])
    around = others.is_Integer and int(others) * int(axis.extent) >= machine.small_unit * count
    return bool(around)


def split_points(nests: Iterable[LoopNest], axis: Axis) -> list[int]:
    """Where a condition of the nests changes along the axis, inside of its range.

    Empty for an axis of dynamic extent.
    """
    found: set[int] = set()
    if not axis.extent.is_Integer:
        return []
    for node in postorder([r for n in nests for r in n.roots]):
        found.update(place for expr in changes(node) if (place := _change(expr, axis)) is not None)
    return sorted(place for place in found if 0 < place < int(axis.extent))


def _change(expr: Expr, axis: Axis) -> int | None:
    """Where along the axis an expression changes between negative and not; None: not known."""
    slope = coefficient_of(expr, axis.symbol)
    if slope is None or slope not in (1, -1):
        return None
    rest = (expr - slope * axis.symbol).expand()
    if not rest.is_Integer:
        return None
    # axis + rest >= 0 begins at -rest; rest - axis >= 0 ends after rest.
    return -int(rest) if slope == 1 else int(rest) + 1


def _piece(graph: LoopGraph, stage: StageDraft, axis: Axis, begin: int, end: int) -> StageDraft:
    # Another stage may cut an axis of this name elsewhere: one symbol has one extent in a kernel.
    part = Axis(var(f"{axis.symbol}_from{begin}_to{end}"), integer(end - begin))
    mapping: dict[Symbol, Expr] = {axis.symbol: part.symbol + begin}

    def swap(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(part if a == axis else a for a in axes)

    def cut(nest: LoopNest) -> LoopNest:
        moved = substitute_axes(nest, mapping, swap(nest.axes), ())
        ranges = graph.ranges(*moved.axes)
        folded = with_roots(moved, fold_conditions(moved.roots, ranges))
        return simplify(graph, folded)

    return replace(stage, inner=swap(stage.inner), nests=tuple(cut(n) for n in stage.nests))
