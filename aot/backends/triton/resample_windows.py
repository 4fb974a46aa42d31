"""Walks with many taps: a sum for each window that is open, over the input rows of a column.

Windows of neighbouring outputs overlap when an image gets smaller. A program sums those that are
open at the same time, so that it reads each input row once, and several rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aot.backends.triton.context import TileDim
from aot.backends.triton.resample_walk import as_index, operand_at, outer_start
from aot.backends.triton.short_reduction import ShortBody
from aot.backends.triton.text import index_text, value_type
from aot.ir.hints import Hints
from aot.ir.nests import Axis
from aot.ir.scalar import cast, load
from aot.ir.templates.resample import Resample
from aot.ir.templates.resample2 import Resample2
from aot.symbolic import Expr, Symbol, substitute, var

MOST_WINDOWS = 4
"""Windows that a program sums at the same time."""

MOST_TOGETHER = 8
"""Input rows that are read at a time."""


class Windows:
    """Writes the walk along the call's `axis`, from row `first` to `last`. Use once: `emit`.

    When an output is due, `sums0` is of its window, and `sums1`, … of those after it, with all rows
    before `known`. `columns`: how axes of the output are named in the columns of the input, `y`, of
    which a program has `wide`; those that are not named there are the same in both.
    `keeps_begins`: where a window begins is read once, and kept for the rows after; that is faster
    in some kernels and slower in others.
    """

    def __init__(
        self,
        body: ShortBody,
        call: Resample | Resample2,
        wide: int,
        hints: Hints,
        columns: Mapping[Symbol, Expr] | None = None,
        *,
        keeps_begins: bool = False,
    ) -> None:
        self._body, self._call, self._wide = body, call, wide
        self._columns = columns or {}
        self._keeps_begins = keeps_begins
        self._row = call.output.axes[call.axis]
        buffers = body.context.buffers
        self.sums = buffers[call.weights.buffer].dtype
        self._taps = int(call.weights.axes[1].extent)
        self._windows = _open_windows(call, hints)
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
            if self._keeps_begins and k:
                self._name_output(f"ahead{k}", "first", k - 1)
                self._read_begin(k, f"ahead{k}", f"begin{k - 1}" if k > 1 else "")
        line("known = first - first")
        with body.loop("for at in range(first, last)"):
            for k in range(self._windows):
                self._name_output(f"window{k}", "at", k)
                if self._keeps_begins and k < last:
                    line(f"begin{k} = begin{k + 1}")
                else:
                    before = f"begin{k - 1}" if k else f"known - {self._taps}"
                    self._read_begin(k, f"window{k}", before)
                line(f"sums{k} = sums{k + 1}" if k < last else f"sums{k} = {zeros}")
            line(f"end = begin0 + {self._taps}")
            self._add(f"begin{last}", "known", (last,))
            for k in range(self._windows):
                stop = f"tl.minimum(begin{k + 1}, end)" if k < last else "end"
                self._add(f"tl.maximum(known, begin{k})", stop, tuple(range(k + 1)))
            line("known = end")
            body.name_axis(self._row.symbol, "at", None)
            finish("sums0")

    def _name_output(self, name: str, base: str, k: int) -> None:
        """The output k after `base`, or the last one."""
        body = self._body
        extent = index_text(self._row.extent, body.context.names)
        body.writer.line(
            f"{name} = tl.minimum({base} + {k}, {extent} - 1)" if k else f"{name} = {base}"
        )
        body.name_axis(var(name), name, None)

    def _read_begin(self, k: int, output: str, before: str) -> None:
        """Where window k begins, that of an output; not before another window.

        The table says so, too; whatever it holds, rows are then rows of the windows that are added.
        """
        body = self._body
        start = body.value(outer_start(body, self._call, var(output)))
        text = as_index(body, start)
        body.writer.line(f"begin{k} = {f'tl.maximum({text}, {before})' if before else text}")

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
            place = [self._columns.get(a.symbol, a.symbol) for a in call.output.axes]
            place[call.axis] = row
            at = dict(zip([a.symbol for a in x.axes], place, strict=True))
            dtype = body.context.buffers[x.buffer].dtype
            element = load(x.buffer, dtype, [substitute(e, at) for e in x.index])
            value = body.value(cast(element, self.sums)).text
            for k in windows:
                tap = (var(f"window{k}"), row - var(f"begin{k}"))
                weight = body.value(operand_at(body, call.weights, tap)).text
                line(f"sums{k} += tl.sum({value} * {weight}, 0)[None, :]")


def _open_windows(call: Resample | Resample2, hints: Hints) -> int:
    """How many windows most input rows lie in; a row of more is read again."""
    size = hints.value(call.x.axes[call.axis].extent)
    out = hints.value(call.output.axes[call.axis].extent)
    taps = int(call.weights.axes[1].extent)
    return max(1, min(MOST_WINDOWS, taps * out // max(1, size)))
