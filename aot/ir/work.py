"""Work: the bytes and operations of buffers, nests, templates and kernels, as expressions.

The one count of the compiler: cost models weigh it, `explain` and `bench` show it, and
`benchmarks/growth` follows its points from one size of a problem to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aot.ir.flow import Branch, Flow, Measured, Repeat, Span, Straight
from aot.ir.kernels import Kernel, KernelGraph, kernel_ops
from aot.ir.nests import Buffer, LoopNest
from aot.ir.scalar import postorder
from aot.ir.templates.base import LoopOp
from aot.symbolic import Expr, integer, product

_FREE = frozenset(["const", "index", "load", "cast", "bitcast", "check_index"])
"""Nodes that are no arithmetic: they cost bytes or nothing."""


def buffer_bytes(buffer: Buffer) -> Expr:
    """Bytes of a buffer with dense strides."""
    return product((*buffer.shape, integer(buffer.dtype.itemsize)))


def kernel_bytes(kernel: Kernel, buffers: Mapping[str, Buffer]) -> Expr:
    """Bytes that a launch moves at least: every buffer outside of the kernel once."""
    touched = dict.fromkeys((*kernel.reads, *kernel.writes))
    return sum((buffer_bytes(buffers[name]) for name in touched), integer(0))


def kernel_flops(kernel: Kernel) -> Expr:
    """Arithmetic operations of a launch; a multiply-add is two."""
    return sum((op_flops(op) for op in kernel_ops(kernel)), integer(0))


def op_flops(op: LoopOp) -> Expr:
    """Arithmetic operations of a nest or a template call."""
    return nest_flops(op) if isinstance(op, LoopNest) else op.flops()


def nest_flops(nest: LoopNest) -> Expr:
    """Arithmetic operations of a nest; nodes below a `reduce` count at each point of its domain."""
    kept = product([axis.extent for axis in nest.axes])
    reduced = product([axis.extent for axis in (*nest.axes, *nest.reduction)])
    nodes = postorder(nest.roots)
    reduces = [node for node in nodes if node.op == "reduce"]
    inside = {id(node) for node in (*reduces, *postorder(a for r in reduces for a in r.args))}
    counted = [node for node in nodes if node.op not in _FREE]
    within = sum(id(node) in inside for node in counted)
    return reduced * within + kept * (len(counted) - within)


def op_points(op: LoopOp) -> Expr:
    """Steps of a nest or a template call: how often the innermost of its loops turns.

    A nest evaluates its body at each point of all its axes, reductions included. A template takes
    a step for each operation, and one for each element of an operand that it walks.
    """
    if isinstance(op, LoopNest):
        return product([axis.extent for axis in (*op.axes, *op.reduction)])
    walked = (product([axis.extent for axis in view.axes]) for _, view in op.operands)
    return sum(walked, op.flops())


def graph_points(graph: KernelGraph) -> Expr:
    """Steps of a run, which are its time's growth where a step costs the same at any size.

    Both sides of a branch count; a loop whose turns are data turns once. What the model brings
    along (operators, kernels) is not seen.
    """
    if graph.flow:
        return _flow_points(graph, graph.flow)
    return _kernels_points(graph.kernels)


def _flow_points(graph: KernelGraph, flow: Flow[Span]) -> Expr:
    points = integer(0)
    for item in flow:
        match item:
            case Straight(Span(first, count)):
                points += _kernels_points(graph.kernels[first : first + count])
            case Branch(then=then, otherwise=otherwise):
                points += _flow_points(graph, then) + _flow_points(graph, otherwise)
            case Repeat(condition=condition, body=body, count=turns):
                once = _flow_points(graph, condition) + _flow_points(graph, body)
                points += once if turns is None else once * turns
            case Measured(rest=rest):
                points += _flow_points(graph, rest)
    return points


def _kernels_points(kernels: Sequence[Kernel]) -> Expr:
    return sum((op_points(op) for k in kernels for op in kernel_ops(k)), integer(0))
