"""Walks along two axes with many taps: rows are asked for an output ahead.

As in a walk along one axis (`Windows`), a program sums all windows that are open, and reads each
input row once. But between two outputs its threads share out sums, while memory would be idle: the
next output's rows are asked for before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from aot.backends.triton.context import Value
from aot.backends.triton.ops import conversion, from_memory
from aot.backends.triton.resample_walk import (
    as_index,
    name_output,
    open_windows,
    outer_start,
    read_begin,
)
from aot.backends.triton.short_reduction import ShortBody
from aot.backends.triton.text import value_type
from aot.ir.dtypes import BOOL
from aot.ir.hints import Hints
from aot.ir.nests import View
from aot.ir.templates.resample import index_at
from aot.ir.templates.resample2 import Resample2
from aot.symbolic import Expr, Symbol, var

REGISTERS = 56
"""Registers of a thread for the rows that it has asked for and what else it keeps during a walk.
With more fewer programs run at the same time: 2345 x 2456 to 120 x 200 took 104 us on an H200 with
66, 86 with 54."""


class WindowsAhead:
    """Writes the walk along the call's `axis`, from row `first` to `last`. Use once: `emit`.

    When an output is due, `sums0` is of its window, and `sums1`, … of those after it, with all rows
    before `known`; `ahead0`, … are the rows from there on. `columns`: how axes of the output are
    named in the columns of the input, `y`, of which a program has `wide`, `each` a thread; those
    that are not named there are the same in both. `kept`: registers that the caller wants.
    """

    def __init__(
        self,
        body: ShortBody,
        call: Resample2,
        wide: int,
        hints: Hints,
        each: int,
        columns: Mapping[Symbol, Expr],
        kept: int,
    ) -> None:
        self._body, self._call, self._wide = body, call, wide
        self._columns = columns
        self._row = call.output.axes[call.axis]
        buffers = body.context.buffers
        self.sums, self._type = buffers[call.weights.buffer].dtype, buffers[call.x.buffer].dtype
        self._taps = int(call.weights.axes[1].extent)
        self._windows = open_windows(call, hints)
        # The rows of one output, in parts of one length.
        rows = min(self._taps, _advance(call, hints))
        parts = -(-rows // max(1, (REGISTERS - kept) // each))
        self._together = -(-rows // parts)

    def emit(self, finish: Callable[[str], None]) -> None:
        """The loop over rows; `finish` writes what happens to a row's sums, whose name it gets."""
        body, line = self._body, self._body.writer.line
        zeros = f"tl.zeros([1, {self._wide}], {value_type(self.sums)})"
        last = self._windows - 1
        begins = max(self._windows, 2)
        self._open(begins, zeros)
        with body.loop("for at in range(first, last)"):
            for k in range(self._windows):
                name_output(body, self._row, f"window{k}", "at", k)
            line(f"end = begin0 + {self._taps}")
            self._catch_up()
            self._add_rows()
            line("known = end")
            body.name_axis(self._row.symbol, "at", None)
            finish("sums0")
            for k in range(last):
                line(f"sums{k} = sums{k + 1}")
            line(f"sums{last} = {zeros}")
            for k in range(begins - 1):
                line(f"begin{k} = begin{k + 1}")
            later = name_output(body, self._row, "later", "at", begins)
            read_begin(body, self._call, begins - 1, later, f"begin{begins - 2}")

    def _open(self, begins: int, zeros: str) -> None:
        """Before the first output: where windows begin, their sums, the first rows."""
        body, line = self._body, self._body.writer.line
        for k in range(begins):
            body.name_axis(var(f"begin{k}"), f"begin{k}", None)
            opening = name_output(body, self._row, f"opening{k}", "first", k)
            read_begin(body, self._call, k, opening, f"begin{k - 1}" if k else "")
        for k in range(self._windows):
            line(f"sums{k} = {zeros}")
        line("known = begin0")
        final = body.value(
            outer_start(body, self._call, name_output(body, self._row, "final", "last - 1", 0))
        )
        line(f"stop = tl.maximum({as_index(body, final)}, begin0) + {self._taps}")
        self._fetch("known")

    def _catch_up(self) -> None:
        """Rows that had been added to other windows before the last one was open: hardly any."""
        body, k = self._body, self._windows - 1
        with body.loop(f"for row in range(begin{k}, known)"):
            body.name_axis(var("row"), "row", None)
            read = self._converted(self._input(var("row")))
            body.writer.line(f"sums{k} += {read} * {self._weight(k, var('row'))}")

    def _add_rows(self) -> None:
        """Adds the rows from `known` on that the output wants, and asks for those behind.

        As a rule all windows hold all of them but perhaps the last one, as outputs are a row more
        or less apart, and nothing is asked of the others.
        """
        body, line, rows = self._body, self._body.writer.line, self._together
        with body.loop(f"for start in range(tl.maximum(known, begin0), end, {rows})"):
            body.name_axis(var("start"), "start", None)
            line(f"whole = (start + {rows - 1} <= end) & (begin{self._windows - 1} <= start)")
            for k in range(self._windows):
                self._weight(k, var("start"))  # names its address for both branches
            with body.loop("if whole"):
                self._add_whole(range(rows - 1))
                with body.loop(f"if start + {rows} <= end"):
                    self._add_whole(range(rows - 1, rows))
            with body.loop("else"):
                self._add_checked()
            line(f"after = start + {rows}")
            line("after = tl.where(after < end, after, tl.maximum(end, begin1))")
            self._fetch("after")

    def _add_whole(self, rows: Iterable[int]) -> None:
        """Adds rows that have been asked for to all windows."""
        for j in rows:
            read = self._converted(f"ahead{j}")
            for k in range(self._windows):
                weight = self._weight(k, var("start") + j)
                self._body.writer.line(f"sums{k} += {read} * {weight}")

    def _add_checked(self) -> None:
        """Adds all of them to the windows that hold them."""
        body, line = self._body, self._body.writer.line
        for j in range(self._together):
            read = self._converted(f"ahead{j}")
            for k in range(self._windows):
                held = body.fresh("held")
                line(f"{held} = (start + {j} >= begin{k}) & (start + {j} < end)")
                weight = self._weight(k, var("start") + j, held)
                line(f"sums{k} = tl.where({held}, sums{k} + {read} * {weight}, sums{k})")

    def _fetch(self, start: str) -> None:
        """Asks for rows, unless no output of the program wants them."""
        body = self._body
        body.name_axis(var(start), start, None)
        for j in range(self._together):
            wanted = body.fresh("wanted")
            body.writer.line(f"{wanted} = {start} + {j} < stop")
            body.writer.line(f"ahead{j} = {self._input(var(start) + j, wanted)}")

    def _input(self, row: Expr, wanted: str = "") -> str:
        """The text of the columns of an input row."""
        place = [self._columns.get(a.symbol, a.symbol) for a in self._call.output.axes]
        place[self._call.axis] = row
        return self._element(self._call.x, place, wanted)

    def _weight(self, k: int, row: Expr, wanted: str = "") -> str:
        """The text of the weight of an input row in window k."""
        place = (var(f"window{k}"), row - var(f"begin{k}"))
        return from_memory(self._element(self._call.weights, place, wanted), self.sums)

    def _element(self, view: View, place: Sequence[Expr], wanted: str) -> str:
        guard = Value(wanted, BOOL, frozenset()) if wanted else None
        return self._body.read(view.buffer, index_at(view, place), None, guard).text

    def _converted(self, text: str) -> str:
        return conversion(from_memory(text, self._type), self._type, self.sums)


def _advance(call: Resample2, hints: Hints) -> int:
    """About how many input rows lie between neighbouring outputs, rounded up."""
    size = hints.value(call.x.axes[call.axis].extent)
    out = hints.value(call.output.axes[call.axis].extent)
    return max(1, -(-size // max(1, out)))
