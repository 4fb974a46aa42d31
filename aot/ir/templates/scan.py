"""Running results along rows.

Where few rows are long, a device with many work units is kept busy by their parts: first the result
of each part, then these results' running results, from which each part is scanned by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from aot.ir.dtypes import INT64, DType
from aot.ir.hints import Hints
from aot.ir.nests import Axis, LoopNest, Store, View, neutral_of
from aot.ir.scalar import Node, binary, cast, const, index_value, load, reduce_, unary, where
from aot.ir.templates.base import (
    Array,
    LoopOp,
    Parts,
    RunningExtrema,
    Split,
    Support,
    TemplateCall,
)
from aot.ir.templates.builder import NestBuilder
from aot.symbolic import Expr, ceil_div, integer, var

_COMBINE: Mapping[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "logaddexp": np.logaddexp,
}


_ROW, _PART, _PLACE = var("i0"), var("i1"), var("r0")


@dataclass(frozen=True)
class ScanSupport(Support["Scan"]):
    """A backend's template for scans.

    Attributes:
        parts: Of few long rows; None: rows stay whole.
        places: Bytes of the widest elements whose places it gives; those of wider ones had better
            be running maxima.
    """

    parts: Parts | None = None
    places: int = 0


@dataclass(frozen=True)
class Scan(TemplateCall):
    """x (m, n) -> output (m, n): running results along n.

    Attributes:
        combine: "sum", "prod", "max", "min" (NaN stays), or "logaddexp" (of floats).
        part: Elements of the parts in which rows are scanned, where `before` is given.
        before: (m, parts) the running results at the end of each part: what the next starts from.
        places: The results are places of running extrema: along n that of the last element so far
            that equals the extremum up to it, or is NaN. int64.
        found: (m, n) these extrema, for devices whose kernels do not give places.
    """

    kind: ClassVar[str] = "scan"

    x: View
    combine: str
    part: int | None = None
    before: View | None = None
    places: bool = False
    found: View | None = None

    @property
    def row(self) -> Expr | None:
        """The length of rows that stay whole."""
        return self.output.axes[1].extent if self.part is None else None

    @property
    def running_extrema(self) -> RunningExtrema | None:
        """What it finds, of rows that stay whole."""
        if self.part is not None or self.combine not in ("max", "min"):
            return None
        return RunningExtrema(self.x, self.combine, self.places, self.found is None)

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """Running results along the last dimension."""
        x, combine = operands["x"], _COMBINE[self.combine]
        if self.places:
            hits = (x == combine.accumulate(x, axis=-1)) | np.isnan(x)
            places = np.where(hits, np.arange(x.shape[-1], dtype=np.int64), 0)
            return np.asarray(np.maximum.accumulate(places, axis=-1))
        if self.part is None:
            return np.asarray(combine.accumulate(x, axis=-1))
        before, done = operands["before"], []
        for k, start in enumerate(range(0, x.shape[-1], self.part)):
            own = combine.accumulate(x[:, start : start + self.part], axis=-1)
            done.append(combine(before[:, k - 1 : k], own) if k else own)
        return np.concatenate(done, axis=-1) if done else x

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """Each result reduces what is before it: n^2 steps, for devices without the template.

        Places are running maxima of what is a place or 0.
        """
        if self.found is not None:
            return self._by_maxima(builder, self.found)
        if self.combine == "logaddexp":
            return self._logaddexp(builder)
        value = self._before(builder, lambda x: x, self.combine)
        return [self._nest(self.name, self.stored(value, builder))]

    def alone(self) -> Self:
        """Places without the extrema."""
        return self if self.found is None else replace(self, found=None)

    def better_as_nests(self, support: Support[Any], builder: NestBuilder) -> str:
        """Where it gives places and the template does not."""
        widest = support.places if isinstance(support, ScanSupport) else 0
        if not self.places or builder.dtype(self.x.buffer).itemsize <= widest:
            return ""
        return "the device's template gives running results, not the places of such elements"

    def _by_maxima(self, builder: NestBuilder, found: View) -> list[LoopOp]:
        """A nest that stores each new place, else 0, and the running maxima of these."""
        row, column = self.x.axes
        at = {row.symbol: _ROW, column.symbol: _PART}
        other = {a.symbol: e for a, e in zip(found.axes, (_ROW, _PART), strict=True)}
        value = builder.load(self.x, at)
        hit = binary("eq", value, builder.load(found, other))
        if value.dtype.is_float:
            hit = binary("or", hit, unary("isnan", value))
        name = builder.temp(f"{self.name}_places", INT64, (row.extent, column.extent))
        axes = (Axis(_ROW, row.extent), Axis(_PART, column.extent))
        place = where(hit, index_value(_PART), const(0, INT64))
        store = Store(name, (_ROW, _PART), place)
        places = View(name, axes, (_ROW, _PART))
        return [
            LoopNest(name, axes, (), (store,), self.origin),
            Scan(self.name, self.output, self.origin, places, "max"),
        ]

    def split(
        self, builder: NestBuilder, support: Support[Any], units: int, hints: Hints
    ) -> Split | None:
        """Long rows in parts, where rows are too few to keep the device busy."""
        wish = support.parts if isinstance(support, ScanSupport) else None
        rows, columns = (hints.value(a.extent) for a in self.x.axes)
        if wish is None or self.part is not None or columns <= wish.longest:
            return None
        # With more rows, reading them once is better than all processors reading them twice.
        if not 0 < wish.room * rows <= units:
            return None
        part = wish.size(rows * columns, units)
        parts = ceil_div(self.x.axes[1].extent, integer(part))
        held = builder.dtype(self.x.buffer).compute
        if not held.is_float and self.combine in ("sum", "prod"):
            held = INT64
        shape = (self.x.axes[0].extent, parts)
        ops = self._results_of_parts(builder, held, shape, part)
        ends = builder.temp(f"{self.name}_ends", held, shape)
        axes = (Axis(_ROW, shape[0]), Axis(_PART, parts))
        whole, running = (View(name, axes, (_ROW, _PART)) for name in (f"{self.name}_parts", ends))
        ops.append(Scan(ends, running, self.origin, whole, self.combine))
        ops.append(replace(self, part=part, before=running))
        reason = f"{rows} rows of {columns} elements would leave the device idle"
        return Split(ops, f"parts of {part} elements", reason)

    def _results_of_parts(
        self, builder: NestBuilder, held: DType, shape: tuple[Expr, Expr], part: int
    ) -> list[LoopOp]:
        """Nests that combine the elements of each part, (m, parts)."""
        row, column = self.x.axes
        axes, over = (Axis(_ROW, shape[0]), Axis(_PART, shape[1])), Axis(_PLACE, integer(part))
        at = _PART * part + _PLACE
        inside = binary("lt", index_value(at), index_value(column.extent))
        element = builder.load(self.x, {row.symbol: _ROW, column.symbol: at}, inside)

        def nest(name: str, value: Node) -> LoopNest:
            store = Store(builder.temp(name, held, shape), (_ROW, _PART), value)
            return LoopNest(name, axes, (over,), (store,), self.origin)

        def reduced(reduction: str, value: Node) -> Node:
            value = cast(value, held)
            return reduce_(reduction, where(inside, value, _neutral(reduction, held)))

        name = f"{self.name}_parts"
        if self.combine != "logaddexp":
            return [nest(name, reduced(self.combine, element))]
        greatest = f"{self.name}_most"
        top = load(greatest, held, (_ROW, _PART))
        shift = where(unary("isinf", top), const(0.0, held), top)
        total = reduced("sum", unary("exp", binary("sub", cast(element, held), shift)))
        return [
            nest(greatest, reduced("max", element)),
            nest(name, binary("add", unary("log", total), shift)),
        ]

    def _logaddexp(self, builder: NestBuilder) -> list[LoopOp]:
        """The logarithm of the sum of exp(x - maximum), plus the maximum."""
        row, column = (a.symbol for a in self.output.axes)
        dtype = builder.dtype(self.x.buffer).compute
        shape = tuple(a.extent for a in self.output.axes)
        name = builder.temp(f"{self.name}_max", dtype, shape)
        greatest = self._before(builder, lambda x: x, "max")
        top = load(name, dtype, (row, column))
        zero = const(0.0, dtype)
        shift = where(unary("isinf", top), zero, top)
        total = self._before(builder, lambda x: unary("exp", binary("sub", x, shift)), "sum")
        value = binary("add", unary("log", total), shift)
        return [
            self._nest(name, Store(name, (row, column), greatest)),
            self._nest(self.name, self.stored(value, builder)),
        ]

    @property
    def _earlier(self) -> Axis:
        return Axis(var("t"), self.x.axes[1].extent)

    def _before(self, builder: NestBuilder, term: Callable[[Node], Node], reduction: str) -> Node:
        """The reduction of the terms up to the result's own column."""
        row, column = (a.symbol for a in self.output.axes)
        over = self._earlier.symbol
        at = {self.x.axes[0].symbol: row, self.x.axes[1].symbol: over}
        value = term(builder.load(self.x, at))
        inside = binary("le", index_value(over), index_value(column))
        return reduce_(reduction, where(inside, value, _neutral(reduction, value.dtype)))

    def _nest(self, name: str, store: Store) -> LoopNest:
        return LoopNest(name, self.output.axes, (self._earlier,), (store,), self.origin)


def _neutral(reduction: str, dtype: DType) -> Node:
    return const(neutral_of(reduction, dtype), dtype)
