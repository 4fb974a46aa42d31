"""Sizes that the program itself computes: operators whose results have them, taken apart.

torch names such a size where an operator makes it (`unbacked_bindings`). It becomes a measured dim:
the number is computed by operators of ours, read, and what follows has sizes in terms of the dim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aot.frontend.sizes import Sizes, finite
from aot.ir.dtypes import BOOL, INT64, UINT8, DType
from aot.ir.origin import Origin
from aot.ir.tensors import Dim, GraphOp, SizeRead, TensorOp, TensorType, ValueRef, dims_in
from aot.symbolic import Expr, dim, integer, is_int, product, row_major_strides

_HINT = 64
"""Of a measured size without an upper bound, for cost models."""


class MeasuringReader(Protocol):
    """What measuring needs of the reader of the graph."""

    types: dict[str, TensorType]
    ops: list[GraphOp]
    sizes: Sizes
    measured: list[Dim]
    claimed: set[str]


@dataclass(frozen=True)
class MeasuredCall:
    """A call that makes a size: `name` of its result, and torch's symbol with its range."""

    name: str
    args: tuple[Any, ...]
    result: Any
    symbol: str
    bounds: tuple[Any, Any]
    origin: Origin


def read_measured(reader: MeasuringReader, target: str, call: MeasuredCall) -> Any:
    """The value of the call: a tensor, or the size itself.

    Raises ValueError for what has no counterpart, with the reason.
    """
    return _READERS[target](reader, call)


def _bind(
    reader: MeasuringReader, call: MeasuredCall, value: str, low: int, high: int | None
) -> Expr:
    """A new dim, read from an int64 without dimensions."""
    name = f"m{len(reader.measured)}"
    hint = max(low, _HINT if high is None else min(_HINT, high))
    label = f"{call.origin.operator.removeprefix('aten.').partition('.')[0]} of {call.name}"
    reader.measured.append(Dim(name, low, high, hint, None, label))
    reader.ops.append(SizeRead(name, value, call.origin))
    return dim(name)


def _name_size(reader: MeasuringReader, call: MeasuredCall, size: Expr) -> Expr:
    """`size` is what torch's symbol stands for from now on."""
    reader.sizes.measured.add(call.symbol)
    reader.sizes.rename[dim(call.symbol)] = size
    return size


def _emit(
    reader: MeasuringReader,
    call: MeasuredCall,
    target: str,
    args: tuple[Any, ...],
    name: str,
    type_: TensorType,
) -> ValueRef:
    reader.types[name] = type_
    reader.ops.append(TensorOp(target, args, (), (name,), call.origin))
    return ValueRef(name)


def _type(dtype: Any, *shape: Expr) -> TensorType:
    return TensorType(dtype, shape, row_major_strides(shape))


def read_number(reader: MeasuringReader, call: MeasuredCall, dtype: DType) -> ValueRef:
    """The one element of a tensor, in the given type and without dimensions."""
    (x,) = call.args
    known = reader.types[x.name]
    if known.shape:
        name, type_ = f"{call.name}.value", _type(known.dtype)
        x = _emit(reader, call, "aten.view.default", (x, ()), name, type_)
    if known.dtype == dtype:
        return ValueRef(x.name)
    name = f"{call.name}.{dtype.name}"
    reader.types[name] = _type(dtype)
    given = (("dtype", dtype),)
    reader.ops.append(TensorOp("aten._to_copy.default", (x,), given, (name,), call.origin))
    return ValueRef(name)


def _item(reader: MeasuringReader, call: MeasuredCall) -> Any:
    x = read_number(reader, call, INT64)
    low, high = finite(call.bounds[0]), finite(call.bounds[1])
    if low is None or low < 0:
        size = _signed(reader, call, x)
    else:
        size = _bind(reader, call, x.name, low, high)
    reader.claimed.update(dims_in(size))
    return _name_size(reader, call, size)


def _signed(reader: MeasuringReader, call: MeasuredCall, x: ValueRef) -> Expr:
    """A number of any sign, as the difference of two dims of which one is 0: dims have no sign."""
    type_ = _type(INT64)
    clamp = "aten.clamp.default"
    positive = _emit(reader, call, clamp, (x, 0), f"{call.name}.positive", type_)
    other = _emit(reader, call, clamp, (x, None, 0), f"{call.name}.negative", type_)
    negative = _emit(reader, call, "aten.neg.default", (other,), f"{call.name}.negated", type_)
    return _bind(reader, call, positive.name, 0, None) - _bind(reader, call, negative.name, 0, None)


def _where(reader: MeasuringReader, call: MeasuredCall, mask: ValueRef) -> ValueRef:
    """Indices of the true elements, a row each."""
    shape = reader.types[mask.name].shape
    most = product(shape)
    positions, count = f"{call.name}.positions", f"{call.name}.count"
    reader.types[positions] = _type(INT64, product(shape))
    reader.types[count] = _type(INT64)
    outputs = (positions, count)
    reader.ops.append(TensorOp("aot.partition.default", (mask,), (), outputs, call.origin))
    size = _bind(reader, call, count, 0, int(most) if is_int(most) else None)
    _name_size(reader, call, size)
    type_ = _type(INT64, size, integer(len(shape)))
    name = f"{call.name}.indices"
    return _emit(reader, call, "aot.unravel.default", (ValueRef(positions), shape), name, type_)


def _nonzero(reader: MeasuringReader, call: MeasuredCall) -> Any:
    return _where(reader, call, call.args[0])


def _index(reader: MeasuringReader, call: MeasuredCall) -> Any:
    x, indices = call.args
    return _pick(reader, call, x, indices)


def _masked_select(reader: MeasuringReader, call: MeasuredCall) -> Any:
    x, mask = call.args
    shape = _broadcast(reader.types[x.name].shape, reader.types[mask.name].shape)
    shape = shape or (integer(1),)
    pair = []
    for value, name in ((x, f"{call.name}.all"), (mask, f"{call.name}.mask")):
        type_ = TensorType(reader.types[value.name].dtype, shape, row_major_strides(shape))
        pair.append(_emit(reader, call, "aten.expand.default", (value, shape), name, type_))
    return _pick(reader, call, pair[0], (pair[1],))


def _broadcast(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
    rank = max(len(a), len(b))
    one = (integer(1),)
    left, right = one * (rank - len(a)) + tuple(a), one * (rank - len(b)) + tuple(b)
    return tuple(q if p == 1 else p for p, q in zip(left, right, strict=True))


def _pick(
    reader: MeasuringReader, call: MeasuredCall, x: ValueRef, indices: Sequence[Any]
) -> ValueRef:
    """x[indices], one of which is a mask: it is as many index tensors as it has dimensions."""
    masks = [i for i in indices if i is not None and reader.types[i.name].dtype in (BOOL, UINT8)]
    if len(masks) != 1:
        raise ValueError("it indexes with several masks")
    expanded: list[ValueRef | None] = []
    for index in indices:
        if index is not masks[0]:
            expanded.append(index)
            continue
        rows = _where(reader, call, index)
        size = reader.types[rows.name].shape[0]
        for k in range(len(reader.types[index.name].shape)):
            name = f"{call.name}.index{k}"
            args = (rows, 1, k)
            type_ = _type(INT64, size)
            expanded.append(_emit(reader, call, "aten.select.int", args, name, type_))
    shape = tuple(reader.sizes.expr(s) for s in call.result.shape)
    type_ = _type(reader.types[x.name].dtype, *shape)
    return _emit(reader, call, "aten.index.Tensor", (x, tuple(expanded)), call.name, type_)


_READERS: Mapping[str, Callable[[MeasuringReader, MeasuredCall], Any]] = {
    "aten.item.default": _item,
    "aten._local_scalar_dense.default": _item,
    "aten.nonzero.default": _nonzero,
    "aten.index.Tensor": _index,
    "aten.masked_select.default": _masked_select,
}

MEASURING = frozenset(_READERS)
"""Operators that `read_measured` takes."""
