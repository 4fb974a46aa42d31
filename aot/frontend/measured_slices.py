"""Slices and positions that the program measures: where they are, and how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from aot.frontend.context import Context
from aot.frontend.measuring import MeasuredCall, emit, name_size
from aot.ir.origin import Origin
from aot.ir.tensors import SizeRelation, ValueRef
from aot.symbolic import Expr, Maximum, Minimum, Ranges, as_expr, ceil_div, from_front, integer

SLICES = frozenset({"aten.slice.Tensor", "aten.slice_copy.Tensor"})
"""Operators that `read_slice` takes, where torch does not know how long the result is."""

END = 3
"""Where a slice's end stands among its arguments."""

_OFFSET = "storage_offset"
_OUT_OF_RANGE = "a position that the model computes is out of range, at {place}"


def slice_symbols(bindings: Mapping[Any, Any]) -> tuple[str, str]:
    """torch's symbols for a slice's length and for where its memory begins; "" for none."""
    length = offset = ""
    for symbol, path in bindings.items():
        if getattr(path[0], "name", "") == _OFFSET:
            offset = str(symbol)
        else:
            length = str(symbol)
    return length, offset


def read_slice(context: Context, call: MeasuredCall, offset: str) -> ValueRef:
    """x[start:end:step] along a dimension, as Python slices.

    Args:
        context: Where it is added.
        call: The operator; its symbol is the length's, "" when torch knows that.
        offset: torch's symbol for where the result's memory begins, in elements; "" for none.

    Raises:
        ValueError: A bound depends on what has no counterpart.
    """
    x, axis, start, end, step = _bounds(*call.args)
    given = context.ops.types[x.name]
    along = axis % len(given.shape)
    size = given.shape[along]
    first = position_in(start, size)
    if call.symbol:
        last = size if end is None else position_in(end, size)
        name_size(context, call, ceil_div(Maximum(integer(0), last - first), integer(step)))
    type_ = context.type_of(call.result)
    if not call.symbol:
        text = _OUT_OF_RANGE.format(place=call.origin.place)
        after = first + step * (type_.shape[along] - 1)
        context.measured.require(SizeRelation(after, "<", size, text))
    if offset:
        # Memory is planned by us; the exporter asks only that it is no negative number.
        name_size(context, replace(call, symbol=offset), first * given.strides[along])
    args = (x, along, first, None, step)
    return emit(context, call, "aten.slice.Tensor", args, call.name, type_)


def _bounds(
    x: ValueRef, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> tuple[ValueRef, int, Any, Any, int]:
    return x, axis, 0 if start is None else start, end, step


def position_in(position: int | Expr, size: Expr) -> Expr:
    """A bound of a slice as a position in [0, size]: counted from the end when it is negative."""
    return _simplified(Maximum(integer(0), Minimum(from_front(as_expr(position), size), size)))


def _simplified(expr: Expr) -> Expr:
    # Sizes and what programs measure are at least 0: only differences of them can be negative.
    return Ranges(dims={s: (0, None) for s in expr.free_symbols}).simplify(expr)


_POSITIONS = {
    "aten.select.int": 1,
    "aten.select_copy.int": 1,
    "aten.select_scatter.default": 2,
    "aten.narrow.default": 1,
    "aten.narrow_copy.default": 1,
}
"""Operators that take a position: where their dimension stands, followed by the position."""


def settled_position(
    context: Context, target: str, args: Sequence[Any], origin: Origin
) -> tuple[tuple[Any, ...], tuple[SizeRelation, ...]]:
    """Arguments with a measured position counted from the front, and that it is in its dimension.

    Eager checks that at each call.
    """
    place = _POSITIONS.get(target)
    if place is None:
        return tuple(args), ()
    position = as_expr(args[place + 1])
    if not {d.name for d in context.measured.dims} & {str(s) for s in position.free_symbols}:
        return tuple(args), ()
    shape = context.ops.types[args[0].name].shape
    size = shape[args[place] % len(shape)]
    first = _simplified(from_front(position, size))
    length = args[place + 2] if "narrow" in target else 1
    text = _OUT_OF_RANGE.format(place=origin.place)
    return (*args[: place + 1], first, *args[place + 2 :]), (
        SizeRelation(as_expr(0), "<=", first, text),
        SizeRelation(first + length, "<=", size, text),
    )
