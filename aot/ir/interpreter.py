"""Slow, obvious NumPy interpreters of the loop graph and of the kernel graph.

They say what a graph means, so a wrong answer is found by comparing stages; and they fold
constants at build time. Nests are evaluated for many points at once: every value is an array over
the axes of a block of the iteration space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from aot.errors import InternalError
from aot.ir.flow import Outline, Span, Straight, slices_of
from aot.ir.interpreter_access import Array
from aot.ir.interpreter_flow import FlowRun, Operators
from aot.ir.interpreter_nest import run_nest
from aot.ir.interpreter_templates import run_template
from aot.ir.kernels import KernelGraph, ModelKernel, kernel_ops
from aot.ir.loops import LoopGraph, bases, writes
from aot.ir.nests import Buffer, LoopNest
from aot.ir.templates.base import LoopOp
from aot.ir.tensors import Dim
from aot.symbolic import dim, evaluate

Weights = Callable[[str], Array]

__all__ = [
    "allocate",
    "bind_dims",
    "interpret_kernels",
    "interpret_loops",
    "interpret_outline",
    "kernel_values",
    "loop_values",
    "run_nest",
    "run_op",
]


def bind_dims(dims: Sequence[Dim], shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """The values of the dynamic sizes that inputs of these shapes bind."""
    values = {}
    for d in dims:
        if d.source is None:
            continue
        position, axis, divisor, offset = d.source
        values[d.name] = (shapes[position][axis] - offset) // divisor
    return values


def allocate(buffer: Buffer, dims: Mapping[str, int]) -> Array:
    """An array for a buffer, all elements zero."""
    symbols = {dim(name): value for name, value in dims.items()}
    shape = tuple(int(evaluate(s, symbols)) for s in buffer.shape)
    return np.zeros(shape, buffer.dtype.numpy)


def run_op(
    op: LoopOp,
    buffers: Mapping[str, Buffer],
    arrays: MutableMapping[str, Array],
    dims: Mapping[str, int],
) -> None:
    """Runs one operation: reads and writes `arrays`, allocating what it writes when missing."""
    for name, base in bases(op).items():
        arrays[name] = arrays[base].copy()
    for name in writes(op):
        if name not in arrays:
            arrays[name] = allocate(buffers[name], dims)
    if isinstance(op, LoopNest):
        run_nest(op, arrays, dims)
    else:
        run_template(op, arrays, dims)


def _given(
    buffers: Mapping[str, Buffer],
    inputs: Mapping[str, Array],
    weights: Weights,
    dims: Mapping[str, int],
    states: Mapping[str, Array],
) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for buffer in buffers.values():
        if buffer.kind == "input":
            arrays[buffer.name] = _checked(buffer, inputs[buffer.name], dims)
        elif buffer.kind == "weight":
            arrays[buffer.name] = _checked(buffer, weights(buffer.fqn), dims)
        elif buffer.kind == "state":
            held = states[buffer.fqn] if buffer.fqn in states else weights(buffer.fqn)
            arrays[buffer.name] = _checked(buffer, held, dims)
    return arrays


def _checked(buffer: Buffer, array: Array, dims: Mapping[str, int]) -> Array:
    symbols: dict[Any, int] = {dim(name): value for name, value in dims.items()}
    shape = tuple(int(evaluate(s, symbols)) for s in buffer.shape)
    if array.shape != shape or array.dtype != buffer.dtype.numpy:
        raise InternalError(
            f"{buffer.name} is {array.dtype}{list(array.shape)}, "
            f"the graph says {buffer.dtype}{list(shape)}"
        )
    return array


def interpret_loops(
    graph: LoopGraph,
    inputs: Mapping[str, Array],
    weights: Weights,
    dims: Mapping[str, int],
    states: MutableMapping[str, Array] | None = None,
) -> tuple[Array, ...]:
    """The outputs of a loop graph, C-contiguous, in its order.

    `inputs`: by buffer name, in their logical shapes. `weights`: FQN -> array. `dims`: the values
    of the dynamic sizes (`bind_dims`). `states`: FQN -> array, for those that `weights` gives as
    they were before the first run; the run leaves the new values there, those of inputs under
    their names. Raises IndexError for indices out of range in the data, InternalError when the
    graph itself reads or writes out of bounds.
    """
    held = {} if states is None else states
    return _results(graph, loop_values(graph, inputs, weights, dims, held), held)


def loop_values(
    graph: LoopGraph,
    inputs: Mapping[str, Array],
    weights: Weights,
    dims: Mapping[str, int],
    states: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """The value of every buffer, as `interpret_loops` computes them."""
    arrays = _given(graph.buffers, inputs, weights, dims, states or {})
    for op in graph.ops:
        run_op(op, graph.buffers, arrays, dims)
    return arrays


def interpret_outline(
    outline: Outline[LoopGraph],
    inputs: Mapping[str, Array],
    weights: Weights,
    dims: Mapping[str, int],
    states: MutableMapping[str, Array] | None = None,
    operators: Operators | None = None,
) -> tuple[Array, ...]:
    """As `interpret_loops`, for a model with control flow.

    `operators`: what its custom operators mean.

    Raises InputMismatch when an assertion of the model fails.
    """
    if outline.only is not None:
        return interpret_loops(outline.only, inputs, weights, dims, states)
    held = {} if states is None else states
    frame, slices = outline.frame, slices_of(outline.flow)
    # Branches, loops and assertions may read what no part does.
    kept = (*frame.weights, *frame.states)
    arrays = {name: held[fqn] if fqn in held else weights(fqn) for name, fqn in kept}
    arrays.update(inputs)
    sizes = dict(dims)

    def part(graph: LoopGraph) -> None:
        given = {name: arrays[name] for name in graph.inputs}
        for name, made in zip(
            graph.outputs, interpret_loops(graph, given, weights, sizes, held), strict=True
        ):
            if name in slices:
                arrays[name][...] = made
            else:
                arrays[name] = made

    def new(name: str) -> Array:
        type_ = frame.types[name]
        return allocate(Buffer(name, type_.dtype, type_.shape, None, "temp"), sizes)

    FlowRun(arrays, sizes, part, new, operators).run(outline.flow)
    fqns = dict(frame.states)
    for mutation in frame.mutations:
        held[fqns.get(mutation.target, mutation.target)] = np.asarray(
            arrays[mutation.value], order="C"
        )
    return tuple(np.asarray(arrays[name], order="C") for name in frame.outputs)


def interpret_kernels(
    graph: KernelGraph,
    inputs: Mapping[str, Array],
    weights: Weights,
    dims: Mapping[str, int],
    states: MutableMapping[str, Array] | None = None,
    operators: Operators | None = None,
) -> tuple[Array, ...]:
    """As `interpret_loops`: each kernel's prologue and template, then its stages' nests in order.

    Loop order, strips and vectors do not change a result, and are ignored.
    """
    held = {} if states is None else states
    arrays = kernel_values(graph, inputs, weights, dims, held, operators)
    return _results(graph, arrays, held)


def kernel_values(
    graph: KernelGraph,
    inputs: Mapping[str, Array],
    weights: Weights,
    dims: Mapping[str, int],
    states: Mapping[str, Array] | None = None,
    operators: Operators | None = None,
) -> dict[str, Array]:
    """The value of every buffer, as `interpret_kernels` computes them; of loops the last turn's."""
    sizes = dict(dims)
    arrays = _given(graph.buffers, inputs, weights, sizes, states or {})
    slices = slices_of(graph.flow)

    def part(span: Span) -> None:
        kernels = graph.kernels[span.first :][: span.count]
        made = {name for k in kernels for op in kernel_ops(k) for name in writes(op)}
        for name in made.difference(slices):
            arrays.pop(name, None)  # of an earlier turn of a loop, perhaps of other sizes
        for kernel in kernels:
            if isinstance(kernel, ModelKernel):
                run.call(kernel.call)
            for op in kernel_ops(kernel):
                run_op(op, graph.buffers, arrays, sizes)

    def new(name: str) -> Array:
        return allocate(graph.buffers[name], sizes)

    run = FlowRun(arrays, sizes, part, new, operators)
    run.run(graph.flow or (Straight(Span(0, len(graph.kernels))),))
    return arrays


def _results(
    graph: LoopGraph | KernelGraph,
    arrays: Mapping[str, Array],
    states: MutableMapping[str, Array],
) -> tuple[Array, ...]:
    """The outputs; the new values go to `states`."""
    for mutation in graph.mutations:
        target = graph.buffers[mutation.target]
        states[target.fqn or target.name] = np.asarray(arrays[mutation.value], order="C")
    return tuple(np.asarray(arrays[name], order="C") for name in graph.outputs)
