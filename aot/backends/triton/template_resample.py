"""Resizing along an outer axis with many taps: programs walk down an image, a sum for each window.

Windows of neighbouring outputs overlap when an image gets smaller. A program sums those that are
open at the same time, so that it reads each input row once, and several rows at a time.
"""

from __future__ import annotations

from aot.backends.triton.context import TileDim, make_context
from aot.backends.triton.dot import finish_tile
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid
from aot.backends.triton.ops import conversion
from aot.backends.triton.resample_walk import Walk, as_index, operand_at, plan_walk
from aot.backends.triton.short_reduction import ShortBody
from aot.backends.triton.short_tile import accesses
from aot.backends.triton.text import Writer, index_text, value_type
from aot.errors import InternalError
from aot.ir.hints import Hints
from aot.ir.kernels import Kernel, KernelGraph
from aot.ir.loops import Axis, TemplateCall
from aot.ir.scalar import cast, load
from aot.symbolic import Expr, substitute, var

MOST_WINDOWS = 4
"""Windows that a program sums at the same time."""

MOST_TOGETHER = 8
"""Input rows that are read at a time."""

THREAD_COLUMNS, MOST_WARPS = 8, 1
"""Of a program: small ones with more columns a thread than a walk over both axes has, since they
wait for memory."""


def emit_resample(kernel: Kernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """The kernel of a resample call and its epilogue."""
    call = kernel.template
    if call is None:
        raise InternalError(f"{kernel.name} has no template")
    context = make_context(kernel, graph, gpu)
    walk = plan_walk(kernel, call, context, hints, gpu, THREAD_COLUMNS, MOST_WARPS)
    walk = walk.merged(accesses(kernel, context, call))
    body = ShortBody(context, Writer())
    walk.open(body, apart=False)
    body.wait()
    _Windows(body, kernel, call, walk, _windows(call, hints)).emit()
    options = {"num_warps": walk.warps, "num_stages": 1}
    return finish(kernel, body, line_grid(walk.programs), options)


def _windows(call: TemplateCall, hints: Hints) -> int:
    """How many windows most input rows lie in; a row of more is read again."""
    size = hints.value(call.operand("x").axes[call.attr("axis")].extent)
    out = hints.value(call.output.axes[call.attr("axis")].extent)
    taps = int(call.operand("weights").axes[1].extent)
    return max(1, min(MOST_WINDOWS, taps * out // max(1, size)))


class _Windows:
    """Writes the walk. Use once: `emit`.

    When an output is due, `sums0` is of its window, and `sums1`, … of those after it, with all rows
    before `known`.
    """

    def __init__(
        self, body: ShortBody, kernel: Kernel, call: TemplateCall, walk: Walk, windows: int
    ) -> None:
        self._body, self._kernel, self._call, self._walk = body, kernel, call, walk
        buffers = body.context.buffers
        self._sums = buffers[call.operand("weights").buffer].dtype
        self._taps = int(call.operand("weights").axes[1].extent)
        self._windows = windows
        self._together = MOST_TOGETHER
        while self._together > 1 and self._together * windows >= 2 * self._taps:
            self._together //= 2

    def emit(self) -> None:
        body, line = self._body, self._body.writer.line
        extent = index_text(self._walk.row.extent, body.context.names)
        zeros = f"tl.zeros([1, {self._walk.wide}], {value_type(self._sums)})"
        for k in range(self._windows):
            line(f"sums{k} = {zeros}")
        line("known = first - first")
        last = self._windows - 1
        with body.loop("for at in range(first, last)"):
            for k in range(self._windows):
                line(f"window{k} = tl.minimum(at + {k}, {extent} - 1)" if k else "window0 = at")
                body.name_axis(var(f"window{k}"), f"window{k}", None)
                start = operand_at(body, self._call, "starts", (var(f"window{k}"),))
                line(f"begin{k} = {as_index(body, body.value(start))}")
                body.name_axis(var(f"begin{k}"), f"begin{k}", None)
                line(f"sums{k} = sums{k + 1}" if k < last else f"sums{k} = {zeros}")
            line(f"end = begin0 + {self._taps}")
            self._add(f"begin{last}", "known", (last,))
            for k in range(self._windows):
                stop = f"tl.minimum(begin{k + 1}, end)" if k < last else "end"
                self._add(f"tl.maximum(known, begin{k})", stop, tuple(range(k + 1)))
            line("known = end")
            body.name_axis(self._walk.row.symbol, "at", None)
            wanted = body.context.buffers[self._call.output.buffer].dtype
            total = conversion("sums0", self._sums, wanted)
            finish_tile(body, self._kernel, total, frozenset(("y",)))

    def _add(self, start: str, stop: str, windows: tuple[int, ...]) -> None:
        """Adds the input rows from `start` to `stop` to those windows, which hold them all."""
        body, call, line = self._body, self._call, self._body.writer.line
        rows = body.fresh("rows")
        line(f"{rows}_stop = {stop}")
        with body.loop(f"for {rows}_start in range({start}, {rows}_stop, {self._together})"):
            line(f"{rows} = {rows}_start + tl.arange(0, {self._together})[:, None]")
            line(f"{rows}_in = {rows} < {rows}_stop")
            row = var(rows)
            body.declare_dim(TileDim(rows, (Axis(row, var("stop")),), self._together, 0))
            body.name_axis(row, rows, rows)
            x = call.operand("x")
            place: list[Expr] = [a.symbol for a in call.output.axes]
            place[call.attr("axis")] = row
            at = dict(zip([a.symbol for a in x.axes], place, strict=True))
            dtype = body.context.buffers[x.buffer].dtype
            element = load(x.buffer, dtype, [substitute(e, at) for e in x.index])
            value = body.value(cast(element, self._sums)).text
            for k in windows:
                tap = (var(f"window{k}"), row - var(f"begin{k}"))
                weight = body.value(operand_at(body, call, "weights", tap)).text
                line(f"sums{k} += tl.sum({value} * {weight}, 0)[None, :]")
