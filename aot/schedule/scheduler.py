"""What every choice of the scheduler looks at."""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.hints import Hints
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine


@dataclass(frozen=True)
class Scheduler:
    """A graph, example sizes, and the machine that it is scheduled for."""

    graph: LoopGraph
    hints: Hints
    machine: Machine
