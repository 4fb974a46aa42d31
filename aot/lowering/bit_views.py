"""Views of memory as another type: the same bits, in elements of the same or of another size.

The dimension of stride 1 is the last one, as torch demands it where the sizes differ: a wide
element is as many narrow ones, the first of which has its lowest bits (little-endian).
"""

from __future__ import annotations

from aot.ir.dtypes import INTEGERS, DType
from aot.ir.scalar import Node, cast, make
from aot.lowering.builder import Tensor
from aot.lowering.exprs import or_, shl, shr
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, FloorDiv, Modulo, as_expr


@REGISTRY.row("aten.view.dtype")
def view_dtype(call: Call, x: Tensor, dtype: DType) -> Tensor:
    """The bits of x as elements of another type."""

    def body(at: tuple[Expr, ...]) -> Node:
        if dtype.itemsize < x.dtype.itemsize:
            return _part(call, x, at, dtype)
        if dtype.itemsize > x.dtype.itemsize:
            return _joined(x, at, dtype)
        return _same_bits(x.load(at), dtype)

    return call.builder.pointwise(call.result_type().shape, dtype, body)


def _part(call: Call, x: Tensor, at: tuple[Expr, ...], dtype: DType) -> Node:
    """The bits of a part of a wide element."""
    parts = as_expr(x.dtype.itemsize // dtype.itemsize)
    wide = _same_bits(x.load((*at[:-1], FloorDiv(at[-1], parts))), _whole(x.dtype))
    below = call.builder.index_node(Modulo(at[-1], parts) * (8 * dtype.itemsize))
    return _same_bits(cast(shr(wide, cast(below, wide.dtype)), _whole(dtype)), dtype)


def _joined(x: Tensor, at: tuple[Expr, ...], dtype: DType) -> Node:
    """The bits of all narrow elements that a wide one is."""
    parts = dtype.itemsize // x.dtype.itemsize
    narrow, wide = _whole(x.dtype, "u"), _whole(dtype, "u")
    whole: Node | None = None
    for k in range(parts):
        part = cast(_same_bits(x.load((*at[:-1], at[-1] * parts + k)), narrow), wide)
        placed = shl(part, 8 * x.dtype.itemsize * k) if k else part
        whole = placed if whole is None else or_(whole, placed)
    assert whole is not None
    return _same_bits(whole, dtype)


def _whole(dtype: DType, kind: str = "i") -> DType:
    """The integers of a type's size."""
    return next(d for d in INTEGERS if d.kind == kind and d.itemsize == dtype.itemsize)


def _same_bits(value: Node, dtype: DType) -> Node:
    return value if value.dtype == dtype else make("bitcast", dtype, value)
