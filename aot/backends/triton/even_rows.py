"""Functions for rows of whole vectors, beside those for rows of any length that a run knows.

Threads read vectors where the compiler sees that each row begins at a multiple of one. Of a length
that only a run knows it sees nothing: masked softmax of 178481 x 376 float16 took 304 us on an H200
element by element, 84 with this; deviations of 1016998 x 64 bfloat16 160 and 42, softmax of 8388608
x 8 float32 296 and 139. So there are both, and the length of a run chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from aot.backends.by_size import Choice, E
from aot.backends.triton.context import EVEN
from aot.backends.triton.crossed import is_crossed
from aot.ir.kernel_facts import argument_buffers
from aot.ir.kernels import Kernel, KernelGraph, NestKernel
from aot.ir.tensors import SizeRelation
from aot.symbolic import Expr, Modulo, at_least, below, integer

Choices = tuple[Choice[E], ...]


def with_even(
    kernel: Kernel, graph: KernelGraph, found: Choices[E], make: Callable[[KernelGraph], Choices[E]]
) -> Choices[E]:
    """The functions of a kernel, and more for where its rows are whole vectors.

    Args:
        kernel: The kernel.
        graph: Its graph.
        found: Its functions, for rows of any length.
        make: The functions for a graph that says more of its sizes; none where they cannot be had.
    """
    size = _row_length(kernel, graph)
    if size is None:
        return found
    rest = Modulo(size, integer(EVEN))
    known = SizeRelation(rest, "==", integer(0), "rows of whole vectors")
    even = make(replace(graph, relations=(*graph.relations, known)))
    if not even:
        return found
    name = f"{kernel.name}_even"
    more = (c.within(below(rest, 1)).renamed(kernel.name, name) for c in even)
    return (*(c.within(at_least(rest, 1)) for c in found), *more)


def _row_length(kernel: Kernel, graph: KernelGraph) -> Expr | None:
    """The size that rows of what is touched are long; None where a kernel walks none, or several.

    Points without inner loops are counted through all axes: neighbours are seen there at any size.
    """
    if not isinstance(kernel, NestKernel) or is_crossed(kernel):
        return None
    if not any(stage.order for stage in kernel.stages):
        return None
    lengths: set[Expr] = set()
    for name in argument_buffers(kernel):
        shape, strides = graph.buffers[name].shape, graph.buffers[name].strides or ()
        for extent, stride in zip(shape, strides, strict=True):
            far = any(s.free_symbols & extent.free_symbols for s in strides)
            if stride == 1 and far:
                lengths.add(extent)
    only = lengths.pop() if len(lengths) == 1 else None
    return only if only is not None and only.is_Symbol else None
