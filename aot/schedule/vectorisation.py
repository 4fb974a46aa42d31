"""Vectorisation: what a stage costs along each loop that might be its vector loop.

Prices are in vector instructions, from strides and extents at the hint sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aot.ir.hints import Hints, body_weight, is_index
from aot.ir.machine import Machine
from aot.ir.nests import Axis, LoopNest
from aot.ir.scalar import Node, postorder
from aot.schedule.index_set_splitting import split_points
from aot.schedule.scheduler import Scheduler
from aot.schedule.stages import StageDraft
from aot.schedule.strides import StridedAccess, are_pairs, symbols_as_values
from aot.symbolic import Expr, Symbol, is_int


@dataclass(frozen=True)
class StageCost:
    """What a stage costs to evaluate, in vector instructions, vectorised along one loop.

    `operations`: price of the body at every point; `after`: once the reduction has ended.
    `ends`: those of `moves` that store what a reduction gave, once it has ended.
    `values`: loop variables that the body computes with, such as those of its conditions.
    `itemsizes`: bytes of an element, by buffer. `lanes`: of a vector. `halves`: loops over two
    neighbours that will be cut in two (`pairs`).
    """

    hints: Hints
    machine: Machine
    stage: StageDraft
    outer: tuple[Axis, ...]
    moves: tuple[StridedAccess, ...]
    ends: frozenset[StridedAccess]
    operations: int
    after: int
    values: frozenset[Symbol]
    itemsizes: Mapping[str, int]
    lanes: int
    halves: tuple[Axis, ...] = ()

    def along(self, axis: Axis | None) -> float:
        """Price when `axis` is the vector loop; None for scalar code."""
        points = self.hints.volume((*self.outer, *self.stage.domain))
        if axis is None:
            return float(points * (len(self.moves) + self.operations))
        extent = max(1, self.hints.value(axis.extent))
        vectors = points / extent * -(-extent // self.lanes)
        each = (move for move in self.moves if move not in self.ends)
        price = sum(self._access(move, axis.symbol) for move in each) + self.operations
        total = vectors * price
        kept = self.hints.volume((*self.outer, *self.stage.inner))
        if axis in self.stage.reduction:
            single = self.machine.horizontal_price + self.after + len(self.ends)
            return total + kept * single
        ends = sum(self._access(move, axis.symbol) for move in self.ends)
        return total + kept * (self.after + ends) / self.lanes

    def _access(self, move: StridedAccess, symbol: Symbol) -> float:
        """Of one vector of an access."""
        stride = move.stride(symbol)
        if move.joins and stride != 1:
            return self.machine.joined_price * self.lanes
        if stride is None:
            return self.machine.scattered_price
        if stride == 0 and symbol not in self.values:
            return self.machine.invariant_price
        if stride in (0, 1):
            return 1.0
        if self._is_pair(move, symbol):
            return 1.0
        if self._turns(move) and any(self._is_pair(m, symbol) for m in self.moves):
            return self.machine.turned_price
        apart = self.machine.strided_store_price if move.store else self.machine.strided_price
        return apart + self._lines(move, stride) / self.machine.instruction_bytes

    def half_of(self, symbol: Symbol) -> Axis | None:
        """The loop over two whose pieces store pairs along the loop of that variable."""
        stores = [m for m in self.moves if m.store and m.stride(symbol) == 2]
        both = (a for a in self.halves if any(m.stride(a.symbol) == 1 for m in stores))
        return next(both, None)

    def _is_pair(self, move: StridedAccess, symbol: Symbol) -> bool:
        """Whether a store is a vector together with another one, or with its own other piece."""
        if not move.store or move.stride(symbol) != 2:
            return False
        if any(move.stride(a.symbol) == 1 for a in self.halves):
            return True
        return any(are_pairs(move, other, symbol) for other in self.moves)

    def _turns(self, move: StridedAccess) -> bool:
        """Whether tiles of the loop around may turn what is loaded."""
        along = [a for a in self.stage.inner if move.stride(a.symbol) == 1]
        return not move.store and any(self.hints.value(a.extent) >= self.lanes // 2 for a in along)

    def _lines(self, move: StridedAccess, stride: Expr) -> float:
        """Bytes that a vector of elements apart brings along and that only other units need.

        Those of the cache lines around the elements, when no cache holds all lines that a unit
        walks until its neighbour does.
        """
        item, line = self.itemsizes[move.buffer], self.machine.cache_line
        walked = [a for a in self.stage.domain if move.stride(a.symbol) != 0]
        inside = any(move.stride(a.symbol) == 1 for a in walked)
        beside = any(move.stride(a.symbol) == 1 for a in self.outer)
        if inside or not beside or stride.free_symbols:
            return 0.0
        each = min(line, abs(int(stride)) * item)
        if self.hints.volume(walked) * each <= self.machine.block_bytes:
            return 0.0
        return float(self.lanes * (each - item))

    def best(self, candidates: Sequence[Axis]) -> tuple[float, Axis | None]:
        """The cheapest candidate, scalar code among them; the last of equals."""
        choice: tuple[float, Axis | None] = (self.along(None), None)
        for axis in candidates:
            price = self.along(axis)
            if price <= choice[0]:
                choice = (price, axis)
        return choice


def stage_cost(scheduler: Scheduler, outer: tuple[Axis, ...], stage: StageDraft) -> StageCost:
    """The cost model of one stage inside those outer loops."""
    moves = tuple(dict.fromkeys(m for n in stage.nests for m in scheduler.moves(n)))
    reduced = [n for n in stage.nests if n.reduction]
    ends = frozenset(m for n in reduced for m in scheduler.moves(n) if m.store)
    everywhere = [r for n in stage.nests for r in _per_point(n)]
    whole = body_weight([r for n in stage.nests for r in n.roots])
    inside = body_weight(everywhere)
    values = symbols_as_values(everywhere)
    hints, machine = scheduler.hints, scheduler.machine
    itemsizes = {m.buffer: scheduler.graph.buffers[m.buffer].dtype.itemsize for m in moves}
    lanes = lanes_of(machine, everywhere)
    after = whole - inside
    halves = tuple(a for a in stage.inner if _is_half(machine, stage, moves, a))
    return StageCost(
        hints, machine, stage, outer, moves, ends, inside, after, values, itemsizes, lanes, halves
    )


def _is_half(
    machine: Machine, stage: StageDraft, moves: Iterable[StridedAccess], axis: Axis
) -> bool:
    """Whether a loop over two neighbours that are stored is cut between them."""
    if not is_int(axis.extent, 2) or stage.reduction:
        return False
    near = any(m.store and m.stride(axis.symbol) == 1 for m in moves)
    return near and split_points(machine, stage.nests, axis) == [1]


def lanes_of(machine: Machine, roots: Iterable[Node]) -> int:
    """Of a vector of the widest values that are computed; indices alone do not count."""
    nodes = postorder(roots)
    sizes = [n.dtype.compute.itemsize for n in nodes if not is_index(n)]
    return max(1, 4 * machine.lanes // max(4, *sizes)) if sizes else machine.lanes


def _per_point(nest: LoopNest) -> tuple[Node, ...]:
    """What is evaluated at every point of the domain: the arguments of reductions, or all."""
    if not nest.reduction:
        return nest.roots
    return tuple(n.args[0] for n in postorder(nest.roots) if n.op == "reduce")


def order_by_stride(
    hints: Hints, moves: Iterable[StridedAccess], axes: Sequence[Axis]
) -> list[Axis]:
    """Axes by falling stride, the greatest of all accesses; equal ones keep their order."""

    def reach(axis: Axis) -> int:
        total = 0
        for move in moves:
            stride = move.stride(axis.symbol)
            if stride is not None and not stride.free_symbols - set(hints.dims):
                total = max(total, abs(hints.value(stride)))
        return total

    return sorted(axes, key=reach, reverse=True)


def nests_reduce(nests: Iterable[LoopNest]) -> bool:
    """True when one of the nests has a reduction."""
    return any(n.reduction for n in nests)
