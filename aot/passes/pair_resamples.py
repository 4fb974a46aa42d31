"""Resizing along two axes in one call, for devices that walk an image.

Two calls in turn write and read an image between them. Where few taps make an output, a work unit
can instead walk down some columns of the result, and keep the sums along the inner axis of the
last rows that it has seen: the inner axis comes first. Where many do, it sums along the outer axis
first, and makes each row of the result from one row of these sums.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from aot.ir.decisions import Decision
from aot.ir.loops import LoopGraph, LoopOp, TemplateCall, View, reads
from aot.ir.machine import Machine
from aot.ir.views import view_strides
from aot.passes.expand_resample import no_walk
from aot.symbolic import Expr

MOST_TAPS = 8
"""Taps along either axis with the inner axis first: so many rows of sums are kept, and so many
inputs read for each."""

MOST_INNER_TAPS = 32
"""Taps along the inner axis with the outer one first: neighbouring work units sum about as many
columns both."""

MOST_INSIDE = 4
"""Elements of a pixel in memory with the outer axis first: a row of a work unit holds the inputs of
few outputs otherwise."""


def pair_resamples(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with calls of resample2 for pairs of resample calls, the innermost axes first."""
    if "resample2" not in machine.templates:
        return graph
    readers = Counter(name for op in graph.ops for name in reads(op))
    writers = {op.output.buffer: op for op in graph.ops if isinstance(op, TemplateCall)}
    ops: list[LoopOp] = []
    joined: set[str] = set()
    decisions: list[Decision] = []
    for op in reversed(graph.ops):
        if op.name in joined:
            continue
        first = _producer(op, writers)
        if first is None or not isinstance(op, TemplateCall):
            ops.append(op)
            continue
        between, names = first.output.buffer, (first.name, op.name)
        order, reason = _order(graph, first, op)
        if readers[between] > 1 or between in graph.outputs:
            reason = f"{between} is wanted by others too"
        if reason:
            decisions.append(Decision("pair", names, "two passes", reason))
            ops.append(op)
            continue
        decisions.append(Decision("pair", names, "one walk", f"{between} need not be stored"))
        joined.add(first.name)
        ops.append(_paired(first, op, order))
    if not decisions:
        return graph
    left = (*graph.decisions, *reversed(decisions))
    return replace(graph, ops=tuple(reversed(ops)), decisions=left)


def _producer(op: LoopOp, writers: dict[str, TemplateCall]) -> TemplateCall | None:
    """The resample call whose result another one resizes; None where there is none."""
    if not isinstance(op, TemplateCall) or op.kind != "resample":
        return None
    first = writers.get(op.operand("x").buffer)
    return first if first is not None and first.kind == "resample" else None


def _order(graph: LoopGraph, first: TemplateCall, second: TemplateCall) -> tuple[str, str]:
    """(the attribute `first` of two calls in one, why they cannot be one); one of them is ""."""
    if first.attr("axis") == second.attr("axis"):
        return "", "both resize the same axis"
    if any("bits" in dict(call.operands) for call in (first, second)):
        return "", "bytes are rounded in between"
    if not all(_is_whole(view) for view in (first.output, second.operand("x"))):
        return "", "the second reads another part than the first writes"
    for call in (first, second):
        if not _taps(call).is_Integer:
            return "", f"{call.name} has {_taps(call)} taps, a number that varies"
    if all(int(_taps(call)) <= MOST_TAPS for call in (first, second)):
        return "inner", ""
    outer, inner = _by_axis(first, second)
    reason = no_walk(outer)
    if int(_taps(inner)) > MOST_INNER_TAPS:
        reason = f"{inner.name} has {_taps(inner)} taps, more than {MOST_INNER_TAPS}"
    elif not reason and not _short_pixels(graph, first.operand("x"), inner.attr("axis")):
        reason = f"pixels of {first.operand('x').buffer} may have many elements"
    return ("", reason) if reason else ("outer", "")


def _taps(call: TemplateCall) -> Expr:
    return call.operand("weights").axes[1].extent


def _by_axis(first: TemplateCall, second: TemplateCall) -> tuple[TemplateCall, TemplateCall]:
    """(the one that resizes the outer axis, the other)."""
    if int(first.attr("axis")) < int(second.attr("axis")):
        return first, second
    return second, first


def _short_pixels(graph: LoopGraph, view: View, axis: int) -> bool:
    """Whether it is known that few elements lie between neighbours along an axis."""
    strides = graph.buffers[view.buffer].strides
    found = None if strides is None else view_strides(view, strides, graph.ranges(*view.axes))
    if found is None:
        return False
    step = found[0][axis]
    return bool(step.is_Integer) and 0 < int(step) <= MOST_INSIDE


def _is_whole(view: View) -> bool:
    return view.index == tuple(a.symbol for a in view.axes)


def _paired(first: TemplateCall, second: TemplateCall, order: str) -> TemplateCall:
    outer, inner = _by_axis(first, second)
    operands = (
        ("x", first.operand("x")),
        ("starts", outer.operand("starts")),
        ("weights", outer.operand("weights")),
        ("inner_starts", inner.operand("starts")),
        ("inner_weights", inner.operand("weights")),
    )
    attrs = (("axis", outer.attr("axis")), ("inner", inner.attr("axis")), ("first", order))
    return replace(second, kind="resample2", operands=operands, attrs=attrs)
