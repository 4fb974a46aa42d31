"""Where a convolution's results go, and what of its epilogue conv.h does by itself."""

from __future__ import annotations

from aot.backends.cpp.conv_heuristic import ConvBlocking
from aot.backends.cpp.conv_parts import IMAGE, Convolution
from aot.backends.cpp.streaming import streamed_buffers
from aot.backends.cpp.tile import (
    COLUMN,
    ROW,
    added_field,
    epilogue_nests,
    results_of,
    stored_as,
    turned_results,
)
from aot.ir.dtypes import BFLOAT16
from aot.ir.kernels import KernelGraph


def ends(
    c: Convolution, blocking: ConvBlocking, graph: KernelGraph
) -> tuple[list[str], dict[str, str]]:
    """Lines of the configuration, and fields of the arguments.

    An epilogue that only rounds pairs' results, or adds a channel's own number before, is ten
    operations for a vector; machines that multiply pairs have an instruction.
    """
    if streamed_buffers(c.kernel, graph):
        return [], {}
    nests = epilogue_nests(c.kernel, c.space, c.context)
    along = ROW if c.space.turned else COLUMN
    fields = results_of(nests, c.context, COLUMN) if along == COLUMN else {}
    if not blocking.pairs or c.spread > 1:
        return [], fields
    added = added_field(nests, c.context, along)
    rounded = bool(added) or stored_as(nests, c.context, c.dtype.compute, along) == BFLOAT16
    if rounded and along == ROW:
        fields = turned_results(nests, c.context, IMAGE)
    if not (rounded and fields):
        return [], fields
    flags = ["  static constexpr bool ROUNDED = true;"]
    return flags + ["  static constexpr bool ADDS = true;"] * bool(added), {**fields, **added}
