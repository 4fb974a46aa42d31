"""Sizes that the program itself computes: operators whose results have them, taken apart.

torch names such a size where an operator makes it (`unbacked_bindings`). It becomes a measured dim:
the number is computed by operators of ours, read, and what follows has sizes in terms of the dim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aot.frontend.context import Context
from aot.frontend.measuring import (
    MeasuredCall,
    bind_dim,
    check_traced,
    dense,
    emit,
    flattened,
    is_mask,
    name_size,
    true_count,
    true_places,
)
from aot.frontend.sizes import finite
from aot.frontend.uniques import UNIQUES
from aot.ir.dtypes import FLOAT32, FLOAT64, INT64, DType
from aot.ir.tensors import SizeRelation, TensorType, ValueRef
from aot.symbolic import Expr, as_expr, integer, is_int, product, row_major_strides


def read_measured(context: Context, target: str, call: MeasuredCall) -> Any:
    """The value of the call: a tensor, or the size itself.

    Raises ValueError for what has no counterpart, with the reason.
    """
    return _READERS[target](context, call)


def read_number(context: Context, call: MeasuredCall, dtype: DType) -> ValueRef:
    """The one element of a tensor, in the given type and without dimensions."""
    (x,) = call.args
    known = context.ops.types[x.name]
    if known.shape:
        name, type_ = f"{call.name}.value", dense(known.dtype)
        x = emit(context, call, "aten.view.default", (x, ()), name, type_)
    if known.dtype == dtype:
        return ValueRef(x.name)
    name = f"{call.name}.{dtype.name}"
    target, type_ = "aten._to_copy.default", dense(dtype)
    return context.ops.call(target, (x,), name, type_, call.origin, dtype=dtype)


def _item(context: Context, call: MeasuredCall) -> Any:
    x = read_number(context, call, INT64)
    low, high = finite(call.bounds[0]), finite(call.bounds[1])
    if low is None or low < 0:
        size = _signed(context, call, x)
    else:
        size = bind_dim(context, call, x.name, low, high)
    context.measured.claim(size)
    return name_size(context, call, size)


def _signed(context: Context, call: MeasuredCall, x: ValueRef) -> Expr:
    """A number of any sign, as the difference of two dims of which one is 0: dims have no sign."""
    type_ = dense(INT64)
    clamp = "aten.clamp.default"
    positive = emit(context, call, clamp, (x, 0), f"{call.name}.positive", type_)
    other = emit(context, call, clamp, (x, None, 0), f"{call.name}.negative", type_)
    negative = emit(context, call, "aten.neg.default", (other,), f"{call.name}.negated", type_)
    return bind_dim(context, call, positive.name, 0, None) - bind_dim(
        context, call, negative.name, 0, None
    )


def _nonzero(context: Context, call: MeasuredCall) -> Any:
    rows = true_places(context, call, call.args[0], call.name)
    name_size(context, call, context.ops.types[rows.name].shape[0])
    return rows


def _index(context: Context, call: MeasuredCall) -> Any:
    x, indices = call.args
    return _pick(context, call, x, indices)


def _masked_select(context: Context, call: MeasuredCall) -> Any:
    x, mask = call.args
    shape = _broadcast(context.ops.types[x.name].shape, context.ops.types[mask.name].shape)
    shape = shape or (integer(1),)
    count = product(context.ops.types[x.name].shape)
    if count != product(shape):
        # torch bounds the size by x's elements before it is as large as the mask.
        context.measured.overstate(call.symbol, str(count))
    pair = []
    for value, name in ((x, f"{call.name}.all"), (mask, f"{call.name}.mask")):
        known = context.ops.types[value.name]
        if known.shape == shape:
            pair.append(value)
            continue
        type_ = TensorType(known.dtype, shape, row_major_strides(shape))
        pair.append(emit(context, call, "aten.expand.default", (value, shape), name, type_))
    return _select(context, call, pair[0], pair[1])


def _select(context: Context, call: MeasuredCall, x: ValueRef, mask: ValueRef) -> ValueRef:
    """The elements of x where a mask of its shape is true."""
    name_size(context, call, true_count(context, call, mask, call.name))
    target, type_ = "aot.select_true.default", context.type_of(call.result)
    return emit(context, call, target, (x, mask), call.name, type_)


def _broadcast(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
    rank = max(len(a), len(b))
    one = (integer(1),)
    left, right = one * (rank - len(a)) + tuple(a), one * (rank - len(b)) + tuple(b)
    return tuple(q if p == 1 else p for p, q in zip(left, right, strict=True))


def _pick(context: Context, call: MeasuredCall, x: ValueRef, indices: Sequence[Any]) -> ValueRef:
    """x[indices]."""
    shape = context.ops.types[x.name].shape
    if len(indices) == 1 and shape and is_mask(context, indices[0]):
        (mask,) = indices
        if context.ops.types[mask.name].shape == shape:
            return _select(context, call, x, mask)
    named, size = _without_masks(context, call, indices)
    if size is not None:
        name_size(context, call, size)
    return emit(
        context, call, "aten.index.Tensor", (x, named), call.name, context.type_of(call.result)
    )


def _without_masks(
    context: Context, call: MeasuredCall, indices: Sequence[Any]
) -> tuple[tuple[ValueRef | None, ...], Expr | None]:
    """Indices, masks among them being as many index tensors as they have dimensions.

    And how many elements the masks name; all of them name as many.
    """
    named: list[ValueRef | None] = []
    count: Expr | None = None
    for k, index in enumerate(indices):
        if not is_mask(context, index):
            named.append(index)
            continue
        rows = true_places(context, call, index, f"{call.name}.mask{k}")
        size, rank = context.ops.types[rows.name].shape[0], len(context.ops.types[index.name].shape)
        if count is not None and size != count:
            message = f"masks that index together differ in what they select, {call.origin.place}"
            context.measured.require(SizeRelation(count, "==", size, message))
        count = size
        for axis in range(rank):
            name = f"{call.name}.mask{k}.index{axis}"
            args = (rows, 1, axis)
            named.append(emit(context, call, "aten.select.int", args, name, dense(INT64, size)))
    return tuple(named), count


def _index_put(context: Context, call: MeasuredCall) -> Any:
    x, indices, *rest = call.args
    masks = [i for i in indices if is_mask(context, i)]
    if len(masks) != len([i for i in indices if i is not None]) or len(masks) > 1:
        indices, _ = _without_masks(context, call, indices)
    args, type_ = (x, indices, *rest), context.type_of(call.result)
    return emit(context, call, call.origin.operator, args, call.name, type_)


def _bincount(context: Context, call: MeasuredCall) -> Any:
    defaults: tuple[Any, ...] = (None, 0)
    x, weights, least = (*call.args, *defaults[len(call.args) - 1 :])
    target, type_ = "aot.bin_total.default", dense(INT64)
    total = emit(context, call, target, (x, least), f"{call.name}.total", type_)
    known = as_expr(least)
    fewest = int(known) if is_int(known) else 0
    size = bind_dim(context, call, total.name, fewest, None)
    if not is_int(known):
        context.measured.require(SizeRelation(known, "<=", size, "bincount gives minlength bins"))
    name_size(context, call, size)
    args, type_ = (x, weights), context.type_of(call.result)
    summed = None if weights is None else context.ops.types[weights.name].dtype
    check_traced(type_, {None: INT64, FLOAT32: FLOAT32}.get(summed, FLOAT64))
    return emit(context, call, "aot.bin_counts.default", args, call.name, type_)


def _repeat_interleave(context: Context, call: MeasuredCall) -> Any:
    """Elements, each as often as a tensor says."""
    x, repeats, axis = (*call.args, None)[:3]
    rank = len(context.ops.types[x.name].shape)
    if axis is None and rank != 1:
        x = flattened(context, call, x)
    along = 0 if axis is None else int(axis) % max(rank, 1)
    count = context.ops.types[x.name].shape[along]
    if context.ops.types[repeats.name].shape != (count,):
        type_ = dense(context.ops.types[repeats.name].dtype, count)
        args, name = (repeats, (count,)), f"{call.name}.repeats"
        repeats = emit(context, call, "aten.expand.default", args, name, type_)
    at = _repeated_places(context, call, repeats, along)
    type_ = context.type_of(call.result)
    return emit(context, call, "aten.index_select.default", (x, along, at), call.name, type_)


def _repeat_places(context: Context, call: MeasuredCall) -> Any:
    (repeats,) = call.args
    at = _repeated_places(context, call, repeats, 0)
    args, type_ = (at,), context.type_of(call.result)
    return emit(context, call, "aten.clone.default", args, call.name, type_)


def _repeated_places(
    context: Context, call: MeasuredCall, repeats: ValueRef, along: int
) -> ValueRef:
    """Position k, repeats[k] times: as many in all as the result has along that dimension."""
    count = context.ops.types[repeats.name].shape[0]
    if call.symbol:
        type_ = dense(INT64)
        total = emit(context, call, "aten.sum.default", (repeats,), f"{call.name}.total", type_)
        name_size(context, call, bind_dim(context, call, total.name, 0, None))
    size = context.type_of(call.result).shape[along]
    type_ = dense(INT64, count)
    ends = emit(context, call, "aten.cumsum.default", (repeats, 0), f"{call.name}.ends", type_)
    name, type_ = f"{call.name}.at", dense(INT64, size)
    return emit(context, call, "aot.ended.default", (ends, size), name, type_)


_READERS: Mapping[str, Callable[[Context, MeasuredCall], Any]] = {
    "aten.item.default": _item,
    "aten._local_scalar_dense.default": _item,
    "aten.nonzero.default": _nonzero,
    "aten.index.Tensor": _index,
    "aten.index_put.default": _index_put,
    "aten.masked_select.default": _masked_select,
    "aten.bincount.default": _bincount,
    "aot.bincount.default": _bincount,
    "aten.repeat_interleave.Tensor": _repeat_places,
    "aten.repeat_interleave.self_Tensor": _repeat_interleave,
    **UNIQUES,
}

MEASURING = frozenset(_READERS)
"""Operators that `read_measured` takes."""
