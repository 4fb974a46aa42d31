"""Functions of a kernel that round float32 to TF32, and functions that do not.

Eager's libraries round large problems and leave small ones exact. A kernel for both kinds of sizes
has functions for either, each chosen at sizes of its kind (`by_size`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from aot.backends.by_size import Choice, E, by_size
from aot.errors import InternalError
from aot.ir.hints import FARTHEST, at_scale, hints_of
from aot.ir.kernels import Kernel, KernelGraph, TemplateKernel
from aot.symbolic import Expr, Maximum, integer

_QUARTERS = (4, 5, 6, *(4 * FARTHEST >> k for k in range(FARTHEST.bit_length() - 1)[::-1]))
"""Of sizes, by which others are looked for."""

Emit = Callable[[KernelGraph], E | None]


def rounded_choices(
    kernel: Kernel, graph: KernelGraph, own: E, emit: Emit[E], same: Callable[[E], object]
) -> tuple[Choice[E], ...]:
    """The functions of a kernel that rounds at some sizes alone, its own first; of others none.

    The arguments are those of `by_size`. What eager does decides by itself, and exactly: between
    two sizes that kernels are made for, too.
    """
    rounds = kernel.template.rounds if isinstance(kernel, TemplateKernel) else None
    if rounds is None:
        return ()
    found: list[Choice[E]] = []
    exact = Maximum(integer(0), 1 - rounds)
    for where in sorted((rounds, exact), key=hints_of(graph.dims).holds, reverse=True):
        at = _graph_at(where, graph)
        first = emit(at) if found else own
        if first is None:
            return ()
        choices = by_size(kernel, at, first, _only(where, emit), same)
        name = f"{kernel.name}_other" if found else kernel.name
        found += [choice.within(where).renamed(kernel.name, name) for choice in choices]
    return tuple(found)


def _only(where: Expr, emit: Emit[E]) -> Emit[E]:
    """What emits for sizes of one kind alone."""
    return lambda graph: emit(graph) if hints_of(graph.dims).holds(where) else None


def _graph_at(where: Expr, graph: KernelGraph) -> KernelGraph:
    """The graph at the sizes of a kind that are nearest to its own.

    Where one kind begins, problems are small for it: a convolution of 576 places and a depth of
    5096 wants other blocks than one of 27,648.
    """
    for quarters in _QUARTERS:
        for times, part in ((quarters, 4), (4, quarters)):
            dims = tuple(replace(d, hint=at_scale(d, times, part)) for d in graph.dims)
            if hints_of(dims).holds(where):
                return replace(graph, dims=dims)
    raise InternalError("a kernel rounds at some sizes, and at none that it is made for")
