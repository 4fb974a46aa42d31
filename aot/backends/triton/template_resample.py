"""Resizing along an outer axis with many taps: programs walk down an image (`Windows`)."""

from __future__ import annotations

from aot.backends.triton.context import make_context
from aot.backends.triton.dot import finish_tile
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid
from aot.backends.triton.ops import conversion
from aot.backends.triton.resample_walk import plan_walk
from aot.backends.triton.resample_windows import Windows
from aot.backends.triton.short_reduction import ShortBody
from aot.backends.triton.short_tile import accesses
from aot.backends.triton.text import Writer
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.templates.resample import Resample

THREAD_COLUMNS, MOST_ROWS = 8, 32
"""Of a program: more than a walk over both axes has, since all that it does is to wait."""


def emit_resample(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of a resample call and its epilogue."""
    call = template_call(kernel, Resample)
    context = make_context(kernel, graph, gpu)
    walk = plan_walk(
        kernel, call, context, hints, gpu, thread_columns=THREAD_COLUMNS, most_rows=MOST_ROWS
    )
    walk = walk.merged(accesses(kernel, context, call))
    body = ShortBody(context, Writer())
    walk.open(body, apart=False)
    body.wait()
    windows = Windows(body, call, walk.wide, hints)
    wanted = graph.buffers[call.output.buffer].dtype

    def store(sums: str) -> None:
        finish_tile(body, kernel, conversion(sums, windows.sums, wanted), frozenset(("y",)))

    windows.emit(store)
    options = {"num_warps": 1, "num_stages": 1}
    return finish(kernel, body, line_grid(walk.programs), options)
