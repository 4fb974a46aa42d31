"""Kernels made for several sizes, of which the sizes of a run choose one.

What is fastest for a batch of one is not for a batch of 64: tiles, warps and ways through memory
are chosen at the sizes that hints say, and a package runs at all. So a kernel with dynamic sizes is
emitted for smaller and larger ones too. Where the functions differ there is a launch of each, whose
amount of work is times 1 where it is the one to run and times 0 where another is: all of them are
right at all sizes, and one of them runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from itertools import product as combinations
from math import isqrt
from typing import Generic, TypeVar

from aot.ir.hints import LARGER, at_scale, hints_of
from aot.ir.kernels import ALWAYS, Kernel, KernelGraph, NestKernel
from aot.ir.tensors import Dim
from aot.symbolic import Expr, Minimum, at_least, below, dim, evaluate, integer, product

E = TypeVar("E")

STEPS = 2
"""Sizes below the example's that kernels are made for, and above: `LARGER` times as much each."""

NEAR = 4
"""Times a size within which another needs no kernel of its own."""

MOST = 3
"""Functions of one kernel: each has to be compiled."""

MOST_OF_NESTS = 2
"""The same of loop nests, which lose less by what is not made for their sizes."""

PARTS = 1 << 16
"""What times that are no integers are a multiple of a part of."""

MOST_DIMS = 2
"""Dims that vary on their own; more vary together, told apart by the elements that are touched in
buffers of dynamic sizes."""


@dataclass(frozen=True)
class Choice(Generic[E]):
    """A function of a kernel, and where it runs.

    Attributes:
        emitted: The function.
        when: 1 for the sizes that it runs at, else 0.
        name: Of the function.
    """

    emitted: E
    when: Expr
    name: str

    def within(self, when: Expr) -> Choice[E]:
        """The same function, where this holds, too."""
        return replace(self, when=Minimum(ALWAYS, self.when * when))

    def renamed(self, own: str, other: str) -> Choice[E]:
        """The same function, by a name that begins with the other one in place of its own."""
        return replace(self, name=other + self.name.removeprefix(own))


@dataclass(frozen=True)
class _Scale:
    """What is compared: a size, and where one kernel gives way to the next, in rising order."""

    size: Expr
    limits: tuple[int, ...]

    def within(self, first: int, last: int) -> Expr:
        """1 where the size is in one of the parts `first` to `last`, else 0."""
        least, ends = ALWAYS, ALWAYS
        if first > 0:
            least = at_least(self.size, self.limits[first - 1])
        if last < len(self.limits):
            ends = below(self.size, self.limits[last])
        return least * ends


_Cell = tuple[int, ...]
"""A part of each scale."""


@dataclass(frozen=True)
class _Spread:
    """The parts that all sizes are cut into. `dims`: with the sizes that stand for a part."""

    scales: tuple[_Scale, ...]
    dims: dict[_Cell, tuple[Dim, ...]]
    own: _Cell

    def when(self, cells: set[_Cell]) -> Expr:
        """1 in these parts, else 0."""
        found = sum((self._box(*box) for box in self._boxes(cells)), integer(0))
        return Minimum(ALWAYS, found)

    def _box(self, first: _Cell, last: _Cell) -> Expr:
        ends = zip(self.scales, first, last, strict=True)
        return product([scale.within(a, b) for scale, a, b in ends])

    def _boxes(self, cells: set[_Cell]) -> Iterator[tuple[_Cell, _Cell]]:
        """The parts as boxes: (first, last) of each."""
        left = set(cells)
        while left:
            first = last = min(left)
            for axis in reversed(range(len(self.scales))):
                while True:
                    longer = (*last[:axis], last[axis] + 1, *last[axis + 1 :])
                    if not left.issuperset(_box_cells(first, longer)):
                        break
                    last = longer
            yield first, last
            left.difference_update(_box_cells(first, last))


def by_size(
    kernel: Kernel,
    graph: KernelGraph,
    own: E,
    emit: Callable[[KernelGraph], E | None],
    same: Callable[[E], object],
) -> tuple[Choice[E], ...]:
    """The functions of a kernel, its own first; at each size, one of them runs.

    Args:
        kernel: The kernel.
        graph: Its graph.
        own: The function for the hints of the graph's dims.
        emit: The function for a graph whose dims have other hints; None where it cannot be had.
        same: What functions that are the same have in common.
    """
    spread = _spread(kernel, graph)
    if spread is None:
        return (Choice(own, ALWAYS, kernel.name),)
    made: dict[object, E] = {same(own): own}
    found: dict[_Cell, object] = {}
    for cell, dims in spread.dims.items():
        at = replace(graph, dims=dims)
        emitted = own if cell == spread.own else emit(at) if _has_points(kernel, at) else None
        if emitted is not None:
            found[cell] = same(emitted)
            made.setdefault(found[cell], emitted)
    kept = _kept(found, spread.own, nest=isinstance(kernel, NestKernel))
    if len(kept) == 1:
        return (Choice(own, ALWAYS, kernel.name),)
    cells: dict[object, set[_Cell]] = {key: set() for key in kept}
    for cell in spread.dims:
        cells[_nearest(cell, found, kept)].add(cell)
    names = [kernel.name, *(f"{kernel.name}_size{k}" for k in range(1, len(kept)))]
    return tuple(
        Choice(made[key], spread.when(cells[key]), name)
        for key, name in zip(kept, names, strict=True)
    )


def spots(kernel: Kernel, graph: KernelGraph) -> tuple[KernelGraph, ...]:
    """The graph with the sizes that a kernel is made for as hints, with its own first."""
    spread = _spread(kernel, graph)
    if spread is None:
        return (graph,)
    others = [replace(graph, dims=d) for cell, d in spread.dims.items() if cell != spread.own]
    return (graph, *(at for at in others if _has_points(kernel, at)))


def _kept(found: dict[_Cell, object], own: _Cell, *, nest: bool) -> list[object]:
    """The functions that are kept, the graph's own first.

    Those that most parts want; of as many parts, those that are farthest, and larger ones first. Of
    a loop nest those that are nearest: what holds the longest rows has idle lanes at all others.
    """
    cells: dict[object, list[_Cell]] = {}
    for cell, key in found.items():
        cells.setdefault(key, []).append(cell)

    def rank(key: object) -> tuple[int, int, int]:
        if nest:
            near = min(cells[key], key=lambda cell: (_distance(cell, own), -sum(cell)))
            return len(cells[key]), -_distance(near, own), sum(near)
        far = max(cells[key], key=lambda cell: (_distance(cell, own), sum(cell)))
        return len(cells[key]), _distance(far, own), sum(far)

    others = sorted((key for key in cells if key != found[own]), key=rank, reverse=True)
    return [found[own], *others[: (MOST_OF_NESTS if nest else MOST) - 1]]


def _distance(a: _Cell, b: _Cell) -> int:
    return sum(abs(x - y) for x, y in zip(a, b, strict=True))


def _nearest(cell: _Cell, found: dict[_Cell, object], kept: Sequence[object]) -> object:
    """What runs in a part: what was made for it, else for the nearest, of several the largest."""
    near = [
        (_distance(cell, other), -sum(other), other) for other, key in found.items() if key in kept
    ]
    return found[min(near)[2]]


def _has_points(kernel: Kernel, graph: KernelGraph) -> bool:
    """Whether nothing that a kernel touches is empty: sizes may hang together.

    Nor what is there for other sizes alone.
    """
    dims = hints_of(graph.dims).dims
    shapes = (graph.buffers[name].shape for name in (*kernel.reads, *kernel.writes))
    return all(int(evaluate(size, dims)) > 0 for shape in shapes for size in shape)


def _spread(kernel: Kernel, graph: KernelGraph) -> _Spread | None:
    """The parts of all sizes; None where the kernel has none that vary."""
    buffers = [graph.buffers[name] for name in dict.fromkeys((*kernel.reads, *kernel.writes))]
    sizes = [size for size in (product(b.shape) for b in buffers) if size.free_symbols]
    symbols = {s for size in sizes for s in size.free_symbols}
    used = tuple(d for d in graph.dims if dim(d.name) in symbols)
    ordered = [_values(d, len(used)) for d in used]
    if all(len(row) == 1 for row in ordered):
        return None
    if len(used) <= MOST_DIMS:
        rows = zip(used, ordered, strict=True)
        scales = tuple(_Scale(dim(d.name), _limits(row, kernel)) for d, row in rows)
        cells = {
            cell: {d.name: row[k] for d, row, k in zip(used, ordered, cell, strict=True)}
            for cell in combinations(*(range(len(row)) for row in ordered))
        }
        own = tuple(row.index(d.hint) for d, row in zip(used, ordered, strict=True))
        return _Spread(scales, {c: _with_hints(graph.dims, at) for c, at in cells.items()}, own)
    return _together(used, sum(sizes, integer(0)), graph, kernel)


def _together(used: Sequence[Dim], touched: Expr, graph: KernelGraph, kernel: Kernel) -> _Spread:
    """One scale, of what is touched where all dims are as many times smaller or larger.

    One step more than of fewer dims: most buffers have not all of them, and grow by less.
    """
    own = hints_of(graph.dims).value(touched)
    ray = {own: graph.dims}
    for power in sorted(range(-STEPS, STEPS + 2), key=abs):
        dims = _with_hints(graph.dims, {d.name: _at(d, power, len(used)) for d in used})
        size = hints_of(dims).value(touched)
        if all(size >= NEAR * other or NEAR * size <= other for other in ray):
            ray[size] = dims
    ordered = sorted(ray)
    cells: dict[_Cell, tuple[Dim, ...]] = {(k,): ray[size] for k, size in enumerate(ordered)}
    return _Spread((_Scale(touched, _limits(ordered, kernel)),), cells, (ordered.index(own),))


def _values(d: Dim, count: int) -> list[int]:
    """Sizes that kernels are made for, in rising order: what the dim's range leaves of them.

    An end of the range that is near another is none of its own. `count`: dims that vary.
    """
    found = [d.hint]
    for power in range(1, STEPS + 1):
        if _at(d, power, count) >= NEAR * found[-1]:
            found.append(_at(d, power, count))
        if NEAR * _at(d, -power, count) <= found[0]:
            found.insert(0, _at(d, -power, count))
    return found


def _at(d: Dim, power: int, count: int) -> int:
    """A size so many steps from the example's, as near as the dim allows.

    A step is `LARGER` times as much of all that `count` dims measure: a root of it for each.
    """
    return at_scale(d, round(PARTS * LARGER ** (power / count)), PARTS)


def _limits(sizes: Sequence[int], kernel: Kernel) -> tuple[int, ...]:
    """Where one size gives way to the next.

    As many times the one as it is part of the other; a loop nest where it is nearly the other: its
    tiles hold rows as a whole, or walk along them, and lanes beyond a row's end cost more than
    steps. Softmax of rows of 376 halves took 0.76 of eager's time on an H200 in steps of 64, in a
    tile for 752 1.65.
    """
    nest = isinstance(kernel, NestKernel)
    return tuple(max(b * 3 // 4 if nest else isqrt(a * b), a + 1) for a, b in pairwise(sizes))


def _with_hints(dims: Sequence[Dim], hints: dict[str, int]) -> tuple[Dim, ...]:
    return tuple(replace(d, hint=hints.get(d.name, d.hint)) for d in dims)


def _box_cells(first: _Cell, last: _Cell) -> set[_Cell]:
    return set(combinations(*(range(a, b + 1) for a, b in zip(first, last, strict=True))))
