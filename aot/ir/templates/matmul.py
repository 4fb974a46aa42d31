"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aot.ir.hints import Hints
from aot.ir.nests import Axis, LoopNest, View
from aot.ir.scalar import binary, reduce_
from aot.ir.templates.base import Array, LoopOp, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.symbolic import Expr, integer, product, var


@dataclass(frozen=True)
class Matmul(TemplateCall):
    """a (*batch, m, k), b (*batch, k, n) -> output (*batch, m, n): the sums of products."""

    kind: ClassVar[str] = "matmul"

    a: View
    b: View

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """a @ b."""
        return np.asarray(np.matmul(operands["a"], operands["b"]))

    def flops(self) -> Expr:
        """A multiplication and an addition for each row, column and step of the depth."""
        out = [axis.extent for axis in self.output.axes]
        return product((*out, self.a.axes[-1].extent, integer(2)))

    def better_as_nests(self, support: Support[Any], hints: Hints) -> str:
        """A template's packing and tiles cost more than they save for a tiny second operand.

        As nests, chains of tiny layers become a single kernel.
        """
        assert isinstance(support, MatmulSupport)
        right = self.b.axes
        if not all(a.extent.is_Integer for a in right):
            return ""
        weight = hints.volume(right)
        work = hints.volume((*self.output.axes, right[-2]))
        if weight <= support.tiny_weight and work <= support.tiny_work:
            return f"its second operand has only {weight} elements"
        return ""

    def packs(self, role: str, support: Support[Any]) -> bool:
        """Weights on the right are stored in the order in which tiles read them."""
        return role == "b"

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """One nest that sums products."""
        a, axes = self.a, self.output.axes
        b = builder.row_major_weight(f"{self.name}_b", self.b, self.origin)
        k = Axis(var("k"), a.axes[-1].extent)
        *batch, m, n = (x.symbol for x in axes)
        at_a = dict(zip([x.symbol for x in a.axes], [*batch, m, k.symbol], strict=True))
        at_b = dict(zip([x.symbol for x in b.axes], [*batch, k.symbol, n], strict=True))
        left, right = builder.load(a, at_a), builder.load(b, at_b)
        value = reduce_("sum", binary("mul", left, right))
        return [LoopNest(self.name, axes, (k,), (self.stored(value, builder),), self.origin)]


@dataclass(frozen=True)
class MatmulSupport(Support[Matmul]):
    """A backend's template for matrix products.

    Attributes:
        tiny_weight: Elements of a second operand for which loops are better than packing and tiles,
        tiny_work: where there are no more multiplications than these.
    """

    tiny_weight: int = 4096
    tiny_work: int = 1 << 17
