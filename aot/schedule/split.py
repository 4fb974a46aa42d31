"""Splitting of reductions into two steps: partial results first, their combination after.

Done where a single nest would leave processors idle (few results, many operands), or where memory
runs across it: with channels last, a group's few channels are the innermost loop, too short for
vectors, while all channels together are contiguous. A part of a search for positions gives the
extreme value that it found, too (`schedule/positions.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aot.ir.decisions import Decision
from aot.ir.hints import Hints, hints_of
from aot.ir.loops import LoopGraph, reads
from aot.ir.machine import CrossedTile, Machine
from aot.ir.nests import Axis, Buffer, LoopNest, Store, neutral_of
from aot.ir.rewrite import in_parts, split_axis, substitute_axes, with_roots
from aot.ir.scalar import (
    Access,
    Node,
    binary,
    const,
    guard_loads,
    index_value,
    load,
    postorder,
    rebuild,
    reduce_,
    where,
    with_args,
)
from aot.ir.templates.base import LoopOp
from aot.schedule.canonical import simplify
from aot.schedule.deviations import HeldPart, combined, find_pairs, find_squares, of_part
from aot.schedule.exponentials import Exponentials, TopParts, find_tops
from aot.schedule.exponentials import combined as combined_sums
from aot.schedule.positions import EXTREMES, best_part, extreme, position
from aot.schedule.strides import StridedAccess, strided_accesses
from aot.symbolic import (
    Expr,
    FloorDiv,
    Modulo,
    Symbol,
    ceil_div,
    integer,
    product,
    row_major_strides,
    var,
)

SPLITTABLE = frozenset(("sum", "prod", "xor", "min", "max", "any", "all"))


def split_reductions(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with some reductions as a partial and a combining nest. Buffers have strides."""
    # A worker that loops has its parts in a cache: it saves little by reading them once.
    pairs = {} if machine.local_buffers else find_pairs(graph)
    tops = {} if machine.local_buffers else find_tops(graph)
    splitter = _Splitter(graph, hints_of(graph.dims), dict(graph.buffers), machine, pairs, tops)
    ops: list[LoopOp] = []
    for op in graph.ops:
        ops.extend(splitter.split(op) if isinstance(op, LoopNest) else (op,))
    if not splitter.decisions:
        return graph
    return replace(
        graph,
        ops=tuple(ops),
        buffers=splitter.buffers,
        decisions=(*graph.decisions, *splitter.decisions),
    )


@dataclass(frozen=True)
class _Plan:
    """Which reduction axes become axes of the partial results; the second step reduces them.

    `chunk`: one that gives more work units (of `sum(x, 0)`, blocks of rows). `narrow`: a contiguous
    one, shorter than a vector (the channels of a group, channels last); with the result axis
    `beside`, whose stride is its extent, it makes one long contiguous loop.
    """

    chunk: Axis | None
    narrow: Axis | None
    beside: Axis | None
    reason: str

    @property
    def kept(self) -> tuple[Axis, ...]:
        """The reduction axes that become axes of the partial results."""
        return tuple(a for a in (self.chunk, self.narrow) if a is not None)


@dataclass
class _Splitter:
    """Declares the buffers of partial results; local to one run of the pass."""

    graph: LoopGraph
    hints: Hints
    buffers: dict[str, Buffer]
    machine: Machine
    pairs: Mapping[str, LoopNest]
    tops: Mapping[str, Exponentials]
    parts: dict[str, HeldPart] = field(default_factory=dict)
    top_parts: dict[str, tuple[Exponentials, TopParts]] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)

    def split(self, nest: LoopNest) -> tuple[LoopNest, ...]:
        reduces = _reduces(nest)
        # A worker that loops finds positions as it goes.
        known = SPLITTABLE | EXTREMES.keys() if not self.machine.local_buffers else SPLITTABLE
        plain = all(n.attr in known for n in reduces) and len(nest.stores) > 0
        points = self.hints.volume((*nest.axes, *nest.reduction))
        if not reduces or not plain or points < self.machine.simple_points:
            return (nest,)
        if nest.name in self.parts:
            return self._squares(nest, self.parts[nest.name])
        if nest.name in self.top_parts:
            return self._exponentials(nest, *self.top_parts[nest.name])
        if nest.name in self.pairs:
            found = self._sums(nest, self.pairs[nest.name])
            if found:
                return found
        nest, plan = self._plan(nest)
        if plan is None:
            return (nest,)
        self.decisions.append(Decision("split", (nest.name,), "two steps", plan.reason))
        made = self._two_steps(nest, plan)
        sums = self.tops.get(nest.name)
        if sums is not None and plan.chunk is not None and plan.narrow is None:
            self.top_parts[sums.nest.name] = sums, TopParts(made[0], plan.chunk)
        return made

    def _plan(self, nest: LoopNest) -> tuple[LoopNest, _Plan | None]:
        main = self._main_read(nest)
        if main is None:
            return nest, None
        chunk: Axis | None = None
        searches = any(n.attr in EXTREMES for n in _reduces(nest))
        tile = self.machine.crossed
        if tile is not None and not searches and self._read_by_rows(nest, main):
            nest, chunk = self._tile_rows(nest, tile)
            if chunk is not None:
                reason = f"another nest reduces {main.buffer} along rows: one tile serves both"
                return nest, _Plan(chunk, None, None, reason)
        narrow, beside = self._narrow_axis(nest, main)
        enough = self._enough(nest, main)
        rest = [a for a in nest.reduction if a != narrow]
        # The parts of a search lie one behind the other.
        rest = rest[:1] if searches else rest
        units = self._units(nest, main, narrow)
        if units < enough:
            nest, chunk = self._chunk(nest, main, rest)
        reason = f"{units} parallel units are few"
        plain = narrow is None and chunk is None and tile is None
        if plain and self._read_by_rows(nest, main):
            nest, chunk = self._row_blocks(nest, main)
            reason = f"another nest reduces {main.buffer} along rows: both can read blocks of rows"
        if narrow is None and chunk is None:
            return nest, None
        if narrow is not None:
            reason = f"only {narrow.extent} neighbouring elements belong to one result"
        return nest, _Plan(chunk, narrow, beside, reason)

    def _sums(self, nest: LoopNest, squares: LoopNest) -> tuple[LoopNest, ...]:
        """Sums of a column's elements in parts, of which another nest sums squared deviations.

        Or of a row's, where rows are few. Nothing where it is short enough to be held.
        """
        main = self._main_read(nest)
        (axis, *more) = nest.reduction
        if main is None or more:
            return ()
        along = main.stride(axis.symbol) == 1
        high = self._held_run(nest, main) if along else self._held_column(nest, main, axis)
        if high is None or high >= self.hints.value(axis.extent):
            return ()
        part, chunk = self._in_blocks(nest, axis, high)
        reason = f"{squares.name} sums squares of the same elements: a part is read once"
        self.decisions.append(Decision("split", (nest.name,), "two steps", reason))
        made = self._two_steps(part, _Plan(chunk, None, None, reason))
        sums = f"{nest.stores[0].buffer}_part0"
        self.parts[squares.name] = HeldPart(chunk, high, axis.extent, sums)
        return made

    def _held_column(self, nest: LoopNest, main: StridedAccess, axis: Axis) -> int | None:
        """Elements of a column's parts; None for short ones, and for columns that are not large."""
        wide, heights = self.hints.volume(nest.axes), self.machine.held_rows
        extent = self.hints.value(axis.extent)
        few = self._units(nest, main, None) < self.machine.units
        if not self._across(nest, main) or (extent <= max(heights) and not few):
            return None
        enough = self._filling(axis) * self.machine.held_columns
        return next((h for h in heights if -(-extent // h) * wide >= enough), None)

    def _held_run(self, nest: LoopNest, main: StridedAccess) -> int | None:
        """Elements of a row's parts where rows are so few that they are cut in any case.

        Where the length of rows is known in a run alone, fewer if that gives enough parts.
        """
        rows, (axis,) = self._units(nest, main, None), nest.reduction
        if rows >= self._enough(nest, main):
            return None
        size = max(4, self.buffers[main.buffer].dtype.compute.itemsize)
        most, extent = self.machine.held_points * 4 // size, self.hints.value(axis.extent)
        lengths = (most,) if axis.extent.is_Integer else (most, most // 2, most // 4)
        enough = self._filling(axis)
        return next((n for n in lengths if rows * (extent // n) >= enough), None)

    def _filling(self, axis: Axis) -> int:
        """Parts of an axis that keep the device busy.

        Of one that may be longer than in the example a quarter of them: a longer one has more parts
        of the same length, and what is read twice then takes twice the time. 12 x 5244400 halves,
        packaged with 2 x 655550, took 173 us on an H200 read twice, of static extents 40.
        """
        return self.machine.units if axis.extent.is_Integer else self.machine.units // 4

    def _enough(self, nest: LoopNest, main: StridedAccess) -> int:
        """Parallel units from which a nest keeps the device busy."""
        if self._walks_rows(nest, main):
            return self.machine.units // self.machine.wide_units
        across = any(main.stride(a.symbol) == 1 for a in nest.axes)
        return max(self.machine.units, self.machine.column_units if across else 0)

    def _across(self, nest: LoopNest, main: StridedAccess) -> bool:
        """True when columns of a buffer are reduced that no cache holds."""
        source = self.buffers[main.buffer]
        size = self.hints.elements(source.shape) * source.dtype.itemsize
        return size >= self.machine.large_bytes and any(
            main.stride(a.symbol) == 1 for a in nest.axes
        )

    def _in_blocks(self, nest: LoopNest, axis: Axis, high: int) -> tuple[LoopNest, Axis]:
        """An axis in parts of that many, the last of which may be shorter."""
        if axis.extent.is_Integer and int(axis.extent) % high == 0:
            return _split_axis(nest, axis, int(axis.extent) // high)
        parts = ceil_div(axis.extent, integer(high))
        return self._padded_axis(nest, axis, parts, integer(high))

    def _squares(self, nest: LoopNest, sums: HeldPart) -> tuple[LoopNest, ...]:
        """Squared deviations: of parts from their own means first."""
        squares = find_squares(nest)
        (axis,) = nest.reduction
        cut, chunk = self._in_blocks(nest, axis, sums.length)
        part = replace(sums, axis=chunk)
        (total,) = _reduces(cut)
        assert squares is not None
        self.decisions.append(Decision("split", (nest.name,), "two steps", "its sums are"))
        axes = (chunk, *cut.axes)
        name = f"{nest.stores[0].buffer}_part0"
        self._declare(name, total, axes)
        store = Store(name, tuple(a.symbol for a in axes), of_part(total, part, nest))
        inner = tuple(a for a in cut.reduction if a != chunk)
        first = LoopNest(f"{nest.name}_part", axes, inner, (store,), nest.origin, nest.absorbed)
        return self._simple(first), self._simple(combined(nest, squares, part, name))

    def _exponentials(
        self, nest: LoopNest, sums: Exponentials, parts: TopParts
    ) -> tuple[LoopNest, ...]:
        """Sums of exponentials in parts whose greatest elements are found beside them."""
        first = parts.nest
        name = f"{nest.stores[0].buffer}_part0"
        self._declare(name, sums.total, first.axes)
        store = replace(parts.store, buffer=name, value=parts.sums(sums.total))
        reason = f"{first.name} finds the greatest of the same parts: they are read once"
        self.decisions.append(Decision("split", (nest.name,), "two steps", reason))
        absorbed = (*nest.absorbed, *sums.absorbed)
        part = LoopNest(
            f"{nest.name}_part", first.axes, first.reduction, (store,), nest.origin, absorbed
        )
        return self._simple(part), self._simple(combined_sums(sums, parts, name))

    def _main_read(self, nest: LoopNest) -> StridedAccess | None:
        """The access that touches most elements."""
        best: tuple[int, StridedAccess] | None = None
        for move in strided_accesses(self.graph, nest):
            size = self.hints.elements(self.buffers[move.buffer].shape)
            if not move.store and not move.indirect and (best is None or size > best[0]):
                best = (size, move)
        return best[1] if best is not None else None

    def _narrow_axis(
        self, nest: LoopNest, main: StridedAccess
    ) -> tuple[Axis, Axis] | tuple[None, None]:
        """The contiguous reduction axis and the kept axis beside it, when the former is short."""
        if self.machine.gathers:
            return None, None
        for axis in nest.reduction:
            if main.stride(axis.symbol) != 1 or self.hints.value(axis.extent) >= self.machine.lanes:
                continue
            beside = next((a for a in nest.axes if main.stride(a.symbol) == axis.extent), None)
            rest = self.hints.volume(a for a in nest.reduction if a != axis)
            if beside is not None and rest >= self.machine.lanes:
                return axis, beside
        return None, None

    def _units(self, nest: LoopNest, main: StridedAccess, narrow: Axis | None) -> int:
        """Work units without a chunk: one for each result, or strip of contiguous results."""
        points = self.hints.volume(nest.axes)
        for axis in nest.axes:
            stride = main.stride(axis.symbol)
            wide = narrow.extent if narrow is not None else integer(1)
            if stride is not None and stride == wide:
                extent = max(1, self.hints.value(product((axis.extent, wide))))
                width = max(1, self.hints.value(axis.extent))
                return points // width * -(-extent // self.machine.least_strip)
        return points

    def _walks_rows(self, nest: LoopNest, main: StridedAccess) -> bool:
        """True when a work unit walks a long row, whose elements are neighbours."""
        points = self.hints.volume(nest.reduction)
        near = any(main.stride(a.symbol) == 1 for a in nest.reduction)
        return near and points > self.machine.row_points

    def _read_by_rows(self, nest: LoopNest, main: StridedAccess) -> bool:
        """True when the nest sums columns of a large buffer whose rows another nest reduces."""
        source = self.buffers[main.buffer]
        size = self.hints.elements(source.shape) * source.dtype.itemsize
        large = size >= self.machine.large_bytes
        if not large or all(main.stride(a.symbol) != 1 for a in nest.axes):
            return False
        others = (op for op in self.graph.ops if isinstance(op, LoopNest) and op is not nest)
        return any(self._reduces_rows(op, main.buffer) for op in others)

    def _reduces_rows(self, nest: LoopNest, buffer: str) -> bool:
        moves = (
            strided_accesses(self.graph, nest) if nest.reduction and buffer in reads(nest) else ()
        )
        return any(
            m.buffer == buffer and any(m.stride(a.symbol) == 1 for a in nest.reduction)
            for m in moves
        )

    def _tile_rows(self, nest: LoopNest, tile: CrossedTile) -> tuple[LoopNest, Axis | None]:
        """The only reduction axis cut into blocks as high as a tile."""
        (axis, *more) = nest.reduction
        if more or not axis.extent.is_Integer:
            return nest, None
        extent = int(axis.extent)
        for high in tile.heights:
            if extent % high == 0 and extent // high >= self.machine.units // tile.share:
                return _split_axis(nest, axis, extent // high)
        return nest, None

    def _row_blocks(self, nest: LoopNest, main: StridedAccess) -> tuple[LoopNest, Axis | None]:
        """The only reduction axis cut into blocks that stay in a cache."""
        source = self.buffers[main.buffer]
        size = self.hints.elements(source.shape) * source.dtype.itemsize
        (axis, *more) = nest.reduction
        if more or not axis.extent.is_Integer:
            return nest, None
        least = max(self.machine.units, size // self.machine.block_bytes)
        for parts in range(least, 8 * size // self.machine.block_bytes):
            if int(axis.extent) % parts == 0:
                return _split_axis(nest, axis, parts)
        return nest, None

    def _chunk(
        self, nest: LoopNest, main: StridedAccess, candidates: list[Axis]
    ) -> tuple[LoopNest, Axis | None]:
        """A reduction axis to keep in the partial results, split off the farthest-moving one."""
        if not candidates:
            return nest, None

        def reach(axis: Axis) -> int:
            stride = main.stride(axis.symbol)
            known = stride is not None and not stride.free_symbols - set(self.hints.dims)
            return abs(self.hints.value(stride)) if known and stride is not None else 0

        axis = max(candidates, key=reach)
        extent = self.hints.value(axis.extent)
        others = self.hints.volume(a for a in nest.reduction if a != axis)
        enough = self.machine.units
        if not self.machine.local_buffers:  # where a work unit would sum up many results
            enough = max(enough, self._enough(nest, main))
            enough = -(-enough // max(1, self._units(nest, main, None)))
        if (
            enough <= extent <= self.machine.most_parts
            and others * extent >= self.machine.simple_points // 4
            and others >= self.machine.least_strip
        ):
            return nest, axis
        choices = range(8 * enough, enough - 1, -1)
        if _multiplies(nest):
            choices = choices[::-1]
        least = self._part_points(nest, main)
        parts = self._divisor(extent, others, choices, least) if axis.extent.is_Integer else None
        if parts is not None:
            return _split_axis(nest, axis, parts)
        if self.machine.local_buffers or enough < self.machine.least_parts:
            return nest, None
        count = min(4 * enough, extent * others // least)
        across = least != self.machine.part_points
        if (
            count < self.machine.least_parts
            if across
            else extent * others < self.machine.simple_points
        ):
            return nest, None
        return self._padded_axis(nest, axis, integer(count))

    def _part_points(self, nest: LoopNest, main: StridedAccess) -> int:
        """Points of a part of one result at least: fewer where a unit has many results at once."""
        across = any(main.stride(a.symbol) == 1 for a in nest.axes)
        if self.machine.local_buffers or not across:
            return self.machine.part_points
        return self.machine.part_rows

    def _padded_axis(
        self, nest: LoopNest, axis: Axis, parts: Expr, length: Expr | None = None
    ) -> tuple[LoopNest, Axis]:
        """An axis in about so many parts, at any size; what lies behind its end changes nothing."""
        if length is None:
            lanes = integer(self.machine.lanes)
            length = product((ceil_div(axis.extent, product((parts, lanes))), lanes))
        if axis.extent.is_Integer:
            parts = ceil_div(axis.extent, length)
        outer = Axis(var(f"{axis.symbol}_part"), parts)
        inner = Axis(var(f"{axis.symbol}_in"), length)
        at = product((outer.symbol, length)) + inner.symbol
        reduction = in_parts(nest.reduction, axis, (outer, inner))
        moved = substitute_axes(nest, {axis.symbol: at}, nest.axes, reduction)
        inside = binary("lt", index_value(at), index_value(axis.extent))

        def visit(node: Node, args: tuple[Node, ...]) -> Node:
            if node.op != "reduce":
                return with_args(node, args)
            (value,) = args
            none = const(neutral_of(str(node.attr), value.dtype), value.dtype)
            return with_args(node, (where(inside, guard_loads(value, inside), none),))

        return with_roots(moved, rebuild(moved.roots, visit)), outer

    def _divisor(self, extent: int, others: int, choices: range, least: int) -> int | None:
        """The first choice of parts to cut an axis into, evenly, each of enough points."""
        for parts in choices:
            if extent % parts == 0 and extent // parts * others >= least:
                return parts
        return None

    def _declare(self, name: str, node: Node, axes: tuple[Axis, ...]) -> None:
        shape = tuple(a.extent for a in axes)
        dtype = node.dtype.compute
        self.buffers[name] = Buffer(name, dtype, shape, row_major_strides(shape), "temp")

    def _two_steps(self, nest: LoopNest, plan: _Plan) -> tuple[LoopNest, ...]:
        inner = tuple(a for a in nest.reduction if a not in plan.kept)
        partial, joined = self._joined(replace(nest, reduction=inner), plan)
        spread: tuple[LoopNest, ...] = ()
        if joined is not None:
            partial, spread = self._spread_operands(partial, joined)
        chunk = (plan.chunk,) if plan.chunk is not None else ()
        axes = (*chunk, *partial.axes)
        point: tuple[Expr, ...] = tuple(a.symbol for a in axes)
        stores: list[Store] = []
        for node in _partials(_reduces(partial)):
            name = f"{nest.stores[0].buffer}_part{len(stores)}"
            self._declare(name, node, axes)
            stores.append(Store(name, point, node))
        first = LoopNest(
            f"{nest.name}_part", axes, inner, tuple(stores), nest.origin, nest.absorbed
        )
        return (*spread, self._simple(first), *self._combining(nest, plan, stores))

    def _joined(self, nest: LoopNest, plan: _Plan) -> tuple[LoopNest, Axis | None]:
        """The nest with the narrow axis and the one beside it as a single axis."""
        narrow, beside = plan.narrow, plan.beside
        if narrow is None or beside is None:
            return nest, None
        whole = Axis(
            var(f"{beside.symbol}_{narrow.symbol}"), product((beside.extent, narrow.extent))
        )
        mapping: dict[Symbol, Expr] = {
            beside.symbol: FloorDiv(whole.symbol, narrow.extent),
            narrow.symbol: Modulo(whole.symbol, narrow.extent),
        }
        axes = tuple(whole if a == beside else a for a in nest.axes)
        return self._simple(substitute_axes(nest, mapping, axes, nest.reduction), plan.chunk), whole

    def _simple(self, nest: LoopNest, *more: Axis | None) -> LoopNest:
        known = [a for a in more if a is not None]
        return simplify(self.graph, nest, *known)

    def _combining(
        self, nest: LoopNest, plan: _Plan, partials: list[Store]
    ) -> tuple[LoopNest, ...]:
        """The nests that reduce the partial results, the last one with everything that followed."""
        chunk = (plan.chunk.symbol,) if plan.chunk is not None else ()
        inner = [a for a in nest.reduction if a not in plan.kept]
        combined: dict[int, Node] = {}
        nests: list[LoopNest] = []
        made = dict(zip(_partials(_reduces(nest)), partials, strict=True))
        for node in _reduces(nest):
            if node.attr in EXTREMES and plan.chunk is not None:
                name = f"{nest.stores[0].buffer}_best{len(nests)}"
                self._declare(name, node, nest.axes)
                best, part = best_part(nest, node, made[extreme(node)], name, plan.chunk)
                nests.append(best)
                combined[id(node)] = position(nest, made[node], part, inner)
                continue
            point = (*chunk, *(_joined_index(a, plan) for a in nest.axes))
            partial = load(made[node].buffer, node.dtype.compute, point)
            combined[id(node)] = reduce_(str(node.attr), partial, node.dtype)

        def visit(node: Node, args: tuple[Node, ...]) -> Node:
            return combined.get(id(node)) or with_args(node, args)

        last = with_roots(nest, rebuild(nest.roots, visit))
        return (*nests, replace(last, reduction=plan.kept if _reduces(last) else ()))

    def _spread_operands(
        self, nest: LoopNest, joined: Axis
    ) -> tuple[LoopNest, tuple[LoopNest, ...]]:
        """Operands whose index divides the joined axis (a value per group of channels), in full.

        A nest of its own writes each along all of the joined axis, so that the reduction reads it
        contiguously. Returns the nest that reads these buffers, and the nests that write them.
        """
        reduced = {a.symbol for a in nest.reduction}
        made: dict[int, Node] = {}
        nests: list[LoopNest] = []
        point = tuple(a.symbol for a in nest.axes)
        for node in _inside_reductions(nest):
            access = node.attr
            if not isinstance(access, Access) or node.args:
                continue
            divided = any(e.has(FloorDiv, Modulo) for e in access.index)
            used = frozenset().union(*(e.free_symbols for e in access.index))
            if not divided or used & reduced or joined.symbol not in used:
                continue
            name = f"{access.buffer}_wide{len(self.buffers)}"
            self._declare(name, node, nest.axes)
            store = Store(name, point, node)
            label = f"{nest.name}_wide{len(nests)}"
            nests.append(LoopNest(label, nest.axes, (), (store,), nest.origin))
            made[id(node)] = load(name, node.dtype.compute, point)

        def spread(node: Node, args: tuple[Node, ...]) -> Node:
            return made.get(id(node)) or with_args(node, args)

        def visit(node: Node, args: tuple[Node, ...]) -> Node:
            if node.op != "reduce":
                return with_args(node, args)
            return with_args(node, tuple(rebuild(node.args, spread)))

        if not made:
            return nest, ()
        return with_roots(nest, rebuild(nest.roots, visit)), tuple(nests)


def _joined_index(axis: Axis, plan: _Plan) -> Expr:
    if plan.narrow is None or axis != plan.beside:
        return axis.symbol
    return product((axis.symbol, plan.narrow.extent)) + plan.narrow.symbol


def _reduces(nest: LoopNest) -> list[Node]:
    return [n for n in postorder(nest.roots) if n.op == "reduce"]


def _partials(reduces: list[Node]) -> list[Node]:
    """What a part gives, each once; a search needs the extreme besides its position."""
    both = (n for r in reduces for n in ((extreme(r), r) if r.attr in EXTREMES else (r,)))
    return list(dict.fromkeys(both))


def _inside_reductions(nest: LoopNest) -> tuple[Node, ...]:
    roots = [n.args[0] for n in postorder(nest.roots) if n.op == "reduce"]
    return postorder(roots)


def _multiplies(nest: LoopNest) -> bool:
    """Whether it takes a product of floats.

    Long ones leave the range of normal numbers, below which many processors take a hundred cycles
    for a step: each part has its own such steps, so that few parts are better.
    """
    return any(n.attr == "prod" and n.dtype.is_float for n in _reduces(nest))


def _split_axis(nest: LoopNest, axis: Axis, parts: int) -> tuple[LoopNest, Axis]:
    outer = Axis(var(f"{axis.symbol}_part"), integer(parts))
    inner = Axis(var(f"{axis.symbol}_in"), integer(int(axis.extent) // parts))
    return split_axis(nest, axis, (outer, inner)), outer
