"""What taking apart an operator with results of measured sizes needs: names, types, dims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from aot.errors import wrongly_traced
from aot.frontend.sizes import Sizes
from aot.ir.dtypes import BOOL, INT64, UINT8, DType
from aot.ir.origin import Origin
from aot.ir.tensors import Dim, GraphOp, SizeRead, SizeRelation, TensorOp, TensorType, ValueRef
from aot.symbolic import Expr, dim, integer, is_int, product, row_major_strides

_HINT = 64
"""Of a measured size without an upper bound, for cost models."""


class MeasuringReader(Protocol):
    """What measuring needs of the reader of the graph.

    `true_places`: mask -> indices of its true elements, where they are known already.
    `overstated`: torch's symbols with upper bounds that are too low.
    """

    types: dict[str, TensorType]
    ops: list[GraphOp]
    sizes: Sizes
    measured: list[Dim]
    claimed: set[str]
    relations: list[SizeRelation]
    true_places: dict[str, ValueRef]
    overstated: set[tuple[str, str]]

    def type_of(self, value: Any) -> TensorType:
        """The type of a (fake) tensor. Raises ValueError for anything else."""


@dataclass(frozen=True)
class MeasuredCall:
    """A call that makes a size: `name` of its result, and torch's symbol with its range.

    The symbol is "" when torch knows the size: the same mask was measured before, or is empty.
    """

    name: str
    args: tuple[Any, ...]
    result: Any
    symbol: str
    bounds: tuple[Any, Any]
    origin: Origin


def bind_dim(
    reader: MeasuringReader, call: MeasuredCall, value: str, low: int, high: int | None
) -> Expr:
    """A new dim, read from an int64 without dimensions."""
    name = f"m{len(reader.measured)}"
    hint = max(low, _HINT if high is None else min(_HINT, high))
    label = f"{call.origin.operator.removeprefix('aten.').partition('.')[0]} of {call.name}"
    reader.measured.append(Dim(name, low, high, hint, None, label))
    reader.ops.append(SizeRead(name, value, call.origin))
    return dim(name)


def name_size(reader: MeasuringReader, call: MeasuredCall, size: Expr) -> Expr:
    """`size` is what torch's symbol stands for from now on."""
    if call.symbol:
        reader.sizes.measured.add(call.symbol)
        reader.sizes.rename[dim(call.symbol)] = size
    return size


def emit(
    reader: MeasuringReader,
    call: MeasuredCall,
    target: str,
    args: tuple[Any, ...],
    name: str,
    type_: TensorType,
) -> ValueRef:
    """One more operator, whose result is `name` of that type."""
    reader.types[name] = type_
    reader.ops.append(TensorOp(target, args, (), (name,), call.origin))
    return ValueRef(name)


def dense(dtype: Any, *shape: Expr) -> TensorType:
    """The type of a contiguous tensor."""
    return TensorType(dtype, shape, row_major_strides(shape))


def check_traced(type_: TensorType, dtype: DType) -> None:
    """Check that torch says the type that results have, as some versions do not.

    Raises:
        ValueError: It says another.
    """
    if type_.dtype != dtype:
        raise ValueError(wrongly_traced(dtype, type_.dtype))


def flattened(reader: MeasuringReader, call: MeasuredCall, x: ValueRef) -> ValueRef:
    """A tensor's elements in one dimension."""
    type_ = reader.types[x.name]
    count = product(type_.shape)
    flat = dense(type_.dtype, count)
    return emit(reader, call, "aten.view.default", (x, (count,)), f"{call.name}.flat", flat)


def is_mask(reader: MeasuringReader, index: Any) -> bool:
    """Whether an index says of each element if it is meant."""
    return isinstance(index, ValueRef) and reader.types[index.name].dtype in (BOOL, UINT8)


def partition(
    reader: MeasuringReader, call: MeasuredCall, mask: ValueRef, name: str
) -> tuple[ValueRef, Expr]:
    """Positions in the flat mask, the true elements' first, and the dim that counts these."""
    most = product(reader.types[mask.name].shape)
    positions, count = f"{name}.positions", f"{name}.count"
    reader.types[positions] = dense(INT64, most)
    reader.types[count] = dense(INT64)
    outputs = (positions, count)
    reader.ops.append(TensorOp("aot.partition.default", (mask,), (), outputs, call.origin))
    if is_int(most, 0):
        return ValueRef(positions), integer(0)
    size = bind_dim(reader, call, count, 0, int(most) if is_int(most) else None)
    return ValueRef(positions), size


def true_places(reader: MeasuringReader, call: MeasuredCall, mask: ValueRef, name: str) -> ValueRef:
    """Indices of the true elements, a row each; `name` begins those of what computes them."""
    known = reader.true_places.get(mask.name)
    if known is None:
        shape = reader.types[mask.name].shape
        positions, size = partition(reader, call, mask, name)
        type_ = dense(INT64, size, integer(len(shape)))
        args = (positions, shape)
        known = emit(reader, call, "aot.unravel.default", args, f"{name}.indices", type_)
        reader.true_places[mask.name] = known
    return known
