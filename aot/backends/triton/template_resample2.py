"""Resizing along two axes at once: programs walk down an image and keep the rows they come from.

For each input row that it comes to, a program sums the taps along the inner axis, once; the sums of
as many rows as there are taps stay in registers, and move on as the walk does. So each output reads
about as many inputs as it would along the inner axis alone, and no image is written in between.
"""

from __future__ import annotations

from aot.backends.triton.context import make_context
from aot.backends.triton.dot import finish_tile
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid
from aot.backends.triton.ops import conversion
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
from aot.backends.triton.text import Writer, value_type
from aot.errors import InternalError
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.scalar import Node, binary, cast, load
from aot.ir.templates.resample2 import Resample2
from aot.symbolic import Expr, integer, substitute, var

_BEGIN, _ROW = var("begin"), var("row")
"""Where an output's taps along the inner axis begin; the input row that is summed."""


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
    options = {"num_warps": walk.warps, "num_stages": 1}
    return finish(kernel, body, line_grid(walk.programs), options)


class _Rows:
    """Writes the walk. Use once: `emit`."""

    def __init__(
        self, body: ShortBody, kernel: TemplateKernel, call: Resample2, walk: ResampleWalk
    ) -> None:
        self._body, self._kernel, self._call, self._walk = body, kernel, call, walk
        buffers = body.context.buffers
        self._sums = buffers[call.weights.buffer].dtype
        self._taps = int(call.weights.axes[1].extent)
        self._kept = [f"sums{k}" for k in range(self._taps)]

    def emit(self) -> None:
        body, line = self._body, self._body.writer.line
        body.wait()
        step = self._step()
        starts = outer_start(body, self._call, self._walk.row.symbol)
        for name in self._kept:
            line(f"{name} = tl.zeros([1, {self._walk.wide}], {value_type(self._sums)})")
        line("known = first - first")
        with body.loop("for at in range(first, last)"):
            body.name_axis(self._walk.row.symbol, "at", None)
            line(f"begin = {as_index(body, body.value(starts))}")
            with body.loop(f"for row in range(tl.maximum(known, begin), begin + {self._taps})"):
                body.name_axis(_ROW, "row", None)
                for older, newer in zip(self._kept, self._kept[1:], strict=False):
                    line(f"{older} = {newer}")
                line(f"{self._kept[-1]} = {body.value(step).text}")
            line(f"known = begin + {self._taps}")
            finish_tile(body, self._kernel, self._result(), frozenset(("y",)))

    def _step(self) -> Node:
        """The sum of an input row's taps; what does not vary from row to row is written here.

        Raises:
            InternalError: The call has no taps along its inner axis.
        """
        call, body = self._call, self._body
        inner = call.output.axes[call.inner]
        begin = inner_start(body, call, inner.symbol)
        body.value(begin)
        x, total = call.x, None
        dtype = body.context.buffers[x.buffer].dtype
        for tap in range(int(call.inner_weights.axes[1].extent)):
            weight = operand_at(body, call.inner_weights, (inner.symbol, integer(tap)))
            body.value(weight)
            place: list[Expr] = [a.symbol for a in call.output.axes]
            place[call.axis], place[call.inner] = _ROW, _BEGIN + tap
            at = dict(zip([a.symbol for a in x.axes], place, strict=True))
            index = [substitute(e, at) for e in x.index]
            value = cast(load(x.buffer, dtype, index, {_BEGIN: begin}), self._sums)
            term = binary("mul", value, weight)
            total = term if total is None else binary("add", total, term)
        if total is None:
            raise InternalError(f"{call.name} has no taps")
        return total

    def _result(self) -> str:
        """The text of an output row: the kept rows by their weights."""
        body = self._body
        terms = []
        for tap, name in enumerate(self._kept):
            at = (self._walk.row.symbol, integer(tap))
            weight = body.value(operand_at(body, self._call.weights, at))
            terms.append(f"{name} * {weight.text}")
        wanted = body.context.buffers[self._call.output.buffer].dtype
        total = body.name(" + ".join(terms), self._sums, frozenset(("y",)))
        return conversion(total.text, self._sums, wanted)
