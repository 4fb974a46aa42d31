"""Loops of a nest whose points may meet: their order, and how workers divide them.

For devices that do points in order. Points never meet along some loops; where these are outermost,
they are the parallel ones. Otherwise workers may share what is stored to: each goes through all
points, and does those whose element is its own. Every element then gets its points in the
nest's order, from one worker, so results are the same with any number of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from aot.ir.hints import body_weight
from aot.ir.kernel_facts import share_level
from aot.ir.kernels import Shares, Stage
from aot.ir.nests import Axis
from aot.schedule.groups import Group
from aot.schedule.scheduler import Scheduler
from aot.schedule.stages import StageDraft


def leading_free(group: Group) -> tuple[Axis, ...]:
    """The loops outside of all along which points may meet."""
    (nest,) = group.nests
    return tuple(itertools.takewhile(nest.free_axes.__contains__, group.outer[:-1]))


def in_order(draft: StageDraft, ordered: Sequence[Axis]) -> tuple[list[Axis], tuple[Axis, ...]]:
    """Loops along which points may meet in the nest's order, outside of the others.

    Also the loops of which one may become the vector, innermost, without a change of that order.
    """
    (nest,) = draft.nests
    free = tuple(axis for axis in ordered if axis in nest.free_axes)
    meeting = tuple(axis for axis in nest.axes if axis in draft.inner and axis not in free)
    return [*meeting, *free], (*meeting[-1:], *free)


def shares_of(scheduler: Scheduler, stage: Stage) -> Shares | None:
    """How workers share what a stage without parallel loops stores to; None: one does it all.

    Whose a point is has to be known outside of loops that are worth passing by.
    """
    (nest,) = stage.nests
    (store,) = nest.stores
    buffer = scheduler.graph.buffers[store.buffer]
    ranges, hints = scheduler.graph.ranges(), scheduler.hints
    weight = body_weight(nest.roots) + 2 * buffer.dtype.itemsize
    found: list[Shares] = []
    for dimension, size in enumerate(buffer.shape):
        inside = stage.order[share_level(store, dimension, stage.order) + 1 :]
        price = hints.volume(inside) * weight
        most = min(hints.value(size), price // scheduler.machine.passing_bytes)
        # Nothing runs for an empty dimension, and so nobody would see indices into it.
        if (
            inside
            and inside != stage.order
            and most >= scheduler.machine.least_shares
            and ranges.nonnegative(size - 1)
        ):
            found.append(Shares(dimension, most))
    return max(found, key=lambda shares: shares.most, default=None)
