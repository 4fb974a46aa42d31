"""Concatenation of many tensors: each is copied by a loop of its own into its columns.

As a nest, a concatenation asks at each point which part it is in. Cut where the answers change, it
has a loop for each part in each row, and code for each: right for few parts, which then are
computed where they are joined. Many take longer to tell apart than to copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np

from aot.ir.nests import LoopNest, Store, View
from aot.ir.scalar import Access, Node, binary, index_value, load, postorder, where
from aot.ir.templates.base import Array, LoopOp, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.symbolic import Expr, Ranges, as_expr, dim, substitute

FEW_PARTS = 8
"""So many parts are always nests: their producers and readers share a kernel with them."""


@dataclass(frozen=True)
class ConcatSupport(Support["Concat"]):
    """A backend's template for concatenations.

    Attributes:
        most_pieces: Parts beyond which no loop is cut: each piece is code, in which the compiler
            looks for what all the others read.
        piece_bytes: Memory traffic that takes as long as the beginning of a piece's loop.
        launch_bytes: Memory traffic that takes as long as a launch.
    """

    most_pieces: int = 64
    piece_bytes: int = 64
    launch_bytes: int = 1 << 15


@dataclass(frozen=True)
class Concat(TemplateCall):
    """parts (m, n0), (m, n1), … -> output (m, n0 + n1 + …): side by side.

    Attributes:
        parts: In order, of the output's type.
    """

    kind: ClassVar[str] = "concat"

    parts: tuple[View, ...]

    @cached_property
    def operands(self) -> tuple[tuple[str, View], ...]:
        """The parts, named by their numbers."""
        return tuple((f"part{k}", view) for k, view in enumerate(self.parts))

    @cached_property
    def attributes(self) -> tuple[tuple[str, Any], ...]:
        """None beside the parts."""
        return ()

    def with_views(self, change: Callable[[str, View], View]) -> Self:
        """The call with each part's view changed; itself where all stay."""
        parts = tuple(change(role, view) for role, view in self.operands)
        return self if parts == self.parts else replace(self, parts=parts)

    @property
    def widths(self) -> tuple[Expr, ...]:
        """Columns of each part."""
        return tuple(view.axes[1].extent for view in self.parts)

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """The parts side by side."""
        return np.concatenate([operands[role] for role, _ in self.operands], axis=1)

    def better_as_nests(self, support: Support[Any], builder: NestBuilder) -> str:
        """Few enough parts are computed where they are joined, if that saves storing them first."""
        assert isinstance(support, ConcatSupport)
        hints, count = builder.hints, len(self.parts)
        if count > support.most_pieces or not all(w.is_Integer for w in self.widths):
            return ""
        saved = 0
        for view in self.parts:
            if _is_computed(builder, view.buffer):
                size = hints.volume(view.axes) * builder.dtype(view.buffer).itemsize
                saved += 2 * size + support.launch_bytes
        rows = hints.value(self.output.axes[0].extent)
        if saved <= rows * count * support.piece_bytes:
            return ""
        return f"{saved} bytes of traffic for computing parts before they are joined are saved"

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """One nest, each point of which looks for its part."""
        axes = self.output.axes
        row, column = (axis.symbol for axis in axes)
        sizes = {dim(d.name): (d.minimum, d.maximum) for d in builder.dims}
        ranges = Ranges({a.symbol: a.extent for a in axes}, sizes)
        dtype = builder.dtype(self.output.buffer)

        def element(number: int, own: Expr, mask: Node | None) -> Node:
            view = self.parts[number]
            at = dict(zip([a.symbol for a in view.axes], (row, own), strict=True))
            index = [substitute(e, at) for e in view.index]
            return load(view.buffer, dtype, index, mask=mask)

        value = chosen_part(column, ranges, self.widths, element)
        store = Store(self.output.buffer, self.output.index, value)
        return [LoopNest(self.name, axes, (), (store,), self.origin)]


def chosen_part(
    position: Expr,
    ranges: Ranges,
    widths: Sequence[Expr],
    element: Callable[[int, Expr, Node | None], Node],
) -> Node:
    """The value at a position of parts that lie one after the other; there is one at least.

    `element`: of the part of that number, at a position of its own, where a mask holds.
    """
    starts = list(accumulate(widths, initial=as_expr(0)))
    chosen: Node | None = None
    for number in reversed(range(len(widths))):
        own = position - starts[number]
        value = element(number, own, _inside(ranges, own, widths[number]))
        if chosen is None:
            chosen = value
        else:
            before = binary("lt", index_value(position), index_value(starts[number + 1]))
            chosen = where(before, value, chosen)
    assert chosen is not None
    return chosen


def _inside(ranges: Ranges, own: Expr, width: Expr) -> Node | None:
    """Whether 0 <= own < width; None where that is known."""
    conditions = []
    if not ranges.nonnegative(own):
        conditions.append(binary("ge", index_value(own), index_value(as_expr(0))))
    if not ranges.less(own, width):
        conditions.append(binary("lt", index_value(own), index_value(width)))
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return binary("and", *conditions)


_FREE = frozenset(("load", "const", "index", "cast"))
"""Operations of bodies that are views, which are computed nowhere."""


def _is_computed(builder: NestBuilder, buffer: str) -> bool:
    """Whether a nest computes a buffer point by point, so that it need not be stored."""
    nest = builder.nests.get(buffer)
    while nest is not None and not nest.reduction and not nest.conflicts:
        nodes = postorder(nest.roots)
        if any(node.op not in _FREE for node in nodes):
            return True
        sources = {node.attr.buffer for node in nodes if isinstance(node.attr, Access)}
        nest = builder.nests.get(sources.pop()) if len(sources) == 1 else None
    return False
