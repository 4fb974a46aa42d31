"""Joins the scheduled parts of a model into one kernel graph with the flow over its kernels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from aot.errors import InternalError
from aot.ir.decisions import Decision
from aot.ir.flow import (
    CustomCall,
    Flow,
    Item,
    Outline,
    Span,
    Straight,
    items_of,
    map_flows,
    map_items,
    parts_of,
    touched_by,
)
from aot.ir.kernels import Kernel, KernelGraph, ModelKernel
from aot.ir.nests import Buffer
from aot.ir.tensors import TensorType
from aot.schedule.host_calls import host_calls_apart
from aot.symbolic import row_major_strides


def join(outline: Outline[KernelGraph]) -> KernelGraph:
    """One kernel graph of all parts; the part itself for a model without control flow.

    Kernels are numbered through, in the order of the flow's parts; those that the host computes
    for a device become items of the flow.

    Raises:
        InternalError: Two parts have different buffers of one name.
    """
    if outline.only is not None:
        return host_calls_apart(outline.only)
    parts = parts_of(outline.flow)
    frame = outline.frame
    kernels = _Kernels()
    flow = map_items(outline.flow, kernels.take)
    joined = KernelGraph(
        frame.name,
        frame.dims,
        _buffers(outline),
        tuple(kernels.all),
        frame.inputs,
        frame.outputs,
        frame.signature,
        frame.relations,
        tuple(kernels.decisions),
        tuple(dict.fromkeys(d for part in parts for d in part.derived)),
        frame.mutations,
        _merged(flow),
    )
    return host_calls_apart(joined)


@dataclass
class _Kernels:
    """The kernels of the parts so far, and decisions about them."""

    all: list[Kernel] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def take(self, item: Item[Any]) -> Item[Any]:
        """The item with a part's kernels as a span; so is a kernel of the model's own."""
        first = len(self.all)
        if isinstance(item, CustomCall) and item.kernel is not None:
            self.all.append(_own_kernel(f"k{first}", item))
            if item.kernel.configurations > 1:
                verdict = f"the first of {item.kernel.configurations} configurations"
                reason = "packages are built with nothing to measure on"
                self.decisions.append(Decision("configure", (f"k{first}",), verdict, reason))
            return Straight(Span(first, 1))
        if not isinstance(item, Straight):
            return item
        part = item.graph
        names = {k.name: f"k{first + n}" for n, k in enumerate(part.kernels)}
        self.all += [replace(k, name=names[k.name]) for k in part.kernels]
        for d in part.decisions:
            self.decisions.append(replace(d, subject=tuple(names.get(s, s) for s in d.subject)))
        return Straight(Span(first, len(part.kernels)))


def _own_kernel(name: str, call: CustomCall) -> ModelKernel:
    """The launch of a kernel of the model's own."""
    reads = tuple(dict.fromkeys(n for n in call.operands if n not in call.results))
    writes = (*call.results, *call.changed)
    return ModelKernel(name, call, reads, writes)


def _merged(flow: Flow[Span]) -> Flow[Span]:
    """The flow with neighbouring spans as one; empty where that is all."""
    merged = _neighbours_merged(flow)
    return () if len(merged) == 1 and isinstance(merged[0], Straight) else merged


def _neighbours_merged(flow: Flow[Span]) -> Flow[Span]:
    made: list[Item[Span]] = []
    for item in flow:
        before = made[-1] if made else None
        if isinstance(item, Straight) and isinstance(before, Straight):
            span = before.graph
            made[-1] = Straight(Span(span.first, span.count + item.graph.count))
        else:
            made.append(map_flows(item, _neighbours_merged))
    return tuple(made)


def _buffers(outline: Outline[KernelGraph]) -> dict[str, Buffer]:
    """Every part's own buffers, then those between them.

    Raises:
        InternalError: Two different buffers have one name.
    """
    frame = outline.frame
    table: dict[str, Buffer] = {
        name: _buffer(name, frame.types[name], "input") for name in frame.inputs
    }
    between: dict[str, None] = {}
    for part in parts_of(outline.flow):
        for name, buffer in part.buffers.items():
            if buffer.kind == "input":
                between[name] = None
            elif table.setdefault(name, buffer) != buffer:
                raise InternalError(f"{part.name}: another buffer is called {name} too")
    for item in items_of(outline.flow):
        reads, writes = touched_by(item)
        between.update(dict.fromkeys((*reads, *writes)))
    for name, fqn in frame.states:
        held = _buffer(name, frame.types[name], "state")
        strides = row_major_strides(held.shape)
        table.setdefault(name, replace(held, fqn=fqn, strides=strides))
    for name, fqn in frame.weights:
        if name in between:  # that a custom operator reads
            table.setdefault(name, replace(_buffer(name, frame.types[name], "weight"), fqn=fqn))
    for name in between:
        table.setdefault(name, _buffer(name, frame.types[name], "temp"))
    return table


def _buffer(name: str, type_: TensorType, kind: str) -> Buffer:
    return Buffer(name, type_.dtype, type_.shape, type_.strides, kind)
