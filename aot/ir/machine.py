"""What a device is: the facts that passes and the scheduler choose by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aot.ir.templates.base import Support, TemplateCall


@dataclass(frozen=True)
class Machine:
    """What passes and the scheduler know of a device. Bytes are bytes, lanes and strips elements.

    What it is:
        local_bytes: Memory private to one work unit that local buffers may take; about its cache.
        grain_bytes: Bytes that a thread of its own should at least move.
        templates: What the backend has for the kinds of template calls.
        tiles: A work unit evaluates whole tiles of points in registers, as a GPU's program does;
            nests recompute what they read of each other, but for reduced values. Otherwise it
            loops over points, one vector at a time, and has local buffers.
        alignment: Of the addresses that kernels are given, in bytes; 1: any will do.
        lanes: Elements of 4 bytes in the widest vector.
        units: Parallel work units from which a launch keeps the device busy.
        cut_units: Parallel work units from which no loop is cut into strips for more of them.
        languages: Of the kernels that a model may bring along.
        joins: (Mode of a store, name of an element type) by which values can join memory; None:
            all.
        in_order: One worker does all points of a nest that may meet, in their order.
        private_points: Elements that private copies of what values join may have in all, so that
            values for one element need not wait for each other; 0: there are no copies.

    Prices, as bytes of memory traffic that take about as long:
        launch_bytes: Handing a kernel to the workers.
        instruction_bytes: A vector instruction.
        passing_bytes: Finding that a point is another worker's.

    Caches:
        large_bytes: A buffer of so many is no longer in a cache when it is read again.
        block_bytes: A block of so many still is.

    Work, in points of an iteration space:
        serial_points: A kernel of fewer may be a single work unit.
        simple_points: With fewer, idle workers do not matter: a kernel may have fewer work units
            if that makes its loops simpler.
        small_unit: A work unit of fewer takes one more of the outer loops inside.
        compared_points: So many comparisons of points with each other take no longer than another
            launch.
        tile_row_points: A row of so many is one tile, or a few, where there are `tiles`.

    Strips of a loop, in elements of 4 bytes:
        strip_points: In pointwise kernels.
        kept_points: Where each element has an accumulator.
        line_points: Of square tiles, as for a transposition: two cache lines.

    Recomputation, in the prices of `hints.body_weight`:
        cheap_weight: A body up to this may be evaluated by several users instead of being stored.
        division_weight: A load whose index divides.
    """

    local_bytes: int
    grain_bytes: int
    templates: tuple[Support[Any], ...] = ()
    tiles: bool = False
    alignment: int = 1
    lanes: int = 16
    units: int = 8
    cut_units: int = 16
    languages: frozenset[str] = frozenset()
    joins: frozenset[tuple[str, str]] | None = None
    in_order: bool = True
    private_points: int = 0
    launch_bytes: int = 1 << 15
    instruction_bytes: int = 8
    passing_bytes: int = 16
    large_bytes: int = 4 << 20
    block_bytes: int = 1 << 18
    serial_points: int = 1 << 14
    simple_points: int = 1 << 16
    small_unit: int = 256
    tile_row_points: int = 1 << 15
    compared_points: int = 1 << 19
    strip_points: int = 4096
    kept_points: int = 512
    line_points: int = 32
    cheap_weight: int = 4
    division_weight: int = 4

    def support(self, kind: type[TemplateCall]) -> Support[Any] | None:
        """What the backend has for a kind of template call; None: nothing."""
        return next((s for s in self.templates if s.kind is kind), None)

    def takes_producer(self, call: TemplateCall) -> bool:
        """Whether the call's kernel evaluates pointwise nests in place of loading an operand."""
        found = self.support(type(call))
        return found is not None and found.takes_producer
