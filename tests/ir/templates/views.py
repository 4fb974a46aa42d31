"""Views for tests of single calls."""

from __future__ import annotations

from aot.ir.nests import View, numbered_axes
from aot.symbolic import Expr, as_expr


def view(*sizes: int | Expr) -> View:
    """The whole of a buffer of that shape."""
    axes = numbered_axes("v", [as_expr(size) for size in sizes])
    return View("b", axes, tuple(axis.symbol for axis in axes))


def strides(*steps: int) -> tuple[Expr, ...]:
    """Elements between neighbours along each axis."""
    return tuple(as_expr(step) for step in steps)
