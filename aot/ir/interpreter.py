"""Slow, obvious NumPy interpreters of the loop graph and of the kernel graph.

They say what a graph means, so a wrong answer is found by comparing stages; and they fold
constants at build time. Nests are evaluated for many points at once: every value is an array over
the axes of a block of the iteration space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from aot.errors import InternalError
from aot.ir.interpreter_access import Array
from aot.ir.interpreter_nest import run_nest
from aot.ir.interpreter_templates import run_template
from aot.ir.kernels import KernelGraph
from aot.ir.loops import Buffer, LoopGraph, LoopNest, LoopOp, writes
from aot.ir.tensors import Dim
from aot.symbolic import dim, evaluate

Weights = Callable[[str], Array]

__all__ = [
    "allocate",
    "bind_dims",
    "interpret_kernels",
    "interpret_loops",
    "run_nest",
    "run_op",
]


def bind_dims(dims: Sequence[Dim], shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """The values of the dynamic sizes for inputs of these shapes."""
    values = {}
    for d in dims:
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
    for name in writes(op):
        if name not in arrays:
            arrays[name] = allocate(buffers[name], dims)
    if isinstance(op, LoopNest):
        run_nest(op, arrays, dims)
    else:
        run_template(op, arrays, dims)


def _run(
    ops: Iterable[LoopOp],
    buffers: Mapping[str, Buffer],
    inputs: Mapping[str, Array],
    weights: Weights,
    dims: Mapping[str, int],
) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for buffer in buffers.values():
        if buffer.kind == "input":
            arrays[buffer.name] = _checked(buffer, inputs[buffer.name], dims)
        elif buffer.kind == "weight":
            arrays[buffer.name] = _checked(buffer, weights(buffer.fqn), dims)
    for op in ops:
        run_op(op, buffers, arrays, dims)
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
    graph: LoopGraph, inputs: Mapping[str, Array], weights: Weights, dims: Mapping[str, int]
) -> tuple[Array, ...]:
    """The outputs of a loop graph, C-contiguous, in its order.

    `inputs`: by buffer name, in their logical shapes. `weights`: FQN -> array. `dims`: the values
    of the dynamic sizes (`bind_dims`). Raises IndexError for indices out of range in the data,
    InternalError when the graph itself reads or writes out of bounds.
    """
    arrays = _run(graph.ops, graph.buffers, inputs, weights, dims)
    return tuple(np.asarray(arrays[name], order="C") for name in graph.outputs)


def interpret_kernels(
    graph: KernelGraph, inputs: Mapping[str, Array], weights: Weights, dims: Mapping[str, int]
) -> tuple[Array, ...]:
    """As `interpret_loops`: each kernel's prologue and template, then its stages' nests in order.

    Loop order, strips and vectors do not change a result, and are ignored.
    """
    ops: list[LoopOp] = []
    for kernel in graph.kernels:
        ops.extend(kernel.prologue)
        if kernel.template is not None:
            ops.append(kernel.template)
        ops.extend(nest for stage in kernel.stages for nest in stage.nests)
    arrays = _run(ops, graph.buffers, inputs, weights, dims)
    return tuple(np.asarray(arrays[name], order="C") for name in graph.outputs)
