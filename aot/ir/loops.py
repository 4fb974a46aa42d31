"""The loop graph: loop nests and template calls over buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aot.ir.decisions import Decision
from aot.ir.nests import Axis, Buffer, DerivedWeight
from aot.ir.scalar import Access, loads
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.ir.tensors import Dim, Mutation, Signature, SizeRelation
from aot.symbolic import Expr, Ranges, dim


@dataclass(frozen=True)
class LoopGraph:
    """Operations in a valid order. Every buffer is written by at most one op.

    `outputs`: a buffer name per output leaf, with the strides promised to the caller in
    `output_strides`. Buffers of kind input are listed in `inputs` in call order. `derived`: buffers
    of kind weight that are computed when the package is built, in dependency order (their name is
    the buffer's). `decisions`: what the passes chose so far. `mutations`: targets are buffers of
    kind state or input, values temporaries of the same type, none of them an output or the value
    of another; no operation writes a target, which holds the old value throughout.
    """

    name: str
    dims: tuple[Dim, ...]
    buffers: Mapping[str, Buffer]
    ops: tuple[LoopOp, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    output_strides: tuple[tuple[Expr, ...], ...]
    signature: Signature
    relations: tuple[SizeRelation, ...] = field(default=())
    derived: tuple[DerivedWeight, ...] = ()
    decisions: tuple[Decision, ...] = ()
    mutations: tuple[Mutation, ...] = ()

    @property
    def results(self) -> tuple[str, ...]:
        """Buffers that must hold their value when the run is over: outputs and new values."""
        return (*self.outputs, *(m.value for m in self.mutations))

    def ranges(self, *axes: Axis) -> Ranges:
        """Knowledge for simplifying an index of a nest with these axes."""
        return Ranges(
            {a.symbol: a.extent for a in axes},
            {dim(d.name): (d.minimum, d.maximum) for d in self.dims},
        )


def reads(op: LoopOp) -> tuple[str, ...]:
    """Names of the buffers that `op` reads, each once, in order of appearance."""
    if isinstance(op, TemplateCall):
        return tuple(dict.fromkeys(v.buffer for _, v in op.operands))
    found = [n.attr.buffer for n in loads(op.roots) if isinstance(n.attr, Access)]
    return tuple(dict.fromkeys((*found, *bases(op).values())))


def bases(op: LoopOp) -> dict[str, str]:
    """Buffers that `op` writes in part -> the buffer that has their other elements."""
    if isinstance(op, TemplateCall):
        return {}
    return {s.buffer: s.base for s in op.stores if s.base}


def writes(op: LoopOp) -> tuple[str, ...]:
    """Names of the buffers that `op` writes."""
    if isinstance(op, TemplateCall):
        return (op.output.buffer,)
    return tuple(dict.fromkeys(s.buffer for s in op.stores))
