"""Numbers for cost models: sizes at the example's values, and the price of scalar operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aot.ir.nests import Axis
from aot.ir.operations import CHEAP, DEAR, MIDDLE, OPERATIONS
from aot.ir.scalar import Node, postorder
from aot.ir.tensors import Dim
from aot.symbolic import Expr, Symbol, dim, evaluate, when_there

LARGER = 16
"""Times a size that is another kind of problem, for which other choices are right."""

_FREE = frozenset("const load reduce".split())


@dataclass(frozen=True)
class Hints:
    """Example values of the dims: for choosing among correct programs, never for correctness."""

    dims: Mapping[Symbol, int]
    _cache: dict[Expr, int] = field(default_factory=dict, compare=False, repr=False)

    def value(self, expr: Expr) -> int:
        """The size's value at the hints; of what is there for other sizes alone, as if it were."""
        found = self._cache.get(expr)
        if found is None:
            found = int(evaluate(expr, self.dims)) or int(evaluate(when_there(expr), self.dims))
            self._cache[expr] = found
        return found

    def holds(self, condition: Expr) -> bool:
        """Whether a condition, 1 or 0, is 1 at the hints."""
        return bool(evaluate(condition, self.dims))

    def some(self, axes: Iterable[Axis]) -> int:
        """As `volume`, of nothing 1: what is only known when it runs may be guessed as nothing."""
        return max(1, self.volume(axes))

    def volume(self, axes: Iterable[Axis]) -> int:
        """Number of points of an iteration space; 1 for none."""
        result = 1
        for axis in axes:
            result *= self.value(axis.extent)
        return result

    def elements(self, shape: Iterable[Expr]) -> int:
        """Number of elements of a shape; 1 for none."""
        result = 1
        for size in shape:
            result *= self.value(size)
        return result


def hints_of(dims: Iterable[Dim]) -> Hints:
    """The hints of a graph's dims."""
    return Hints({dim(d.name): d.hint for d in dims})


def at_scale(d: Dim, times: int, part: int = 1) -> int:
    """A size so many times the hint, divided by `part`; as near to it as the dim allows."""
    size = d.hint * times // part
    if d.maximum is not None:
        size = min(size, d.maximum)
    size = max(size, d.minimum, 1)
    return max(d.multiple_of, size // d.multiple_of * d.multiple_of)


FARTHEST = LARGER**2
"""Times a size, and parts of it, up to which kernels are chosen for sizes of their own."""


def far_hints(dims: Iterable[Dim]) -> tuple[Hints, Hints]:
    """The smallest and the largest sizes that kernels are chosen for."""
    dims = tuple(dims)
    least = Hints({dim(d.name): at_scale(d, 1, FARTHEST) for d in dims})
    return least, Hints({dim(d.name): at_scale(d, FARTHEST) for d in dims})


BETWEEN = 4
"""Times a size, for what is chosen once for it and for one that is `LARGER` times as large."""


def between_hints(dims: Iterable[Dim]) -> Hints:
    """Sizes between those of examples and larger ones.

    For choices that cost small sizes as much as the other one costs large ones.
    """
    return Hints({dim(d.name): at_scale(d, BETWEEN) for d in dims})


def larger_hints(dims: Iterable[Dim]) -> Hints:
    """Sizes that a run may well have where examples are small.

    For choices that cost small sizes little and save large ones much.
    """
    return Hints({dim(d.name): at_scale(d, LARGER) for d in dims})


def op_weight(node: Node) -> int:
    """Rough price of one evaluation, an addition being 1."""
    if node.op in _FREE:
        return 0
    if node.op in OPERATIONS:
        return OPERATIONS[node.op].price
    if node.op == "check_index" or (node.op == "index" and node.args):
        return MIDDLE
    if node.op == "cast":
        return CHEAP if node.dtype.itemsize == node.args[0].dtype.itemsize else 2 * CHEAP
    return CHEAP


def body_weight(roots: Iterable[Node]) -> int:
    """Price of evaluating every node below `roots` once."""
    return sum(op_weight(n) for n in postorder(roots))


def is_index(node: Node) -> bool:
    """Whether a value counts positions: such ones do not decide how many lanes a vector has."""
    if node.dtype.name != "int64":
        return False
    if node.op == "cast":
        return node.args[0].dtype.name == "int32"
    return node.op in ("index", "check_index", "const", "load")


def is_dear(roots: Iterable[Node]) -> bool:
    """True when a transcendental function is evaluated below `roots`."""
    return any(is_function(n.op) for n in postorder(roots))


def is_function(op: str) -> bool:
    """Whether a scalar operation is a transcendental function."""
    return op in OPERATIONS and OPERATIONS[op].price >= DEAR
