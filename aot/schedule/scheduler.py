"""What every choice of the scheduler looks at, and what it has found of nests and groups."""

from __future__ import annotations

from dataclasses import dataclass, field

from aot.ir.hints import Hints
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
    depends on it and on the facts above alone is found once. `prices`: by the shared axes of a
    group and its nests.
    """

    graph: LoopGraph
    hints: Hints
    machine: Machine
    prices: dict[tuple[tuple[Axis, ...], tuple[LoopNest, ...]], Price] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    _sizes: dict[str, int] = field(default_factory=dict, init=False, compare=False, repr=False)
    _moves: dict[LoopNest, tuple[StridedAccess, ...]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

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
