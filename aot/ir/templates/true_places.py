"""Where a tensor is true: stream compaction.

A device with many work units counts the true elements of parts, scans these numbers, and lets each
part find the places of its own: nothing is stored for an element but what is asked for. (Billeter,
Olsson, Assarsson, Efficient stream compaction on wide SIMD many-core architectures, HPG 2009.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from aot.ir.dtypes import BOOL, INT32, INT64, DType
from aot.ir.hints import Hints
from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.scalar import (
    Node,
    binary,
    cast,
    check_index,
    const,
    index_value,
    load,
    reduce_,
    where,
)
from aot.ir.templates.base import Array, LoopOp, Parts, Split, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.scan import Scan
from aot.symbolic import Expr, ceil_div, integer, product, unravel, var

_LARGE = 1 << 31
"""Elements from which their numbers do not fit into 32 bits."""

_ROW, _PART, _PLACE, _NUMBER, _GOAL = (var(n) for n in ("i0", "i1", "r0", "i2", "u0"))


@dataclass(frozen=True)
class TruePlaces(TemplateCall):
    """x -> output (k, rank): the indices of the elements that are not 0, in row-major order.

    The output has as many rows as x has such elements; or as fewer as are wanted.

    Attributes:
        x: One axis for each index, at least one.
        part: Elements, in row-major order, of the parts that look for their own, where `before` is
            given.
        before: (1, parts) how many there are up to the end of each part.
    """

    kind: ClassVar[str] = "true places"

    x: View
    part: int | None = None
    before: View | None = None

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """The indices."""
        return np.argwhere(operands["x"])[: shape[0]].astype(np.int64)

    @property
    def count(self) -> Expr:
        """Elements of x."""
        return product([axis.extent for axis in self.x.axes])

    def flops(self) -> Expr:
        """One for each element of x."""
        return self.count

    def index(self, number: Expr) -> tuple[Expr, ...]:
        """Of the element of x with that number in row-major order."""
        return unravel(number, [axis.extent for axis in self.x.axes])

    def is_true(self, builder: NestBuilder, number: Expr, inside: Node | None = None) -> Node:
        """Whether the element of that number is not 0."""
        at = {a.symbol: e for a, e in zip(self.x.axes, self.index(number), strict=True)}
        return cast(builder.load(self.x, at, inside), BOOL)

    # ---- on many work units ----

    def split(
        self, builder: NestBuilder, support: Support[Any], units: int, hints: Hints
    ) -> Split | None:
        """The numbers of parts, their running sums, then the parts."""
        wish = support.parts if isinstance(support, TruePlacesSupport) else None
        count = hints.volume(self.x.axes)
        if wish is None or self.part is not None or count <= wish.longest:
            return None
        part = wish.size(count, units)
        parts = ceil_div(self.count, integer(part))
        held, shape = self._held(builder), (integer(1), parts)
        counts = builder.temp(f"{self.name}_counts", held, shape)
        ends = builder.temp(f"{self.name}_ends", held, shape)
        axes = (Axis(_ROW, integer(1)), Axis(_PART, parts))
        whole, running = (View(name, axes, (_ROW, _PART)) for name in (counts, ends))
        ops: list[LoopOp] = [
            self._counting(builder, counts, axes, part),
            Scan(ends, running, self.origin, whole, "sum"),
            replace(self, part=part, before=running),
        ]
        return Split(ops, f"parts of {part} elements", f"{count} elements would be one unit's")

    def _held(self, builder: NestBuilder) -> DType:
        """The type of numbers of elements."""
        most = builder.ranges.greatest(self.count)
        return INT32 if most is not None and most < _LARGE else INT64

    def _counting(
        self, builder: NestBuilder, name: str, axes: tuple[Axis, ...], part: int
    ) -> LoopNest:
        """How many elements of each part are true."""
        at = _PART * part + _PLACE
        inside = binary("lt", index_value(at), index_value(self.count))
        held = builder.dtype(name)
        found = binary("and", self.is_true(builder, at, inside), inside)
        store = Store(name, (_ROW, _PART), reduce_("sum", cast(found, held)))
        return LoopNest(name, axes, (Axis(_PLACE, integer(part)),), (store,), self.origin)

    # ---- as nests ----

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """By a running count: each number is written once, by the nest that has the count.

        That nest writes the numbers of the other elements, too, behind those of the true ones. It
        does not know where they begin: they come in the opposite order.
        """
        count = self.count
        row, number = Axis(_ROW, integer(1)), Axis(_NUMBER, count)
        shape, point = (integer(1), count), (_ROW, _NUMBER)
        flags, running, numbers = (
            builder.temp(f"{self.name}_{name}", INT64, shape)
            for name in ("flags", "running", "numbers")
        )
        flag = Store(flags, point, cast(self.is_true(builder, _NUMBER), INT64))
        views = (View(name, (row, number), point) for name in (running, flags))
        here, before = index_value(_NUMBER), load(running, INT64, point)
        kept = binary("gt", load(flags, INT64, point), const(0, INT64))
        behind = binary("sub", index_value(count - 1), binary("sub", here, before))
        place = where(kept, binary("sub", before, const(1, INT64)), behind)
        goal = check_index(place, count, wrap=False)
        placed = Store(numbers, (_ROW, _GOAL), here, binds=((_GOAL, goal),))
        return [
            LoopNest(flags, (row, number), (), (flag,), self.origin),
            Scan(running, next(views), self.origin, next(views), "sum"),
            LoopNest(numbers, (row, number), (), (placed,), self.origin),
            self._unravelled(builder, numbers),
        ]

    def _unravelled(self, builder: NestBuilder, numbers: str) -> LoopNest:
        """The indices of the first numbers."""
        row, column = self.output.axes
        number = load(numbers, INT64, (integer(0), row.symbol))
        value = number if len(self.x.axes) == 1 else self._of_column(number, column.symbol)
        store = self.stored(value, builder)
        return LoopNest(self.name, self.output.axes, (), (store,), self.origin)

    def _of_column(self, number: Node, column: Expr) -> Node:
        """An index of the element of that number, which is in a column of its own."""
        found: Node | None = None
        for k, index in reversed(list(enumerate(self.index(_GOAL)))):
            value = index_value(index, {_GOAL: number})
            here = binary("eq", index_value(column), const(k, INT64))
            found = value if found is None else where(here, value, found)
        assert found is not None
        return found


@dataclass(frozen=True)
class TruePlacesSupport(Support[TruePlaces]):
    """A backend's template for places of true elements.

    Attributes:
        parts: Of tensors; None: one work unit walks all elements.
    """

    parts: Parts | None = None
