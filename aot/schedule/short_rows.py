"""Reductions down the columns of narrow matrices: several rows together fill the vectors.

A matrix of three columns has vectors of three lanes along its rows, and along its columns one
element in each of many cache lines, all of which are read again for each column. But its rows lie
one behind the other: k of them are one row of k times as many elements. So down the columns of
those first, then the k results of each column; rows that are over, fewer than k of them or a few
times k, are reduced by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from aot.ir.decisions import Decision
from aot.ir.hints import Hints, hints_of
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import Axis, Buffer, LoopNest, Store
from aot.ir.rewrite import in_parts, substitute_axes, with_roots
from aot.ir.scalar import (
    Access,
    Node,
    binary,
    cast,
    const,
    load,
    loads,
    postorder,
    rebuild,
    reduce_,
    with_args,
)
from aot.ir.templates.base import LoopOp
from aot.schedule.canonical import simplify
from aot.schedule.deviations import about, find_pairs, find_squares
from aot.schedule.exponentials import find_tops
from aot.schedule.strides import buffer_offset, symbols_as_values
from aot.schedule.vectorisation import lanes_of
from aot.symbolic import (
    Expr,
    FloorDiv,
    Modulo,
    coefficient_of,
    integer,
    product,
    row_major_strides,
    var,
)

JOINED = {"sum": "add", "min": "minimum", "max": "maximum", "any": "or", "all": "and"}
"""The operation that joins two results of a reduction. Products stay: see `split_reductions`."""

LEAST_TURNS = 16
"""Long rows that are worth the combination of the short ones in them."""


def lengthen_rows(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with such reductions in steps. Buffers have strides.

    Machines that loop over points, one vector at a time, want full vectors; others, whose work
    units read columns side by side, whole lines of whole vectors (`Machine.line_elements`). There
    sums of squared deviations stay beside sums of the same elements: both are of long rows.
    """
    pairs = {} if machine.local_buffers else find_pairs(graph)
    tops = {} if machine.local_buffers else find_tops(graph)
    once = frozenset((*tops, *(sums.nest.name for sums in tops.values())))
    work = _Lengthening(graph, hints_of(graph.dims), dict(graph.buffers), machine, pairs, once)
    ops: list[LoopOp] = []
    for op in graph.ops:
        ops.extend(work.steps(op) if isinstance(op, LoopNest) else (op,))
    if not work.decisions:
        return graph
    decisions = (*graph.decisions, *work.decisions)
    return replace(graph, ops=tuple(ops), buffers=work.buffers, decisions=decisions)


def rows_together(width: int, lanes: int, idle: float) -> int:
    """How many rows of that width make one that fills its vectors; 1 when one does by itself.

    `idle`: lanes without work, for each one with it, that the row may leave; half as many if long.
    """
    if width >= 2 * lanes and _waste(width, lanes) <= idle:
        return 1
    least = -(-2 * lanes // width)
    counts = range(least, least + lanes)
    exact = (k for k in counts if k * width % lanes == 0 and k * width <= 8 * lanes)
    near = (k for k in counts if _waste(k * width, lanes) <= idle / 2)
    return next(exact, None) or next(near, least + lanes - 1)


def rows_of_lines(width: int, size: int, count: int, machine: Machine) -> int:
    """The same of `count` rows of elements of `size` bytes, where lines want to be filled.

    Of as many as make up whole vectors, the first number that leaves none over, else the least.
    """
    vector, least = machine.alignment, machine.line_elements
    if least == 0:
        return 1
    even = width * size % (vector // 2) == 0  # half a vector at once is as fast
    if width * size >= machine.line_bytes and even:
        return 1
    step = vector // math.gcd(width * size, vector)
    first = -(-least // (width * step)) * step
    choices = range(first, 4 * first, step)
    return next((k for k in choices if count % k == 0), first)


def _waste(width: int, lanes: int) -> float:
    return -width % lanes / width


@dataclass(frozen=True)
class _Rows:
    """`count` rows of the kept axis `short`, along the reduced axis `long`, as one: `whole`.

    `turns`: the loop over the long rows, which end before row `end`.
    """

    short: Axis
    long: Axis
    count: int
    turns: Axis
    whole: Axis

    @property
    def end(self) -> int:
        return self.count * int(self.turns.extent)


@dataclass(frozen=True)
class _Sums:
    """Nests that sum up long rows, and the rows that are over, if any; of as many elements each."""

    rows: _Rows
    nests: tuple[tuple[LoopNest, int], ...]


@dataclass
class _Lengthening:
    """Declares the buffers of partial results; local to one run of the pass.

    `pairs`: by the name of a nest of sums, that of squared deviations of the same elements. `once`:
    names of others that read their elements together.
    """

    graph: LoopGraph
    hints: Hints
    buffers: dict[str, Buffer]
    machine: Machine
    pairs: Mapping[str, LoopNest]
    once: frozenset[str]
    sums: dict[str, _Sums | None] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)

    def steps(self, nest: LoopNest) -> tuple[LoopNest, ...]:
        """The nest, or those that take its place."""
        if nest.name in self.sums:
            return self._squares(nest, self.sums[nest.name])
        reduces = _reduces(nest)
        plain = all(n.attr in JOINED for n in reduces) and not nest.conflicts
        points = self.hints.volume((*nest.axes, *nest.reduction))
        if not reduces or not plain or points < self.machine.simple_points:
            return (nest,)
        rows = self._rows(nest, reduces)
        squares = self.pairs.get(nest.name)
        if squares is not None:
            self.sums[squares.name] = None
        if rows is None:
            return (nest,)
        reason = f"rows of {rows.short.extent} do not fill vectors, {rows.count} together do"
        self.decisions.append(Decision("split", (nest.name,), "in long rows", reason))
        spread, first = self._long(nest, rows)
        over = int(rows.long.extent) - rows.end
        rest = self._over(nest, rows, over) if over else None
        if squares is not None:
            parts = [(first, int(rows.turns.extent)), *([(rest, over)] if rest else [])]
            self.sums[squares.name] = _Sums(rows, tuple(parts))
        made = [simplify(self.graph, n) for n in (first, rest) if n is not None]
        return (*spread, *made, self._last(nest, rows, first, rest))

    def _squares(self, nest: LoopNest, sums: _Sums | None) -> tuple[LoopNest, ...]:
        """Squared deviations: of long rows, and of those that are over, from their own means first.

        What is joined is said in `schedule/deviations.py`.
        """
        squares = find_squares(nest)
        if sums is None or squares is None:
            return (nest,)
        dtype, rows = squares.total.dtype, sums.rows
        self.decisions.append(Decision("split", (nest.name,), "in long rows", "its sums are"))
        lane, place = _lanes(rows, nest)
        points = (place, tuple(a.symbol for a in nest.axes))
        nests: list[LoopNest] = []
        joined: list[Node] = []
        for (first, count), point, label in zip(sums.nests, points, ("rows", "over"), strict=False):
            (store,) = first.stores
            many = const(float(count), store.value.dtype)
            mean = binary("div", load(store.buffer, many.dtype, store.index), many)
            off = binary("sub", store.value.args[0], mean)
            value = reduce_("sum", binary("mul", off, off), many.dtype)
            name = f"{nest.stores[0].buffer}_{label}0"
            self._declare(name, value, first.axes)
            own = replace(
                first,
                name=f"{nest.name}_{label}",
                stores=(Store(name, store.index, value),),
                origin=nest.origin,
                absorbed=nest.absorbed,
            )
            nests.append(simplify(self.graph, own))
            mean = binary("div", load(store.buffer, many.dtype, point), many)
            joined.append(about(load(name, many.dtype, point), many, mean, squares.centre))
        total = reduce_("sum", joined[0], joined[0].dtype)
        for more in joined[1:]:
            total = binary("add", total, more)
        found = cast(total, dtype)

        def visit(node: Node, args: tuple[Node, ...]) -> Node:
            return found if node is squares.total else with_args(node, args)

        last = with_roots(nest, rebuild(nest.roots, visit))
        return (*nests, replace(last, reduction=(lane,)))

    def _rows(self, nest: LoopNest, reduces: list[Node]) -> _Rows | None:
        """The axes, if every access goes along them as the elements lie, or not at all."""
        inside = postorder(n.args[0] for n in reduces)
        accesses = [n for n in inside if isinstance(n.attr, Access)]
        if any(n.args for n in accesses):
            return None
        values = symbols_as_values(inside)
        known = self.graph.ranges(*nest.axes, *nest.reduction)
        offsets = [
            buffer_offset(self.buffers, n.attr.buffer, n.attr.index, known)
            for n in accesses
            if isinstance(n.attr, Access)
        ]
        lanes = lanes_of(self.machine, [n.args[0] for n in reduces])
        for long in nest.reduction:
            for short in nest.axes:
                fixed = long.extent.is_Integer and short.extent.is_Integer
                if not fixed or {long.symbol, short.symbol} & values:
                    continue
                once = nest.name in self.once
                count = self._count(int(short.extent), int(long.extent), lanes, accesses, once)
                far = int(long.extent) >= LEAST_TURNS * count
                if count > 1 and far and self._neighbours(nest, offsets, long, short):
                    return _of(long, short, count, self.machine)
        return None

    def _count(
        self, width: int, height: int, lanes: int, accesses: Iterable[Node], once: bool
    ) -> int:
        """Rows to join; 1 where each is long enough by itself, or may be read `once` as it is."""
        if self.machine.local_buffers:
            return rows_together(width, lanes, self.machine.idle_share)
        read = [self.buffers[n.attr.buffer] for n in accesses if isinstance(n.attr, Access)]
        sizes = [b.dtype.itemsize for b in read]
        large = max((self.hints.elements(b.shape) * b.dtype.itemsize for b in read), default=0)
        if large < self.machine.large_bytes:
            return 1
        if once and width * min(sizes) >= self.machine.line_bytes:
            return 1
        return rows_of_lines(width, min(sizes), height, self.machine)

    def _neighbours(self, nest: LoopNest, offsets: Iterable[Expr], long: Axis, short: Axis) -> bool:
        """Whether something is read row by row, and nothing in another way that follows rows."""
        found = False
        reduced = {a.symbol for a in nest.reduction}
        for offset in offsets:
            down, along = (coefficient_of(offset, a.symbol) for a in (long, short))
            in_order = along == 1 and down == short.extent
            # Else the same in all rows: nothing of the columns, or a value for each of them.
            apart = along is None or (along != 0 and bool(offset.free_symbols & reduced))
            if not in_order and (down != 0 or apart):
                return False
            found = found or in_order
        return found

    def _declare(self, name: str, node: Node, axes: Iterable[Axis]) -> None:
        shape = tuple(a.extent for a in axes)
        self.buffers[name] = Buffer(name, node.dtype, shape, row_major_strides(shape), "temp")

    def _long(self, nest: LoopNest, rows: _Rows) -> tuple[tuple[LoopNest, ...], LoopNest]:
        """The reduction down the columns of long rows; before it what repeats its operands."""
        lane = FloorDiv(rows.whole.symbol, rows.short.extent)
        mapping = {
            rows.long.symbol: product((rows.turns.symbol, integer(rows.count))) + lane,
            rows.short.symbol: Modulo(rows.whole.symbol, rows.short.extent),
        }
        axes = in_parts(nest.axes, rows.short, (rows.whole,))
        reduction = in_parts(nest.reduction, rows.long, (rows.turns,))
        spread, made = self._spread(nest, rows, axes)
        stores = self._stores(nest, axes, "rows")

        def visit(node: Node, args: tuple[Node, ...]) -> Node:
            return made.get(id(node)) or with_args(node, args)

        # Repeated operands are looked up by the nodes before any index is replaced.
        values = rebuild([s.value for s in stores], visit)
        partial = replace(
            nest,
            name=f"{nest.name}_rows",
            stores=tuple(replace(s, value=v) for s, v in zip(stores, values, strict=True)),
        )
        return spread, substitute_axes(partial, mapping, axes, reduction)

    def _stores(self, nest: LoopNest, axes: tuple[Axis, ...], label: str) -> tuple[Store, ...]:
        """A buffer for each reduction, at the point of the axes."""
        point = tuple(a.symbol for a in axes)
        stores: list[Store] = []
        for node in _reduces(nest):
            name = f"{nest.stores[0].buffer}_{label}{len(stores)}"
            held = reduce_(str(node.attr), node.args[0], node.dtype.compute)
            self._declare(name, held, axes)
            stores.append(Store(name, point, held))
        return tuple(stores)

    def _spread(
        self, nest: LoopNest, rows: _Rows, axes: tuple[Axis, ...]
    ) -> tuple[tuple[LoopNest, ...], dict[int, Node]]:
        """Operands that are one row, in every row of a long one, so that vectors read them."""
        known = self.graph.ranges(*nest.axes, *nest.reduction)
        point = tuple(a.symbol for a in axes)
        at = {rows.short.symbol: Modulo(rows.whole.symbol, rows.short.extent)}
        nests: list[LoopNest] = []
        made: dict[int, Node] = {}
        for node in loads(n.args[0] for n in _reduces(nest)):
            assert isinstance(node.attr, Access)
            offset = buffer_offset(self.buffers, node.attr.buffer, node.attr.index, known)
            down, along = (coefficient_of(offset, a.symbol) for a in (rows.long, rows.short))
            if down != 0 or along == 0:
                continue
            name = f"{nest.stores[0].buffer}_spread{len(nests)}"
            self._declare(name, node, axes)
            label = f"{nest.name}_spread{len(nests)}"
            whole = LoopNest(label, nest.axes, (), (Store(name, point, node),), nest.origin)
            nests.append(simplify(self.graph, substitute_axes(whole, at, axes, ())))
            made[id(node)] = load(name, node.dtype, point)
        return tuple(nests), made

    def _over(self, nest: LoopNest, rows: _Rows, count: int) -> LoopNest:
        """The reduction of the rows that are over."""
        rest = Axis(var(f"{rows.long.symbol}_over"), integer(count))
        partial = replace(
            nest, name=f"{nest.name}_over", stores=self._stores(nest, nest.axes, "over")
        )
        mapping = {rows.long.symbol: rest.symbol + rows.end}
        reduction = in_parts(nest.reduction, rows.long, (rest,))
        return substitute_axes(partial, mapping, nest.axes, reduction)

    def _last(
        self, nest: LoopNest, rows: _Rows, first: LoopNest, rest: LoopNest | None
    ) -> LoopNest:
        """The reduction of partial results, with everything that followed."""
        lane, point = _lanes(rows, nest)
        made: dict[int, Node] = {}
        for k, node in enumerate(_reduces(nest)):
            held, kind = node.dtype.compute, str(node.attr)
            value = reduce_(kind, load(first.stores[k].buffer, held, point), held)
            if rest is not None:
                over = load(rest.stores[k].buffer, held, [a.symbol for a in nest.axes])
                value = binary(JOINED[kind], value, over)
            made[id(node)] = cast(value, node.dtype)

        def visit(node: Node, args: tuple[Node, ...]) -> Node:
            return made.get(id(node)) or with_args(node, args)

        return replace(with_roots(nest, rebuild(nest.roots, visit)), reduction=(lane,))


def _of(long: Axis, short: Axis, count: int, machine: Machine) -> _Rows:
    """The rows, as many of them as workers can share if that leaves few over."""
    turns = int(long.extent) // count
    for shares in (8, 4, 2, 1) if machine.local_buffers else ():
        left = turns % (shares * machine.units)
        if left <= turns * machine.left_share:
            turns -= left
            break
    whole = Axis(var(f"{long.symbol}_{short.symbol}"), integer(count * int(short.extent)))
    return _Rows(short, long, count, Axis(var(f"{long.symbol}_turn"), integer(turns)), whole)


def _lanes(rows: _Rows, nest: LoopNest) -> tuple[Axis, tuple[Expr, ...]]:
    """The axis over the short rows of a long one, and the point of one of its columns."""
    lane = Axis(var(f"{rows.long.symbol}_lane"), integer(rows.count))
    place = product((lane.symbol, rows.short.extent)) + rows.short.symbol
    return lane, tuple(place if a == rows.short else a.symbol for a in nest.axes)


def _reduces(nest: LoopNest) -> list[Node]:
    return [n for n in postorder(nest.roots) if n.op == "reduce"]
