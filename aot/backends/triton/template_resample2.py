"""Resizing along two axes at once: programs walk down an image and keep the rows they come from.

For each input row that it comes to, a program sums the taps along the inner axis, once; the sums of
as many rows as there are taps stay in registers, and move on as the walk does. So each output reads
about as many inputs as it would along the inner axis alone, and no image is written in between.
"""

from __future__ import annotations

from aot.backends.triton.context import Value, make_context
from aot.backends.triton.dot import finish_tile
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid
from aot.backends.triton.ops import conversion, from_memory
from aot.backends.triton.resample_walk import (
    ResampleWalk,
    as_index,
    inner_start,
    operand_at,
    outer_start,
    plan_walk,
)
from aot.backends.triton.short_reduction import ShortBody
from aot.backends.triton.template_resample_outer import emit_resample_outer
from aot.backends.triton.text import Writer, index_text, value_type
from aot.errors import InternalError
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.templates.resample import index_at
from aot.ir.templates.resample2 import Resample2
from aot.symbolic import Expr, Symbol, integer, var

_BEGIN = var("begin")
"""Where an output's taps along the inner axis begin."""


def emit_resample2(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of a resample2 call and its epilogue."""
    call = template_call(kernel, Resample2)
    if call.first == "outer":
        return emit_resample_outer(kernel, graph, hints, gpu)
    context = make_context(kernel, graph, gpu)
    walk = plan_walk(kernel, call, context, hints, gpu, call.inner)
    body = ShortBody(context, Writer())
    walk.open(body, apart=True)
    _Rows(body, kernel, call, walk).emit()
    options = {"num_warps": 1, "num_stages": 1}
    return finish(kernel, body, line_grid(walk.programs), options)


class _Rows:
    """Writes the walk. Use once: `emit`.

    What an input row gives is asked for while the row before it is summed: each waited for memory
    otherwise. The next row is the one behind, or the first one of the next output; outputs that
    begin at the same row are not followed by one that begins behind all that is known. What the
    next output wants of tables is asked for before that row, so that it does not wait for it.
    """

    def __init__(
        self, body: ShortBody, kernel: TemplateKernel, call: Resample2, walk: ResampleWalk
    ) -> None:
        self._body, self._kernel, self._call, self._walk = body, kernel, call, walk
        buffers = body.context.buffers
        self._sums, self._type = buffers[call.weights.buffer].dtype, buffers[call.x.buffer].dtype
        self._taps = int(call.weights.axes[1].extent)
        self._kept = [f"sums{k}" for k in range(self._taps)]
        self._ahead = [f"ahead{k}" for k in range(int(call.inner_weights.axes[1].extent))]

    def emit(self) -> None:
        body, line, row = self._body, self._body.writer.line, self._walk.row
        last = f"{index_text(row.extent, body.context.names)} - 1"
        body.wait()
        begin, weights = self._inner()
        for name in self._kept:
            line(f"{name} = tl.zeros([1, {self._walk.wide}], {value_type(self._sums)})")
        self._name_begin("begin", self._read_begin("first"))
        self._name_begin("following", self._read_begin(f"tl.minimum(first + 1, {last})"))
        self._read_factors("", "first")
        line("known = first - first")
        self._fetch("begin", begin)
        with body.loop("for at in range(first, last)"):
            body.name_axis(row.symbol, "at", None)
            later = self._read_begin(f"tl.minimum(at + 2, {last})")
            self._read_factors("next_", f"tl.minimum(at + 1, {last})")
            line(f"end = begin + {self._taps}")
            with body.loop("for row in range(tl.maximum(known, begin), end)"):
                for older, newer in zip(self._kept, self._kept[1:], strict=False):
                    line(f"{older} = {newer}")
                line(f"{self._kept[-1]} = {self._sum(weights)}")
                line("wanted = tl.where(row + 1 < end, row + 1, tl.maximum(end, following))")
                self._fetch("wanted", begin)
            terms = [f"{name} * factor{k}" for k, name in enumerate(self._kept)]
            finish_tile(body, self._kernel, self._result(" + ".join(terms)), frozenset(("y",)))
            line("known = end")
            line("begin = following")
            self._name_begin("following", later)
            for k in range(self._taps):
                line(f"factor{k} = next_factor{k}")

    def _output(self, text: str) -> Symbol:
        """An output row's number, named anew."""
        name = self._body.fresh("output")
        self._body.writer.line(f"{name} = {text}")
        self._body.name_axis(var(name), name, None)
        return var(name)

    def _read_begin(self, output: str) -> Symbol:
        """Reads where the taps of an output row begin; the row."""
        row = self._output(output)
        self._body.value(operand_at(self._body, self._call.starts, (row,)))
        return row

    def _name_begin(self, name: str, row: Symbol) -> None:
        """Names what has been read: where it is used it is waited for."""
        start = self._body.value(outer_start(self._body, self._call, row))
        self._body.writer.line(f"{name} = {as_index(self._body, start)}")

    def _read_factors(self, prefix: str, output: str) -> None:
        """Names the weights of an output row's taps."""
        row = self._output(output)
        for tap in range(self._taps):
            weight = self._body.value(
                operand_at(self._body, self._call.weights, (row, integer(tap)))
            )
            self._body.writer.line(f"{prefix}factor{tap} = {weight.text}")

    def _inner(self) -> tuple[Value, list[str]]:
        """Where a column's taps along the inner axis begin, and their weights.

        Raises:
            InternalError: The call has no taps along its inner axis.
        """
        call, body = self._call, self._body
        if not self._ahead:
            raise InternalError(f"{call.name} has no taps")
        inner = call.output.axes[call.inner].symbol
        begin = body.value(inner_start(body, call, inner))
        taps = range(len(self._ahead))
        nodes = [operand_at(body, call.inner_weights, (inner, integer(tap))) for tap in taps]
        return begin, [body.value(node).text for node in nodes]

    def _fetch(self, row: str, begin: Value) -> None:
        """Reads the inputs of a row, or of the last one instead of those behind it."""
        call, body, fetched = self._call, self._body, self._body.fresh("fetched")
        height = index_text(call.x.axes[call.axis].extent, body.context.names)
        body.writer.line(f"{fetched} = tl.minimum({row}, {height} - 1)")
        body.name_axis(var(fetched), fetched, None)
        for tap, name in enumerate(self._ahead):
            place: list[Expr] = [a.symbol for a in call.output.axes]
            place[call.axis], place[call.inner] = var(fetched), _BEGIN + tap
            index = index_at(call.x, place)
            body.writer.line(f"{name} = {body.read(call.x.buffer, index, {_BEGIN: begin}).text}")

    def _sum(self, weights: list[str]) -> str:
        """The text of a row's sum of taps along the inner axis."""
        values = [
            conversion(from_memory(name, self._type), self._type, self._sums)
            for name in self._ahead
        ]
        return " + ".join(f"{v} * {w}" for v, w in zip(values, weights, strict=True))

    def _result(self, total: str) -> str:
        """The text of an output row, in its type."""
        wanted = self._body.context.buffers[self._call.output.buffer].dtype
        named = self._body.name(total, self._sums, frozenset(("y",)))
        return conversion(named.text, self._sums, wanted)
