"""Tile kernels: for devices whose work units evaluate whole tiles of points in registers (GPUs).

There are no local buffers between nests. Each nest recomputes what it reads of the kernel's other
nests (fusion by recomputation); only reduced values, one for each point of the outer loops, pass
from stage to stage. Stages with the same inner iteration space share their loop variables, so equal
expressions of two stages are one node: where a tile holds the whole space, it is evaluated once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from aot.ir.kernels import NestKernel, Stage
from aot.ir.loops import LoopGraph, reads, writes
from aot.ir.nests import Axis, LoopNest, Store
from aot.ir.rewrite import with_roots
from aot.ir.scalar import (
    Access,
    Node,
    bind_map,
    guarded,
    loads,
    mask_of,
    postorder,
    rebuild,
    substitute_index,
    with_args,
)
from aot.schedule.groups import Group, rename
from aot.schedule.loops import merge_stage
from aot.schedule.matching import invert
from aot.schedule.merge import merge_outer
from aot.schedule.scheduler import Scheduler
from aot.schedule.stages import StageDraft, drop_unread, form_stages
from aot.schedule.vectorisation import order_by_stride
from aot.symbolic import Expr, Symbol, substitute, var

MOST_REPEATED = 256
"""Operations that a kernel may repeat, where its nests read what others compute elsewhere or under
a condition: beyond it points cost more than the memory that fusion saves, and what Triton compiles
grows with the square of the pieces that a concatenation has of a recurrence."""


def build_tile_kernel(
    scheduler: Scheduler, group: Group, name: str, needed: frozenset[str]
) -> NestKernel:
    """The kernel of a group without a template. `needed`: buffers read outside the group."""
    graph = scheduler.graph
    group = replace(group, nests=with_producers_recomputed(graph, group.nests))
    live = drop_unread(form_stages(graph, group), needed)
    group = replace(group, nests=tuple(n for d in live for n in d.nests))
    if len(live) == 1 and not live[0].reduction:
        # Nothing is reduced: the inner loops are as parallel as the outer ones.
        group = replace(group, outer=(*group.outer, *live[0].inner))
    if _is_pointwise(group):
        group = merge_outer(scheduler, group)
        drafts: tuple[StageDraft, ...] = (StageDraft((), (), group.nests),)
    else:
        drafts = live
    outer = tuple(_ordered(scheduler, group.nests, group.outer))
    stages = [_stage(scheduler, group.outer, outer, d) for d in drafts]
    nests = [n for s in stages for n in s.nests]
    written = list(dict.fromkeys(b for n in nests for b in writes(n)))
    read = list(dict.fromkeys(b for n in nests for b in reads(n)))
    return NestKernel(
        name,
        outer,
        tuple(_shared_names(stages)),
        None,
        tuple(b for b in written if b not in needed),
        tuple(b for b in read if b not in written),
        tuple(b for b in written if b in needed),
    )


def _is_pointwise(group: Group) -> bool:
    return all(n.axes == group.outer and not n.reduction for n in group.nests)


def _ordered(
    scheduler: Scheduler, nests: tuple[LoopNest, ...], axes: tuple[Axis, ...]
) -> list[Axis]:
    moves = [m for n in nests for m in scheduler.moves(n)]
    stores = [m for m in moves if m.store]
    # Where values decide how far a loop moves in what is stored, its loads tell.
    told = all(m.stride(axis.symbol) is not None for m in stores for axis in axes)
    return order_by_stride(scheduler.hints, stores if stores and told else moves, axes)


def _stage(
    scheduler: Scheduler, before: tuple[Axis, ...], outer: tuple[Axis, ...], draft: StageDraft
) -> Stage:
    draft = merge_stage(scheduler, before, draft, None)
    moves = [m for n in draft.nests for m in scheduler.moves(n)]
    order = tuple(order_by_stride(scheduler.hints, moves, draft.domain))
    nests = tuple(_reordered(n, len(before), outer) for n in draft.nests)
    return Stage(draft.inner, draft.reduction, order, None, nests)


def _reordered(nest: LoopNest, count: int, outer: tuple[Axis, ...]) -> LoopNest:
    return replace(nest, axes=(*outer, *nest.axes[count:]))


def _shared_names(stages: list[Stage]) -> list[Stage]:
    """The stages with the same loop variables where their loops, in order, have equal extents."""
    named: dict[tuple[Expr, ...], tuple[Symbol, ...]] = {}
    result: list[Stage] = []
    for stage in stages:
        extents = tuple(a.extent for a in stage.order)
        symbols = named.get(extents)
        if symbols is None:
            symbols = named[extents] = tuple(var(f"t{len(named)}_{k}") for k in range(len(extents)))
        mapping = {a.symbol: s for a, s in zip(stage.order, symbols, strict=True)}
        result.append(_renamed(stage, mapping))
    return result


def _renamed(stage: Stage, mapping: dict[Symbol, Symbol]) -> Stage:
    def axes(old: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(Axis(mapping.get(a.symbol, a.symbol), a.extent) for a in old)

    nests = tuple(rename(n, mapping) for n in stage.nests)
    return Stage(axes(stage.inner), axes(stage.reduction), axes(stage.order), None, nests)


@dataclass(frozen=True)
class _Definition:
    """What a nest stored, for those that read it."""

    nest: LoopNest
    store: Store

    @property
    def reduced(self) -> bool:
        return bool(self.nest.reduction)


def with_producers_recomputed(
    graph: LoopGraph, nests: tuple[LoopNest, ...]
) -> tuple[LoopNest, ...]:
    """The nests, each computing itself what it reads of earlier ones, reduced values excepted."""
    defined: dict[str, _Definition] = {}
    result: list[LoopNest] = []
    for nest in nests:
        fresh = _inline(graph, nest, defined)
        result.append(fresh)
        defined.update({s.buffer: _Definition(fresh, s) for s in fresh.stores})
    return tuple(result)


def _inline(graph: LoopGraph, nest: LoopNest, defined: dict[str, _Definition]) -> LoopNest:
    if all(d.reduced for b, d in defined.items() if b in reads(nest)):
        return nest
    ranges = graph.ranges(*nest.axes, *nest.reduction)

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        fresh = with_args(node, args)
        access = fresh.attr
        if not isinstance(access, Access):
            return fresh
        found = defined.get(access.buffer)
        if found is None or found.reduced:
            return fresh
        binds = bind_map(fresh)
        # Names of indirect symbols are local to a node: here they meet those of the definition.
        apart: dict[Symbol, Symbol] = {s: var(f"outer_{s}") for s in binds}
        index = tuple(substitute(e, apart) for e in access.index)
        solved = invert(found.nest.axes, found.store.index, index)
        if solved is None:
            raise ValueError(f"{nest.name} reads {access.buffer} at points that no store has")
        mapping = {s: ranges.simplify(e) for s, e in solved.items()}
        (value,) = substitute_index(
            (found.store.value,), mapping, {apart[s]: n for s, n in binds.items()}
        )
        mask = mask_of(fresh)
        return value if mask is None else guarded(value, mask, frozenset(binds.values()))

    return with_roots(nest, rebuild(nest.roots, visit))


def _loads_of(made: Mapping[str, LoopNest], root: Node) -> bool:
    accesses = (node.attr for node in loads([root]))
    return any(isinstance(a, Access) and a.buffer in made for a in accesses)


_Writer = TypeVar("_Writer")


def _reads_of(
    made: Mapping[str, _Writer], nest: LoopNest
) -> Iterator[tuple[Node, Access, _Writer]]:
    """The nest's loads of buffers that are made in its kernel, with who makes them."""
    for node in loads(nest.roots):
        access = node.attr
        assert isinstance(access, Access)
        writer = made.get(access.buffer)
        if writer is not None:
            yield node, access, writer


def tile_refusal(nests: tuple[LoopNest, ...], outer: tuple[Axis, ...]) -> str:
    """Why the nests cannot share a kernel of tiles on these outer axes; "" when they can."""
    made: dict[str, LoopNest] = {}
    for nest in nests:
        if nest.reduction and nest.axes != outer:
            return f"{nest.name} reduces at more points than the kernel's outer loops have"
        for node, access, writer in _reads_of(made, nest):
            if any(s.mode != "set" for s in writer.stores):
                return f"{nest.name} reads what {writer.name} accumulates in memory"
            if any(s.binds for s in writer.stores):
                return f"{nest.name} reads what {writer.name} scatters"
            if writer.reduction and access.binds:
                return f"{nest.name} gathers reduced values of {writer.name}"
            if any(_loads_of(made, arg) for arg in node.args[: len(access.binds)]):
                # Recomputed, each step of a search would hold two of the step before it.
                return f"values of {writer.name} decide where {nest.name} reads them"
        made.update({s.buffer: nest for s in nest.stores})
    repeated = _repeated_operations(nests)
    return "" if repeated <= MOST_REPEATED else f"it would repeat {repeated} operations"


def _repeated_operations(nests: tuple[LoopNest, ...]) -> int:
    """Operations that `with_producers_recomputed` adds and no other nest shares.

    A value read at the loops' very place, whatever a condition says, is one node for all of them.
    """
    made: dict[str, str] = {}
    own: dict[str, int] = {}
    below: dict[str, frozenset[str]] = {}
    total = 0
    for nest in nests:
        needed = {nest.name}
        found: set[tuple[str, tuple[Expr, ...], Node | None]] = set()
        for node, access, writer in _reads_of(made, nest):
            needed |= below[writer]
            found.add((writer, access.index, mask_of(node)))
        here = {a.symbol for a in (*nest.axes, *nest.reduction)}
        for writer, index, mask in found:
            if mask is not None or not here.issuperset(index):
                total += sum(own[name] for name in below[writer])
        own[nest.name] = len(postorder(nest.roots))
        below[nest.name] = frozenset(needed)
        if not nest.reduction:
            made.update({s.buffer: nest.name for s in nest.stores})
    return total
