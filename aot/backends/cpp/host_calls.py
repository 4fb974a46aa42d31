"""Calls of the host in programs for other devices: kernels of this backend as custom operators.

Each call that `schedule.host_calls` has set apart gets a kernel as a program for the CPU would have
it, under a name made of its text. All kernels of a package are one library of operators, in which
every level's code has a namespace of its own and the widest that the machine has is called.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from aot.backends.base import UNNAMED, HostKernel
from aot.backends.cpp.build import Builder, Unit
from aot.backends.cpp.kernel import EmittedKernel, base_offsets, unnamed_text
from aot.backends.cpp.levels import LEVELS
from aot.backends.cpp.solvers import solver_numbers, solver_routine
from aot.backends.cpp.template_library import emit_library
from aot.errors import InternalError
from aot.ir.flow import CustomCall, Item, map_items
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.symbolic import integer

_NAMESPACES = {level.name: f"aot_v{k}" for k, level in enumerate(LEVELS, start=2)}


def emit_host_calls(graph: KernelGraph) -> tuple[KernelGraph, tuple[HostKernel, ...]]:
    """The graph with calls that are complete, and the kernels that they call, each once.

    A call's arguments are what `aot_host::call_kernel` takes: the buffers that its kernel reads,
    and its numbers.
    """
    found: dict[str, HostKernel] = {}

    def complete(item: Item[Any]) -> Item[Any]:
        if not isinstance(item, CustomCall) or item.template is None:
            return item
        kernel = TemplateKernel(
            "host", item.template, (), (), tuple(dict.fromkeys(item.operands)), item.results
        )
        emitted = emit_library(kernel, graph)
        made = _kernel(kernel, emitted, solver_routine(kernel, graph))
        found[made.name] = made
        numbers = (
            *(emitted.work, integer(emitted.grain or 1), emitted.scratch),
            *solver_numbers(kernel, graph),
            *emitted.sizes,
            *base_offsets(kernel, graph.buffers).values(),
        )
        arguments = (*item.arguments, ("numbers", "int[]", numbers))
        return replace(item, name=made.name, arguments=arguments)

    flow = map_items(graph.flow, complete)
    return (replace(graph, flow=flow), tuple(found.values())) if found else (graph, ())


def _kernel(kernel: TemplateKernel, emitted: EmittedKernel, solver: str) -> HostKernel:
    """The source of a call's kernel, without a name."""
    if emitted.tables or emitted.buffers != (*kernel.reads, *kernel.writes):
        raise InternalError(f"{kernel.template.name}: no kernel for a call of the host")
    includes = "".join(f'#include "{header}"\n' for header in sorted(emitted.headers))
    whole = f'#include "aot/kernel/prelude.h"\n{includes}\n{unnamed_text(emitted)}'
    digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
    label = dict(kernel.template.attributes)["routine"].name
    name = f"host::{label}.{digest}"
    return HostKernel(name, whole, len(kernel.reads), len(kernel.writes), solver)


def build_host_library(builder: Builder, kernels: Mapping[HostKernel, Sequence[str]]) -> bytes:
    """A library of operators with these kernels.

    Args:
        builder: Compiles.
        kernels: With the kinds of devices that call each.

    Raises:
        CompilerFailed: The compiler refused a source.
    """
    # The narrowest first: where two objects have a function in common, the linker takes that one's.
    units = [
        (_unit(position, kernel, level.name), level.name)
        for level in LEVELS
        for position, kernel in enumerate(kernels)
    ]
    table = Unit("operators", _table(kernels), vectors=False)
    return builder.build_together([(table, LEVELS[0].name), *units])


def _symbol(position: int, level: str) -> str:
    """What the linker calls a kernel of a level."""
    return f"host{position}_{_NAMESPACES[level]}"


def _unit(position: int, kernel: HostKernel, level: str) -> Unit:
    """A level's code of a kernel; headers' functions are the level's own, too."""
    symbol = _symbol(position, level)
    text = f"#define aot {_NAMESPACES[level]}\n{kernel.text.replace(UNNAMED, symbol)}"
    return Unit(symbol, text, vectors=False, long=True)


def _table(kernels: Mapping[HostKernel, Sequence[str]]) -> str:
    """The unit that registers the kernels."""
    lines = ['#include "aot/host/device_call.h"', 'extern "C" {']
    symbols = [[_symbol(k, level.name) for level in LEVELS] for k in range(len(kernels))]
    lines += [
        f"void {symbol}(const aot_kernel_args*, int64_t, int64_t);"
        for row in symbols
        for symbol in row
    ]
    # Asked once: where a hypervisor answers for the processor, that takes longer than a small call.
    lines += ["}", "namespace {", "int widest = 0;", "aot_host::SolverPlaces places;"]
    lines += ["void end(void*) { places.end(); }"]
    for k, (kernel, row) in enumerate(zip(kernels, symbols, strict=True)):
        lines += [
            f"int call{k}(const aot_operator_call* call, void*) {{",
            f"  static const aot_host::Kernel kernel = {{{{{', '.join(row)}}}}};",
            f"  static const aot_host::SolverRoutine solver = {{{kernel.solver}}};",
            f"  constexpr int kReads = {kernel.reads}, kResults = {kernel.results};",
            "  return aot_host::call_kernel<kReads, kResults>(",
            "      call, kernel, widest, solver, places);",
            "}",
        ]
    lines += [
        "}",
        'extern "C" __attribute__((visibility("default"))) int aot_operator_library_init(',
        "    const aot_operator_registry* registry) {",
        "  if (registry->abi_version != AOT_OPERATOR_ABI_VERSION) return 1;",
        "  widest = aot_host::level();",
    ]
    added = [(k, kernel, d) for k, (kernel, devices) in enumerate(kernels.items()) for d in devices]
    lines += [
        f'  if (registry->add_for(registry, "{device}", "{kernel.name}", call{k}, nullptr, '
        f"{'nullptr' if position else 'end'}) != 0) return 1;"
        for position, (k, kernel, device) in enumerate(added)
    ]
    return "\n".join([*lines, "  return 0;", "}", ""])
