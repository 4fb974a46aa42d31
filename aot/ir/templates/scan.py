"""Running results along rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aot.ir.dtypes import DType
from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.scalar import Node, binary, const, index_value, load, reduce_, unary, where
from aot.ir.templates.base import Array, LoopOp, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.symbolic import var

_COMBINE: Mapping[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "logaddexp": np.logaddexp,
}


@dataclass(frozen=True)
class Scan(TemplateCall):
    """x (m, n) -> output (m, n): running results along n.

    Attributes:
        combine: "sum", "prod", "max", "min" (NaN stays), or "logaddexp" (of floats).
    """

    kind: ClassVar[str] = "scan"

    x: View
    combine: str

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """Running results along the last dimension."""
        return np.asarray(_COMBINE[self.combine].accumulate(operands["x"], axis=-1))

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """Each result reduces what is before it: n^2 steps, for devices without the template."""
        if self.combine == "logaddexp":
            return self._logaddexp(builder)
        value = self._before(builder, lambda x: x, self.combine)
        return [self._nest(self.name, self.stored(value, builder))]

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
    least, greatest = dtype.ends
    return const({"sum": 0, "prod": 1, "max": least, "min": greatest}[reduction], dtype)
