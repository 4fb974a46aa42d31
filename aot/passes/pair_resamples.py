"""Resizing along two axes in one call, for devices that keep rows of sums while they walk an image.

Two calls in turn write and read an image between them. Where few taps make an output, a work unit
can instead walk down some columns of the result, and keep the sums along the inner axis of the
last rows that it has seen.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from aot.ir.capabilities import Capabilities
from aot.ir.decisions import Decision
from aot.ir.loops import LoopGraph, LoopOp, TemplateCall, View, reads

MOST_TAPS = 8
"""Taps along either axis that a pair may have: so many rows of sums are kept, and so many inputs
read for each."""


def pair_resamples(graph: LoopGraph, capabilities: Capabilities) -> LoopGraph:
    """The graph with calls of resample2 for pairs of resample calls, the innermost axes first."""
    if "resample2" not in capabilities.templates:
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
        reason = _obstacle(first, op)
        if readers[between] > 1 or between in graph.outputs:
            reason = f"{between} is wanted by others too"
        if reason:
            decisions.append(Decision("pair", names, "two passes", reason))
            ops.append(op)
            continue
        decisions.append(Decision("pair", names, "one walk", f"{between} need not be stored"))
        joined.add(first.name)
        ops.append(_paired(first, op))
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


def _obstacle(first: TemplateCall, second: TemplateCall) -> str:
    """Why two calls in turn cannot be one; "" when they can."""
    if first.attr("axis") == second.attr("axis"):
        return "both resize the same axis"
    if any("bits" in dict(call.operands) for call in (first, second)):
        return "bytes are rounded in between"
    if not all(_is_whole(view) for view in (first.output, second.operand("x"))):
        return "the second reads another part than the first writes"
    for call in (first, second):
        taps = call.operand("weights").axes[1].extent
        if not taps.is_Integer:
            return f"{call.name} has {taps} taps, a number that varies"
        if int(taps) > MOST_TAPS:
            return f"{call.name} has {taps} taps, more than {MOST_TAPS}"
    return ""


def _is_whole(view: View) -> bool:
    return view.index == tuple(a.symbol for a in view.axes)


def _paired(first: TemplateCall, second: TemplateCall) -> TemplateCall:
    outer, inner = sorted((first, second), key=lambda call: int(call.attr("axis")))
    operands = (
        ("x", first.operand("x")),
        ("starts", outer.operand("starts")),
        ("weights", outer.operand("weights")),
        ("inner_starts", inner.operand("starts")),
        ("inner_weights", inner.operand("weights")),
    )
    attrs = (("axis", outer.attr("axis")), ("inner", inner.attr("axis")))
    return replace(second, kind="resample2", operands=operands, attrs=attrs)
