"""Sorting rows.

Rows that are too long for the device's template are sorted in runs, which are merged in pairs.
Elements become integers in the same order. In a merge each element finds its place by a binary
search in the other run, so that no element waits for another: n log(n)^2 steps, where counting
what comes before each element takes n^2. From some length on it is better to sort digit by digit
(`templates/digits.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from aot.ir.dtypes import INT32, INT64, DType
from aot.ir.hints import Hints
from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.order_keys import greatest_key, order_key
from aot.ir.scalar import (
    Node,
    binary,
    cast,
    check_index,
    clamp_index,
    const,
    index_value,
    load,
    unary,
    where,
)
from aot.ir.templates.base import Array, LoopOp, Parts, Split, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.digits import digits_of, radix_order
from aot.ir.tensors import Dim
from aot.symbolic import (
    Expr,
    FloorDiv,
    Modulo,
    Ranges,
    Symbol,
    ceil_div,
    dim,
    evaluate,
    integer,
    is_int,
    product,
    substitute,
    var,
)

_MOST = 1 << 31
"""Elements of the longest row, where no bound of its size is known."""

_ROW, _COLUMN, _BLOCK, _PLACE, _PROBE = (var(n) for n in ("i0", "i1", "i2", "u0", "u1"))


@dataclass(frozen=True)
class Argsort(TemplateCall):
    """x (m, n) -> output (m, k) int64: positions along n of the first k elements in sorted order.

    Stable; NaN is greatest.

    Attributes:
        descending: Whether the greatest come first.
        skipped: How many of the first in order the output leaves out; None for none.
    """

    kind: ClassVar[str] = "argsort"

    x: View
    descending: bool
    skipped: Expr | None = None

    @property
    def kept(self) -> Expr:
        """How many of the first elements in order are looked for."""
        found = self.output.axes[1].extent
        return found if self.skipped is None else found + self.skipped

    def at_sizes(self, sizes: Mapping[Symbol, int]) -> Argsort:
        """The call with the number of those it skips."""
        if self.skipped is None:
            return self
        return replace(self, skipped=integer(int(evaluate(self.skipped, sizes))))

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """Positions of the elements in sorted order, stable, NaN greatest."""
        x = operands["x"]
        if self.skipped is not None:
            order = replace(self, skipped=None).interpret(operands, x.shape)
            first = int(self.skipped)
            return order[..., first : first + shape[-1]]
        if not self.descending:
            return np.asarray(np.argsort(x, axis=-1, kind="stable"))[..., : shape[-1]]
        # Sorting the reversed row and reversing again keeps the order of equal elements.
        last = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        return np.asarray(x.shape[-1] - 1 - last)[..., : shape[-1]]

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """Sorted digit by digit, where the device does that and it takes less than merging."""
        if self.skipped is not None:
            return self._with_skipped(builder, self.skipped)
        wish = support if isinstance(support, ArgsortSupport) else ArgsortSupport(Argsort)
        most, run = _greatest(builder.dims, self.x.axes[1].extent), wish.run
        probes = 0
        while run < most:
            probes += run.bit_length()
            run *= 2
        _, passes = digits_of(builder.dtype(self.x.buffer))
        if wish.digits is not None and probes > passes * wish.digits.probes:
            return self._by_digits(builder, wish.digits.part, most)
        return self._merged(builder, wish.run)

    def better_as_nests(self, support: Support[Any], builder: NestBuilder) -> str:
        """Where some are left out and the template gives all from the first on."""
        if self.skipped is None or (isinstance(support, ArgsortSupport) and support.skips):
            return ""
        return "the device's template gives all from the first in order on"

    def _with_skipped(self, builder: NestBuilder, skipped: Expr) -> list[LoopOp]:
        """All from the first in order on, and a nest that leaves out those skipped."""
        shape = (self.x.axes[0].extent, self.kept)
        name = builder.temp(f"{self.name}_all", INT64, shape)
        axes = (Axis(_ROW, shape[0]), Axis(_COLUMN, shape[1]))
        every = View(name, axes, (_ROW, _COLUMN))
        row, column = (a.symbol for a in self.output.axes)
        store = self.stored(load(name, INT64, (row, column + skipped)), builder)
        return [
            replace(self, name=name, output=every, skipped=None),
            LoopNest(self.name, self.output.axes, (), (store,), self.origin),
        ]

    def split(
        self, builder: NestBuilder, support: Support[Any], units: int, hints: Hints
    ) -> Split | None:
        """The first few of each part of long rows, and of these again."""
        wish = support.parts if isinstance(support, ArgsortSupport) else None
        rows, columns = (hints.value(a.extent) for a in self.x.axes)
        kept = self.output.axes[1].extent
        known = is_int(kept) and is_int(self.x.axes[1].extent)
        if wish is None or not known or not 0 < wish.room * rows <= units:
            return None
        part = wish.size(rows * columns, units)
        # Parts have to leave few enough for the next step to be much shorter.
        if columns <= wish.longest or part < 4 * int(kept):
            return None
        parts = -(-columns // part)
        ops, own = self._parts(builder, parts, part)
        first = replace(self, name=f"{self.name}_parts", output=own.output, x=own.x)
        first = replace(first, descending=own.descending)
        best, last = self._best(builder, own, parts, part)
        following = best[-1]
        assert isinstance(following, Argsort)
        again = following.split(builder, support, units, hints)
        ops += [first, *best[:-1], *(again.ops if again is not None else (following,)), last]
        reason = f"{rows} rows of {columns} elements would leave the device idle"
        return Split(ops, f"the first {kept} of parts of {part} elements", reason)

    def _parts(self, builder: NestBuilder, parts: int, part: int) -> tuple[list[LoopOp], Argsort]:
        """The rows' parts as rows, filled up where they need be: (m * parts, part)."""
        row, column = self.x.axes
        count, kept = row.extent * parts, self.output.axes[1].extent
        axes = (Axis(_ROW, count), Axis(_COLUMN, integer(part)))
        name = builder.temp(f"{self.name}_places", INT64, (count, kept))
        places = View(name, (Axis(_ROW, count), Axis(_COLUMN, kept)), (_ROW, _COLUMN))
        if column.extent == parts * part:
            at = {
                row.symbol: FloorDiv(_ROW, integer(parts)),
                column.symbol: Modulo(_ROW, integer(parts)) * part + _COLUMN,
            }
            view = View(self.x.buffer, axes, tuple(substitute(e, at) for e in self.x.index))
            return [], replace(self, output=places, x=view)
        ops, padded = self._padded(builder, integer(parts), part)
        view = View(padded, axes, (_ROW, _COLUMN))
        return ops, replace(self, output=places, x=view, descending=False)

    def _best(
        self, builder: NestBuilder, own: Argsort, parts: int, part: int
    ) -> tuple[list[LoopOp], LoopNest]:
        """Operations that find the first of what parts gave; the nest that stores positions.

        `own`: what gave them, (m * parts, k).
        """
        row, kept = self.x.axes[0], self.output.axes[1].extent
        dtype, few = builder.dtype(own.x.buffer), kept * parts
        some = builder.temp(f"{self.name}_some", dtype, (row.extent, few))
        best = builder.temp(f"{self.name}_best", INT64, (row.extent, kept))
        which = _ROW * parts + _BLOCK
        place = load(own.output.buffer, INT64, (which, _COLUMN))
        binds = {_PROBE: clamp_index(place, integer(part - 1), narrow=True)}
        at = {a.symbol: e for a, e in zip(own.x.axes, (which, _PROBE), strict=True)}
        value = load(own.x.buffer, dtype, [substitute(e, at) for e in own.x.index], binds)
        axes = (Axis(_ROW, row.extent), Axis(_BLOCK, integer(parts)), Axis(_COLUMN, kept))
        index = (_ROW, _BLOCK * kept + _COLUMN)
        picked = LoopNest(some, axes, (), (Store(some, index, value),), self.origin)
        rows = Axis(_ROW, row.extent)
        candidates = View(some, (rows, Axis(_COLUMN, few)), (_ROW, _COLUMN))
        order = View(best, (rows, Axis(_COLUMN, kept)), (_ROW, _COLUMN))
        following = Argsort(best, order, self.origin, candidates, own.descending)
        own_row, own_column = (a.symbol for a in self.output.axes)
        number = clamp_index(load(best, INT64, (own_row, own_column)), few - 1, narrow=True)
        asked = (own_row * parts + FloorDiv(_PROBE, kept), Modulo(_PROBE, kept))
        inside = load(own.output.buffer, INT64, asked, {_PROBE: number})
        start = index_value(FloorDiv(_PROBE, kept) * part, {_PROBE: number})
        store = self.stored(binary("add", start, inside), builder)
        last = LoopNest(self.name, self.output.axes, (), (store,), self.origin)
        return [picked, following], last

    def _by_digits(self, builder: NestBuilder, part: int, most: int) -> list[LoopOp]:
        source, key = builder.dtype(self.x.buffer), self._key(builder, _COLUMN)
        unused, _ = digits_of(source)
        if unused:
            key = binary("shr", key, const(unused, key.dtype))
        axes = (Axis(_ROW, self.x.axes[0].extent), Axis(_COLUMN, self.x.axes[1].extent))
        name = builder.temp(f"{self.name}_keys", key.dtype, tuple(a.extent for a in axes))
        store, keys = Store(name, (_ROW, _COLUMN), key), View(name, axes, (_ROW, _COLUMN))
        places = INT32 if most < _MOST else INT64
        ops, order = radix_order(builder, self.name, self.origin, source, keys, places, part)
        found = load(order, places, tuple(a.symbol for a in self.output.axes))
        last = self.stored(cast(found, INT64), builder)
        return [
            LoopNest(name, axes, (), (store,), self.origin),
            *ops,
            LoopNest(self.name, self.output.axes, (), (last,), self.origin),
        ]

    def _merged(self, builder: NestBuilder, run: int) -> list[LoopOp]:
        """Runs that the device's template sorts, or single elements, merged until one is left."""
        rows, columns = (a.extent for a in self.x.axes)
        blocks = ceil_div(columns, integer(run))
        ops, padded = self._padded(builder, blocks, run)
        merge = _Merge(
            self,
            builder,
            builder.dtype(padded),
            rows,
            blocks * run,
            f"{self.name}_keys",
            f"{self.name}_order",
        )
        sort, places = self._runs(builder, padded, (product((rows, blocks)), integer(run)))
        ops += [sort, _unpacked(builder, merge, padded, places, blocks, run)]
        length, most = run, _greatest(builder.dims, columns)
        while length < most:
            nest, merge = merge.merged(length)
            ops.append(nest)
            length *= 2
        row, column = (a.symbol for a in self.output.axes)
        store = self.stored(load(merge.order, INT64, (row, column)), builder)
        return [*ops, LoopNest(self.name, self.output.axes, (), (store,), self.origin)]

    def _runs(
        self, builder: NestBuilder, padded: str, shape: tuple[Expr, Expr]
    ) -> tuple[LoopOp, str]:
        """The places of each run's elements in order: by the template, or 0 for single ones."""
        places = builder.temp(f"{self.name}_places", INT64, shape)
        axes, name = (Axis(_ROW, shape[0]), Axis(_COLUMN, shape[1])), f"{self.name}_runs"
        if shape[1] == 1:
            first = Store(places, (_ROW, _COLUMN), _int(0))
            return LoopNest(name, axes, (), (first,), self.origin), places
        keys, order = (View(buffer, axes, (_ROW, _COLUMN)) for buffer in (padded, places))
        return Argsort(name, order, self.origin, keys, descending=False), places

    def _padded(self, builder: NestBuilder, blocks: Expr, run: int) -> tuple[list[LoopOp], str]:
        """(rows * blocks, run): keys of the rows' elements, filled up with the greatest."""
        row, column = self.x.axes
        at = _BLOCK * run + _COLUMN
        inside = binary("lt", index_value(at), index_value(column.extent))
        key = self._key(builder, at, inside)
        held = key.dtype
        shape = (product((row.extent, blocks)), integer(run))
        name = builder.temp(f"{self.name}_padded", held, shape)
        filled = where(inside, key, const(greatest_key(held), held))
        store = Store(name, (_ROW * blocks + _BLOCK, _COLUMN), filled)
        axes = (Axis(_ROW, row.extent), Axis(_BLOCK, blocks), Axis(_COLUMN, integer(run)))
        return [LoopNest(f"{self.name}_pad", axes, (), (store,), self.origin)], name

    def _key(self, builder: NestBuilder, column: Expr, inside: Node | None = None) -> Node:
        """An integer in the order of the elements of row _ROW."""
        source = builder.dtype(self.x.buffer)
        held = INT64 if source.compute.itemsize == 8 else INT32
        at = {a.symbol: e for a, e in zip(self.x.axes, (_ROW, column), strict=True)}
        value = builder.load(self.x, at, inside)
        key = order_key(value, held, equal_zeros=True) if source.is_float else cast(value, held)
        return unary("bitnot", key) if self.descending else key


@dataclass(frozen=True)
class ArgsortSupport(Support[Argsort]):
    """A backend's template for sorting.

    Attributes:
        run: Elements of rows that it sorts well; longer ones are merged from such runs. A power of
            two.
        digits: How rows are sorted digit by digit; None: they are merged.
        parts: Of long rows of which the first few are wanted; None: rows stay whole.
        skips: Whether it leaves out the first in order in less time than it finds them.
    """

    run: int = 1
    digits: ByDigits | None = None
    parts: Parts | None = None
    skips: bool = False


@dataclass(frozen=True)
class ByDigits:
    """When a backend sorts digit by digit, and how.

    Attributes:
        probes: Steps of a binary search that take about as long as a digit's pass.
        part: Elements of the parts of rows in which digits are counted.
    """

    probes: int
    part: int


@dataclass(frozen=True)
class _Merge:
    """The rows of one call: `size` elements each, the last of them padding.

    `keys`, `order`: names of buffers (rows, size) with the runs so far; `dtype`: the keys'.
    """

    call: Argsort
    builder: NestBuilder
    dtype: DType
    rows: Expr
    size: Expr
    keys: str
    order: str

    def key(self, at: Expr, binds: Mapping[Symbol, Node], mask: Node | None = None) -> Node:
        """The key of an element."""
        return load(self.keys, self.dtype, (_ROW, at), binds, mask)

    def merged(self, length: int) -> tuple[LoopNest, _Merge]:
        """Pairs of runs of `length` as runs of twice that."""
        number = FloorDiv(_COLUMN, integer(length))
        is_odd = binary("eq", binary("mod", index_value(number), _int(2)), _int(1))
        side = where(is_odd, _int(-length), _int(length))
        start = binary("add", index_value(number * length), side)
        left = binary("sub", index_value(self.size), start)
        count = binary("maximum", binary("minimum", left, _int(length)), _int(0))
        found = self._rank(start, count, is_odd, length)
        place = binary("add", index_value(_COLUMN), found)
        place = where(is_odd, binary("sub", place, _int(length)), place)
        name = f"{self.call.name}_{2 * length}"
        shape = (self.rows, self.size)
        keys = self.builder.temp(f"{name}_keys", self.dtype, shape)
        order = self.builder.temp(f"{name}_order", INT64, shape)
        binds = ((_PLACE, check_index(place, self.size, wrap=False)),)
        own = (_ROW, _COLUMN)
        stores = tuple(
            Store(new, (_ROW, _PLACE), load(old, dtype, own), binds=binds)
            for new, old, dtype in (
                (keys, self.keys, self.dtype),
                (order, self.order, INT64),
            )
        )
        axes = (Axis(_ROW, self.rows), Axis(_COLUMN, self.size))
        nest = LoopNest(name, axes, (), stores, self.call.origin)
        return nest, _Merge(self.call, self.builder, self.dtype, self.rows, self.size, keys, order)

    def _rank(self, start: Node, count: Node, is_odd: Node, length: int) -> Node:
        """How many elements of the other run come before an element, by binary search.

        For an element of the left run those that are less, for one of the right run (`is_odd`)
        equal ones too: so the order is stable. `start`, `count`: where the other run lies.
        """
        own, found, step = self.key(_COLUMN, {}), _int(0), length
        while step:
            reached = binary("add", found, _int(step))
            inside = binary("le", reached, count)
            probe = binary("sub", binary("add", start, reached), _int(1))
            checked = check_index(where(inside, probe, _int(0)), self.size, wrap=False)
            other = self.key(_PROBE, {_PROBE: checked}, inside)
            before = where(is_odd, binary("le", other, own), binary("lt", other, own))
            found = where(binary("and", inside, before), reached, found)
            step //= 2
        return found


def _int(value: int) -> Node:
    return const(value, INT64)


def _unpacked(
    builder: NestBuilder, merge: _Merge, padded: str, places: str, blocks: Expr, run: int
) -> LoopNest:
    """The sorted runs: values, and positions in the row."""
    shape = (merge.rows, merge.size)
    builder.temp(merge.keys, merge.dtype, shape)
    builder.temp(merge.order, INT64, shape)
    packed = _ROW * blocks + _BLOCK
    place = load(places, INT64, (packed, _COLUMN))
    binds = {_PROBE: check_index(place, integer(run), wrap=False)}
    value = load(padded, merge.dtype, (packed, _PROBE), binds)
    order = binary("add", place, index_value(_BLOCK * run))
    index = (_ROW, _BLOCK * run + _COLUMN)
    axes = (Axis(_ROW, merge.rows), Axis(_BLOCK, blocks), Axis(_COLUMN, integer(run)))
    stores = (Store(merge.keys, index, value), Store(merge.order, index, order))
    return LoopNest(f"{merge.call.name}_unpack", axes, (), stores, merge.call.origin)


def _greatest(dims: tuple[Dim, ...], size: Expr) -> int:
    """A bound of a size: what it is where every dim is as great as it may be."""
    found = Ranges({}, {dim(d.name): (d.minimum, d.maximum) for d in dims}).greatest(size)
    return _MOST if found is None else found
