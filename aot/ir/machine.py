"""What a device is: the facts that passes and the scheduler choose by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aot.ir.templates.base import Support, TemplateCall


@dataclass(frozen=True)
class Machine:
    """What cost models need to know of a device; sizes in bytes.

    `templates`: what the backend has for the kinds of template calls. `local_bytes`: how much
    memory private to one work unit may take. `lanes`: of the widest vectors, for elements of 4
    bytes.
    `tiles`: a work unit evaluates whole tiles of points at once and keeps values in registers
    alone, so that what nests of a kernel pass on is computed again where it is needed, but for
    reduced values; otherwise it loops over points, one vector at a time, and has local memory.
    `alignment`: of the addresses that kernels are given, in bytes; 1: any will do.
    `languages`: of the kernels that a model may bring along.
    `joins`: (mode of a store, name of an element type) by which values can join memory; None: all.
    `in_order`: one worker does all points of a nest that may meet, in their order.
    `units`: parallel work units from which a launch keeps the device busy. `cut_units`: from which
    no loop is cut into strips for more of them.

    Prices, in bytes of memory traffic that take about as long: `launch_bytes` of handing a kernel
    to the workers, `instruction_bytes` of a vector instruction. `large_bytes`: buffers of so many
    are not in fast memory when they are read again; `block_bytes`: rows of so many still are.

    Sizes of work, in points of an iteration space: `serial_points`: fewer may be one work unit;
    `simple_points`: pointwise work that one worker may do where its loops get simpler by it, and
    from which idle workers matter; `small_unit`: a work unit of fewer takes in another loop;
    `tile_row_points`: a row of so many is one tile, or a few, of a device with `tiles`.

    Strips of a loop, in elements of 4 bytes: `strip_points` in pointwise kernels, `kept_points`
    where an accumulator is kept for each, `line_points` in two cache lines.

    Recomputation: `cheap_weight`: a body up to this price (hints.body_weight) may be evaluated by
    several users instead of being stored; `division_weight`: price of a load whose index divides.
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
    launch_bytes: int = 1 << 15
    instruction_bytes: int = 8
    large_bytes: int = 4 << 20
    block_bytes: int = 1 << 18
    serial_points: int = 1 << 14
    simple_points: int = 1 << 16
    small_unit: int = 256
    tile_row_points: int = 1 << 15
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
