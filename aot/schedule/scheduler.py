"""What every choice of the scheduler looks at, and what it has found of nests and groups."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from aot.ir.hints import Hints
from aot.ir.likeness import likeness_of_nests
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import Axis, LoopNest
from aot.ir.work import buffer_bytes
from aot.schedule.strides import StridedAccess, strided_accesses

Price = tuple[float, Axis | None]
"""Of a group's kernel, in vector instructions, and the shared axis that it is for."""


@dataclass(frozen=True)
class Scheduler:
    """A graph, example sizes, and the machine that it is scheduled for.

    A nest is looked at for every pair of groups that is tried, and again for its kernel: what
    depends on it and on the facts above alone is found once. What does not depend on the names of
    its buffers either is found once for groups that are alike, by their `shape_of`: `prices`, and
    the shared loops that became inner ones (`narrowed`).
    """

    graph: LoopGraph
    hints: Hints
    machine: Machine
    prices: dict[Hashable, Price] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    narrowed: dict[Hashable, Axis | None] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    _shapes: dict[tuple[tuple[Axis, ...], tuple[LoopNest, ...]], Hashable] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    _sizes: dict[str, int] = field(default_factory=dict, init=False, compare=False, repr=False)
    _moves: dict[LoopNest, tuple[StridedAccess, ...]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def shape_of(self, outer: tuple[Axis, ...], nests: tuple[LoopNest, ...]) -> Hashable:
        """Equal for nests in shared loops that differ in the names of buffers alone."""
        found = self._shapes.get((outer, nests))
        if found is None:
            found = likeness_of_nests(outer, nests, self.graph.buffers).key
            self._shapes[outer, nests] = found
        return found

    def moves(self, nest: LoopNest) -> tuple[StridedAccess, ...]:
        """Every distinct access of a nest."""
        found = self._moves.get(nest)
        if found is None:
            cuts = not self.machine.gathers
            found = self._moves[nest] = strided_accesses(self.graph, nest, straighten=cuts)
        return found

    def size(self, buffer: str) -> int:
        """Bytes of a buffer at the example's sizes."""
        found = self._sizes.get(buffer)
        if found is None:
            expr = buffer_bytes(self.graph.buffers[buffer])
            found = self._sizes[buffer] = self.hints.value(expr)
        return found
