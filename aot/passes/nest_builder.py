"""Puts nests in the place of template calls: their buffers, loads, derived weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from aot.ir.decisions import Decision
from aot.ir.dtypes import DType
from aot.ir.loops import (
    Buffer,
    DerivedWeight,
    LoopGraph,
    LoopNest,
    LoopOp,
    Store,
    TemplateCall,
    View,
    writes,
)
from aot.ir.origin import Origin
from aot.ir.scalar import Node, cast, load
from aot.ir.tensors import Dim
from aot.symbolic import Expr, Symbol, row_major_strides, substitute


@dataclass
class NestBuilder:
    """Declares the buffers and derived weights of expansions; local to one run of the pass.

    `nests`: the nest that writes a buffer, before any expansion.
    """

    buffers: dict[str, Buffer]
    nests: Mapping[str, LoopNest]
    dims: tuple[Dim, ...] = ()
    derived: list[DerivedWeight] = field(default_factory=list)

    def temp(self, name: str, dtype: DType, shape: tuple[Expr, ...]) -> str:
        """A new temporary's name."""
        self.buffers[name] = Buffer(name, dtype, shape, None, "temp")
        return name

    def row_major_weight(self, name: str, view: View, origin: Origin) -> View:
        """A weight's view as a derived weight of its own, dense in the order of the view's axes."""
        source = self.buffers[view.buffer]
        if source.kind != "weight" or view.index == tuple(a.symbol for a in view.axes):
            return view
        shape = tuple(a.extent for a in view.axes)
        point = tuple(a.symbol for a in view.axes)
        strides = row_major_strides(shape)
        self.buffers[name] = Buffer(name, source.dtype, shape, strides, "weight", name)
        copy = Store(name, point, load(source.name, source.dtype, view.index))
        nest = LoopNest(name, view.axes, (), (copy,), origin)
        self.derived.append(DerivedWeight(name, "fold", (source.name,), (), (nest,)))
        return View(name, view.axes, point)

    def dtype(self, name: str) -> DType:
        """A buffer's element type."""
        return self.buffers[name].dtype

    def load(self, view: View, at: Mapping[Symbol, Expr], mask: Node | None = None) -> Node:
        """The element of a view, widened to what is computed in."""
        index = [substitute(e, at) for e in view.index]
        dtype = self.dtype(view.buffer)
        return cast(load(view.buffer, dtype, index, mask=mask), dtype.compute)


Replacement = tuple[Decision, Sequence[LoopOp]]
"""What takes a template call's place, and why."""

Change = Callable[[NestBuilder, TemplateCall], Replacement | None]
"""What becomes of a template call; None: it stays."""


def change_calls(graph: LoopGraph, change: Change) -> LoopGraph:
    """The graph with some template calls replaced; the same one where all stay."""
    nests = {n: op for op in graph.ops if isinstance(op, LoopNest) for n in writes(op)}
    builder = NestBuilder(dict(graph.buffers), nests, graph.dims)
    ops: list[LoopOp] = []
    decisions: list[Decision] = []
    for op in graph.ops:
        changed = change(builder, op) if isinstance(op, TemplateCall) else None
        if changed is None:
            ops.append(op)
            continue
        decision, made = changed
        decisions.append(decision)
        ops.extend(made)
    if not decisions:
        return graph
    return replace(
        graph,
        buffers=builder.buffers,
        ops=tuple(ops),
        derived=(*graph.derived, *builder.derived),
        decisions=(*graph.decisions, *decisions),
    )
