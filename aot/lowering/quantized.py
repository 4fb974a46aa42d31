"""Products of integers of 8 bits: exact in float32, as far as its digits go, then in int32."""

from __future__ import annotations

from aot.ir.dtypes import BFLOAT16, INT32
from aot.ir.scalar import Node, binary, cast
from aot.lowering.builder import Tensor
from aot.lowering.matmul import products
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, as_expr

_EXACT_DEPTH = 1024
"""Products of 8 bits, each at most 2**14, whose sum float32 holds exactly: 2**24 in all."""


@REGISTRY.row("aten._int_mm.default")
def int_mm(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """(m, k) times (k, n), both int8 or uint8, in int32.

    bfloat16 holds such numbers, and its products add up in float32: exactly, in parts of the depth.

    Raises:
        CannotLower: The depth is not known when the package is built.
    """
    shape, depth = call.result_type().shape, a.shape[1]
    if not depth.is_Integer:
        raise CannotLower("the depth of _int_mm is dynamic; make that dimension static")
    cuts = range(0, max(int(depth), 1), _EXACT_DEPTH)
    parts = [
        products(_part(a, 1, cut, int(depth)), _part(b, 0, cut, int(depth)), shape) for cut in cuts
    ]

    def body(at: tuple[Expr, ...]) -> Node:
        value = cast(parts[0].load(at), INT32)
        for part in parts[1:]:
            value = binary("add", value, cast(part.load(at), INT32))
        return value

    return call.builder.pointwise(shape, INT32, body)


def _part(x: Tensor, axis: int, begin: int, depth: int) -> Tensor:
    """x from `begin` on along an axis, as many steps as add up exactly, in bfloat16."""
    size = min(_EXACT_DEPTH, depth - begin)
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
