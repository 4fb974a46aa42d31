"""What all emission of one kernel looks at: names, layouts, the tile and what is known of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from aot.backends.triton.gpu import Gpu
from aot.ir.dtypes import DType
from aot.ir.hints import Hints
from aot.ir.kernel_facts import (
    argument_buffers,
    kernel_axes,
    kernel_sizes,
    outer_axes,
    template_views,
)
from aot.ir.kernels import ALWAYS, FusedKernel, KernelGraph
from aot.ir.nests import Axis, Buffer
from aot.ir.tensors import SizeRelation
from aot.symbolic import (
    Expr,
    FloorDiv,
    Minimum,
    Modulo,
    Ranges,
    Symbol,
    below,
    dim,
    evaluate,
    exact_quotient,
    integer,
    is_multiple,
    product,
)

INT32_LIMIT = 2**31 - 1

MOST_WASTE = 2
"""Times the points of a row that a tile may have lanes, where it holds whole rows."""


EVEN = 8
"""What a size is a multiple of that is known to be even: 16 bytes of the narrowest floats."""

PROGRAM = "tl.program_id(0)"
"""A program's number in the text."""


@dataclass(frozen=True)
class Value:
    """An emitted value: its text, dtype, and the tile's dimensions along which it varies."""

    text: str
    dtype: DType
    dims: frozenset[str]


@dataclass(frozen=True)
class TileDim:
    """A dimension of the tile: the axes that it flattens (last one fastest) and its block size.

    `position`: 0 for rows, 1 for columns. `name`: of the index in the text. `scattered`: its points
    are any, also beyond the axes. `width`: the text of the block's size where blocks of several
    sizes, all multiples of `block`, are given to one function; else "". `flat`: what walks the axes
    as the flat index does is told by that one also in tiles of two dimensions.
    """

    name: str
    axes: tuple[Axis, ...]
    block: int
    position: int
    scattered: bool = False
    width: str = ""
    flat: bool = False

    @property
    def points(self) -> Expr:
        """Points of the axes."""
        return product([a.extent for a in self.axes])

    @property
    def is_exact(self) -> bool:
        """True when blocks cover the points without rest."""
        if self.scattered:
            return False
        points = self.points
        return bool(points.is_Integer) and int(points) > 0 and int(points) % self.block == 0


class Whole(TileDim):
    """A dimension all whose tiles lie within it."""

    @property
    def is_exact(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True)
class Walk:
    """How a row is walked that begins anywhere: from the vector in which its first element lies.

    `axis`: the row's only one, along which elements whose offsets are `base` more are touched.
    `low`, `shift`: names of the offset of that vector, and of the elements in it before the row.
    `vector`: how many elements it has. `first`, `last`: names of where the row's whole vectors
    begin and end, counted from `low`.
    """

    axis: Symbol
    base: Expr
    low: str
    shift: str
    vector: int
    first: str
    last: str

    def place(self, offset: Expr) -> Expr | None:
        """What elements of this offset have beside those from `low` on, in whole vectors.

        None where rows of them begin elsewhere within a vector.
        """
        more = offset - self.axis - self.base
        follows = self.axis not in more.free_symbols and is_multiple(more, self.vector)
        return more if follows else None


@dataclass(frozen=True)
class WalkTurn:
    """A turn of a walk, of some of a row's vectors.

    `place`: the name of its lanes, counted from the walk's `low`. `reads`, `writes`: masks of what
    it touches, of whole vectors: what is read before the row lies in its buffer.
    """

    walk: Walk
    dim: TileDim
    place: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class Masked(TileDim):
    """A dimension some of whose lanes may not lie within it."""

    @property
    def is_exact(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True)
class KernelContext:
    """Facts about one kernel. `wide`: indices need 64 bits. `early`: see Gpu.starts_early."""

    buffers: Mapping[str, Buffer]
    names: Mapping[Symbol, str]
    pointers: Mapping[str, str]
    ranges: Ranges
    sizes: tuple[Symbol, ...]
    wide: bool
    early: bool
    most: Mapping[Expr, int] = field(default_factory=dict)
    """Of sizes that are known to have an end in this kernel: the greatest they may be."""
    even: frozenset[Symbol] = frozenset()
    """Sizes that are known to be multiples of EVEN in this kernel."""

    @property
    def index_type(self) -> str:
        """The type of indices."""
        return "tl.int64" if self.wide else "tl.int32"

    def offset(self, buffer: str, index: Iterable[Expr]) -> Expr:
        """Element offset of an index in a buffer."""
        total: Expr = integer(0)
        for i, s in zip(index, self.buffers[buffer].strides or (), strict=True):
            total = total + product((i, s))
        return self.ranges.simplify(total)

    def most_points(self, axes: Iterable[Axis], hints: Hints) -> int | None:
        """Points that an iteration space has at most; None where that says little or nothing.

        It says little where these are several times as many as at the hints.
        """
        points = product([a.extent for a in axes])
        if points.is_Integer:
            return int(points)
        most = self.most.get(points)
        return most if most is not None and most < MOST_WASTE * hints.value(points) else None


def make_context(kernel: FusedKernel, graph: KernelGraph, gpu: Gpu) -> KernelContext:
    """Names and facts of the kernel, numbered by position so that equal kernels read equal."""
    axes = [*kernel_axes(kernel), *(a for v in template_views(kernel) for a in v.axes)]
    extents = {a.symbol: a.extent for a in axes}
    ranges = Ranges(extents, {dim(d.name): (d.minimum, d.maximum) for d in graph.dims})
    sizes = kernel_sizes(kernel, graph.buffers, ranges.dims)
    names = {s: f"d{k}" for k, s in enumerate(sizes)}
    pointers = {b: f"p{k}" for k, b in enumerate(argument_buffers(kernel))}
    wide = bool(_wide_sizes(kernel, graph))
    most = {
        r.left: int(r.right)
        for r in graph.relations
        if r.relation == "<=" and r.right.is_Integer and r.left.free_symbols
    }
    left = {r.left for r in graph.relations if r.relation == "==" and r.right == 0}
    even = frozenset(s for s in sizes if Modulo(s, integer(EVEN)) in left)
    early = gpu.starts_early
    return KernelContext(graph.buffers, names, pointers, ranges, sizes, wide, early, most, even)


def narrow_when(kernels: Iterable[FusedKernel], graph: KernelGraph) -> tuple[Expr, Expr]:
    """At which sizes indices of 32 bits do for all that is touched, and at which they do not.

    1 at these, else 0.
    """
    sizes = _outermost([e for kernel in kernels for e in _wide_sizes(kernel, graph)])
    over = [FloorDiv(size, integer(INT32_LIMIT + 1)) for size in sizes]
    within = [below(size, INT32_LIMIT + 1) for size in sizes]
    return Minimum(ALWAYS, product(within)), Minimum(ALWAYS, sum(over, integer(0)))


def narrowed(kernels: Iterable[FusedKernel], graph: KernelGraph) -> KernelGraph:
    """The graph of which it is known that indices of 32 bits do for all that is touched.

    Itself where they do at all sizes.
    """
    wide = dict.fromkeys(e for kernel in kernels for e in _wide_sizes(kernel, graph))
    if not wide:
        return graph
    limit, why = integer(INT32_LIMIT), "indices of 32 bits"
    known = tuple(SizeRelation(size, "<=", limit, why) for size in wide)
    return replace(graph, relations=(*graph.relations, *known))


def _wide_sizes(kernel: FusedKernel, graph: KernelGraph) -> list[Expr]:
    """What a kernel counts to that may not fit into 32 bits."""
    touched = (*argument_buffers(kernel), *kernel.local)
    exprs = [product(graph.buffers[b].shape) for b in touched]
    exprs.append(product([a.extent for a in outer_axes(kernel)]))
    known = {r.left for r in graph.relations if r.relation == "<=" and r.right == INT32_LIMIT}
    ranges = Ranges({}, {dim(d.name): (d.minimum, d.maximum) for d in graph.dims})
    wide = (e for e in exprs if e not in known and not _is_narrow(e, ranges))
    return list(dict.fromkeys(wide))


def _outermost(sizes: list[Expr]) -> list[Expr]:
    """Those that are not parts of others: 3 * n fits where 6 * n does."""
    every = list(dict.fromkeys(sizes))
    return [e for e in every if not any(o != e and exact_quotient(o, e) is not None for o in every)]


def _is_narrow(expr: Expr, ranges: Ranges) -> bool:
    """True when the size stays below 2^31 for all sizes of the dims."""
    if expr.is_Integer:
        return int(expr) <= INT32_LIMIT
    greatest = {s: most for s, (_, most) in ranges.dims.items()}
    if any(greatest.get(s) is None for s in expr.free_symbols):
        return False
    return int(evaluate(expr, {s: greatest[s] for s in expr.free_symbols})) <= INT32_LIMIT
