"""Sorting rows that are too long for the device's template: runs are sorted, then merged in pairs.

Elements become integers in the same order. In a merge each element finds its place by a binary
search in the other run, so that no element waits for another: n log(n)^2 steps, where counting
what comes before each element takes n^2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aot.ir.dtypes import INT32, INT64, DType
from aot.ir.hints import Hints
from aot.ir.loops import Axis, LoopNest, LoopOp, Store, TemplateCall, View
from aot.ir.machine import Machine
from aot.ir.scalar import (
    Node,
    binary,
    cast,
    check_index,
    const,
    index_value,
    load,
    make,
    unary,
    where,
)
from aot.ir.tensors import Dim
from aot.passes.nest_builder import NestBuilder
from aot.symbolic import (
    Expr,
    FloorDiv,
    Symbol,
    ceil_div,
    dim,
    evaluate,
    integer,
    is_int,
    product,
    var,
)

MERGE_WORK = 1 << 27
"""Comparisons of an element with every other up to which these keep the device for less time."""

_MOST = 1 << 31
"""Elements of the longest row, where no bound of its size is known."""

_ASCENDING = (("descending", False),)

_ROW, _COLUMN, _BLOCK, _PLACE, _PROBE = (var(n) for n in ("i0", "i1", "i2", "u0", "u1"))


def long_rows(call: TemplateCall, dtype: DType, machine: Machine, hints: Hints) -> str:
    """Why the rows are better merged from runs; "" when the template takes them."""
    run = machine.sort_run
    rows, columns = (hints.value(a.extent) for a in call.operand("x").axes)
    kept, known = call.output.axes[1].extent, is_int(call.operand("x").axes[1].extent)
    few = known and is_int(kept) and 4 * int(kept) <= run and dtype.compute.itemsize < 8
    if not run or few or columns <= 2 * run or rows * columns * columns <= MERGE_WORK:
        return ""
    return f"rows of {columns} elements are longer than runs that the device sorts"


@dataclass(frozen=True)
class _Merge:
    """The rows of one call: `size` elements each, the last of them padding.

    `keys`, `order`: names of buffers (rows, size) with the runs so far; `dtype`: the keys'.
    """

    call: TemplateCall
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
        """How many elements of the other run come before: of a run on the right, those less."""
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


def expand_argsort(builder: NestBuilder, call: TemplateCall, machine: Machine) -> list[LoopOp]:
    """Runs of `Machine.sort_run` sorted by the template, then merged until one is left."""
    run = machine.sort_run
    rows, columns = (a.extent for a in call.operand("x").axes)
    blocks = ceil_div(columns, integer(run))
    ops, padded = _padded(builder, call, blocks, run)
    dtype = builder.dtype(padded)
    places = builder.temp(f"{call.name}_places", INT64, (product((rows, blocks)), integer(run)))
    axes = (Axis(_ROW, product((rows, blocks))), Axis(_COLUMN, integer(run)))
    views = [View(name, axes, (_ROW, _COLUMN)) for name in (padded, places)]
    sort = TemplateCall(
        f"{call.name}_runs", "argsort", (("x", views[0]),), views[1], _ASCENDING, call.origin
    )
    merge = _Merge(
        call, builder, dtype, rows, blocks * run, f"{call.name}_keys", f"{call.name}_order"
    )
    ops += [sort, _unpacked(builder, merge, padded, places, blocks, run)]
    length, most = run, _greatest(builder.dims, columns)
    while length < most:
        nest, merge = merge.merged(length)
        ops.append(nest)
        length *= 2
    row, column = (a.symbol for a in call.output.axes)
    found = load(merge.order, INT64, (row, column))
    store = Store(call.output.buffer, call.output.index, found)
    return [*ops, LoopNest(call.name, call.output.axes, (), (store,), call.origin)]


def _padded(
    builder: NestBuilder, call: TemplateCall, blocks: Expr, run: int
) -> tuple[list[LoopOp], str]:
    """(rows * blocks, run): keys of the rows' elements, filled up with the greatest."""
    view = call.operand("x")
    row, column = view.axes
    source = builder.dtype(view.buffer)
    held = INT64 if source.compute.itemsize == 8 else INT32
    at = _BLOCK * run + _COLUMN
    inside = binary("lt", index_value(at), index_value(column.extent))
    value = builder.load(view, {row.symbol: _ROW, column.symbol: at}, inside)
    key = _float_key(value, held) if source.is_float else cast(value, held)
    if call.attr("descending"):
        key = unary("bitnot", key)
    shape = (product((row.extent, blocks)), integer(run))
    name = builder.temp(f"{call.name}_padded", held, shape)
    filled = where(inside, key, const(_greatest_key(held), held))
    store = Store(name, (_ROW * blocks + _BLOCK, _COLUMN), filled)
    axes = (Axis(_ROW, row.extent), Axis(_BLOCK, blocks), Axis(_COLUMN, integer(run)))
    return [LoopNest(f"{call.name}_pad", axes, (), (store,), call.origin)], name


def _float_key(value: Node, held: DType) -> Node:
    """Integers in the order of floats: zeros are equal, NaN is greatest."""
    zero = const(0.0, value.dtype)
    bits = make("bitcast", held, where(binary("eq", value, zero), zero, value))
    greatest = const(_greatest_key(held), held)
    sign = binary("shr", bits, const(8 * held.itemsize - 1, held))
    turned = binary("xor", bits, binary("and", sign, greatest))
    return where(unary("isnan", value), greatest, turned)


def _greatest_key(held: DType) -> int:
    return (1 << (8 * held.itemsize - 1)) - 1


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
    if any(d.maximum is None for d in dims if dim(d.name) in size.free_symbols):
        return _MOST
    return int(evaluate(size, {dim(d.name): d.maximum or 0 for d in dims}))
