"""Products of integers of 8 bits: exact in float32, as far as its digits go, then in int32."""

from __future__ import annotations

from aot.ir.dtypes import BFLOAT16, INT32, UINT8
from aot.ir.scalar import Node, binary, cast
from aot.lowering.builder import Tensor
from aot.lowering.matmul import products
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, as_expr

_EXACT = 2**24
"""Up to here float32 holds every integer."""


@REGISTRY.row("aten._int_mm.default")
def int_mm(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """(m, k) of int8 or uint8 times (k, n) of int8, in int32.

    bfloat16 holds such numbers, and its products add up in float32: exactly, in parts of the depth.

    Raises:
        CannotLower: The depth is not known when the package is built.
    """
    shape, depth = call.result_type().shape, a.shape[1]
    if not depth.is_Integer:
        raise CannotLower("the depth of _int_mm is dynamic; make that dimension static")
    step = _EXACT // (128 * (255 if a.dtype == UINT8 else 128))
    parts = [
        products(_part(a, 1, begin, size), _part(b, 0, begin, size), shape)
        for begin, size in _cuts(int(depth), step)
    ]

    def body(at: tuple[Expr, ...]) -> Node:
        value = cast(parts[0].load(at), INT32)
        for part in parts[1:]:
            value = binary("add", value, cast(part.load(at), INT32))
        return value

    return call.builder.pointwise(shape, INT32, body)


def _cuts(depth: int, step: int) -> list[tuple[int, int]]:
    """Where parts of the depth begin, and how deep they are; one of none where there is none."""
    return [(begin, min(step, depth - begin)) for begin in range(0, max(depth, 1), step)]


def _part(x: Tensor, axis: int, begin: int, size: int) -> Tensor:
    """x from `begin` on along an axis, so many elements of it, in bfloat16."""
    shape = tuple(as_expr(size) if k == axis else extent for k, extent in enumerate(x.shape))

    def body(at: tuple[Expr, ...]) -> Node:
        return cast(x.load(tuple(i + begin * (k == axis) for k, i in enumerate(at))), BFLOAT16)

    return x.builder.pointwise(shape, BFLOAT16, body)


@REGISTRY.row("aten._weight_int8pack_mm.default")
def weight_int8pack_mm(call: Call, x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    """x (m, k) times weight (n, k) of int8 transposed, each column by its scale."""
    result = call.result_type()
    shape = (weight.shape[1], weight.shape[0])
    turned = call.builder.pointwise(
        shape, x.dtype, lambda at: cast(weight.load((at[1], at[0])), x.dtype)
    )
    out = products(x, turned, result.shape)

    def body(at: tuple[Expr, ...]) -> Node:
        scale = cast(scales.load(at[1:]), out.dtype)
        return cast(binary("mul", out.load(at), scale), result.dtype)

    return call.builder.pointwise(result.shape, result.dtype, body)
