"""Sums of exponentials beside the greatest of the same elements: both of parts, from one read.

Softmax and its like reduce a row to its greatest element, then to the sum of exp(x - greatest).
Where both are done in parts, a part gives its own greatest element t and the sum of exp(x - t), so
that neither waits for the whole row: for any number c, the sum of exp(x - c) over the part is that
sum times exp(t - c). Exponentials that were stored for their sum are then read by nobody but what
follows the sum, which computes them again from x: it reads as many bytes, and nothing is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis, LoopNest, Store
from aot.ir.origin import Origin
from aot.ir.rewrite import with_roots
from aot.ir.scalar import (
    Access,
    Node,
    binary,
    bind_map,
    const,
    load,
    postorder,
    rebuild,
    reduce_,
    substitute_index,
    unary,
    where,
    with_args,
)
from aot.schedule.deviations import reduces_alike
from aot.schedule.strides import variables
from aot.symbolic import Expr


@dataclass(frozen=True)
class Exponentials:
    """A nest's only reduction, `total`: of exp(x - centre), the centre being the same for all x.

    `absorbed`: where the exponentials came from, if another nest stored them.
    """

    nest: LoopNest
    total: Node
    x: Node
    centre: Node
    absorbed: tuple[Origin, ...] = ()


@dataclass(frozen=True)
class TopParts:
    """The nest that finds the greatest elements of parts, which the axis `chunk` counts."""

    nest: LoopNest
    chunk: Axis

    @property
    def store(self) -> Store:
        """Where a part's greatest element goes."""
        return self.nest.stores[0]

    def sums(self, total: Node) -> Node:
        """The sum of a part's exponentials; those of parts that are infinite are of no use."""
        (value,) = self.store.value.args
        top = load(self.store.buffer, value.dtype, self.store.index)
        return reduce_("sum", unary("exp", binary("sub", value, top)), total.dtype)


def find_tops(graph: LoopGraph) -> Mapping[str, Exponentials]:
    """By the name of a nest of greatest elements, the sums of the elements' exponentials."""
    made: dict[str, tuple[LoopNest, Store]] = {}
    tops: list[LoopNest] = []
    found: dict[str, Exponentials] = {}
    for nest in (op for op in graph.ops if isinstance(op, LoopNest)):
        if not nest.reduction:
            made.update({s.buffer: (nest, s) for s in nest.stores if s.mode == "set"})
            continue
        sums = find_exponentials(nest, made)
        if sums is not None:
            same = (t for t in tops if reduces_alike(t, nest, sums.total, sums.x, "max"))
            first = next(same, None)
            if first is not None:
                found.setdefault(first.name, sums)
        tops.append(nest)
    return found


def find_exponentials(
    nest: LoopNest, made: Mapping[str, tuple[LoopNest, Store]]
) -> Exponentials | None:
    """What the nest sums up the exponentials of; None where it does something else.

    `made`: how each buffer was computed, point by point.
    """
    reduces = [n for n in postorder(nest.roots) if n.op == "reduce"]
    if len(reduces) != 1 or reduces[0].attr != "sum":
        return None
    value, origins = _seen_through(reduces[0].args[0], made)
    if value.op != "exp" or value.args[0].op != "sub":
        return None
    x, centre = value.args[0].args
    if x.dtype != x.dtype.compute or x.dtype != reduces[0].dtype:
        return None
    if variables([centre]) & {a.symbol for a in nest.reduction}:
        return None
    return Exponentials(nest, reduces[0], x, centre, origins)


def _seen_through(
    node: Node, made: Mapping[str, tuple[LoopNest, Store]]
) -> tuple[Node, tuple[Origin, ...]]:
    """What was stored, where a node reads an element of it, and where that came from."""
    access = node.attr
    if not isinstance(access, Access) or access.masked or bind_map(node):
        return node, ()
    nest, store = made.get(access.buffer, (None, None))
    if nest is None or store is None or {a.symbol for a in nest.axes} != set(store.index):
        return node, ()
    mapping = dict(zip(store.index, access.index, strict=True))
    (value,) = substitute_index([store.value], mapping)
    return value, (*nest.absorbed, nest.origin)


def combined(sums: Exponentials, parts: TopParts, buffer: str) -> LoopNest:
    """The nest with its reduction made of the parts'; `buffer`: with the sums of theirs.

    Of a part whose greatest element is infinite exp(x - t) is no number. If it is -inf, all are,
    and the sum of exp(x - c) is that of exp(-inf - c); if it is inf, one of them decides.
    """
    nest, dtype = sums.nest, sums.total.dtype
    point: tuple[Expr, ...] = (parts.chunk.symbol, *(a.symbol for a in nest.axes))
    top = load(parts.store.buffer, dtype, point)
    scale = unary("exp", binary("sub", top, sums.centre))
    scaled = binary("mul", load(buffer, dtype, point), scale)
    infinite = binary("eq", unary("abs", top), const(math.inf, dtype))
    total = reduce_("sum", where(infinite, scale, scaled), dtype)

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        return total if node is sums.total else with_args(node, args)

    return replace(with_roots(nest, rebuild(nest.roots, visit)), reduction=(parts.chunk,))
