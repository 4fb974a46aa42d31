"""The shared way of lowering an elementwise operator: promote, compute in that type, cast back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aot.ir.dtypes import DType
from aot.ir.scalar import Node, cast
from aot.lowering.builder import Tensor
from aot.lowering.promotion import TensorLike, element, promote, promote_float
from aot.lowering.registry import Call, Lowering
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr

Promotion = Callable[..., DType]


def elementwise(
    call: Call,
    operands: Sequence[TensorLike],
    compute: DType,
    body: Callable[..., Node],
) -> Tensor:
    """One nest: `body(*elements of the operands in compute's arithmetic type)`, cast to the result.

    Operands broadcast to the result's shape. Half types are computed in float32.
    """
    result = call.result_type()
    builder = call.builder

    def point(index: tuple[Expr, ...]) -> Node:
        nodes = [element(builder, o, index, compute.compute) for o in operands]
        return narrow(body(*nodes), result.dtype)

    return builder.pointwise(result.shape, result.dtype, point)


def narrow(node: Node, dtype: DType) -> Node:
    """`node` as `dtype`; a half value that was only widened comes back as it was."""
    inner = node.args[0] if node.op == "cast" else node
    if inner.dtype == dtype and node.dtype == dtype.compute and inner.op in ("load", "cast"):
        return inner
    return cast(node, dtype)


def same_type(dtype: DType) -> Callable[..., DType]:
    """A promotion that always gives `dtype`."""

    def fixed(*_: Any) -> DType:
        return dtype

    return fixed


def unary_rows(
    table: dict[str, Callable[[Node], Node]], promotion: Promotion, prefix: str = "aten."
) -> None:
    """Registers `aten.<name>.default` for each entry of a table of one-operand bodies."""
    for name, body in table.items():
        REGISTRY.row(f"{prefix}{name}.default")(_unary_lowering(body, promotion))


def _unary_lowering(body: Callable[[Node], Node], promotion: Promotion) -> Lowering:
    def lower(call: Call, x: TensorLike, **_: Any) -> Tensor:
        return elementwise(call, (x,), promotion(x), body)

    return lower


def binary_rows(
    table: dict[str, Callable[[Node, Node], Node]],
    promotion: Promotion,
    overloads: Mapping[str, Sequence[str]],
) -> None:
    """Registers each two-operand body under the overloads of its name (Tensor and Scalar)."""
    for name, body in table.items():
        targets = [f"aten.{name}.{o}" for o in overloads.get(name, ("Tensor", "Scalar"))]
        REGISTRY.row(*targets)(_binary_lowering(body, promotion))


def _binary_lowering(body: Callable[[Node, Node], Node], promotion: Promotion) -> Lowering:
    def lower(call: Call, a: TensorLike, b: TensorLike) -> Tensor:
        return elementwise(call, (a, b), promotion(a, b), body)

    return lower


__all__ = ["binary_rows", "elementwise", "promote", "promote_float", "same_type", "unary_rows"]
