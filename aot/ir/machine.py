"""What a device is: the facts that passes and the scheduler choose by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aot.ir.templates.base import Support, TemplateCall


@dataclass(frozen=True)
class CrossedTile:
    """A tile that a work unit holds in registers and reduces along both of its axes.

    Attributes:
        heights: Rows of the tiles that a longer matrix is cut into, the best first. Fewer have too
            few loads in flight, and too many partial results of columns for what is read.
        least_rows, most_rows: That it may have; all of a work unit's rows are in it.
        least_columns: That it is worth the trouble for.
        share: It pays from one tile for so many of the device's work units on.
    """

    heights: tuple[int, ...] = (16, *range(15, 7, -1), *range(17, 33))
    least_rows: int = 4
    most_rows: int = 64
    least_columns: int = 64
    share: int = 4


@dataclass(frozen=True)
class Machine:
    """What passes and the scheduler know of a device. Bytes are bytes, lanes and strips elements.

    What it is:
        local_bytes: Memory private to one work unit that local buffers may take; about its cache.
        grain_bytes: Bytes that a thread of its own should at least move.
        templates: What the backend has for the kinds of template calls.
        local_buffers: What nests of a kernel read of each other lies in memory of the work unit,
            which loops over points, one vector at a time. Otherwise it evaluates many points at
            once in registers, and nests recompute what they read, but for reduced values.
        crossed: The tiles that are reduced along both axes at one read; None: there are none.
        gathers: Elements that lie apart are read at the cost of neighbours.
        alignment: Of the addresses that kernels are given, in bytes; 1: any will do.
        lanes: Elements of 4 bytes in the widest vector.
        mask_bytes: Of elements that masks fit at every level of the device.
        units: Parallel work units from which a launch keeps the device busy.
        wide_units: A work unit that walks a row of more than row_points counts as so many.
        column_units: The same of strips of columns, which read a line of each row; 0: as many.
        cut_units: Parallel work units from which no loop is cut into strips for more of them.
        languages: Of the kernels that a model may bring along.
        joins: (Mode of a store, name of an element type) by which values can join memory; None:
            all.
        least_shares: Of a kernel's work, where each worker looks at all points for its own: with
            fewer, they gain little over what they pass.
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
        cache_line: Bytes that come together.
        line_bytes, line_elements: Rows of fewer bytes are joined to rows of so many elements, where
            work units read neighbouring columns side by side; 0: none are.
        way_bytes, ways: Of the nearest cache: lines so far apart share that many places.

    Work, in points of an iteration space:
        serial_points: A kernel of fewer may be a single work unit.
        simple_points: With fewer, idle workers do not matter: a kernel may have fewer work units
            if that makes its loops simpler.
        small_unit: A work unit of fewer takes one more of the outer loops inside.
        idle_share: Lanes without work, for each one with it, that a row of vectors may leave.
        left_share: Of a loop, so much may be left to a single work unit.
        compared_points: So many comparisons of points with each other take no longer than another
            launch.
        row_points: A row of so many is one step of a work unit, or a few, in registers.
        held_rows: Heights of parts of columns that a work unit keeps while it reduces them twice,
            best first.
        held_columns: How many such columns it has.
        held_points: The same of a part of a row: points of four bytes; a power of two.
        part_points: A partial reduction of fewer is not worth a result of its own.
        part_rows: The same, where a work unit reduces a strip of columns at once.
        most_parts: So many partial results are combined in no time.
        least_parts: Parts of unequal length pay from so many for each result on.

    Strips of a loop, in elements of 4 bytes:
        strip_points: In pointwise kernels.
        kept_points: Where each element has an accumulator.
        line_points: Of tiles, as for a transposition, at least: two cache lines.
        tile_points: The same, at most.

    Recomputation, in the prices of `hints.body_weight`:
        cheap_weight: A body up to this may be evaluated by several users instead of being stored.
        cheap_repeats: So often at most.
        division_weight: A load whose index divides.

    Accesses of a vector loop, in vector instructions; of neighbouring elements they are one:
        invariant_price: Of the same element at each point: loaded before the loop.
        strided_price: Of elements that lie evenly apart, to load them.
        turned_price: The same of such that tiles turn, to load them.
        strided_store_price: The same, to store them, one after the other.
        near_price: So many times as many instructions may be taken by loops whose neighbours lie
            near, in place of those with a cache line for each lane.
        scattered_price: Of elements anywhere.
        within_gain: A loop's price outside of the vector loop over its price within, from which it
            goes there.
        within_saved: What it must save at a vector, which is stored apart from the one before.
        joined_price: Joining a lane with memory, one after the other.
        horizontal_price: Adding up the lanes of a vector, once for each result.
    """

    local_bytes: int
    grain_bytes: int
    templates: tuple[Support[Any], ...] = ()
    local_buffers: bool = True
    crossed: CrossedTile | None = None
    gathers: bool = False
    alignment: int = 1
    lanes: int = 16
    mask_bytes: int = 4
    units: int = 8
    wide_units: int = 1
    column_units: int = 0
    cut_units: int = 16
    languages: frozenset[str] = frozenset()
    joins: frozenset[tuple[str, str]] | None = None
    in_order: bool = True
    least_shares: int = 4
    private_points: int = 0
    launch_bytes: int = 1 << 15
    instruction_bytes: int = 8
    passing_bytes: int = 16
    large_bytes: int = 4 << 20
    block_bytes: int = 1 << 18
    cache_line: int = 64
    line_bytes: int = 128
    line_elements: int = 0
    way_bytes: int = 4096
    ways: int = 8
    serial_points: int = 1 << 14
    simple_points: int = 1 << 16
    small_unit: int = 256
    idle_share: float = 0.25
    left_share: float = 1 / 32
    row_points: int = 1 << 15
    held_rows: tuple[int, ...] = (256, 128)
    held_columns: int = 32
    held_points: int = 1 << 14
    part_points: int = 1024
    part_rows: int = 256
    most_parts: int = 512
    least_parts: int = 4
    compared_points: int = 1 << 19
    strip_points: int = 4096
    kept_points: int = 512
    line_points: int = 32
    tile_points: int = 256
    cheap_weight: int = 4
    cheap_repeats: int = 8
    division_weight: int = 4
    invariant_price: float = 0.2
    strided_price: float = 10.0
    turned_price: float = 4.0
    strided_store_price: float = 20.0
    near_price: float = 2.0
    scattered_price: float = 14.0
    within_gain: float = 1.5
    within_saved: float = 16.0
    joined_price: float = 4.0
    horizontal_price: float = 8.0

    @property
    def least_strip(self) -> int:
        """Elements of the shortest strip: four vectors."""
        return 4 * self.lanes

    def support(self, kind: type[TemplateCall]) -> Support[Any] | None:
        """What the backend has for a kind of template call; None: nothing."""
        return next((s for s in self.templates if s.kind is kind), None)

    def takes_producer(self, call: TemplateCall) -> bool:
        """Whether the call's kernel evaluates pointwise nests in place of loading an operand."""
        found = self.support(type(call))
        return found is not None and found.takes_producer
