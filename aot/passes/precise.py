"""Functions and sums in float64, where float32 results would depend on who computes them.

Folded weights are computed in NumPy when a package is built, and by kernels, of any instruction set
or GPU, when weights are replaced. Arithmetic of IEEE 754 gives both the same bits. Functions that
are approximated, and sums, whose order is free, do so once they are rounded from float64.
"""

from __future__ import annotations

from aot.ir.dtypes import FLOAT32, FLOAT64
from aot.ir.nests import LoopNest
from aot.ir.operations import OPERATIONS
from aot.ir.rewrite import with_roots
from aot.ir.scalar import Node, cast, make, rebuild, with_args

_APPROXIMATED = frozenset(name for name, row in OPERATIONS.items() if row.approximated)
_SUMS = ("sum", "prod")


def with_precise_functions(nest: LoopNest) -> LoopNest:
    """The nest with what is approximated or summed in float32 done in float64 and rounded."""

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        fresh = with_args(node, args)
        inexact = node.op in _APPROXIMATED or (node.op == "reduce" and node.attr in _SUMS)
        if node.dtype != FLOAT32 or not inexact:
            return fresh
        wide = make(node.op, FLOAT64, *(cast(a, FLOAT64) for a in args), attr=node.attr)
        return cast(wide, FLOAT32)

    return with_roots(nest, rebuild(nest.roots, visit))
