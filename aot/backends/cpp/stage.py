"""Emission of one stage: its loops, with every value at the outermost level that defines it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from aot.backends.cpp.blocking import Blocking, choose_blocking
from aot.backends.cpp.fetching import fetch_ahead, fetch_far_rows
from aot.backends.cpp.indexing import Vector
from aot.backends.cpp.lanes import VectorAxis
from aot.backends.cpp.pairing import paired, store_pair
from aot.backends.cpp.reduction import Accumulator, finish, reduction_of
from aot.backends.cpp.text import index_text
from aot.backends.cpp.turning import (
    TurnedLoad,
    loads_of_rows,
    tile_columns,
    turned_loads,
    turned_points,
)
from aot.backends.cpp.values import Body
from aot.backends.cpp.width import Width
from aot.backends.guards import find_guards
from aot.ir.kernel_facts import share_level
from aot.ir.kernels import Shares, Stage, Strip
from aot.ir.nests import Axis, LoopNest, Store
from aot.ir.scalar import Node, named_symbols, postorder
from aot.symbolic import Expr, Ranges, Symbol, is_int, product, ravel

_LISTED = 256
"""Points in a worker's list of those that are its own."""


@dataclass(frozen=True)
class _Copy:
    """One copy of the vector loop: main, or the tail that finishes what main leaves."""

    lanes: str
    count: str | None
    tail: bool


@dataclass(frozen=True)
class Bounds:
    """The range of a loop that does not run over its whole axis, in C++.

    `sizes`: the range's length is a multiple of these numbers' greatest common divisor.
    """

    start: str
    end: str
    sizes: tuple[int, ...]


def strip_bounds(strip: Strip | None) -> dict[Axis, Bounds]:
    """The bounds of the axis that work units split."""
    if strip is None:
        return {}
    extent = strip.axis.extent
    last = int(extent) % strip.size if is_int(extent) else 1
    return {strip.axis: Bounds("strip_start", "strip_end", (strip.size, last))}


class StageEmitter:
    """Writes one stage into a body. Use once: `emit`.

    `bounds`: ranges of the axes that do not run over their extent. `alignment`: what the vector
    loop's variable is a multiple of; None: of the lanes, as when it starts at 0. `shares`: by which
    a worker does some of the points only. `within`: the axis that runs within the vector loop, so
    that what does not depend on it has its vector once.
    """

    def __init__(
        self,
        body: Body,
        stage: Stage,
        width: Width,
        bounds: Mapping[Axis, Bounds],
        alignment: int | None = None,
        shares: Shares | None = None,
        within: Axis | None = None,
    ) -> None:
        self._body = body
        self._shares = shares
        self._sharing = None if shares is None else _sharing_loop(stage, shares)
        self._stage = stage
        self._width = width
        self._limits = bounds
        self._alignment = alignment if alignment is not None else width.widest
        reduced = {a.symbol for a in stage.reduction}
        vector = stage.vector
        kept = [a for a in stage.order if a.symbol not in reduced and a != vector]
        inside = [a for a in stage.order if a.symbol in reduced and a != vector]
        if vector is not None:
            (inside if vector.symbol in reduced else kept).append(vector)
        if vector is not None and stage.order[-1] != vector:
            within = stage.order[-1]
        kept.sort(key=lambda axis: axis == within)
        self._across = vector is not None and vector.symbol in reduced
        self._kept: Sequence[Axis] = kept
        self._loops: Sequence[Axis] = [*kept, *inside]
        self._depth = {a.symbol: k for k, a in enumerate(self._loops)}
        self._levels: dict[Node, int] = {}
        self._after: set[Node] = set()
        self._roots = [n for nest in stage.nests for n in nest.roots]
        self._classify()

    def _classify(self) -> None:
        """Finds each node's loop level, and the nodes that wait for a reduction's end."""
        last_kept = len(self._kept) - 1
        for node in postorder(self._roots):
            if node.op == "reduce":
                self._levels[node] = last_kept
                self._after.add(node)
                continue
            own = named_symbols(node)
            level = max((self._depth[s] for s in own if s in self._depth), default=-1)
            self._levels[node] = max([level, *(self._levels[a] for a in node.args)])
            if any(a in self._after for a in node.args):
                self._after.add(node)

    def emit(self) -> None:
        """Writes the stage."""
        self._body.guards = find_guards(self._roots)
        self._fetch(-1, self._body.context.outer)
        self._emit_level(-1)
        self._open_kept(0)

    def _emit_level(self, level: int) -> None:
        """Emits what depends on the loops up to `level` only; the innermost level pulls lazily."""
        if level == len(self._loops) - 1 and level >= 0:
            return
        for node in postorder(self._roots):
            if self._levels[node] == level and node not in self._after and not _is_lazy(node):
                self._body.value(node)

    def _fetch(self, level: int, axes: Collection[Symbol]) -> None:
        """Fetches what iterations to come of the loop at `level` name, over one of these axes."""
        inner = [a.symbol for a in self._loops[level + 1 :]]
        fetch_ahead(self._body, self._stage, axes, inner)

    def _fetch_in_reduction(self, depth: int) -> None:
        axis = self._loops[depth]
        self._fetch(depth, [axis.symbol])
        if depth == len(self._loops) - 1:
            fetch_far_rows(self._body, self._stage, axis)

    # ---- loops over kept axes ----

    def _open_kept(self, depth: int) -> None:
        if depth == len(self._kept):
            if self._stage.reduction:
                self._reduce()
            else:
                self._store_all(self._stage.nests)
            return
        axis = self._loops[depth]
        if depth + 1 < len(self._kept) and self._loops[depth + 1] == self._stage.vector:
            turned = self._turned(depth)
            if turned:
                self._open_turned(depth, turned)
                return
        if axis == self._stage.vector:
            with self._vector_block(axis):
                for copy in self._copies(axis):
                    with self._vector_loop(axis, copy, self._bounds(axis)[1]):
                        self._emit_level(depth)
                        self._open_kept(depth + 1)
            return
        with self._own_points(axis) if depth == self._sharing else self._scalar_loop(axis):
            self._fetch(depth, [axis.symbol])
            self._emit_level(depth)
            self._open_kept(depth + 1)

    def _turned(self, depth: int) -> tuple[TurnedLoad, ...]:
        """Loads that go by tiles of the loop at `depth` and the vector loop, which is innermost."""
        around, vector = self._loops[depth], self._loops[depth + 1]
        if self._shares is not None or depth + 2 < len(self._loops) or around in self._limits:
            return ()
        return turned_loads(self._body, self._stage, self._width, around, vector)

    def _open_turned(self, depth: int, turned: tuple[TurnedLoad, ...]) -> None:
        """The loop at `depth` within the vector loop, in tiles."""
        around, vector = self._loops[depth], self._loops[depth + 1]
        body, end = self._body, self._bounds(vector)[1]
        columns = tile_columns(body, around, self._width.single)
        with columns as tile, self._vector_block(vector):
            for copy in self._copies(vector):
                loop = self._vector_loop(vector, copy, end)
                with loop, turned_points(body, turned, around, tile):
                    self._emit_level(depth)
                    self._open_kept(depth + 2)

    @contextmanager
    def _own_points(self, axis: Axis) -> Iterator[None]:
        """A loop over the points whose element is among the worker's units.

        They are listed first, a block at a time and without a branch: one that nobody can predict
        would keep the processor from loading for the points that follow.
        """
        body, name = self._body, self._body.context.names[axis.symbol]
        end = self._bounds(axis)[1]
        block, stop, own, count = (body.fresh(n) for n in ("block", "stop", "own", "count"))
        head = f"for (int64_t {block} = 0; {block} < {end}; {block} += {_LISTED})"
        with body.scope(head):
            body.writer.line(f"const int64_t {stop} = aot::imin({end}, {block} + {_LISTED});")
            body.writer.line(f"int64_t {own}[{_LISTED}], {count} = 0;")
            with body.scope(f"for (int64_t {name} = {block}; {name} < {stop}; ++{name})"):
                body.writer.line(f"{own}[{count}] = {name};")
                unit = self._unit()
                body.writer.line(f"{count} += {unit} >= begin && {unit} < end;")
            point = body.fresh("point")
            with body.scope(f"for (int64_t {point} = 0; {point} < {count}; ++{point})"):
                body.writer.line(f"const int64_t {name} = {own}[{point}];")
                yield

    def _unit(self) -> str:
        """The unit that a point belongs to."""
        ((store,),) = (nest.stores for nest in self._stage.nests)
        assert self._shares is not None
        index = store.index[self._shares.dimension]
        binds = {s: self._body.value(n) for s, n in store.binds if s in index.free_symbols}
        unit = self._body.fresh("unit")
        text = index_text(index, self._body.uniform_names(binds))
        self._body.writer.line(f"const int64_t {unit} = {text};")
        return unit

    def _bounds(self, axis: Axis) -> tuple[str, str]:
        if axis in self._limits:
            return self._limits[axis].start, self._limits[axis].end
        return "0", index_text(axis.extent, self._body.context.names)

    @contextmanager
    def _scalar_loop(self, axis: Axis) -> Iterator[None]:
        name = self._body.context.names[axis.symbol]
        start, end = self._bounds(axis)
        if is_int(axis.extent) and int(axis.extent) <= 4 and start == "0":
            self._body.writer.line("AOT_UNROLL")
        head = f"for (int64_t {name} = {start}; {name} < {end}; ++{name})"
        with self._body.scope(head):
            yield

    # ---- the vector loop ----

    @contextmanager
    def _vector_block(self, axis: Axis) -> Iterator[None]:
        name = self._body.context.names[axis.symbol]
        with self._body.scope(""):
            self._body.writer.line(f"int64_t {name} = {self._bounds(axis)[0]};")
            yield

    def _copies(self, axis: Axis) -> list[_Copy]:
        width = self._width
        extent = axis.extent
        sizes: Sequence[int] = (int(extent) if is_int(extent) else 1,)
        if axis in self._limits:
            sizes = self._limits[axis].sizes
        main = _Copy(width.wide, None, tail=False)
        if all(size % width.widest == 0 for size in sizes):
            return [main]
        if all(size % width.most == 0 for size in sizes):
            return [main, _Copy(width.single, None, tail=True)]
        lanes = width.single
        if self._stage.reduction and not self._across and is_int(extent):
            # Each vector of a tail would walk down the columns by itself.
            most = max(size % width.widest for size in sizes)
            lanes = width.wide if most > width.most else lanes
        tail = _Copy(lanes, self._body.fresh("tail"), tail=True)
        if len(sizes) == 1 and is_int(extent) and sizes[0] < width.least:
            return [tail]
        return [main, tail]

    @contextmanager
    def _vector_loop(self, axis: Axis, copy: _Copy, end: str) -> Iterator[None]:
        body = self._body
        name = body.context.names[axis.symbol]
        bound = f"{name} < {end}" if copy.tail else f"{name} + {copy.lanes} <= {end}"
        with body.scope(f"for (; {bound}; {name} += {copy.lanes})"):
            if copy.count is not None:
                body.writer.line(
                    f"const int64_t {copy.count} = aot::imin({end} - {name}, {copy.lanes});"
                )
            vector = VectorAxis(axis.symbol, self._alignment)
            with body.vectorised(Vector(vector, copy.lanes, copy.count)):
                yield

    # ---- reductions ----

    def _reduce(self) -> None:
        body = self._body
        blocking = choose_blocking(
            self._loops[len(self._kept) :], self._stage.vector, self._width.most
        )
        groups = self._declare(blocking)
        self._open_reduction(len(self._kept), groups, blocking)
        columns = zip(*[accumulators for _, accumulators in groups], strict=True)
        for column in columns:
            value = finish(body, list(column), across=self._across)
            body.define(column[0].reduction.node, value)
        reducing = [n for n in self._stage.nests if n.reduction]
        self._store_all(reducing)

    def _declare(self, blocking: Blocking | None) -> list[tuple[_Copy, list[Accumulator]]]:
        """Declares an accumulator of every reduce node for each copy of the innermost loop."""
        vector = self._body.vector
        if self._across and self._stage.vector is not None:
            copies = self._copies(self._stage.vector)
        else:
            copies = [_Copy(vector.lanes if vector is not None else "1", None, tail=False)]
        domain = [a.extent for a in self._stage.reduction]
        position = ravel([a.symbol for a in self._stage.reduction], domain)
        index = "int32_t" if _fits_int32(domain, self._body.context.ranges) else "int64_t"
        nodes = [n for n in postorder(self._roots) if n.op == "reduce"]
        groups = []
        for copy in copies:
            accumulators = []
            for node in nodes:
                reduction = reduction_of(node, position, index, self._width.element)
                in_parts = blocking is not None and reduction.is_blocked
                skips = blocking is not None and copy.tail and blocking.axis == self._stage.vector
                name = self._body.fresh("acc")
                part = f"{name}_part" if in_parts and not skips else None
                accumulator = Accumulator(reduction, copy.lanes, name, part, self._across)
                accumulator.declare(self._body)
                accumulators.append(accumulator)
            groups.append((copy, accumulators))
        return groups

    def _open_reduction(
        self,
        depth: int,
        groups: list[tuple[_Copy, list[Accumulator]]],
        blocking: Blocking | None,
    ) -> None:
        if depth == len(self._loops):
            self._point(groups[0][1])
            return
        axis = self._loops[depth]
        blocked = blocking is not None and blocking.axis == axis
        if self._across and axis == self._stage.vector:
            self._vector_reduction(axis, groups, blocking.size if blocking and blocked else 0)
            return
        if blocking is None or not blocked:
            turned = self._turned_rows(axis)
            if turned:
                columns = tile_columns(self._body, axis, self._width.single)
                with columns as tile, turned_points(self._body, turned, axis, tile):
                    self._open_reduction(depth + 1, groups, blocking)
                return
            with self._scalar_loop(axis):
                self._fetch_in_reduction(depth)
                self._emit_level(depth)
                self._open_reduction(depth + 1, groups, blocking)
            return
        body = self._body
        name = body.context.names[axis.symbol]
        end = self._bounds(axis)[1]
        block, stop = body.fresh("block"), body.fresh("stop")
        head = f"for (int64_t {block} = 0; {block} < {end}; {block} += {blocking.size})"
        with body.scope(head):
            every = [a for _, accumulators in groups for a in accumulators]
            for accumulator in every:
                accumulator.declare_part(body)
            body.writer.line(f"const int64_t {stop} = aot::imin({end}, {block} + {blocking.size});")
            with body.scope(f"for (int64_t {name} = {block}; {name} < {stop}; ++{name})"):
                self._fetch_in_reduction(depth)
                self._emit_level(depth)
                self._open_reduction(depth + 1, groups, blocking)
            for accumulator in every:
                accumulator.flush(body)

    def _turned_rows(self, axis: Axis) -> tuple[TurnedLoad, ...]:
        """Loads of a reduction that go by tiles of the loop over `axis`, if it is innermost."""
        if self._across or self._width.unroll > 1 or axis in self._limits:
            return ()
        found = loads_of_rows(self._body.context, self._stage, self._width)
        return found[1] if found is not None and found[0] == axis else ()

    def _vector_reduction(
        self, axis: Axis, groups: list[tuple[_Copy, list[Accumulator]]], block: int
    ) -> None:
        body = self._body
        name = body.context.names[axis.symbol]
        end = self._bounds(axis)[1]
        with self._vector_block(axis):
            for copy, accumulators in groups:
                if not block or copy.tail:
                    with self._vector_loop(axis, copy, end):
                        self._point(accumulators)
                    continue
                with body.scope(f"while ({name} + {copy.lanes} <= {end})"):
                    for accumulator in accumulators:
                        accumulator.declare_part(body)
                    stop = body.fresh("stop")
                    limit = f"{name} + {block} * {copy.lanes}"
                    body.writer.line(f"const int64_t {stop} = aot::imin({end}, {limit});")
                    with self._vector_loop(axis, copy, stop):
                        self._point(accumulators)
                    for accumulator in accumulators:
                        accumulator.flush(body)

    def _point(self, accumulators: list[Accumulator]) -> None:
        """One point of the whole domain: pointwise nests store, reductions accumulate."""
        self._store_all([n for n in self._stage.nests if not n.reduction])
        for accumulator in accumulators:
            accumulator.step(self._body)

    def _store_all(self, nests: Sequence[LoopNest]) -> None:
        stores: list[Store] = [s for n in nests for s in n.stores]
        for store, other in paired(self._body, stores):
            if other is None:
                self._body.store(store)
            else:
                store_pair(self._body, store, other)


def _sharing_loop(stage: Stage, shares: Shares) -> int:
    """The loop at which it shows whose a point is."""
    ((store,),) = (nest.stores for nest in stage.nests)
    return share_level(store, shares.dimension, stage.order)


def _is_lazy(node: Node) -> bool:
    """Constants and plain index values are emitted where they are used."""
    return node.op == "const" or (node.op == "index" and not node.args)


def _fits_int32(domain: Sequence[Expr], ranges: Ranges) -> bool:
    """Whether positions in a domain do, at whatever sizes it may have."""
    most = ranges.greatest(product(domain))
    return most is not None and most < 2**31
