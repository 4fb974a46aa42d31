"""Stages: the nests of a group share inner loops where dependencies allow it (loop fusion).

Each nest joins the earliest stage that has its domain and whose stores it reads, if at all, at the
very point where they were made; such values are substituted for the loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis, LoopNest, Store
from aot.ir.rewrite import with_roots
from aot.ir.scalar import (
    Access,
    Node,
    bind_map,
    guarded,
    loads,
    mask_of,
    rebuild,
    with_args,
)
from aot.schedule.groups import Group, rename
from aot.symbolic import Symbol


@dataclass(frozen=True)
class StageDraft:
    """A stage before its loops are ordered: see kernels.Stage for the meaning of the parts."""

    inner: tuple[Axis, ...]
    reduction: tuple[Axis, ...]
    nests: tuple[LoopNest, ...]

    @property
    def domain(self) -> tuple[Axis, ...]:
        """All loops of the stage."""
        return (*self.inner, *self.reduction)


def form_stages(graph: LoopGraph, group: Group) -> tuple[StageDraft, ...]:
    """Distributes the group's nests over stages, in an order that respects their dependencies."""
    stages: list[StageDraft] = []
    home: dict[str, int] = {}
    for nest in group.nests:
        position, joined = _place(graph, group.outer, stages, home, nest)
        if joined is None:
            stages.append(_draft(group.outer, nest))
            position = len(stages) - 1
        else:
            stages[position] = joined
        for store in nest.stores:
            home[store.buffer] = position
    return tuple(stages)


def _draft(outer: tuple[Axis, ...], nest: LoopNest) -> StageDraft:
    return StageDraft(nest.axes[len(outer) :], nest.reduction, (nest,))


def _place(
    graph: LoopGraph,
    outer: tuple[Axis, ...],
    stages: list[StageDraft],
    home: Mapping[str, int],
    nest: LoopNest,
) -> tuple[int, StageDraft | None]:
    """The stage that the nest joins, extended by it; None when it needs a stage of its own."""
    earliest = 0
    for node in loads(nest.roots):
        assert isinstance(node.attr, Access)
        earliest = max(earliest, home.get(node.attr.buffer, 0))
    for position in range(earliest, len(stages)):
        joined = _join(graph, outer, stages[position], nest)
        if joined is not None:
            return position, joined
    return len(stages), None


def _join(
    graph: LoopGraph, outer: tuple[Axis, ...], stage: StageDraft, nest: LoopNest
) -> StageDraft | None:
    draft = _draft(outer, nest)
    if draft.reduction and stage.reduction:
        pairings: tuple[dict[Symbol, Symbol] | None, ...] = (
            _pair(graph, stage, stage.inner, nest, draft.inner),
            _pair(graph, stage, stage.reduction, nest, draft.reduction),
        )
    else:
        pairings = (_pair(graph, stage, stage.domain, nest, draft.domain),)
    renaming: dict[Symbol, Symbol] = {}
    for pairing in pairings:
        if pairing is None:
            return None
        renaming.update(pairing)
    renamed = rename(nest, renaming)
    if draft.reduction and not stage.reduction:
        inner, reduction = renamed.axes[len(outer) :], renamed.reduction
    else:
        inner, reduction = stage.inner, stage.reduction
        if not draft.reduction:
            renamed = replace(renamed, axes=(*outer, *stage.domain))
        else:
            renamed = replace(renamed, axes=(*outer, *inner), reduction=reduction)
    passed = _pass_values(stage, renamed)
    if passed is None:
        return None
    fixed = tuple(
        n if n.reduction else replace(n, axes=(*outer, *inner, *reduction)) for n in stage.nests
    )
    return StageDraft(inner, reduction, (*fixed, passed))


def _pair(
    graph: LoopGraph,
    stage: StageDraft,
    ours: tuple[Axis, ...],
    nest: LoopNest,
    theirs: tuple[Axis, ...],
) -> dict[Symbol, Symbol] | None:
    """The nest's loops onto the stage's: by the dimensions that both touch, then by order."""
    if sorted(map(str, (a.extent for a in ours))) != sorted(map(str, (a.extent for a in theirs))):
        return None
    pairs: dict[Symbol, Symbol] = {}
    touched = _positions(stage.nests)
    ours_by = {a.symbol: a.extent for a in ours}
    extents = {a.symbol: a.extent for a in theirs}
    for place, symbols in _positions((nest,)).items():
        for symbol in symbols:
            if symbol not in extents or symbol in pairs:
                continue
            for other in touched.get(place, ()):
                fits = ours_by.get(other) == extents[symbol]
                if fits and other not in pairs.values():
                    pairs[symbol] = other
                    break
    rest = [a for a in ours if a.symbol not in pairs.values()]
    for axis in theirs:
        if axis.symbol in pairs:
            continue
        partner = next((a for a in rest if a.extent == axis.extent), None)
        if partner is None:
            return None
        pairs[axis.symbol] = partner.symbol
        rest.remove(partner)
    return pairs


def _positions(nests: Iterable[LoopNest]) -> dict[tuple[str, int], list[Symbol]]:
    """(buffer, dimension) -> loop variables that index it by themselves."""
    found: dict[tuple[str, int], list[Symbol]] = {}
    for nest in nests:
        accesses = [n.attr for n in loads(nest.roots)]
        touched = [(a.buffer, a.index) for a in accesses if isinstance(a, Access)]
        touched += [(s.buffer, s.index) for s in nest.stores]
        for buffer, index in touched:
            for k, expr in enumerate(index):
                if expr.is_Symbol and expr not in found.setdefault((buffer, k), []):
                    found[buffer, k].append(expr)
    return found


def _pass_values(stage: StageDraft, nest: LoopNest) -> LoopNest | None:
    """The nest with the stage's values in place of loads; None where that is wrong."""
    stored: dict[str, tuple[LoopNest, Store]] = {
        s.buffer: (n, s) for n in stage.nests for s in n.stores
    }
    for node in loads(nest.roots):
        assert isinstance(node.attr, Access)
        found = stored.get(node.attr.buffer)
        if found is None:
            continue
        writer, store = found
        at_point = store.index == node.attr.index and not bind_map(node)
        if writer.reduction or not at_point or store.mode != "set":
            return None

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        fresh = with_args(node, args)
        if not isinstance(fresh.attr, Access) or fresh.attr.buffer not in stored:
            return fresh
        value = stored[fresh.attr.buffer][1].value
        mask = mask_of(fresh)
        return value if mask is None else guarded(value, mask)

    return with_roots(nest, rebuild(nest.roots, visit))


def drop_unread(stages: tuple[StageDraft, ...], needed: frozenset[str]) -> tuple[StageDraft, ...]:
    """Stages without stores to buffers that no later stage reads and that are not `needed`."""
    live = set(needed)
    kept: list[StageDraft] = []
    for stage in reversed(stages):
        nests: list[LoopNest] = []
        for nest in reversed(stage.nests):
            stores = tuple(s for s in nest.stores if s.buffer in live)
            if stores:
                nests.append(replace(nest, stores=stores))
        if nests:
            kept.append(_without_idle_reduction(replace(stage, nests=tuple(reversed(nests)))))
            read = [n.attr for nest in nests for n in loads(nest.roots)]
            live.update(a.buffer for a in read if isinstance(a, Access))
    return tuple(reversed(kept))


def _without_idle_reduction(stage: StageDraft) -> StageDraft:
    if not stage.reduction or any(n.reduction for n in stage.nests):
        return stage
    return StageDraft(stage.domain, (), stage.nests)
