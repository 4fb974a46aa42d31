"""Loop fusion: groups are joined greedily, most saved memory traffic first, then become kernels."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from aot.ir.hints import hints_of
from aot.ir.kernels import Decision, FusedKernel, KernelGraph
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.templates.base import TemplateCall
from aot.schedule.canonical import canonical_kernel
from aot.schedule.crossed import build_crossed_kernel, is_crossed
from aot.schedule.groups import Group, group_of, stem_of
from aot.schedule.legality import FusionState, can_fuse
from aot.schedule.loops import build_kernel
from aot.schedule.order import order_kernels
from aot.schedule.scheduler import Scheduler
from aot.schedule.short_rows import lengthen_rows
from aot.schedule.split import split_reductions
from aot.schedule.tile_kernels import build_tile_kernel

SHARED_READ_SHARE = 0.3
"""Independent groups are fused when they share at least this part of what one of them reads."""


@dataclass(frozen=True)
class Fused:
    """Groups in execution order, and the verdict on every pair tried."""

    groups: tuple[Group, ...]
    decisions: tuple[Decision, ...]


def fuse(graph: LoopGraph, machine: Machine) -> KernelGraph:
    """Groups operations into kernels and decides their loops. All buffers must have strides."""
    graph = split_reductions(lengthen_rows(graph, machine), machine)
    scheduler = Scheduler(graph, hints_of(graph.dims), machine)
    fused = fuse_groups(scheduler, initial_groups(graph))
    kernels = build_kernels(scheduler, fused.groups)
    decided = replace(kernels, decisions=(*graph.decisions, *fused.decisions))
    return order_kernels(decided)


def initial_groups(graph: LoopGraph) -> tuple[Group, ...]:
    """One group per operation.

    Loop variables are called after where the operation stands among those that follow one template
    call, so that layers that are alike have loops of one name, and what is found of one's indices
    is known of the other's.
    """
    groups, run = [], -1
    for position, op in enumerate(graph.ops):
        run = 0 if isinstance(op, TemplateCall) else run + 1
        groups.append(group_of(op, position, stem_of(run)))
    return tuple(groups)


def fuse_groups(scheduler: Scheduler, groups: Sequence[Group]) -> Fused:
    """Joins groups greedily: the pair that saves most traffic first, near ones before far ones."""
    state = FusionState(scheduler, dict(enumerate(groups)), _many_writers(groups))
    queue: list[tuple[int, int, int, int]] = []
    for key in state.groups:
        _push(queue, state, key, after=key)
    decisions: list[Decision] = []
    serial = len(groups)
    while queue:
        saved, _, a, b = heapq.heappop(queue)
        if a not in state.groups or b not in state.groups:
            continue
        first, second = (b, a) if _precedes(state, b, a) else (a, b)
        verdict = can_fuse(state, first, second)
        subject = (state.groups[first].name, state.groups[second].name)
        word = "fused" if verdict.ok else "not fused"
        decisions.append(Decision("fuse", subject, word, f"{verdict.reason} ({-saved} bytes)"))
        if verdict.fused is None:
            continue
        state.merge(first, second, serial, verdict.fused)
        _push(queue, state, serial)
        serial += 1
    return Fused(_execution_order(state), tuple(decisions))


def _many_writers(groups: Iterable[Group]) -> frozenset[str]:
    seen: set[str] = set()
    twice: set[str] = set()
    for group in groups:
        twice |= seen & set(group.writes)
        seen |= set(group.writes)
    return frozenset(twice)


def _precedes(state: FusionState, a: int, b: int) -> bool:
    """True when `a` must come before `b`, or may and did."""
    if b in state.consumers(a):
        return True
    if a in state.consumers(b):
        return False
    return state.groups[a].position < state.groups[b].position


def _push(
    queue: list[tuple[int, int, int, int]], state: FusionState, key: int, after: int = -1
) -> None:
    """Adds the pairs of a group with those that share a buffer with it and are worth trying.

    Of groups `after` that key alone. What many read makes pairs of them all: of a pair that nothing
    flows between, nothing is looked at but what both read.
    """
    shared = _shared_reads(state, key)
    linked = _linked(state, key, shared)
    pairs = [(other, _worth(state, key, other)) for other in linked if other > after]
    if state.groups[key].template is None:
        least = SHARED_READ_SHARE * state.read_bytes(key)
        pairs += (
            (other, both)
            for other, both in shared.items()
            if other > after
            and (both >= least or both >= SHARED_READ_SHARE * state.read_bytes(other))
            and other not in linked
            and state.groups[other].template is None
        )
    for other, saved in pairs:
        if saved > 0:
            near = abs(state.groups[key].position - state.groups[other].position)
            heapq.heappush(queue, (-saved, near, min(key, other), max(key, other)))


def _linked(state: FusionState, key: int, shared: Collection[int]) -> set[int]:
    """Groups that read what this one writes, or write what it reads.

    Of several that write a buffer the last, and those that read (`shared`) what this one reads.
    """
    group = state.groups[key]
    found: set[int] = set()
    for name in group.writes:
        found |= state.readers.get(name, set())
    for name in group.reads:
        if name in state.writer:
            found.add(state.writer[name])
        if name in state.many_writers:
            found |= state.writers[name].intersection(shared)
    found.discard(key)
    return found


def _shared_reads(state: FusionState, key: int) -> dict[int, int]:
    """Bytes that this group and each other read."""
    found: dict[int, int] = {}
    for name in state.groups[key].reads:
        size = state.scheduler.size(name)
        for other in state.readers[name]:
            found[other] = found.get(other, 0) + size
    found.pop(key, None)  # one that reads nothing is not there
    return found


def _worth(state: FusionState, key: int, other: int) -> int:
    """Bytes saved by joining two groups of which one reads what the other writes.

    0 when that is not worth trying.
    """
    first, second = (key, other) if _precedes(state, key, other) else (other, key)
    a, b = state.groups[first], state.groups[second]
    if b.template is not None and not state.machine.takes_producer(b.template):
        return 0
    saved = state.saved_bytes(first, second)
    if not set(a.writes).isdisjoint(b.reads):
        return saved
    if a.template is not None or b.template is not None:
        return 0
    least = min(state.read_bytes(first), state.read_bytes(second))
    return saved if saved >= SHARED_READ_SHARE * least else 0


def _execution_order(state: FusionState) -> tuple[Group, ...]:
    """Topological order, original positions first.

    Raises:
        ValueError: The groups depend on each other in a cycle.
    """
    waiting = {
        key: {state.writer[n] for n in g.reads if n in state.writer} - {key}
        for key, g in state.groups.items()
    }
    _order_writers(state, waiting)
    for name, key in state.updater.items():
        waiting[key] |= state.readers.get(name, set()) - {key}
    ready = [(state.groups[k].position, k) for k, w in waiting.items() if not w]
    heapq.heapify(ready)
    order: list[Group] = []
    users: dict[int, set[int]] = {}
    for key, needs in waiting.items():
        for need in needs:
            users.setdefault(need, set()).add(key)
    while ready:
        _, key = heapq.heappop(ready)
        order.append(state.groups[key])
        for user in users.get(key, ()):
            waiting[user].discard(key)
            if not waiting[user]:
                heapq.heappush(ready, (state.groups[user].position, user))
    if len(order) != len(state.groups):
        raise ValueError("fusion made a cycle: legality.can_fuse has a bug")
    return tuple(order)


def _order_writers(state: FusionState, waiting: dict[int, set[int]]) -> None:
    """Several writers of one buffer keep their order among themselves and with its readers."""
    for name in state.many_writers:
        touching = sorted(
            (g.position, key)
            for key, g in state.groups.items()
            if name in g.writes or name in g.reads
        )
        for (_, earlier), (_, later) in pairwise(touching):
            waiting[later].add(earlier)
            waiting[earlier].discard(later)


def build_kernels(scheduler: Scheduler, groups: Sequence[Group]) -> KernelGraph:
    """The kernel graph of groups in execution order."""
    graph, machine = scheduler.graph, scheduler.machine
    kernels: list[FusedKernel] = []
    readers: dict[str, set[int]] = {}
    for k, group in enumerate(groups):
        for name in group.reads:
            readers.setdefault(name, set()).add(k)
    for k, group in enumerate(groups):
        needed = frozenset(
            b for b in group.writes if readers.get(b, set()) - {k} or b in graph.results
        )
        tiles = not machine.local_buffers and group.template is None
        build = build_tile_kernel if tiles else build_kernel
        if tiles and is_crossed(group):
            build = build_crossed_kernel
        kernel = build(scheduler, group, f"k{k}", needed)
        kernels.append(canonical_kernel(graph, kernel))
    return KernelGraph(
        graph.name,
        graph.dims,
        graph.buffers,
        tuple(kernels),
        graph.inputs,
        graph.outputs,
        graph.signature,
        graph.relations,
        graph.decisions,
        graph.derived,
        graph.mutations,
    )
