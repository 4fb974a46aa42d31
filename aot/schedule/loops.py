"""Loops: a group becomes a kernel: parallel loops, loop order (interchange), strip-mining, vectors.

For devices that loop over points, one vector at a time; `tile_kernels.py` is for the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from aot.ir.kernels import FusedKernel, NestKernel, Shares, Stage, Strip, TemplateKernel
from aot.ir.loops import reads, writes
from aot.ir.nests import Axis, LoopNest
from aot.schedule.conflicts import in_order, leading_free, shares_of
from aot.schedule.groups import Group, with_outer
from aot.schedule.index_set_splitting import MAX_BLOCKS, split_index_sets, split_points
from aot.schedule.merge import merge_axes, merge_outer
from aot.schedule.pairs import join_pairs
from aot.schedule.scheduler import Price, Scheduler
from aot.schedule.stages import StageDraft, drop_unread, form_stages
from aot.schedule.strides import StridedAccess
from aot.schedule.vectorisation import StageCost, nests_reduce, order_by_stride, stage_cost
from aot.schedule.within import axis_within

GAIN = 0.15
"""Share of its price that a kernel must save for a shared loop to become an inner one."""


def build_kernel(
    scheduler: Scheduler, group: Group, name: str, needed: frozenset[str]
) -> FusedKernel:
    """The kernel of a group. `needed`: buffers that something outside the group reads."""
    if group.template is not None:
        return template_kernel(scheduler, group, name, needed)
    if any(nest.conflicts for nest in group.nests):
        return _conflicting_kernel(scheduler, group, name, needed)
    group, strip = _choose_inner(scheduler, group)
    drafts = drop_unread(form_stages(scheduler.graph, group), needed)
    split = strip.axis if strip is not None else None
    drafts = split_index_sets(scheduler, drafts, split)
    drafts = join_pairs(scheduler, group, drafts, needed)
    stages = tuple(_order_stage(scheduler, group.outer, d, strip) for d in drafts)
    return _finish(name, group, stages, strip, needed)


def _conflicting_kernel(
    scheduler: Scheduler, group: Group, name: str, needed: frozenset[str]
) -> FusedKernel:
    """Parallel along loops where points never meet, or by where they store, if either will do."""
    leading = leading_free(group)
    if scheduler.hints.volume(leading) < scheduler.machine.units:
        (stage,) = _stages(scheduler, with_outer(group, ()), needed)
        shares = shares_of(scheduler, stage)
        if shares is not None:
            return _finish(name, with_outer(group, ()), (stage,), None, needed, shares)
    group = with_outer(group, leading)
    return _finish(name, group, _stages(scheduler, group, needed), None, needed)


def _stages(scheduler: Scheduler, group: Group, needed: frozenset[str]) -> tuple[Stage, ...]:
    drafts = drop_unread(form_stages(scheduler.graph, group), needed)
    return tuple(_order_stage(scheduler, group.outer, d, None) for d in drafts)


def _finish(
    name: str,
    group: Group,
    stages: tuple[Stage, ...],
    strip: Strip | None,
    needed: frozenset[str],
    shares: Shares | None = None,
) -> FusedKernel:
    nests = [n for s in stages for n in s.nests]
    written = list(dict.fromkeys(b for n in nests for b in writes(n)))
    read = list(dict.fromkeys(b for n in nests for b in reads(n)))
    before = [b for n in group.prologue for b in writes(n)]
    first = [b for n in group.prologue for b in reads(n)]
    if group.template is not None:
        written = [*before, group.template.output.buffer, *written]
        read = list(dict.fromkeys([*first, *reads(group.template), *read]))
    local = tuple(b for b in written if b not in needed)
    left = tuple(b for b in read if b not in written)
    stored = tuple(b for b in written if b in needed)
    if group.template is None:
        return NestKernel(name, group.outer, stages, strip, local, left, stored, shares)
    return TemplateKernel(name, group.template, stages, local, left, stored, group.prologue)


def template_kernel(
    scheduler: Scheduler, group: Group, name: str, needed: frozenset[str]
) -> FusedKernel:
    """The kernel of a template call, its epilogue as one pointwise stage."""
    inner = replace(group, outer=())
    drafts = drop_unread(form_stages(scheduler.graph, inner), needed)
    stages = tuple(
        Stage(d.inner, (), d.inner, d.inner[-1] if d.inner else None, d.nests) for d in drafts
    )
    return _finish(name, group, stages, None, needed)


def _choose_inner(scheduler: Scheduler, group: Group) -> tuple[Group, Strip | None]:
    """Which of the shared axes become inner loops of every stage, and the strips of one of them.

    The others remain the parallel loops.
    """
    if not group.outer:
        return group, None
    if all(n.axes == group.outer and not n.reduction for n in group.nests):
        return _pointwise_inner(scheduler, merge_outer(scheduler, group))
    return _row_inner(scheduler, group)


def _whole_draft(group: Group) -> StageDraft:
    """All nests of a pointwise group as one stage without outer loops."""
    return StageDraft(group.outer, (), group.nests)


def _pointwise_inner(scheduler: Scheduler, group: Group) -> tuple[Group, Strip | None]:
    """The loops of one pointwise iteration space: which are inner, and the strips of one of them.

    The vector axis is inner; with it, in this order: one over two neighbours that are stored
    together; axes that square tiles need; a short one
    between the elements of a long vector axis; one whose points share much of what is computed;
    loops until a work unit has `small_unit` points; loops that conditions cut, so that each piece
    has its code.
    """
    hints, machine = scheduler.hints, scheduler.machine
    cost = stage_cost(scheduler, (), _whole_draft(group))
    _, vector = cost.best(group.outer)
    stores = [m for m in cost.moves if m.store]
    order = order_by_stride(hints, stores, group.outer)
    vector = order[-1] if vector is None else _nearest(cost, vector, order)
    rest = [a for a in order if a != vector]
    inner = [vector]
    half = cost.half_of(vector.symbol)
    if half is not None:
        rest.remove(half)
        inner.insert(0, half)
    square = _transposed_axes(scheduler, cost.moves, vector, rest)
    if square:
        rest = [axis for axis in rest if axis not in square]
        size = _tile_points(scheduler, cost, vector, square, rest)
        return with_outer(group, tuple(rest)), Strip(vector, size)
    between = _between(scheduler, cost.moves, vector, rest)
    if between is not None and hints.value(vector.extent) > machine.strip_points:
        rest.remove(between)
        inner.insert(0, between)
        return with_outer(group, tuple(rest)), Strip(vector, machine.strip_points)
    within = axis_within(hints, machine, group.nests, vector, rest)
    if within is not None:
        rest.remove(within)
        inner.insert(0, within)
    total = hints.volume(group.outer)
    while rest and hints.volume(inner) < machine.small_unit:
        if (
            hints.volume(rest[:-1]) < machine.cut_units
            and total > machine.cut_units * machine.small_unit
        ):
            break
        inner.insert(0, rest.pop())
    for axis in [a for a in rest if 0 < len(split_points(machine, group.nests, a)) < MAX_BLOCKS]:
        others = hints.volume(a for a in rest if a != axis)
        if others >= machine.cut_units or total <= machine.simple_points:
            rest.remove(axis)
            inner.insert(0, axis)
    chosen = with_outer(group, tuple(rest))
    extent = hints.value(vector.extent)
    few = hints.volume(rest) < machine.cut_units
    if few and (extent > machine.strip_points or not vector.extent.is_Integer):
        return chosen, Strip(vector, machine.strip_points)
    if few and within is not None and extent >= 2 * machine.least_strip:
        return chosen, Strip(vector, _share(scheduler, rest, vector))
    return chosen, None


def _share(scheduler: Scheduler, rest: Sequence[Axis], vector: Axis) -> int:
    """Points of the vector axis for a unit, so that there are enough of them, at least some."""
    hints, machine = scheduler.hints, scheduler.machine
    points = hints.volume((*rest, vector)) // machine.cut_units
    return max(1, points // machine.least_strip) * machine.least_strip


def _nearest(cost: StageCost, vector: Axis, order: Sequence[Axis]) -> Axis:
    """The axis to vectorise along where neighbours along `vector` are nowhere side by side.

    Each lane's element then lies in a cache line of its own, and loops outside would fetch all
    lines once more for the next element: better the axis of the shortest strides.
    """
    if any(move.stride(vector.symbol) == 1 for move in cost.moves):
        return vector
    most = cost.machine.near_price * cost.along(vector)
    return next((axis for axis in reversed(order) if cost.along(axis) <= most), vector)


def _transposed_axes(
    scheduler: Scheduler,
    moves: tuple[StridedAccess, ...],
    vector: Axis,
    rest: list[Axis],
) -> tuple[Axis, ...]:
    """An axis of a cache line or more, an access contiguous along it and strided along `vector`.

    Strips of `vector` with this axis inside are square tiles, as for a transposition. Where the
    access is contiguous along a short axis first, such as both parts of complex numbers, and this
    one follows it, they are contiguous together, and both are given.
    """
    hints, lanes = scheduler.hints, scheduler.machine.lanes
    for axis in rest:
        if min(hints.value(a.extent) for a in (axis, vector)) < lanes:
            continue
        for move in moves:
            along, across = move.stride(vector.symbol), move.stride(axis.symbol)
            if along in (0, 1):
                continue
            if across == 1:
                return (axis,)
            for short in rest:
                follows = short != axis and move.stride(short.symbol) == 1
                if follows and across == short.extent and hints.value(short.extent) <= lanes // 2:
                    return axis, short
    return ()


def _tile_points(
    scheduler: Scheduler,
    cost: StageCost,
    vector: Axis,
    square: tuple[Axis, ...],
    rest: list[Axis],
) -> int:
    """The length of strips of `vector`, for each of whose points a cache line stays.

    Each line serves the elements of the axes of `square` that follow. As long as the nearest cache
    has places for those lines, a half of them for what is stored; and as short as work units ask
    for.
    """
    hints, machine = scheduler.hints, scheduler.machine
    size = machine.tile_points
    for move in cost.moves:
        along = move.stride(vector.symbol)
        contiguous = any(move.stride(axis.symbol) == 1 for axis in square)
        if not contiguous or along is None or along in (0, 1):
            continue
        if along.free_symbols:
            size = min(size, machine.tile_points // 2)
            continue
        apart = math.gcd(int(along) * cost.itemsizes[move.buffer], machine.way_bytes)
        places = machine.way_bytes // max(apart, machine.cache_line) * machine.ways
        size = min(size, places // 2)
    units = hints.volume(rest)
    while size > machine.line_points:
        if units * -(-hints.value(vector.extent) // size) >= machine.cut_units:
            break
        size //= 2
    return max(size, machine.line_points)


def _between(
    scheduler: Scheduler, moves: tuple[StridedAccess, ...], vector: Axis, rest: list[Axis]
) -> Axis | None:
    """A short axis whose elements lie between those of `vector` in memory.

    Inside strips of `vector`, a cache line that several of its points need is loaded once.
    """
    for axis in rest:
        short = 1 < scheduler.hints.value(axis.extent) <= scheduler.machine.lanes // 2
        strides = [(m.stride(axis.symbol), m.stride(vector.symbol)) for m in moves]
        if short and any(near == 1 and far not in (None, 0, 1) for near, far in strides):
            return axis
    return None


def _row_inner(scheduler: Scheduler, group: Group) -> tuple[Group, Strip | None]:
    """Groups with reductions or inner loops: vectorise those, or one of the shared axes."""
    narrow = _narrow_inner(scheduler, group)
    if narrow is not None:
        return narrow, None
    chosen = shared_vector(scheduler, group)
    if chosen is None:
        return group, None
    rest = tuple(a for a in group.outer if a != chosen)
    machine = scheduler.machine
    most = machine.kept_points if nests_reduce(group.nests) else machine.strip_points
    size = min(most, _share(scheduler, rest, chosen))
    return with_outer(group, rest), Strip(chosen, size)


def _narrow_inner(scheduler: Scheduler, group: Group) -> Group | None:
    """The group with a short shared loop made inner, when that gives stages longer vectors.

    Colours of an image, say, with channels last: together with the columns they are contiguous.
    """
    key = scheduler.shape_of(group.outer, group.nests)
    if key not in scheduler.narrowed:
        scheduler.narrowed[key] = _narrow_axis(scheduler, group)
    chosen = scheduler.narrowed[key]
    if chosen is None:
        return None
    return with_outer(group, tuple(a for a in group.outer if a != chosen))


def _narrow_axis(scheduler: Scheduler, group: Group) -> Axis | None:
    """The loop that `_narrow_inner` makes an inner one."""
    machine = scheduler.machine
    before = min(_merged_cost(scheduler, group), group_cost(scheduler, group))
    for axis in group.outer:
        rest = tuple(a for a in group.outer if a != axis)
        units = scheduler.hints.volume(rest)
        half = 2 * scheduler.hints.value(axis.extent) <= machine.lanes
        if not half or units < machine.cut_units:
            continue
        inner = with_outer(group, rest)
        if _merged_cost(scheduler, inner) < before * (1 - GAIN):
            return axis
    return None


def _merged_cost(scheduler: Scheduler, group: Group) -> float:
    """Price of the stages, their loops merged, each vectorised along its own best loop."""
    total = 0.0
    for draft in form_stages(scheduler.graph, group):
        merged = merge_stage(scheduler, group.outer, draft, None)
        cost = stage_cost(scheduler, group.outer, merged)
        total += cost.best(merged.domain)[0]
    return total


def shared_vector(scheduler: Scheduler, group: Group) -> Axis | None:
    """The shared axis that all stages are vectorised along; None when each has a better one."""
    return _best_vector(scheduler, group)[1]


def group_cost(scheduler: Scheduler, group: Group) -> float:
    """Vector instructions of the group's kernel, vectorised as well as it can be."""
    if group.template is not None:
        return 0.0
    return _best_vector(scheduler, group)[0]


def _best_vector(scheduler: Scheduler, group: Group) -> Price:
    """As `_priced`, once for groups that are alike."""
    key = scheduler.shape_of(group.outer, group.nests)
    found = scheduler.prices.get(key)
    if found is None:
        found = scheduler.prices[key] = _priced(scheduler, group)
    return found


def _priced(scheduler: Scheduler, group: Group) -> Price:
    """The least price, and the shared axis that it is for; None: each stage has its own best.

    Of axes that cost the same, the one whose elements lie nearest to each other. Where each lane
    has cache lines of its own, the shared axis has to be better by far (as in `_nearest`).
    """
    drafts = form_stages(scheduler.graph, group)
    costs = [stage_cost(scheduler, group.outer, d) for d in drafts]
    best, chosen = sum(c.best(c.stage.domain)[0] for c in costs), None
    moves = [move for cost in costs for move in cost.moves]
    for axis in order_by_stride(scheduler.hints, moves, group.outer):
        total = sum(c.along(axis) for c in costs)
        if _is_far(scheduler, moves, axis):
            total *= scheduler.machine.near_price
        if total < best or (chosen is not None and total == best):
            best, chosen = total, axis
    return best, chosen


def _is_far(scheduler: Scheduler, moves: Sequence[StridedAccess], axis: Axis) -> bool:
    """Whether neighbours along an axis lie in other cache lines, wherever they are stored."""
    strides = [move.stride(axis.symbol) for move in moves if move.store]
    line = scheduler.machine.line_points // 2
    return all(
        s is not None and not s.free_symbols and scheduler.hints.value(s) >= line for s in strides
    )


def parallel_units(scheduler: Scheduler, group: Group) -> int:
    """Work units that the group's kernel can be cut into, at the hint sizes."""
    hints = scheduler.hints
    if all(n.axes == group.outer and not n.reduction for n in group.nests):
        return hints.volume(group.outer)
    chosen = shared_vector(scheduler, group)
    if chosen is None:
        return hints.volume(group.outer)
    rest = hints.volume(a for a in group.outer if a != chosen)
    return rest * -(-hints.value(chosen.extent) // scheduler.machine.least_strip)


def _order_stage(
    scheduler: Scheduler, outer: tuple[Axis, ...], draft: StageDraft, strip: Strip | None
) -> Stage:
    draft = merge_stage(scheduler, outer, draft, strip)
    cost = stage_cost(scheduler, outer, draft)
    ordered = order_by_stride(scheduler.hints, cost.moves, draft.domain)
    candidates = draft.domain
    if any(nest.conflicts for nest in draft.nests):
        ordered, candidates = in_order(draft, ordered)
    best = cost.best(candidates)[1]
    if best is not None and not draft.reduction and candidates == draft.domain:
        best = _nearest(cost, best, ordered)
    vector = _stage_vector(best, draft, strip)
    kept = [a for a in ordered if a in draft.inner and a != vector]
    reduced = [a for a in ordered if a in draft.reduction and a != vector]
    tail = [vector] if vector is not None else []
    if vector is not None and not reduced:
        within = axis_within(scheduler.hints, scheduler.machine, draft.nests, vector, kept)
        if within is not None:
            kept.remove(within)
            tail.append(within)
    return Stage(draft.inner, draft.reduction, (*kept, *reduced, *tail), vector, draft.nests)


def _stage_vector(best: Axis | None, draft: StageDraft, strip: Strip | None) -> Axis | None:
    if strip is not None and strip.axis in draft.inner:
        return strip.axis
    return best


def merge_stage(
    scheduler: Scheduler, outer: tuple[Axis, ...], draft: StageDraft, strip: Strip | None
) -> StageDraft:
    """Merges neighbouring loops of the stage; the axis in strips stays as it is."""
    nests = draft.nests
    inner, reduction = draft.inner, draft.reduction
    free = tuple(a for a in inner if strip is None or a != strip.axis)
    for nest in nests:
        if nest.conflicts:
            free = tuple(axis for axis in free if axis in nest.free_axes)
    merged = merge_axes(scheduler, nests, free)
    if merged is not None:
        nests, left = merged
        inner = (*left, *(a for a in inner if a not in free))
    merged = merge_axes(scheduler, nests, reduction)
    if merged is not None:
        nests, reduction = merged
    fixed = tuple(_with_axes(n, outer, inner, reduction) for n in nests)
    return StageDraft(inner, reduction, fixed)


def _with_axes(
    nest: LoopNest,
    outer: tuple[Axis, ...],
    inner: tuple[Axis, ...],
    reduction: tuple[Axis, ...],
) -> LoopNest:
    if nest.reduction or not reduction:
        return replace(nest, axes=(*outer, *inner), reduction=reduction if nest.reduction else ())
    return replace(nest, axes=(*outer, *inner, *reduction), reduction=())
