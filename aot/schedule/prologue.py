"""Prologues: pointwise nests that a template call evaluates where it would load its operand."""

from __future__ import annotations

from dataclasses import replace

from aot.ir.loops import LoopGraph, reads
from aot.ir.nests import LoopNest, View
from aot.ir.rewrite import substitute_axes
from aot.schedule.groups import Group
from aot.schedule.matching import invert
from aot.schedule.tile_kernels import with_producers_recomputed


def attach_prologue(graph: LoopGraph, producer: Group, group: Group) -> Group | str:
    """The template's group with the producer's nests as a prologue, or why that cannot be.

    Nothing else may read what the producer writes; whatever the operand reads of it is computed in
    one nest, rewritten onto the axes of the operand's view.
    """
    call = group.template
    assert call is not None
    if producer.template is not None or any(n.reduction for n in producer.nests):
        return "a template's operand is computed point by point, or not in its kernel"
    if any(s.binds or s.mode != "set" for n in producer.nests for s in n.stores):
        return "the producer scatters"
    views = [v for _, v in call.operands if v.buffer in producer.writes]
    if len(views) != 1 or group.prologue or set(producer.writes) & _epilogue_reads(group):
        return "several operands are computed"
    (view,) = views
    found = _onto_view(graph, with_producers_recomputed(graph, producer.nests), view)
    if found is None:
        return f"{call.name} does not read {view.buffer} point by point"
    position = min(producer.position, group.position)
    return replace(group, prologue=(found,), position=position)


def _epilogue_reads(group: Group) -> set[str]:
    return {b for n in group.nests for b in reads(n)}


def _onto_view(graph: LoopGraph, nests: tuple[LoopNest, ...], view: View) -> LoopNest | None:
    """The nest that stores the view's buffer, over the axes of the view; it stores nothing else."""
    for nest in nests:
        store = next((s for s in nest.stores if s.buffer == view.buffer), None)
        if store is None:
            continue
        solved = invert(nest.axes, store.index, view.index)
        if solved is None:
            return None
        ranges = graph.ranges(*view.axes)
        mapping = {s: ranges.simplify(e) for s, e in solved.items()}
        moved = substitute_axes(replace(nest, stores=(store,)), mapping, view.axes, ())
        (only,) = moved.stores
        return replace(moved, stores=(replace(only, index=view.index),))
    return None
