"""Work: the bytes and operations of buffers, nests, templates and kernels, as expressions.

The one count of the compiler: cost models weigh it, `explain` and `bench` show it.
"""

from __future__ import annotations

from collections.abc import Mapping

from aot.ir.kernels import Kernel, kernel_ops
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
