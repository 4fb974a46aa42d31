"""Neighbours of two pieces: what is stored two elements apart, twice, is stored side by side.

A stack along the last dimension, both parts of complex numbers, the phases of an upsampled line:
the loop over two neighbours is cut, since each has another value, and either piece then stores
every other element. As one stage both have their vectors at the same point, and these are stored
lane by lane in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aot.ir.loops import LoopGraph, reads
from aot.ir.nests import Axis, LoopNest, Store
from aot.ir.rewrite import substitute_axes
from aot.schedule.canonical import simplify
from aot.schedule.groups import Group
from aot.schedule.scheduler import Scheduler
from aot.schedule.stages import StageDraft, drop_unread, form_stages
from aot.schedule.strides import buffer_offset
from aot.symbolic import Expr, coefficient_of, integer, is_int


def join_pairs(
    scheduler: Scheduler, group: Group, drafts: tuple[StageDraft, ...], needed: frozenset[str]
) -> tuple[StageDraft, ...]:
    """The stages with pieces that store pairs as one, in which values pass where they can."""
    joined: list[StageDraft] = []
    changed = False
    for draft in drafts:
        whole = _joined(scheduler, joined[-1], draft) if joined else None
        if whole is None:
            joined.append(draft)
        else:
            joined[-1] = whole
            changed = True
    if not changed:
        return drafts
    nests = tuple(nest for draft in joined for nest in draft.nests)
    return drop_unread(form_stages(scheduler.graph, replace(group, nests=nests)), needed)


def _joined(scheduler: Scheduler, first: StageDraft, second: StageDraft) -> StageDraft | None:
    """Both stages as one; None where they are no pieces that store pairs."""
    if first.reduction or second.reduction or len(first.inner) != len(second.inner):
        return None
    others = [(a, b) for a, b in zip(first.inner, second.inner, strict=True) if a != b]
    if len(others) != 1 or any(not is_int(axis.extent, 1) for axis in others[0]):
        return None
    if len(first.nests) != 1 or len(second.nests) != 1:
        return None
    graph = scheduler.graph
    nests = tuple(_without_units(graph, draft) for draft in (first, second))
    inner = tuple(a for a in first.inner if not is_int(a.extent, 1))
    stores = [_only_store(nest) for nest in nests]
    if stores[0] is None or stores[1] is None or stores[0].buffer != stores[1].buffer:
        return None
    if any(stores[0].buffer in reads(nest) for nest in nests):
        return None
    known = graph.ranges(*nests[0].axes)
    low, high = (
        buffer_offset(graph.buffers, s.buffer, s.index, known) for s in stores if s is not None
    )
    if (high - low).expand() != integer(1) or not _along(scheduler, inner, low):
        return None
    return StageDraft(inner, (), nests)


def _along(scheduler: Scheduler, inner: Sequence[Axis], offset: Expr) -> bool:
    """Whether a loop of a quarter of a vector or more steps over both neighbours."""
    least = scheduler.machine.lanes // 4
    apart = (a for a in inner if coefficient_of(offset, a.symbol) == 2)
    return any(is_int(a.extent) and int(a.extent) >= least for a in apart)


def _only_store(nest: LoopNest) -> Store | None:
    if len(nest.stores) != 1 or nest.conflicts or nest.reduction:
        return None
    (store,) = nest.stores
    return None if store.mode != "set" or store.binds or store.base else store


def _without_units(graph: LoopGraph, draft: StageDraft) -> LoopNest:
    """A stage's nest without its loops of one turn."""
    (nest,) = draft.nests
    units = {a.symbol for a in draft.inner if is_int(a.extent, 1)}
    axes = tuple(a for a in nest.axes if a.symbol not in units)
    moved = substitute_axes(nest, {s: integer(0) for s in units}, axes, nest.reduction)
    return simplify(graph, moved)
