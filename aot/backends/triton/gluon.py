"""What kernels in Gluon may be given: epilogues whose words have a meaning there, and stores."""

from __future__ import annotations

from collections.abc import Iterator

from aot.backends.triton.context import KernelContext
from aot.ir.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64
from aot.ir.kernels import TemplateKernel
from aot.ir.scalar import postorder
from aot.symbolic import Expr, affine_coefficients, is_multiple

_VALUES = (FLOAT16, BFLOAT16, FLOAT32, FLOAT64, BOOL)

_WORDS = frozenset(
    (
        *("load", "const", "cast", "where", "not", "and", "or"),
        *("add", "sub", "mul", "div", "neg", "abs", "minimum", "maximum", "sqrt", "rsqrt"),
        *("exp", "exp2", "log", "log2", "tanh", "erf", "sigmoid"),
        *("eq", "ne", "lt", "le", "gt", "ge"),
    )
)
"""Operations of which no operand is a block that the text makes: such a one has no layout there.

Nor do they ask all lanes, as loops do.
"""


def takes_epilogue(kernel: TemplateKernel) -> bool:
    """Whether a kernel in Gluon can evaluate what is fused behind its template."""
    nests = [nest for stage in kernel.stages for nest in stage.nests]
    if any(store.conflicts or store.binds for nest in nests for store in nest.stores):
        return False
    nodes = postorder([root for nest in nests for root in nest.roots])
    return all(node.op in _WORDS and node.dtype in _VALUES for node in nodes)


VECTOR = 8
"""Neighbouring columns of a thread: of halves the widest store."""


def stores_vectors(
    kernel: TemplateKernel, context: KernelContext, column: int = -1, each: int = VECTOR
) -> bool:
    """Whether threads can store `each` neighbouring columns of the result at once.

    `column`: which of the result's axes has the columns.
    """
    return all(_in_vectors(kernel, offset, column, each) for offset in _stored(kernel, context))


def _stored(kernel: TemplateKernel, context: KernelContext) -> Iterator[Expr]:
    """Where what the kernel stores lies, from the beginning of its buffer."""
    view = kernel.template.output
    if view.buffer in kernel.writes:
        yield context.offset(view.buffer, view.index)
    for stage in kernel.stages:
        for nest in stage.nests:
            for store in nest.stores:
                yield context.offset(store.buffer, store.index)


def _in_vectors(kernel: TemplateKernel, offset: Expr, column: int, each: int) -> bool:
    solved = affine_coefficients(offset, [axis.symbol for axis in kernel.template.output.axes])
    if solved is None:
        return False
    steps, start = list(solved[0]), solved[1]
    along = steps.pop(column)
    whole = all(is_multiple(e, each) for e in (*steps, start))
    return along == 1 and whole
