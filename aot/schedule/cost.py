"""Costs: bytes and operations of kernels, bytes that a fusion saves, and the grain of a launch."""

from __future__ import annotations

from collections.abc import Mapping

from aot.ir.hints import Hints, body_weight
from aot.ir.kernels import Kernel
from aot.ir.loops import Buffer, LoopNest, TemplateCall
from aot.schedule.groups import Group
from aot.symbolic import Expr, ceil_div, integer, product

GRAIN_OPERATIONS = 32768
"""Operations worth handing to another thread."""


def buffer_bytes(buffer: Buffer) -> Expr:
    """Bytes of a dense buffer."""
    return product((*buffer.shape, integer(buffer.dtype.itemsize)))


def kernel_bytes(kernel: Kernel, buffers: Mapping[str, Buffer]) -> Expr:
    """Bytes that a launch moves at least: every buffer outside the kernel once."""
    total: Expr = integer(0)
    for name in (*kernel.reads, *kernel.writes):
        total = total + buffer_bytes(buffers[name])
    return total


def kernel_flops(kernel: Kernel) -> Expr:
    """Scalar operations of a launch, weighted by price; multiply-adds of templates count two."""
    total: Expr = integer(0)
    if kernel.template is not None:
        total = total + template_flops(kernel.template)
    for nest in kernel.prologue:
        total = total + nest_flops(nest)
    for stage in kernel.stages:
        for nest in stage.nests:
            total = total + nest_flops(nest)
    return total


def nest_flops(nest: LoopNest) -> Expr:
    """Operations of a nest; at least one a point."""
    points = product([a.extent for a in (*nest.axes, *nest.reduction)])
    return product((points, integer(max(1, body_weight(nest.roots)))))


def template_flops(call: TemplateCall) -> Expr:
    """Floating-point operations of a template call."""
    out = product([a.extent for a in call.output.axes])
    if call.kind == "matmul":
        return product((out, call.operand("a").axes[-1].extent, integer(2)))
    if call.kind == "conv":
        taps = product([a.extent for a in call.operand("w").axes[1:]])
        return product((out, taps, integer(2)))
    if call.kind == "attention":
        *rows, depth = (a.extent for a in call.operand("q").axes)
        keys, width = (a.extent for a in call.operand("v").axes[-2:])
        return product((*rows, keys, depth + width, integer(2)))
    if call.kind in ("resample", "resample2"):
        tables = [v for role, v in call.operands if role in ("weights", "inner_weights")]
        taps = [table.axes[1].extent for table in tables]
        return product((out, sum(taps[1:], taps[0]), integer(2)))
    return out


def work_units(kernel: Kernel) -> Expr:
    """Independent units of a launch without a template: outer points times strips."""
    units = product([a.extent for a in kernel.outer])
    if kernel.strip is not None:
        units = product((units, ceil_div(kernel.strip.axis.extent, kernel.strip.size)))
    return units


def kernel_grain(kernel: Kernel, hints: Hints) -> int:
    """Least number of work units worth a thread of their own, at the hint sizes."""
    units = max(1, hints.value(work_units(kernel)))
    each = max(1, hints.value(kernel_flops(kernel)) // units)
    return max(1, -(-GRAIN_OPERATIONS // each))


def saved_bytes(
    hints: Hints, buffers: Mapping[str, Buffer], a: Group, b: Group, needed: frozenset[str]
) -> int:
    """Traffic that disappears when two groups share a kernel.

    `needed`: buffers that are read outside both, or are outputs. A buffer that flows from `a` to
    `b` saves its read, and its write too unless it is needed; one that both read saves one read.
    """
    saved = 0
    written = set(a.writes)
    shared = set(a.reads)
    for name in b.reads:
        size = hints.value(buffer_bytes(buffers[name]))
        if name in written:
            saved += size if name in needed else 2 * size
        elif name in shared:
            saved += size
    return saved
