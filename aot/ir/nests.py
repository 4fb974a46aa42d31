"""Buffers, and loop nests over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aot.ir.dtypes import DType
from aot.ir.origin import Origin
from aot.ir.scalar import Node
from aot.symbolic import Expr, Symbol, var


@dataclass(frozen=True)
class Buffer:
    """A tensor in memory.

    `kind`: "input", "weight" (read-only, in the package), "state" (kept by the session from run to
    run), "temp" (also outputs: see LoopGraph.outputs). `strides` in elements; None until the
    layout pass has chosen them. `fqn`: a weight's or state's name in the weight store.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...] | None
    kind: str
    fqn: str = ""


@dataclass(frozen=True)
class Axis:
    """A loop: `symbol` runs over [0, extent)."""

    symbol: Symbol
    extent: Expr


def numbered_axes(prefix: str, shape: Sequence[Expr]) -> tuple[Axis, ...]:
    """Loops over a shape: i0, i1, … for the prefix "i"."""
    return tuple(Axis(var(f"{prefix}{k}"), size) for k, size in enumerate(shape))


@dataclass(frozen=True)
class Store:
    """Writes `value` to one element of `buffer` for each point of the nest's axes.

    `mode`: "set" covers each element at most once; where two points of the nest write one element,
    they write the same value. In the other modes any number of points may meet in an element
    (a conflict): it gets the value of the "last" one in the row-major order of the nest's axes, or
    joins all of them by an operation (JOINING) in any order.
    `binds`: indirect symbols of `index`, with their nodes. `base`: the buffer is this one with the
    stored elements replaced or joined; without one, a nest writes all elements. `clipped`: points
    whose index lies outside of the buffer store nothing.
    """

    buffer: str
    index: tuple[Expr, ...]
    value: Node
    mode: str = "set"
    binds: tuple[tuple[Symbol, Node], ...] = ()
    base: str = ""
    clipped: bool = False

    @property
    def conflicts(self) -> bool:
        """Whether points may meet in one element."""
        return self.mode != "set"


JOINING = ("add", "mul", "maximum", "minimum")
"""Modes of stores that join: operations whose result depends on no order, but for roundings."""


REDUCTIONS: Mapping[str, str] = {"add": "sum", "mul": "prod", "maximum": "max", "minimum": "min"}
"""What many values become that join by a mode of JOINING."""


def neutral(mode: str, dtype: DType) -> float:
    """What changes no value of a type that it joins by a mode of JOINING."""
    return neutral_of(REDUCTIONS[mode], dtype)


def neutral_of(reduction: str, dtype: DType) -> float:
    """What changes no result of a reduction; of a search, what is found last."""
    least, greatest = dtype.ends
    zeros = dict.fromkeys(("sum", "xor", "any"), 0)
    starts = {**zeros, "prod": 1, "all": 1, "min": greatest, "argmin": greatest}
    return starts.get(reduction, least)


@dataclass(frozen=True)
class LoopNest:
    """A body evaluated at every point of an iteration space.

    `axes`: the kept axes. `reduction`: the reduction axes; `reduce` nodes combine over all of them,
    and nodes outside a `reduce` use `axes` only. One nest writes each of its buffers completely
    unless a store's mode says otherwise. `absorbed`: origins of the nests inlined into this one,
    in program order; for reports only.
    """

    name: str
    axes: tuple[Axis, ...]
    reduction: tuple[Axis, ...]
    stores: tuple[Store, ...]
    origin: Origin
    absorbed: tuple[Origin, ...] = ()

    @property
    def conflicts(self) -> bool:
        """Whether points may meet in one element of a store."""
        return any(store.conflicts for store in self.stores)

    @property
    def free_axes(self) -> tuple[Axis, ...]:
        """Axes along which points never meet: each is by itself an index of every such store."""
        places = [set(store.index) for store in self.stores if store.conflicts]
        return tuple(a for a in self.axes if all(a.symbol in place for place in places))

    @property
    def roots(self) -> tuple[Node, ...]:
        """Stored values and the values that stores index with."""
        return tuple(n for s in self.stores for n in (s.value, *(b for _, b in s.binds)))


@dataclass(frozen=True)
class View:
    """A buffer seen through other axes: `index`, over the axes' symbols, per buffer dimension."""

    buffer: str
    axes: tuple[Axis, ...]
    index: tuple[Expr, ...]


@dataclass(frozen=True)
class DerivedWeight:
    """A weight computed from others when the package is built (part of the weight program).

    `nests`: what it is: evaluated in order; the last one writes the buffer called `name`.
    `recipe`: "fold", or the name of a packing function of the backend that computes the same in
    less time (`params` are its arguments).
    `sources`: FQNs or names of other derived weights, in argument order.
    """

    name: str
    recipe: str
    sources: tuple[str, ...]
    params: tuple[tuple[str, View | int], ...] = ()
    nests: tuple[LoopNest, ...] = ()
