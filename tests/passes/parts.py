"""What stands in a loop graph, for tests of passes."""

from __future__ import annotations

from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.ir.templates.base import TemplateCall


def nests(graph: LoopGraph) -> list[LoopNest]:
    return [op for op in graph.ops if isinstance(op, LoopNest)]


def templates(graph: LoopGraph) -> list[TemplateCall]:
    return [op for op in graph.ops if isinstance(op, TemplateCall)]
