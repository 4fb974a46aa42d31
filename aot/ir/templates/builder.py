"""What expansions of template calls declare: their buffers, loads and derived weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from aot.ir.dtypes import DType
from aot.ir.hints import Hints, between_hints, hints_of, larger_hints
from aot.ir.nests import Axis, Buffer, DerivedWeight, LoopNest, Store, View
from aot.ir.origin import Origin
from aot.ir.scalar import Node, binary, cast, index_value, load
from aot.ir.tensors import Dim
from aot.ir.views import view_strides
from aot.symbolic import (
    Expr,
    FloorDiv,
    Modulo,
    Ranges,
    Symbol,
    ceil_div,
    dim,
    exact_quotient,
    integer,
    is_int,
    product,
    row_major_strides,
    substitute,
)

ElementChange = Callable[[Node], Node]


@dataclass(frozen=True)
class StoredWeight:
    """What a view shows of a weight, stored when the package is built: `view` shows it there."""

    buffer: Buffer
    derived: DerivedWeight
    view: View


def stored_weight(
    name: str,
    source: Buffer,
    view: View,
    order: tuple[Axis, ...],
    origin: Origin,
    each: int = 1,
    change: ElementChange | None = None,
) -> StoredWeight:
    """A view of a weight as a derived one, dense with its axes in that order, outermost first.

    Zeros make the length of its rows a multiple of `each`. `change`: what becomes of each element.
    """
    point, last = tuple(a.symbol for a in order), order[-1]
    stored = (*order[:-1], Axis(last.symbol, multiple_of(each, last.extent)))
    shape = tuple(a.extent for a in stored)
    buffer = Buffer(name, source.dtype, shape, row_major_strides(shape), "weight", name)
    inside = None
    if stored[-1] != last:
        inside = binary("lt", index_value(last.symbol), index_value(last.extent))
    value = load(source.name, source.dtype, view.index, mask=inside)
    copy = Store(name, point, value if change is None else change(value))
    nest = LoopNest(name, stored, (), (copy,), origin)
    derived = DerivedWeight(name, "fold", (source.name,), (), (nest,))
    return StoredWeight(buffer, derived, View(name, view.axes, point))


def is_fixed(view: View, source: Buffer) -> bool:
    """Whether a view is a part of a weight that is the same in every run: it can be stored anew."""
    if source.kind != "weight" or not all(is_int(a.extent) for a in view.axes):
        return False
    known = {a.symbol for a in view.axes}
    return all(known.issuperset(e.free_symbols) for e in view.index)


def multiple_of(each: int, size: Expr) -> Expr:
    """The size, made a multiple."""
    return product((ceil_div(size, integer(each)), integer(each))) if each > 1 else size


@dataclass(frozen=True)
class NestBuilder:
    """Declares the buffers and derived weights of expansions; local to one run of a pass.

    `nests`: the nest that writes a buffer, before any expansion. `lanes`: of vectors that read
    neighbours; None where the device reads what lies apart at the same cost. `units`: parallel work
    units from which a launch keeps it busy. `strides`: where buffers are expected to lie, for calls
    that ask (`TemplateCall.by_layout`).
    """

    buffers: dict[str, Buffer]
    nests: Mapping[str, LoopNest]
    dims: tuple[Dim, ...] = ()
    lanes: int | None = None
    units: int | None = None
    strides: Mapping[str, tuple[Expr, ...]] = field(default_factory=dict)
    derived: list[DerivedWeight] = field(default_factory=list)

    @cached_property
    def hints(self) -> Hints:
        """Example values of the dims."""
        return hints_of(self.dims)

    @property
    def between(self) -> Hints:
        """Sizes between these and larger ones."""
        return between_hints(self.dims)

    @property
    def larger(self) -> Hints:
        """Sizes that a run may well have."""
        return larger_hints(self.dims)

    @cached_property
    def ranges(self) -> Ranges:
        """What is known of the dims."""
        return Ranges({}, {dim(d.name): (d.minimum, d.maximum) for d in self.dims})

    def strides_of(self, view: View) -> tuple[Expr, ...] | None:
        """Those that the view's axes are expected to have; None where they are not strides."""
        buffer = self.buffers[view.buffer]
        strides = self.strides.get(view.buffer) or row_major_strides(buffer.shape)
        found = view_strides(view, strides, self.ranges)
        return None if found is None else found[0]

    def temp(self, name: str, dtype: DType, shape: tuple[Expr, ...]) -> str:
        """A new temporary's name."""
        self.buffers[name] = Buffer(name, dtype, shape, None, "temp")
        return name

    def row_major_weight(self, name: str, view: View, origin: Origin) -> View:
        """A weight's view as a derived weight of its own, dense in the order of the view's axes."""
        source = self.buffers[view.buffer]
        if not is_fixed(view, source) or view.index == tuple(a.symbol for a in view.axes):
            return view
        stored = stored_weight(name, source, view, view.axes, origin)
        self.buffers[name] = stored.buffer
        self.derived.append(stored.derived)
        return stored.view

    def with_zeros(
        self,
        name: str,
        view: View,
        k: int,
        extent: Expr,
        origin: Origin,
        change: ElementChange | None = None,
        parts: int = 1,
    ) -> tuple[LoopNest | None, View]:
        """A copy of a view whose axis `k`, contiguous there, is so long: zeros behind its own.

        No nest for a weight, which is stored so when the package is built. `change`: what becomes
        of each element. `parts`: the axis has so many of equal length, each with zeros behind it;
        not of a weight.
        """
        own, source = view.axes[k], self.buffers[view.buffer]
        order = (*view.axes[:k], *view.axes[k + 1 :], own)
        long = (*view.axes[:k], Axis(own.symbol, extent), *view.axes[k + 1 :])
        if is_fixed(view, source):
            each = 1 if extent == own.extent else int(extent)
            stored = stored_weight(name, source, view, order, origin, each, change)
            self.buffers[name] = stored.buffer
            self.derived.append(stored.derived)
            return None, View(name, long, stored.view.index)
        axes = (*order[:-1], Axis(own.symbol, extent))
        point = tuple(a.symbol for a in axes)
        inside, index = None, view.index
        if extent != own.extent:
            long_part, own_part = (exact_quotient(e, integer(parts)) for e in (extent, own.extent))
            assert long_part is not None and own_part is not None
            place: Expr = own.symbol
            if parts > 1:
                place = Modulo(own.symbol, long_part)
                at = product((FloorDiv(own.symbol, long_part), own_part)) + place
                index = tuple(substitute(e, {own.symbol: at}) for e in index)
            inside = binary("lt", index_value(place), index_value(own_part))
        value = load(source.name, source.dtype, index, mask=inside)
        value = value if change is None else change(value)
        self.temp(name, source.dtype, tuple(a.extent for a in axes))
        nest = LoopNest(name, axes, (), (Store(name, point, value),), origin)
        return nest, View(name, long, point)

    def dtype(self, name: str) -> DType:
        """A buffer's element type."""
        return self.buffers[name].dtype

    def load(self, view: View, at: Mapping[Symbol, Expr], mask: Node | None = None) -> Node:
        """The element of a view, widened to what is computed in."""
        index = [substitute(e, at) for e in view.index]
        dtype = self.dtype(view.buffer)
        return cast(load(view.buffer, dtype, index, mask=mask), dtype.compute)
