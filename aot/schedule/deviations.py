"""Sums of squared deviations beside the sums of the same elements: both from one read.

A variance reads its elements twice: for their mean, then for the squares of what they are off it.
Where both reductions are done in parts, a part that a work unit holds gives its sum and the squared
deviations from its own mean. For any number m, sum((x - m)²) over a part of n elements of mean µ is
sum((x - µ)²) + n (µ - m)²: all terms are positive, so nothing cancels. (Chan, Golub, LeVeque,
Updating formulae and a pairwise algorithm for computing sample variances, 1979.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis, LoopNest
from aot.ir.rewrite import with_roots
from aot.ir.scalar import (
    Node,
    binary,
    cast,
    const,
    index_value,
    load,
    postorder,
    rebuild,
    reduce_,
    substitute_index,
    where,
    with_args,
)
from aot.schedule.strides import variables
from aot.symbolic import Expr, Minimum, integer, product


@dataclass(frozen=True)
class Squares:
    """A nest's only reduction, `total`: of (x - centre)², the centre being the same for all x."""

    total: Node
    x: Node
    centre: Node


@dataclass(frozen=True)
class HeldPart:
    """Elements of a reduction that are summed up together: `axis` counts them, each has `length`.

    `extent`: of the whole axis, in which the last part may end early. `sums`: the buffer that holds
    the parts' sums.
    """

    axis: Axis
    length: int
    extent: Expr
    sums: str

    @property
    def is_even(self) -> bool:
        """Whether all parts are known to be whole."""
        return self.extent.is_Integer and int(self.extent) % self.length == 0

    def count(self, like: Node) -> Node:
        """How many elements a part has, as a number like `like`."""
        if self.is_even:
            return const(float(self.length), like.dtype)
        rest = self.extent - product((self.axis.symbol, integer(self.length)))
        return cast(index_value(Minimum(rest, integer(self.length))), like.dtype)

    def mean(self, nest: LoopNest, like: Node) -> Node:
        """Of a part."""
        point: tuple[Expr, ...] = (self.axis.symbol, *(a.symbol for a in nest.axes))
        total = load(self.sums, like.dtype, point)
        if self.is_even:  # a power of two, so that nothing is rounded
            return binary("mul", total, const(1.0 / self.length, like.dtype))
        return binary("div", total, self.count(like))


def find_squares(nest: LoopNest) -> Squares | None:
    """What the nest squares and sums up; None where it does something else."""
    reduces = [n for n in postorder(nest.roots) if n.op == "reduce"]
    if len(reduces) != 1 or reduces[0].attr != "sum":
        return None
    (value,) = reduces[0].args
    if value.op != "mul" or value.args[0] is not value.args[1] or value.args[0].op != "sub":
        return None
    x, centre = value.args[0].args
    if not x.dtype.is_float or variables([centre]) & {a.symbol for a in nest.reduction}:
        return None
    return Squares(reduces[0], x, centre)


def find_pairs(graph: LoopGraph) -> Mapping[str, LoopNest]:
    """By the name of a nest of sums, the nest of squared deviations of the same elements."""
    nests = [op for op in graph.ops if isinstance(op, LoopNest) and op.reduction]
    found: dict[str, LoopNest] = {}
    for k, nest in enumerate(nests):
        squares = find_squares(nest)
        if squares is None:
            continue
        total = squares.total
        first = next((f for f in nests[:k] if reduces_alike(f, nest, total, squares.x)), None)
        if first is not None:
            found.setdefault(first.name, nest)
    return found


def reduces_alike(first: LoopNest, nest: LoopNest, like: Node, x: Node, kind: str = "") -> bool:
    """True when the first nest reduces what is `x` in the other one, over the same loops.

    `like`: the other one's reduction; `kind`: of the first, where they differ.
    """
    own, others = (*nest.axes, *nest.reduction), (*first.axes, *first.reduction)
    alike = len(nest.axes) == len(first.axes) and len(own) == len(others)
    if not alike or any(a.extent != b.extent for a, b in zip(own, others, strict=True)):
        return False
    reduces = [n for n in postorder(first.roots) if n.op == "reduce"]
    if len(reduces) != 1 or (reduces[0].attr, reduces[0].dtype) != (kind or like.attr, like.dtype):
        return False
    names = {a.symbol: b.symbol for a, b in zip(own, others, strict=True)}
    (same,) = substitute_index([x], names)
    return same is reduces[0].args[0]


def of_part(total: Node, part: HeldPart, nest: LoopNest) -> Node:
    """The reduction `total` of a part's elements, with its own mean as the centre."""
    (value,) = total.args
    inside = value.args[0] if value.op == "where" else None
    square = value if inside is None else value.args[1]
    off = binary("sub", square.args[0].args[0], part.mean(nest, total))
    found = binary("mul", off, off)
    if inside is not None:
        found = where(inside, found, value.args[2])
    return with_args(total, (found,))


def about(deviations: Node, count: Node, mean: Node, centre: Node) -> Node:
    """Squared deviations from `centre` of `count` elements, of those from their own `mean`."""
    off = binary("sub", mean, centre)
    return binary("add", deviations, binary("mul", count, binary("mul", off, off)))


def combined(nest: LoopNest, squares: Squares, part: HeldPart, deviations: str) -> LoopNest:
    """The nest with its reduction made of the parts'; `deviations`: the buffer with theirs."""
    dtype = squares.total.dtype
    point: tuple[Expr, ...] = (part.axis.symbol, *(a.symbol for a in nest.axes))
    own, count = part.mean(nest, squares.total), part.count(squares.total)
    value = about(load(deviations, dtype, point), count, own, squares.centre)
    total = reduce_("sum", value, dtype)

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        return total if node is squares.total else with_args(node, args)

    return replace(with_roots(nest, rebuild(nest.roots, visit)), reduction=(part.axis,))
