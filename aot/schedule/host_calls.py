"""Kernels that the host computes for a device, as calls between the launches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aot.ir.flow import CustomCall, Item, Span, Straight, map_flows
from aot.ir.kernels import Kernel, KernelGraph, TemplateKernel
from aot.ir.tensors import ValueRef


def host_calls_apart(graph: KernelGraph) -> KernelGraph:
    """The graph with an item of the flow in the place of each kernel that the host computes.

    Launches before such a call end before it, and those after it wait for it: it is a call of a
    custom operator to all that comes later, until a backend has made its code.
    """
    if not any(map(_is_on_host, graph.kernels)):
        return graph
    flow = graph.flow or (Straight(Span(0, len(graph.kernels))),)
    apart = _Apart(graph)
    return replace(graph, flow=apart.flow(flow), kernels=tuple(apart.kernels))


def _is_on_host(kernel: Kernel) -> bool:
    return isinstance(kernel, TemplateKernel) and kernel.template.on_host


class _Apart:
    """One walk over a flow. `kernels`: those that stay, in order."""

    def __init__(self, graph: KernelGraph) -> None:
        self.graph = graph
        self.kernels: list[Kernel] = []

    def flow(self, flow: tuple[Item[Span], ...]) -> tuple[Item[Span], ...]:
        """A flow, its spans cut at calls."""
        made: list[Item[Any]] = []
        for item in flow:
            if isinstance(item, Straight):
                made += self._cut(item.graph)
            else:
                made.append(map_flows(item, self.flow))
        return tuple(made)

    def _cut(self, span: Span) -> list[Item[Span]]:
        items: list[Item[Span]] = []
        first = len(self.kernels)
        for kernel in self.graph.kernels[span.first :][: span.count]:
            if not _is_on_host(kernel):
                self.kernels.append(kernel)
                continue
            assert isinstance(kernel, TemplateKernel)
            items += self._since(first)
            items.append(_call(kernel))
            first = len(self.kernels)
        return [*items, *self._since(first)]

    def _since(self, first: int) -> list[Item[Span]]:
        count = len(self.kernels) - first
        return [Straight(Span(first, count))] if count else []


def _call(kernel: TemplateKernel) -> CustomCall:
    call = kernel.template
    given = tuple(ValueRef(name) for name in kernel.reads)
    arguments = (("operands", "tensor[]", given),)
    name = f"host::{call.kind}"
    return CustomCall(name, arguments, kernel.writes, call.origin, template=call)
