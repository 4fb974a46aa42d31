"""Layouts: every temporary gets its strides.

Row-major unless promised otherwise: graph outputs keep the strides promised to the caller when
those are dense, else they become row-major.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aot.ir.loops import Axis, Buffer, LoopGraph, LoopNest, LoopOp, Store
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import load
from aot.symbolic import Expr, integer, product, row_major_strides, var


def own_outputs(graph: LoopGraph) -> LoopGraph:
    """The graph with a copy nest for each output that is an input or a weight itself."""
    buffers = dict(graph.buffers)
    ops: list[LoopOp] = list(graph.ops)
    outputs: list[str] = []
    for name in graph.outputs:
        source = graph.buffers[name]
        if source.kind == "temp":
            outputs.append(name)
            continue
        copy = f"out{len(outputs)}_{name}"
        buffers[copy] = Buffer(copy, source.dtype, source.shape, None, "temp")
        axes = tuple(Axis(var(f"i{k}"), size) for k, size in enumerate(source.shape))
        index = tuple(a.symbol for a in axes)
        store = Store(copy, index, load(name, source.dtype, index))
        ops.append(LoopNest(f"copy_{copy}", axes, (), (store,), NO_ORIGIN))
        outputs.append(copy)
    if tuple(outputs) == graph.outputs:
        return graph
    return replace(graph, buffers=buffers, ops=tuple(ops), outputs=tuple(outputs))


def promised_strides(graph: LoopGraph) -> dict[str, tuple[Expr, ...]]:
    """Output buffer -> strides to honour: as promised if dense, else row-major.

    A buffer that is several outputs has the first one's promise.
    """
    promised: dict[str, tuple[Expr, ...]] = {}
    for name, strides in zip(graph.outputs, graph.output_strides, strict=True):
        shape = graph.buffers[name].shape
        dense = strides if is_dense(shape, strides) else row_major_strides(shape)
        promised.setdefault(name, dense)
    return promised


def is_dense(shape: tuple[Expr, ...], strides: tuple[Expr, ...]) -> bool:
    """True when some order of the dimensions gives exactly these strides (size 1: any stride)."""
    running: Expr = integer(1)
    left = [(size, t) for size, t in zip(shape, strides, strict=True) if size != 1]
    while left:
        found = next((k for k, (_, stride) in enumerate(left) if stride == running), None)
        if found is None:
            return False
        running = product((running, left[found][0]))
        left.pop(found)
    return True


def row_major_layout(graph: LoopGraph) -> LoopGraph:
    """Strides for every temporary: promised for outputs, row-major for the others."""
    promised = promised_strides(graph)
    buffers: Mapping[str, Buffer] = {
        name: replace(b, strides=promised.get(name, row_major_strides(b.shape)))
        if b.kind == "temp"
        else b
        for name, b in graph.buffers.items()
    }
    return replace(graph, buffers=buffers)
