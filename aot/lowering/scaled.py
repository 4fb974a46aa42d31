"""Products of float8 matrices, scaled: conversion, product, and the scales in its epilogue."""

from __future__ import annotations

from aot.ir.dtypes import DType
from aot.ir.scalar import Node, binary, cast
from aot.lowering.builder import Tensor
from aot.lowering.matmul import products
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr


@REGISTRY.row("aten._scaled_mm.default")
def scaled_mm(
    call: Call,
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: DType | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """(a times b) * scale_a * scale_b + bias; scales are numbers, of rows of a, of columns of b.

    The products are exact, and add up in float32.

    Raises:
        CannotLower: The scales are of blocks, or the result has one.
    """
    result = call.result_type()
    if scale_result is not None and result.dtype.is_float8:
        raise CannotLower(
            "scale_result: torch divides by it on CPUs and multiplies by it on GPUs; ask for "
            "out_dtype=torch.float32 and scale before the conversion"
        )
    shape = result.shape
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        if not _spreads(scale.shape, shape):
            raise CannotLower(
                f"{name} of shape {list(scale.shape)}: scales of blocks are not supported; give "
                "one number, or one for each row of a and each column of b"
            )
    out = products(a, b, shape)

    def body(at: tuple[Expr, ...]) -> Node:
        value = out.load(at)
        for scale in (scale_a, scale_b):
            value = binary("mul", value, cast(scale.load_broadcast(at), value.dtype))
        if bias is not None:
            value = binary("add", value, cast(bias.load_broadcast(at), value.dtype))
        return cast(value, result.dtype)

    return call.builder.pointwise(shape, result.dtype, body)


def _spreads(scale: tuple[Expr, ...], shape: tuple[Expr, ...]) -> bool:
    """Whether a scale has one number for the whole result, or one along a dimension."""
    pairs = zip(reversed(scale), reversed(shape), strict=False)
    return len(scale) <= len(shape) and all(own in (1, size) for own, size in pairs)
