"""Tiles of kernels whose only loops are outer ones, and what tiles of all kernels share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aot.backends.guards import Guard
from aot.backends.triton.context import KernelContext, TileDim
from aot.backends.triton.ops import ASK_LANES
from aot.backends.triton.shared_reads import SharedReads, shared_reads, shared_work
from aot.ir.hints import Hints, op_weight
from aot.ir.kernels import NestKernel
from aot.ir.nests import Axis
from aot.ir.scalar import Access, Node, loads, postorder
from aot.symbolic import coefficient_of, power_above

Guards = Mapping[Node, Guard]
"""The selections of a kernel that are written with branches."""

THREAD_POINTS = 8
"""Points of a tile for each thread."""

LONG_BODY_WEIGHT = 800
"""Price of a thread's points from which a kernel's code outgrows the instruction cache."""

LONG_BODY_POINTS = 512
"""Points of a tile whose threads have few points each."""

WARP = 32

CROSSING_LEAST, CROSSED_LEAST = 16, 4
"""Extent from which a loop that some access walks contiguously earns a tile dimension, of those
that strides are walked along, and of the contiguous one."""

CROSSING, CROSSING_POINTS = 64, 4096
"""Of a side of such a tile, and points of it: where one side is short the other one is longer."""

MOST_TURNS = 8
"""Tiles of one warp that a program computes in turn: more programs take long to start."""

UNIT_WARPS = 16
"""Programs of one warp, of each of a device's units, from which on they take several tiles."""

SHARED_WARPS = 4
"""Of a program that computes several points of an axis."""

WARP_REGISTERS = 64
"""Of a thread, where the rest of a body is cheap: so many that a processor holds all the programs
of a warp that it can. What stands behind tests spills the others."""

CHEAP_REST = 200
"""Price of a point, without what stands behind tests, up to which that is so."""


@dataclass(frozen=True)
class PointTile:
    """Tile of a pointwise kernel: one or two dimensions (rows, columns), and warps.

    `turns`: how many tiles a program computes, of one dimension. `registers`: of a thread at most;
    0: as many as it wants. `shared`: an axis that is not among `dims`, of which a program computes
    several points.
    """

    dims: tuple[TileDim, ...]
    warps: int
    turns: int = 1
    registers: int = 0
    shared: SharedReads | None = None

    @property
    def options(self) -> dict[str, int]:
        """What the kernel is compiled with."""
        most = {"maxnreg": self.registers} if self.registers else {}
        return {"num_warps": self.warps, **most}


def point_tile(
    kernel: NestKernel, context: KernelContext, hints: Hints, units: int, guards: Guards
) -> PointTile:
    """The tile of a kernel whose only loops are the outer ones."""
    crossing = _crossing(kernel, context, hints)
    if crossing is not None:
        return _crossing_tile(kernel, crossing, hints, units)
    points = hints.volume(kernel.outer)
    if _repeats(kernel):
        block = min(WARP, power_above(max(1, points)))
        return PointTile((TileDim("x", kernel.outer, block, 0),), 1)
    block = max(128, min(1024, power_above(points // units)))
    block = min(block, power_above(max(1, points)))
    nodes = postorder(roots_of(kernel))
    if guards or any(n.op in ASK_LANES for n in nodes):
        return _warp_tile(kernel, nodes, points, units, guards)
    weight = sum(map(op_weight, nodes))
    work = shared_work(kernel, points, units)
    if work is not None:
        return _shared_tile(kernel, work, max(1, points // work.turns), units)
    each = _thread_points(weight)
    if each < THREAD_POINTS:
        block = min(block, LONG_BODY_POINTS)
        dim = TileDim("x", kernel.outer, block, 0)
        return PointTile((dim,), max(1, block // (WARP * each)))
    shared = shared_reads(kernel, context, hints, points // block, weight, units)
    outer = kernel.outer if shared is None else kernel.outer[1:]
    warps = max(1, min(4, block // 128))
    return PointTile((TileDim("x", outer, block, 0),), warps, shared=shared)


def _shared_tile(kernel: NestKernel, shared: SharedReads, points: int, units: int) -> PointTile:
    """The tile of a kernel whose programs compute once what points of an axis share.

    It has as many threads as there is room for: they wait for what they find by an index.
    """
    each = min(_thread_points(shared.weight), max(1, points // (units * UNIT_WARPS * WARP)))
    outer = tuple(a for a in kernel.outer if a != shared.axis)
    block = SHARED_WARPS * WARP * (1 << each.bit_length() - 1)
    return PointTile((TileDim("x", outer, block, 0),), SHARED_WARPS, shared=shared)


def _crossing_tile(kernel: NestKernel, crossing: Axis, hints: Hints, units: int) -> PointTile:
    """The tile of a kernel that reads along an axis and writes along the last ones."""
    columns = _last_axes(kernel.outer, hints)
    rows = tuple(a for a in kernel.outer if a not in (*columns, crossing))
    along = power_above(hints.volume(columns))
    high = min(CROSSING, power_above(hints.value(crossing.extent)))
    wide = min(CROSSING_POINTS // high, along)
    while wide > CROSSING and hints.volume(kernel.outer) < units * high * wide:
        wide //= 2
    return PointTile(
        (TileDim("y", (*rows, crossing), high, 0), TileDim("x", columns, wide, 1)),
        max(1, min(8, high * wide // (WARP * THREAD_POINTS))),
    )


def _repeats(kernel: NestKernel) -> bool:
    """True when a store is tried again where other programs were in between (`atomic_mul`).

    All points of a tile are, so a tile is a warp, whose threads wait for each other anyway.
    """
    stores = (s for stage in kernel.stages for nest in stage.nests for s in nest.stores)
    return any(s.conflicts and s.mode == "mul" for s in stores)


def _warp_tile(
    kernel: NestKernel, nodes: Iterable[Node], points: int, units: int, guards: Guards
) -> PointTile:
    """The tile of a kernel with ways that are taken, or loops that go on, while a point wants it.

    It is a warp's: few points decide together, and asking them is no barrier.
    """
    behind = frozenset[Node]().union(*(g.behind for g in guards.values()))
    rest = sum(op_weight(n) for n in nodes if n not in behind)
    wide = min(WARP * min(4, _thread_points(rest)), power_above(max(1, points)))
    turns = max(1, min(MOST_TURNS, points // (wide * units * UNIT_WARPS)))
    few = bool(guards) and rest <= CHEAP_REST
    dim = TileDim("x", kernel.outer, wide, 0)
    return PointTile((dim,), 1, turns, WARP_REGISTERS if few else 0)


def memory_reads(kernel: NestKernel) -> list[Access]:
    """What the kernel reads of memory, each once."""
    found = dict.fromkeys(n.attr for n in loads(roots_of(kernel)))
    return [a for a in found if isinstance(a, Access) and a.buffer not in kernel.local]


def roots_of(kernel: NestKernel) -> list[Node]:
    """What the kernel's nests store and reduce, all of it."""
    return [r for s in kernel.stages for n in s.nests for r in n.roots]


def _thread_points(weight: int) -> int:
    """Points of a thread: code is repeated for each, rare paths of dear functions included.

    `weight`: the price of one.
    """
    fitting = LONG_BODY_WEIGHT // max(1, weight)
    return next((n for n in (THREAD_POINTS, 4) if n <= fitting), 2)


def _crossing(kernel: NestKernel, context: KernelContext, hints: Hints) -> Axis | None:
    """An axis that some access walks contiguously while it strides along the last ones."""
    last = _last_axes(kernel.outer, hints)
    if hints.volume(last) < CROSSING_LEAST:
        return None
    for stage in kernel.stages:
        for node in loads([r for n in stage.nests for r in n.roots]):
            access = node.attr
            assert isinstance(access, Access)
            if access.binds:
                continue
            offset = context.offset(access.buffer, access.index)
            if any(coefficient_of(offset, axis.symbol) in (0, 1) for axis in last):
                continue
            for axis in kernel.outer[: -len(last)]:
                wide = hints.value(axis.extent) >= CROSSED_LEAST
                if wide and coefficient_of(offset, axis.symbol) == 1:
                    return axis
    return None


def _last_axes(outer: tuple[Axis, ...], hints: Hints) -> tuple[Axis, ...]:
    """The last axes that are as long together as one that earns a dimension.

    Several where one was cut: outputs of a transposed convolution, whose phases lie side by side.
    """
    count = 1
    while count < len(outer) and hints.volume(outer[-count:]) < CROSSING_LEAST:
        count += 1
    return outer[-count:]
