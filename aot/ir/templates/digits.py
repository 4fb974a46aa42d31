"""Sorting rows digit by digit, from the lowest one: a radix sort.

A pass moves each element to its place in the order of one digit, and keeps the order of equal ones.
What it moves of a key are the digits that are left: so passes are alike, and share their kernels.
Rows are cut into parts: how often a part has each digit is counted, the running sums of these
numbers, digit by digit, say where the elements of a part begin, and a template finds the order of
the elements in it. (Knuth, The Art of Computer Programming 3, 5.2.5; Satish, Harris, Garland,
Designing efficient sorting algorithms for manycore GPUs, IPDPS 2009.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aot.ir.dtypes import BOOL, FLOAT16, INT32, INT64, DType
from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.origin import Origin
from aot.ir.scalar import (
    Node,
    binary,
    cast,
    clamp_index,
    const,
    index_value,
    load,
    reduce_,
)
from aot.ir.templates.base import Array, LoopOp, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.scan import Scan
from aot.symbolic import Expr, FloorDiv, Modulo, ceil_div, integer, var

DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS

_ROW, _COLUMN, _PLACE, _GOAL = (var(n) for n in ("i0", "i1", "r0", "u0"))


@dataclass(frozen=True)
class _OfDigits(TemplateCall):
    """What is found of the last digits of x (m, n), integers, in parts of rows.

    Attributes:
        signed: The digit's highest bit is the sign: with it, elements come first.
        part: Elements of the parts.
    """

    x: View
    signed: bool
    part: int

    def digit(
        self, builder: NestBuilder, row: Expr, column: Expr, inside: Node | None = None
    ) -> Node:
        """An element's digit, int32."""
        at = {a.symbol: e for a, e in zip(self.x.axes, (row, column), strict=True)}
        key = builder.load(self.x, at, inside)
        digit = cast(binary("and", key, const(DIGITS - 1, key.dtype)), INT32)
        return binary("xor", digit, const(self._turned, INT32)) if self._turned else digit

    @property
    def _turned(self) -> int:
        """What digits are changed by: the sign's bit is 0 where elements come last."""
        return DIGITS // 2 if self.signed else 0

    def _digits(self, operands: Mapping[str, Array]) -> Array:
        return np.asarray((operands["x"] & (DIGITS - 1)) ^ self._turned)


@dataclass(frozen=True)
class DigitCounts(_OfDigits):
    """x (m, n), integers -> output (m, DIGITS * parts): how often a part has a digit.

    The parts of the first digit come first.
    """

    kind: ClassVar[str] = "digit counts"

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """The counts, from the digits alone."""
        digits, parts = self._digits(operands), shape[1] // DIGITS
        found = np.zeros(shape, np.int64)
        columns = digits * parts + np.arange(digits.shape[1]) // self.part
        np.add.at(found, (np.arange(shape[0])[:, None], columns), 1)
        return found

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """Each digit is looked for by itself, for devices without the template."""
        row, column = (a.symbol for a in self.output.axes)
        size = self.x.axes[1].extent
        parts = ceil_div(size, integer(self.part))
        at = Modulo(column, parts) * self.part + _PLACE
        inside = binary("lt", index_value(at), index_value(size))
        digit = cast(self.digit(builder, row, at, inside), INT64)
        mine = binary("eq", digit, index_value(FloorDiv(column, parts)))
        store = self.stored(reduce_("sum", cast(binary("and", mine, inside), INT64)), builder)
        over = Axis(_PLACE, integer(self.part))
        return [LoopNest(self.name, self.output.axes, (over,), (store,), self.origin)]


@dataclass(frozen=True)
class DigitPlaces(_OfDigits):
    """x (m, n), integers -> output (m, n): each one's place in its row by the last digit, stable.

    Attributes:
        ends: (m, DIGITS * parts) how many elements come up to the end of a part, digit by digit.
    """

    kind: ClassVar[str] = "digit places"

    ends: View

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """The places, from the digits alone."""
        order = np.argsort(self._digits(operands), axis=-1, kind="stable")
        places = np.empty(shape, np.int64)
        np.put_along_axis(places, order, np.arange(shape[-1])[None, :], -1)
        return places

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """Each element counts those before it: n^2 steps, for devices without the template."""
        row, column = (a.symbol for a in self.output.axes)
        other = Axis(_PLACE, self.x.axes[1].extent)
        mine, theirs = (self.digit(builder, row, at) for at in (column, other.symbol))
        earlier = binary("lt", index_value(other.symbol), index_value(column))
        equal = binary("and", binary("eq", theirs, mine), earlier)
        before = cast(binary("or", binary("lt", theirs, mine), equal), INT64)
        store = self.stored(reduce_("sum", before), builder)
        return [LoopNest(self.name, self.output.axes, (other,), (store,), self.origin)]


@dataclass(frozen=True)
class _Sort:
    """The rows of one sort: (rows, columns) in parts. `places`: the type of places in a row."""

    builder: NestBuilder
    name: str
    origin: Origin
    rows: Expr
    columns: Expr
    part: int
    places: DType

    @property
    def parts(self) -> Expr:
        """Of a row."""
        return ceil_div(self.columns, integer(self.part))

    def view(self, name: str, columns: Expr) -> View:
        """The rows of a buffer."""
        return View(name, (Axis(_ROW, self.rows), Axis(_COLUMN, columns)), (_ROW, _COLUMN))

    def nest(self, name: str, columns: Expr, stores: tuple[Store, ...]) -> LoopNest:
        """One over rows of so many columns."""
        axes = (Axis(_ROW, self.rows), Axis(_COLUMN, columns))
        return LoopNest(name, axes, (), stores, self.origin)

    def step(self, number: int, keys: str, order: str | None, signed: bool) -> _Pass:
        """One pass: `keys` and `order` (None: as they are) as buffers (rows, columns)."""
        name, size = f"{self.name}_{number}", self.parts * DIGITS
        own, counts = self.view(keys, self.columns), self.view(f"{name}_counts", size)
        ends, found = self.view(f"{name}_ends", size), self.view(f"{name}_places", self.columns)
        counting = DigitCounts(counts.buffer, counts, self.origin, own, signed, self.part)
        call = DigitPlaces(found.buffer, found, self.origin, own, signed, self.part, ends)
        return _Pass(self, name, counting, call, order)


@dataclass(frozen=True)
class _Pass:
    """A pass of a sort: `call` finds the places; `order`: what was where before it."""

    sort: _Sort
    name: str
    counting: DigitCounts
    call: DigitPlaces
    order: str | None

    def ops(self, left: int) -> list[LoopOp]:
        """In order: the last one stores `{name}_order`, and `{name}_keys`, the digits `left`."""
        sort, counts = self.sort, self.counting.output
        for view in (counts, self.call.ends, self.call.output):
            shape = tuple(a.extent for a in view.axes)
            sort.builder.temp(view.buffer, sort.places, shape)
        running = Scan(f"{self.name}_ends", self.call.ends, sort.origin, counts, "sum")
        return [self.counting, running, self.call, self._moving(left)]

    def _moving(self, left: int) -> LoopNest:
        """Puts each element in its place."""
        sort, builder, own = self.sort, self.sort.builder, (_ROW, _COLUMN)
        shape = (sort.rows, sort.columns)
        place = load(self.call.output.buffer, sort.places, own)
        goal = clamp_index(place, sort.columns - 1, narrow=sort.places == INT32)
        here = index_value(_COLUMN) if self.order is None else load(self.order, sort.places, own)
        moved = {f"{self.name}_order": cast(here, sort.places)}
        if left:
            key = builder.load(self.call.x, {})
            rest = binary("shr", key, const(DIGIT_BITS, key.dtype))
            narrow = left * DIGIT_BITS <= 8 * INT32.itemsize
            moved[f"{self.name}_keys"] = cast(rest, INT32) if narrow else rest
        stores = tuple(
            Store(
                builder.temp(name, value.dtype, shape), (_ROW, _GOAL), value, binds=((_GOAL, goal),)
            )
            for name, value in moved.items()
        )
        return sort.nest(f"{self.name}_moved", sort.columns, stores)


def digits_of(dtype: DType) -> tuple[int, int]:
    """The bits that the keys of a type may all have alike at their end, and digits above these.

    Keys are integers themselves, and `order_key`s of floats.
    """
    if dtype == BOOL:
        return 0, 1
    if not dtype.is_float:
        return 0, 8 * dtype.itemsize // DIGIT_BITS
    bits = 8 * dtype.compute.itemsize
    # Half types are computed in float32; the rest of its mantissa is 0.
    unused = bits - 8 * dtype.itemsize - (3 if dtype == FLOAT16 else 0)
    digits = -(-(bits - unused) // DIGIT_BITS)
    return bits - digits * DIGIT_BITS, digits


def radix_order(
    builder: NestBuilder,
    name: str,
    origin: Origin,
    source: DType,
    keys: View,
    places: DType,
    part: int,
) -> tuple[list[LoopOp], str]:
    """Operations that sort rows by their keys, ascending and stable.

    Args:
        builder: Declares the buffers.
        name: What their names begin with.
        origin: Of the model.
        source: The type of the elements that the keys are of.
        keys: A whole buffer (m, n): integers in the order of the elements, without the bits that
            all have alike.
        places: The type of positions in a row.
        part: Elements of the parts that rows are cut into.

    Returns:
        The operations, and the buffer (m, n) of each place's position in the row.
    """
    rows, columns = (a.extent for a in keys.axes)
    sort = _Sort(builder, name, origin, rows, columns, part, places)
    _, digits = digits_of(source)
    ops: list[LoopOp] = []
    held, order = keys.buffer, None
    for number in range(digits):
        left = digits - number - 1
        step = sort.step(number, held, order, not left and source.kind in "fi")
        ops += step.ops(left)
        held, order = f"{step.name}_keys", f"{step.name}_order"
    assert order is not None
    return ops, order
