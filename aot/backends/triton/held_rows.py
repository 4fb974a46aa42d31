"""Functions of rows whose length only a run knows: some hold a row as a whole, others walk it.

What a tile holds is read once; what is walked is read again for every reduction, in as many turns.
How long a row may be is part of a function then: it is one of those lengths alone, and the sizes of
a run choose. Softmax of 178,481 rows of 376 float16 took 117 us on an H200 with the row in a tile
of 512, 153 in one of 1024, 159 in the best of turns.
"""

from __future__ import annotations

from dataclasses import replace

from aot.backends.by_size import Choice
from aot.backends.triton.by_rounding import Emit
from aot.backends.triton.crossed import is_crossed
from aot.backends.triton.kernel import EmittedKernel
from aot.backends.triton.row_tiling import reads_again
from aot.ir.hints import at_scale, hints_of
from aot.ir.kernels import ALWAYS, Kernel, KernelGraph, NestKernel, TemplateKernel
from aot.ir.tensors import SizeRelation
from aot.symbolic import Expr, Minimum, at_least, below, dim, integer, power_above, product

STEP, HELD = 2, 4
"""Times the lengths of one function that those of the next are, and how many hold rows, if tiles
can: of the example's length and of longer ones. Lanes beyond a row's end cost what others do:
masked softmax of those rows took 92 us by 384 lanes, 352 by 1024, 303 in turns of 64."""

LEAST_LENGTH, MOST_LENGTH = 8, 4096
"""Lanes of the shortest tile, and of the longest: longer rows have turns enough."""


def row_choices(
    kernel: Kernel, graph: KernelGraph, emit: Emit[EmittedKernel]
) -> tuple[Choice[EmittedKernel], ...]:
    """The functions of a kernel of rows of an unknown length; none where it has no such rows.

    Some hold rows as long as the example's and longer ones; one walks along what is longer still.

    Args:
        kernel: The kernel.
        graph: Its graph.
        emit: The function for a graph; None where it cannot be had.
    """
    size = _row_size(kernel)
    if size is None:
        return ()
    least = max(LEAST_LENGTH, power_above(hints_of(graph.dims).value(size)))
    lengths = [least * STEP**k for k in range(HELD) if least * STEP**k <= MOST_LENGTH]
    if not lengths:
        return ()
    found: list[Choice[EmittedKernel]] = []
    for k, (above, length) in enumerate(zip((0, *lengths), (*lengths, None), strict=True)):
        when = at_least(size, above + 1) if above else ALWAYS
        at = _with_length(graph, size, length or above * STEP)
        if length is not None:
            when, at = when * below(size, length + 1), _held(at, size, length)
        made = emit(at)
        if made is None:
            return ()
        name = f"{kernel.name}_size{k}" if k else kernel.name
        found.append(Choice(made, Minimum(ALWAYS, when), name))
    return tuple(found)


def _row_size(kernel: Kernel) -> Expr | None:
    """The length of rows that are read again; None where it is known, or of none or of several."""
    sizes: set[Expr | None] = set()
    if isinstance(kernel, TemplateKernel):
        sizes = {kernel.template.row}
    elif isinstance(kernel, NestKernel) and reads_again(kernel) and not is_crossed(kernel):
        sizes = {product([a.extent for a in s.order]) for s in kernel.stages if s.order}
    open_sizes = [size for size in sizes if size is not None and size.free_symbols]
    return open_sizes[0] if len(open_sizes) == 1 else None


def _held(graph: KernelGraph, size: Expr, length: int) -> KernelGraph:
    """The graph of which it is known that rows are no longer than this."""
    known = SizeRelation(size, "<=", integer(length), "rows that a tile holds")
    return replace(graph, relations=(*graph.relations, known))


def _with_length(graph: KernelGraph, size: Expr, length: int) -> KernelGraph:
    """The graph with hints at which rows are about as long, by the largest of their dims."""
    own = hints_of(graph.dims).value(size)
    used = [d for d in graph.dims if dim(d.name) in size.free_symbols]
    largest = max(used, key=lambda d: d.hint)
    dims = [
        replace(d, hint=at_scale(d, length, max(1, own))) if d is largest else d for d in graph.dims
    ]
    return replace(graph, dims=tuple(dims))
