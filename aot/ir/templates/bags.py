"""Reductions over bags: runs of points whose ends are data.

A bag is walked by whoever computes its result, point by point: nothing meets in memory, and a
result is the same in every run. Where there are fewer bags than work units keep a device busy, and
bags are long, each is cut into parts with work units of their own, and a small reduction puts the
parts together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from aot.ir.dtypes import FLOAT64, INT64, DType
from aot.ir.hints import Hints
from aot.ir.nests import Axis, LoopNest, Store, View, neutral_of
from aot.ir.scalar import (
    Node,
    binary,
    cast,
    clamp_index,
    const,
    index_value,
    load,
    reduce_,
    where,
)
from aot.ir.templates.base import Array, LoopOp, Split, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.symbolic import Expr, Symbol, integer, product, substitute, var

_COMBINE: Mapping[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}

_POINT, _ROW, _PART = var("t"), var("u0"), var("part")


@dataclass(frozen=True)
class Bags(TemplateCall):
    """x (rows, width), begins and ends (bags) int64 -> output (bags, width).

    Each result is what the points from its bag's beginning up to before its end give, in order, in
    the type that arithmetic runs in (integers: 64 bits). An empty bag gives what changes no value.
    Bounds and numbers of rows are checked beforehand: what is out of range reads nothing outside.

    Attributes:
        combine: "sum", "prod", "max" or "min" (NaN stays).
        rows: (points) int64: the row of x that each point takes; not given: point p takes row p.
        weights: (points): a factor of each point's row; of sums only.
        skipped: Points of this row do not count.
    """

    kind: ClassVar[str] = "bags"

    x: View
    begins: View
    ends: View
    combine: str
    rows: View | None = None
    weights: View | None = None
    skipped: int | None = None

    @property
    def points(self) -> Expr:
        """How many points there are."""
        return (self.x if self.rows is None else self.rows).axes[0].extent

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """Each bag's rows, reduced."""
        x, ends = operands["x"], operands["ends"]
        rows = operands.get("rows", np.arange(len(x)))
        weights = operands.get("weights", np.ones(len(rows), x.dtype))
        held = FLOAT64 if x.dtype.kind == "f" else INT64
        nothing, reduce = neutral_of(self.combine, held), _COMBINE[self.combine].reduce
        out = np.empty(shape, x.dtype)
        for bag, begin in enumerate(operands["begins"]):
            own = slice(int(begin), int(ends[bag]))
            counts = rows[own] != self.skipped  # None is no row
            values = x[rows[own][counts]] * weights[own][counts, None]
            out[bag] = reduce(values, axis=0, initial=nothing)
        return out

    def flops(self) -> Expr:
        """One for each element that is read, and one for its weight."""
        each = 1 if self.weights is None else 2
        return product((self.points, self.x.axes[1].extent, integer(each)))

    def accumulated(self, dtype: DType) -> DType:
        """What results of elements of a type are computed in."""
        return dtype.compute if dtype.is_float else INT64

    # ---- as nests ----

    def element(self, builder: NestBuilder, point: Expr, column: Expr) -> tuple[Node, Node | None]:
        """The value of a point at a column, and whether it counts; None: it does."""
        source = builder.buffers[self.x.buffer]
        row, mask, counts = point, None, None
        binds: dict[Symbol, Node] = {}
        if self.rows is not None:
            named = self._at_point(builder, self.rows, point)
            row, size = _ROW, self.x.axes[0].extent
            binds[row] = clamp_index(named, size - 1, narrow=False)
            if not size.is_Integer or size == 0:  # The last row of no rows is -1.
                mask = binary("ge", binds[row], const(0, INT64))
            if self.skipped is not None:
                counts = binary("ne", named, const(self.skipped, INT64))
        at = {self.x.axes[0].symbol: row, self.x.axes[1].symbol: column}
        index = [substitute(e, at) for e in self.x.index]
        value = load(source.name, source.dtype, index, binds, mask)
        value = cast(value, self.accumulated(source.dtype))
        if self.weights is not None:
            factor = self._at_point(builder, self.weights, point)
            value = binary("mul", value, cast(factor, value.dtype))
        return value, counts

    def bounds(self, builder: NestBuilder, bag: Expr) -> tuple[Node, Node]:
        """Where a bag begins and ends."""
        begin, end = (
            builder.load(view, {view.axes[0].symbol: bag}) for view in (self.begins, self.ends)
        )
        return begin, end

    def _at_point(self, builder: NestBuilder, view: View, point: Expr) -> Node:
        return builder.load(view, {view.axes[0].symbol: point})

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """Each bag looks at all points: a product, for devices without the template."""
        bag, column = (a.symbol for a in self.output.axes)
        value, counts = self.element(builder, _POINT, column)
        begin, end = self.bounds(builder, bag)
        point = index_value(_POINT)
        inside = binary("and", binary("le", begin, point), binary("lt", point, end))
        if counts is not None:
            inside = binary("and", inside, counts)
        nothing = const(neutral_of(self.combine, value.dtype), value.dtype)
        reduced = reduce_(self.combine, where(inside, value, nothing))
        over = (Axis(_POINT, self.points),)
        store = self.stored(reduced, builder)
        return [LoopNest(self.name, self.output.axes, over, (store,), self.origin)]

    # ---- in parts ----

    def split(
        self, builder: NestBuilder, support: Support[Any], units: int, hints: Hints
    ) -> Split | None:
        """Each bag in parts, and a reduction that combines them."""
        assert isinstance(support, BagsSupport)
        if support.parts is None:
            return None
        bags, width = (a.extent for a in self.output.axes)
        count, points = hints.value(bags), hints.value(self.points)
        length = points // max(count, 1)
        tiles = count * -(-hints.value(width) // support.parts.columns)
        wish = support.parts
        room = units * wish.per_unit // max(tiles, 1)
        parts = min(room, length // wish.least_points, wish.most)
        if parts < 2:
            return None
        reason = f"{count} bags would walk {length} points each, and leave the device idle"
        return Split(self._in_parts(builder, parts), f"{parts} parts of each bag", reason)

    def _in_parts(self, builder: NestBuilder, parts: int) -> list[LoopOp]:
        source, (bag, column) = builder.dtype(self.x.buffer), self.output.axes
        dtype, cut = self.accumulated(source), Axis(_PART, integer(parts))
        pieces = bag.extent * parts
        edges = [builder.temp(f"{self.name}_{e}", INT64, (pieces,)) for e in ("begins", "ends")]
        begin, end = self.bounds(builder, bag.symbol)
        size = binary("sub", end, begin)
        at = (bag.symbol * parts + _PART,)
        stores = tuple(
            Store(edge, at, binary("add", begin, _share(size, number, parts)))
            for edge, number in zip(edges, (_PART, _PART + 1), strict=True)
        )
        axes = (Axis(bag.symbol, pieces), column)
        partial = builder.temp(f"{self.name}_parts", dtype, (pieces, column.extent))
        views = [View(edge, axes[:1], (bag.symbol,)) for edge in edges]
        own = View(partial, axes, (bag.symbol, column.symbol))
        total = reduce_(self.combine, load(partial, dtype, (*at, column.symbol)))
        return [
            LoopNest(f"{self.name}_bounds", (bag, cut), (), stores, self.origin),
            replace(self, name=f"{self.name}_part", output=own, begins=views[0], ends=views[1]),
            LoopNest(
                self.name, self.output.axes, (cut,), (self.stored(total, builder),), self.origin
            ),
        ]


@dataclass(frozen=True)
class BagParts:
    """When a backend wants bags cut into parts.

    Attributes:
        columns: That a work unit takes at most.
        least_points: Of a part.
        per_unit: Parts of all bags for each unit that keeps the device busy.
        most: Parts of one bag.
    """

    columns: int
    least_points: int
    per_unit: int
    most: int


@dataclass(frozen=True)
class BagsSupport(Support[Bags]):
    """A backend's template for bags.

    Attributes:
        parts: When it wants long bags in parts, if ever.
    """

    parts: BagParts | None = None


def _share(size: Node, number: Expr, parts: int) -> Node:
    """Where the part of that number begins, in a bag of that size."""
    whole = binary("mul", size, index_value(number))
    return binary("div", whole, const(parts, INT64))
