"""Numbers for cost models: sizes at the example's values, and the price of scalar operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aot.ir.nests import Axis
from aot.ir.scalar import Node, postorder
from aot.ir.tensors import Dim
from aot.symbolic import Expr, Symbol, dim, evaluate

_DEAR = frozenset(
    """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh
    atanh erf erfc erfinv lgamma digamma sigmoid i0 i0e i1 i1e pow atan2 hypot fmod
    gcd igamma igammac hermite_h hermite_he laguerre_l legendre_p""".split()
)
_MIDDLE = frozenset("div floordiv truncdiv mod sqrt rsqrt reciprocal nextafter check_index".split())
_FREE = frozenset("const load reduce".split())


@dataclass(frozen=True)
class Hints:
    """Example values of the dims: for choosing among correct programs, never for correctness."""

    dims: Mapping[Symbol, int]
    _cache: dict[Expr, int] = field(default_factory=dict, compare=False, repr=False)

    def value(self, expr: Expr) -> int:
        """The size's value at the hints."""
        found = self._cache.get(expr)
        if found is None:
            found = self._cache[expr] = int(evaluate(expr, self.dims))
        return found

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


def op_weight(node: Node) -> int:
    """Rough price of one evaluation, an addition being 1."""
    if node.op in _FREE:
        return 0
    if node.op in _DEAR:
        return 16
    if node.op in _MIDDLE or (node.op == "index" and node.args):
        return 4
    if node.op == "cast":
        return 1 if node.dtype.itemsize == node.args[0].dtype.itemsize else 2
    return 1


def body_weight(roots: Iterable[Node]) -> int:
    """Price of evaluating every node below `roots` once."""
    return sum(op_weight(n) for n in postorder(roots))


def is_dear(roots: Iterable[Node]) -> bool:
    """True when a transcendental function is evaluated below `roots`."""
    return any(n.op in _DEAR for n in postorder(roots))
