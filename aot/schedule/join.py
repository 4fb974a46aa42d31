"""Joins the scheduled parts of a model into one kernel graph with the flow over its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from aot.errors import InternalError
from aot.ir.decisions import Decision
from aot.ir.flow import Outline, Span, items_of, parts_of, touched_by
from aot.ir.kernels import Kernel, KernelGraph
from aot.ir.loops import Buffer
from aot.ir.tensors import TensorType
from aot.symbolic import row_major_strides


def join(outline: Outline[KernelGraph]) -> KernelGraph:
    """One kernel graph of all parts; the part itself for a model without control flow.

    Kernels are numbered through, in the order of the flow's parts.

    Raises:
        InternalError: Two parts have different buffers of one name.
    """
    if outline.only is not None:
        return outline.only
    parts = parts_of(outline.flow)
    frame = outline.frame
    kernels: list[Kernel] = []
    decisions: list[Decision] = []
    for part in parts:
        names = {k.name: f"k{len(kernels) + n}" for n, k in enumerate(part.kernels)}
        kernels += [replace(k, name=names[k.name]) for k in part.kernels]
        for d in part.decisions:
            decisions.append(replace(d, subject=tuple(names.get(s, s) for s in d.subject)))
    firsts = iter(_spans(parts))
    return KernelGraph(
        frame.name,
        frame.dims,
        _buffers(outline),
        tuple(kernels),
        frame.inputs,
        frame.outputs,
        frame.signature,
        frame.relations,
        tuple(decisions),
        tuple(dict.fromkeys(d for part in parts for d in part.derived)),
        frame.mutations,
        outline.map(lambda _: next(firsts)).flow,
    )


def _spans(parts: tuple[KernelGraph, ...]) -> Iterator[Span]:
    first = 0
    for part in parts:
        yield Span(first, len(part.kernels))
        first += len(part.kernels)


def _buffers(outline: Outline[KernelGraph]) -> dict[str, Buffer]:
    """Every part's own buffers, then those between them."""
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
