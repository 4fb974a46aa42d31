"""What the emitters know of one kernel: names, addresses, and the layout of its local buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from aot.errors import InternalError
from aot.ir.dtypes import DType
from aot.ir.kernel_facts import outer_axes, strip_of, template_views
from aot.ir.kernels import FusedKernel
from aot.ir.nests import Buffer
from aot.ir.scalar import Access, loads
from aot.symbolic import (
    Add,
    Expr,
    FloorDiv,
    Ranges,
    Symbol,
    as_expr,
    constant_and_rest,
    evaluate,
    expand,
    integer,
    product,
    substitute,
    terms,
    var,
)

SCRATCH_ALIGNMENT = 64
_TYPICAL_SIZE = 64
STRIP_START = var("strip_start")

_LONG = 32
"""Loads and stores of a kernel's stages from which it is a long one."""


@dataclass(frozen=True)
class LocalLayout:
    """Where a local buffer lives: `pointer` into scratch, or in a register when `extents` is empty.

    `kept`: dimensions of the buffer that exist in scratch; `extents` and `strides` are theirs.
    `whole`: kept dimensions whose index still counts from the start of the buffer.
    """

    kept: tuple[int, ...]
    whole: tuple[bool, ...]
    extents: tuple[Expr, ...]
    strides: tuple[Expr, ...]

    def bytes(self, dtype: DType) -> Expr:
        """Size in scratch, rounded up to the alignment."""
        size = product((*self.extents, as_expr(dtype.itemsize)))
        return FloorDiv(size + SCRATCH_ALIGNMENT - 1, as_expr(SCRATCH_ALIGNMENT)) * (
            SCRATCH_ALIGNMENT
        )


@dataclass(frozen=True)
class KernelContext:
    """Everything that addresses depend on.

    `names`: C++ names of loop variables and sizes. `pointers`: C++ names of buffers.
    `locals_`: the layouts of buffers that do not leave the kernel. `outer`: symbols of the
    parallel loops. `strip`: the axis that is split, if any. `bases`: buffers whose pointer does
    not point to their first element, but to this index (see `base_indices`). `streamed`: buffers
    that are stored past the caches.
    """

    buffers: Mapping[str, Buffer]
    names: Mapping[Symbol, str]
    pointers: Mapping[str, str]
    locals_: Mapping[str, LocalLayout]
    outer: frozenset[Symbol]
    strip: Symbol | None
    ranges: Ranges
    written: frozenset[str]
    bases: Mapping[str, tuple[int, ...]]
    streamed: frozenset[str] = frozenset()
    is_long: bool = False

    def offset(self, buffer: str, index: Sequence[Expr]) -> Expr:
        """The element offset of `index` from the buffer's pointer.

        Raises:
            InternalError: The buffer is not a local one and has no strides.
        """
        layout = self.locals_.get(buffer)
        if layout is None:
            strides = self.buffers[buffer].strides
            if strides is None:
                raise InternalError(f"buffer {buffer} reached the code generator without strides")
            base = self.bases.get(buffer)
            moved = index if base is None else [i - b for i, b in zip(index, base, strict=True)]
            return self.ranges.offset(moved, strides)
        moved = [
            index[d] if whole else relative(index[d], self.outer, self.strip)
            for d, whole in zip(layout.kept, layout.whole, strict=True)
        ]
        return self.ranges.offset(moved, layout.strides)


def base_indices(kernel: FusedKernel, buffers: Mapping[str, Buffer]) -> dict[str, tuple[int, ...]]:
    """The least constant part of every index with which each buffer is accessed, where not 0.

    Slices of one tensor are then addressed alike, from an offset that is an argument, and kernels
    that differ in the slice alone share their code. Operands of a template are left as they are.
    """
    found: dict[str, list[int]] = {}
    for buffer, index in accesses(kernel):
        constants = [max(int(constant_and_rest(e)[0]), 0) for e in index]
        known = found.setdefault(buffer, constants)
        found[buffer] = [min(pair) for pair in zip(known, constants, strict=True)]
    skipped = {*kernel.local, *(v.buffer for v in template_views(kernel))}
    bases = {}
    for name, constants in found.items():
        strides = buffers[name].strides or ()
        fixed = tuple(c if s.is_Integer else 0 for c, s in zip(constants, strides, strict=True))
        if name not in skipped and any(fixed):
            bases[name] = fixed
    return bases


def index_range(indices: Sequence[Expr], base: int, size: Expr, ranges: Ranges) -> tuple[int, Expr]:
    """Least and greatest of the indices of a dimension of this size, counted from `base`.

    What is not known of them is what the dimension allows: they stay inside of it.
    """
    end = expand(size - 1)
    least, tops = 0, []
    for index in indices:
        bounds = ranges.bounds(expand(index))
        low, high = (None, end) if bounds is None else bounds
        if low is None or not ranges.nonnegative(expand(low - base)):
            below = int(low) - base if low is not None and low.is_Integer else -base
            least = min(least, max(below, -base))
        tops.append(high if ranges.at_most(high, end) else end)
    if all(top.is_Integer for top in tops):
        return least, max(tops) - base
    return least, (tops[0] if all(top == tops[0] for top in tops) else end) - base


def accesses(kernel: FusedKernel) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """Every buffer and index that the kernel's stages load or store."""
    for stage in kernel.stages:
        for nest in stage.nests:
            yield from ((s.buffer, s.index) for s in nest.stores)
            for node in loads(nest.roots):
                if isinstance(node.attr, Access):
                    yield node.attr.buffer, node.attr.index


def is_long(kernel: FusedKernel) -> bool:
    """Whether compilers would be busy above all with the moves in the tails of its loops."""
    return sum(1 for _ in accesses(kernel)) > _LONG


def relative(index: Expr, outer: frozenset[Symbol], strip: Symbol | None) -> Expr:
    """`index` without the terms of the outer loops, counted from the start of the strip."""
    inner = Add(*[t for t in terms(index) if not t.free_symbols & outer])
    return substitute(inner, {strip: strip - STRIP_START}) if strip is not None else inner


def _start(index: Expr, outer: frozenset[Symbol], strip: Symbol | None) -> Expr:
    """What `relative` takes away."""
    return expand(index - relative(index, outer, strip))


def _separable(index: Expr, outer: frozenset[Symbol], inner: frozenset[Symbol]) -> bool:
    return all(not (t.free_symbols & outer and t.free_symbols & inner) for t in terms(index))


def local_layouts(
    kernel: FusedKernel, buffers: Mapping[str, Buffer], ranges: Ranges
) -> dict[str, LocalLayout]:
    """Layouts of the kernel's local buffers: the inner extents, row-major."""
    outer = frozenset(a.symbol for a in outer_axes(kernel))
    indices: dict[str, list[tuple[Expr, ...]]] = {name: [] for name in kernel.local}
    for buffer, index in accesses(kernel):
        if buffer in indices:
            indices[buffer].append(index)
    return {
        name: _layout(kernel, buffers[name], found, outer, ranges)
        for name, found in indices.items()
    }


def _layout(
    kernel: FusedKernel,
    buffer: Buffer,
    accesses: Sequence[tuple[Expr, ...]],
    outer: frozenset[Symbol],
    ranges: Ranges,
) -> LocalLayout:
    inner = frozenset(s for a in accesses for e in a for s in e.free_symbols) - outer
    split = strip_of(kernel)
    strip = split.axis.symbol if split else None
    kept, whole, extents = [], [], []
    for d, size in enumerate(buffer.shape):
        indices = [a[d] for a in accesses]
        # Of one unit, all lie as far from the start of the buffer: not so a row and its diagonal.
        alike = len({_start(i, outer, strip) for i in indices}) == 1
        if alike and all(not i.free_symbols & inner for i in indices):
            continue
        kept.append(d)
        separable = alike and all(
            _separable(i, outer, inner) and _affine_in(i, strip) for i in indices
        )
        whole.append(not separable)
        extent = size
        if separable:
            extent = _extent(indices, outer, kernel, ranges, size)
        extents.append(extent)
    strides: list[Expr] = [integer(1)] * len(kept)
    running: Expr = integer(1)
    for k in reversed(_by_stride(kept, buffer)):
        strides[k] = running
        running = expand(running * extents[k])
    return LocalLayout(tuple(kept), tuple(whole), tuple(extents), tuple(strides))


def _by_stride(kept: Sequence[int], buffer: Buffer) -> list[int]:
    """Positions in `kept`, the dimension that moves farthest in the buffer's layout first."""
    strides = buffer.strides or ()
    sizes = {s: _TYPICAL_SIZE for e in strides for s in e.free_symbols}
    reach = [int(evaluate(strides[d], sizes)) if strides else 0 for d in kept]
    return sorted(range(len(kept)), key=lambda k: -reach[k])


def _affine_in(index: Expr, strip: Symbol | None) -> bool:
    if strip is None:
        return True
    return all(strip not in t.free_symbols or t == strip for t in terms(index))


def _extent(
    indices: Sequence[Expr],
    outer: frozenset[Symbol],
    kernel: FusedKernel,
    ranges: Ranges,
    size: Expr,
) -> Expr:
    """One more than the greatest relative index; the dimension's size when that is not known."""
    strip = strip_of(kernel)
    greatest: list[Expr] = []
    for index in indices:
        inner = relative(index, outer, None)
        if strip is not None and strip.axis.symbol in inner.free_symbols:
            rest = ranges.bounds(inner - strip.axis.symbol)
            bound = None if rest is None else (rest[0], rest[1] + strip.size - 1)
        else:
            bound = ranges.bounds(inner)
        if bound is None:
            return size
        greatest.append(expand(bound[1] + 1))
    first = greatest[0]
    return first if all(g == first for g in greatest) else size
