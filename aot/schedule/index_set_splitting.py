"""Index-set splitting: a loop is cut into pieces where a condition on its variable changes.

A concatenation or padding chooses by comparing a loop variable with constants. Cut at those
constants, every piece of the loop runs without conditions and with unmasked vectors. A roll reads
along lines that turn (`turns`): cut there, it loads neighbours together, where the machine would
have to gather them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from aot.ir.conditions import changes, fold_conditions
from aot.ir.loops import LoopGraph, reads, writes
from aot.ir.machine import Machine
from aot.ir.nests import Axis, LoopNest
from aot.ir.rewrite import substitute_axes, with_roots
from aot.ir.scalar import postorder
from aot.schedule.canonical import simplify
from aot.schedule.scheduler import Scheduler
from aot.schedule.stages import StageDraft
from aot.schedule.turns import read_indices, turns
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
    """A loop in pieces where conditions change, and what is left in each; then `_turned`."""
    machine, graph = scheduler.machine, scheduler.graph
    if stage.reduction:
        return (stage,)
    for axis in stage.inner:
        places = split_points(machine, stage.nests, axis)
        if axis != whole and _worth_cutting(machine, stage, axis, len(places) + 1):
            pieces = _pieces(graph, stage, axis, places)
            if len(pieces) > MAX_PIECES or _has_masks(scheduler, stage):
                return _turned(scheduler, pieces, whole)
            return tuple(found for piece in pieces for found in _cut(scheduler, piece, whole))
    return _turned(scheduler, (stage,), whole)


def _has_masks(scheduler: Scheduler, stage: StageDraft) -> bool:
    """Whether its elements are as wide as the lanes of masks.

    Others have these converted, narrow ones no masked moves below AVX-512. With them a row in one
    loop takes less than its pieces in three.
    """
    names = {n for nest in stage.nests for n in (*reads(nest), *writes(nest))}
    buffers, lane = scheduler.graph.buffers, scheduler.machine.mask_bytes
    return all(buffers[name].dtype.itemsize == lane for name in names)


def _turned(
    scheduler: Scheduler, stages: tuple[StageDraft, ...], whole: Axis | None
) -> tuple[StageDraft, ...]:
    """The stages, their loops in pieces where indices turn."""
    if scheduler.machine.gathers:
        return stages
    result: list[StageDraft] = []
    for stage in stages:
        indices = _indices(stage.nests)
        bent = ((a, turns(indices, a)) for a in stage.inner if a != whole)
        axis, places = next(((a, p) for a, p in bent if p), (None, []))
        if axis is None or not _worth_cutting(scheduler.machine, stage, axis, len(places) + 1):
            result.append(stage)
        else:
            result += _turned(scheduler, _pieces(scheduler.graph, stage, axis, places), whole)
    return tuple(result)


def _pieces(
    graph: LoopGraph, stage: StageDraft, axis: Axis, places: Sequence[int]
) -> tuple[StageDraft, ...]:
    ends = pairwise((0, *places, int(axis.extent)))
    return tuple(_piece(graph, stage, axis, *between) for between in ends)


def _indices(nests: Iterable[LoopNest]) -> tuple[Expr, ...]:
    return read_indices([root for nest in nests for root in nest.roots])


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


def split_points(machine: Machine, nests: Iterable[LoopNest], axis: Axis) -> list[int]:
    """Where a condition of the nests or an index changes along the axis, inside of its range.

    Empty for an axis of dynamic extent.
    """
    if not axis.extent.is_Integer:
        return []
    roots = [r for n in nests for r in n.roots]
    found = set() if machine.gathers else set(turns(_indices(nests), axis))
    for node in postorder(roots):
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
