"""Pairs of different rows, each once: a triangle of points folded into a rectangle of loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aot.ir.nests import Store
from aot.ir.scalar import Node, bound_index, clamp_index
from aot.lowering import exprs as e
from aot.lowering.builder import GraphBuilder, Tensor
from aot.symbolic import Expr, FloorDiv, Modulo, integer, product

ReadRow = Callable[[Expr], Node]
"""What is read of a row, also of those behind the last, below `Triangle.reach`."""


@dataclass(frozen=True)
class Triangle:
    """The pairs (i, j) with i < j < count, in `shape`.

    A row of the triangle, the pairs of one i, and the row that is as much shorter as this one is
    longer are together as long as any other two: they share a line of the rectangle. So no point
    is in vain, and neighbours along a line are neighbours in j, but where the second row begins.
    """

    builder: GraphBuilder
    count: Expr

    @property
    def shape(self) -> tuple[Expr, Expr]:
        """Lines, and points of a line."""
        odd = Modulo(self.count, integer(2))
        return FloorDiv(self.count, integer(2)), self.count - 1 + odd

    @property
    def reach(self) -> Expr:
        """Rows that reads may name: those behind the last are read for nothing.

        Half as many again and a few more: of a power of two of rows, elements of different columns
        would be a multiple of another power of two apart, and meet in few sets of a cache.
        """
        return self.count + FloorDiv(self.count * 33, integer(64))

    def _second(self, line: Expr) -> Expr:
        """The row that follows row `line` on its line."""
        return 2 * self.shape[0] - 1 - line

    def _is_first(self, at: Sequence[Expr]) -> Node:
        line, place = (self.builder.index_node(k) for k in (at[0], at[1]))
        return e.lt(place, e.sub(self.builder.index_node(self.count - 1), line))

    def rows(self, at: Sequence[Expr], read: ReadRow) -> tuple[Node, Node]:
        """What `read` gives of rows i and j at a point of the rectangle."""
        line, place = at
        first, second = self._is_first(at), self._second(line)
        i = e.select(first, read(line), read(second))
        begin = second + 1 - (self.count - 1 - line)
        j = e.select(first, read(line + 1 + place), read((begin + place).expand()))
        return i, j

    def unfolded(self, folded: Tensor, shape: Sequence[Expr]) -> Tensor:
        """Values of the rectangle's shape in the order of pairs: (0, 1), (0, 2) and so on."""
        builder, result = self.builder, self.builder.empty(shape, folded.dtype)

        def start(row: Expr) -> Expr:
            return row * (self.count - 1) - FloorDiv(row * (row - 1), integer(2))

        def store(at: tuple[Expr, ...]) -> Store:
            line, place = at
            own = builder.index_node(start(line) + place)
            behind = start(self._second(line)) + place - (self.count - 1 - line)
            other = builder.index_node(behind)
            number = e.select(self._is_first(at), own, other)
            position = builder.bound(clamp_index(number, product(shape) - 1, narrow=False))
            index, binds = bound_index((position,), builder.binds)
            return Store(result.buffer, index, folded.load(at), binds=binds)

        builder.scatter(result, self.shape, store)
        return result
