"""Walks with many taps: a sum for each window that is open, over the input rows of a column.

Windows of neighbouring outputs overlap when an image gets smaller. A program sums those that are
open at the same time, so that it reads each input row once, and several rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from aot.backends.triton.context import TileDim
from aot.backends.triton.resample_walk import name_output, open_windows, operand_at, read_begin
from aot.backends.triton.short_reduction import ShortBody
from aot.backends.triton.text import value_type
from aot.ir.hints import Hints
from aot.ir.nests import Axis
from aot.ir.scalar import cast
from aot.ir.templates.resample import Resample
from aot.symbolic import Expr, var

MOST_TOGETHER = 8
"""Input rows that are read at a time."""


class Windows:
    """Writes the walk along the call's `axis`, from row `first` to `last`. Use once: `emit`.

    When an output is due, `sums0` is of its window, and `sums1`, … of those after it, with all rows
    before `known`. A program has `wide` columns.
    """

    def __init__(self, body: ShortBody, call: Resample, wide: int, hints: Hints) -> None:
        self._body, self._call, self._wide = body, call, wide
        self._row = call.output.axes[call.axis]
        buffers = body.context.buffers
        self.sums = buffers[call.weights.buffer].dtype
        self._taps = int(call.weights.axes[1].extent)
        self._windows = open_windows(call, hints)
        self._together = MOST_TOGETHER
        while self._together > 1 and self._together * self._windows >= 2 * self._taps:
            self._together //= 2

    def emit(self, finish: Callable[[str], None]) -> None:
        """The loop over rows; `finish` writes what happens to a row's sums, whose name it gets."""
        body, line = self._body, self._body.writer.line
        zeros = f"tl.zeros([1, {self._wide}], {value_type(self.sums)})"
        last = self._windows - 1
        for k in range(self._windows):
            line(f"sums{k} = {zeros}")
            body.name_axis(var(f"begin{k}"), f"begin{k}", None)
        line("known = first - first")
        with body.loop("for at in range(first, last)"):
            for k in range(self._windows):
                window = name_output(body, self._row, f"window{k}", "at", k)
                before = f"begin{k - 1}" if k else f"known - {self._taps}"
                read_begin(body, self._call, k, window, before)
                line(f"sums{k} = sums{k + 1}" if k < last else f"sums{k} = {zeros}")
            line(f"end = begin0 + {self._taps}")
            self._add(f"begin{last}", "known", (last,))
            for k in range(self._windows):
                stop = f"tl.minimum(begin{k + 1}, end)" if k < last else "end"
                self._add(f"tl.maximum(known, begin{k})", stop, tuple(range(k + 1)))
            line("known = end")
            body.name_axis(self._row.symbol, "at", None)
            finish("sums0")

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
            x = call.x
            place: list[Expr] = [a.symbol for a in call.output.axes]
            place[call.axis] = row
            value = body.value(cast(operand_at(body, x, place), self.sums)).text
            for k in windows:
                tap = (var(f"window{k}"), row - var(f"begin{k}"))
                weight = body.value(operand_at(body, call.weights, tap)).text
                line(f"sums{k} += tl.sum({value} * {weight}, 0)[None, :]")
