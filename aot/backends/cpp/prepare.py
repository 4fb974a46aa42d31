"""What the C++ backend adds to fused kernels.

Weights in the layouts that its templates read, and which templates finish each element once.
"""

from __future__ import annotations

from dataclasses import replace

from aot.backends.cpp.operands import not_private
from aot.backends.cpp.templates import template_of
from aot.ir.decisions import Decision
from aot.ir.kernels import Kernel, KernelGraph, Packed, TemplateKernel
from aot.ir.nests import Buffer, DerivedWeight, View


def prepare_kernels(graph: KernelGraph) -> KernelGraph:
    """The graph with packed weights as buffers and derived weights; equal uses share one.

    Kernels say whether they finish each element once.
    """
    buffers: dict[str, Buffer] = {}
    derived: dict[str, DerivedWeight] = {}
    decisions: list[Decision] = []

    def prepared(kernel: Kernel) -> Kernel:
        if not isinstance(kernel, TemplateKernel):
            return kernel
        template = template_of(kernel)
        if template.finishes_once:
            kernel = replace(kernel, finishes_once=True)
        form = template.weight
        if form is None:
            return kernel
        view = form.view(kernel.template)
        if graph.buffers[view.buffer].kind != "weight":
            return kernel
        subject = (kernel.name, view.buffer)
        reason = not_private(kernel, view)
        if reason:
            decisions.append(Decision("pack", subject, "as it is", reason))
            return kernel
        buffer, weight = form.pack(kernel, graph)
        buffers[buffer.name], derived[buffer.name] = buffer, weight
        reason = f"computed when the package is built: {weight.recipe}"
        decisions.append(Decision("pack", subject, "packed", reason))
        return _reading(kernel, view, buffer.name)

    kernels = tuple(prepared(kernel) for kernel in graph.kernels)
    return replace(
        graph,
        buffers={**graph.buffers, **buffers},
        kernels=kernels,
        decisions=(*graph.decisions, *decisions),
        derived=(*graph.derived, *derived.values()),
    )


def _reading(kernel: TemplateKernel, view: View, form: str) -> TemplateKernel:
    """The kernel with the packed form in the operand's place."""
    reads = tuple(form if name == view.buffer else name for name in kernel.reads)
    return replace(kernel, reads=reads, packed=Packed(view.buffer, form))
