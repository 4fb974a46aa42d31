"""Emission of kernels without a template: tiles of points, and rows with inner loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.backends.guards import find_guards
from aot.backends.triton.body import LET_NEXT_START, WAIT, Body
from aot.backends.triton.context import (
    EVEN,
    PROGRAM,
    KernelContext,
    TileDim,
    Walk,
    Whole,
    make_context,
)
from aot.backends.triton.crossed import emit_crossed, is_crossed
from aot.backends.triton.dot import open_batch
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.helpers import definitions, gluon_imports
from aot.backends.triton.online import find_online
from aot.backends.triton.reduction import (
    Accumulator,
    reductions_of,
    searched_with,
    store_reduced,
)
from aot.backends.triton.row_tiling import Piece, RowTile, row_tile, rows_contiguous
from aot.backends.triton.shared_reads import SharedReads
from aot.backends.triton.short_reduction import ShortBody, emit_stage
from aot.backends.triton.short_tile import LANES, ShortTile, short_rows, short_tile
from aot.backends.triton.text import Writer, index_text, pointer_type
from aot.backends.triton.tiling import WARP, PointTile, point_tile
from aot.backends.triton.walks import VECTOR_BYTES, beside, find_walk, ranges, rest_of, turns
from aot.ir.hints import Hints
from aot.ir.kernel_facts import argument_buffers, index_exprs
from aot.ir.kernels import FusedKernel, KernelGraph, NestKernel, Stage
from aot.ir.scalar import Node, postorder
from aot.symbolic import Expr, FloorDiv, ceil_div, integer, is_multiple, power_above, product

NAME = "KERNEL_NAME"
"""Stands for the function's name in emitted text."""

TRITON, GLUON = "triton", "gluon"
"""What a kernel is written in; functions that it calls are in either."""

MOST_TWICE = 100
"""Operations that a function has twice at most: in tiles of no mask, and in the last one."""

FAULT = "fault"
"""The parameter through which kernels report wrong indices."""

Grid = tuple[Expr, Expr, Expr]


@dataclass(frozen=True)
class EmittedKernel:
    """The function of one kernel, and how to launch it.

    `function`: its source, after that of functions of its own, if any, which are named after it.
    `parameters`: names, for each type of the signature.
    """

    function: str
    parameters: tuple[str, ...]
    signature: tuple[str, ...]
    options: tuple[tuple[str, int], ...]
    faults: bool
    waits: bool
    buffers: tuple[str, ...]
    sizes: tuple[Expr, ...]
    grid: Grid

    @property
    def text(self) -> str:
        """The module around the function."""
        return module_text(self.function)


def emit_kernel(kernel: NestKernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """The function of a kernel without a template."""
    context = make_context(kernel, graph, gpu)
    if all(not s.order for s in kernel.stages):
        return _emit_points(kernel, context, hints, gpu)
    if is_crossed(kernel):
        body, programs, warps = emit_crossed(kernel, context, hints)
        return finish(kernel, body, line_grid(programs), {"num_warps": warps})
    short = short_tile(kernel, context, hints, gpu.units)
    if short is not None:
        return _emit_short(kernel, context, short)
    lanes = short_rows(kernel, context, hints)
    if lanes is not None:
        return _emit_short_rows(kernel, context, lanes)
    return _emit_rows(kernel, context, row_tile(kernel, context, hints, gpu.units))


def finish(
    kernel: FusedKernel,
    body: Body,
    grid: Grid,
    options: dict[str, int],
    *,
    early: bool = True,
    language: str = TRITON,
) -> EmittedKernel:
    """The module around a kernel's statements.

    `early`: it may start before the launch ahead has ended, where the device can do that. Not so
    kernels whose programs fill a processor each: those that find room first would share one, while
    others stand idle. `language`: TRITON or GLUON.
    """
    context = body.context
    names, types = parameters(kernel, body)
    narrow = ""
    if not context.wide:
        narrow = "".join(
            f"    {n} = {n}.to(tl.int32)\n" for s in context.sizes for n in [context.names[s]]
        )
    # The value that it has, as the compiler sees that it is a multiple.
    even = (n for s in context.sizes if s in context.even for n in [context.names[s]])
    narrow += "".join(f"    {n} = {n} // {EVEN} * {EVEN}\n" for n in even)
    text = body.writer.text()
    if context.early and not body.waited:
        calls = (LET_NEXT_START, WAIT) if early else (LET_NEXT_START,)
        text = "".join(f"    {call}\n" for call in calls) + text
    return EmittedKernel(
        f"@{language}.jit\ndef {NAME}({', '.join(names)}):\n{narrow}{text}",
        names,
        types,
        tuple(sorted(options.items())),
        body.faults,
        early and context.early,
        argument_buffers(kernel),
        context.sizes,
        grid,
    )


def parameters(kernel: FusedKernel, body: Body) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and types of what a kernel is launched with."""
    context = body.context
    buffers = argument_buffers(kernel)
    names = [context.pointers[b] for b in buffers]
    types = [pointer_type(context.buffers[b].dtype) for b in buffers]
    if body.faults:
        names.append(FAULT)
        types.append("*i32")
    names += [context.names[s] for s in context.sizes]
    types += ["i64"] * len(context.sizes)
    return tuple(names), tuple(types)


def module_text(functions: str) -> str:
    """A module of some functions: with what they import and call."""
    head = "import triton\nimport triton.language as tl\n"
    helpers = definitions(functions)
    if f"@{GLUON}.jit" in functions:
        head += gluon_imports()
    if "libdevice." in functions + helpers:
        head += "from triton.language.extra import libdevice\n"
    called = [c.removesuffix("()") for c in (LET_NEXT_START, WAIT) if c in functions + helpers]
    if called:
        head += f"from triton.language.extra.cuda import {', '.join(called)}\n"
    return f"{head}\n\n{helpers}{functions}"


def line_grid(programs: Expr) -> Grid:
    """A grid of one dimension."""
    return (programs, integer(1), integer(1))


def program_id(context: KernelContext) -> str:
    """The text of the program's number as an index."""
    return PROGRAM + (".to(tl.int64)" if context.wide else "")


def _emit_points(
    kernel: NestKernel, context: KernelContext, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    guards = find_guards(r for s in kernel.stages for n in s.nests for r in n.roots)
    tile = point_tile(kernel, context, hints, gpu.units, guards)
    body = Body(context, Writer(), len(tile.dims))
    body.guards = guards
    program = program_id(context)
    programs: Expr = integer(1)
    if tile.shared is not None:
        return _emit_shared(kernel, body, tile, tile.shared)
    if tile.turns > 1:
        (dim,) = tile.dims
        whole = dim.block * tile.turns
        first, start = body.fresh("first"), body.fresh("start")
        body.writer.line(f"{first} = {program} * {whole}")
        end = f"tl.minimum({first} + {whole}, {index_text(dim.points, context.names)})"
        with body.loop(f"for {start} in range({first}, {end}, {dim.block})"):
            body.open_dim(dim, start)
            _store_points(body, kernel)
        programs = ceil_div(dim.points, whole)
        return finish(kernel, body, line_grid(programs), tile.options)
    if len(tile.dims) == 1:
        (dim,) = tile.dims
        programs = ceil_div(dim.points, dim.block)
        if _ends_within_vectors(kernel, context, tile):
            full = index_text(FloorDiv(dim.points, integer(dim.block)), context.names)
            with body.loop(f"if {program} < {full}"):
                body.open_dim(Whole(**vars(dim)), f"{program} * {dim.block}")
                _store_points(body, kernel)
            with body.loop("else"):
                body.open_dim(dim, f"{program} * {dim.block}")
                _store_points(body, kernel)
            return finish(kernel, body, line_grid(programs), tile.options)
        body.open_dim(dim, f"{program} * {dim.block}")
    else:
        rows, columns = tile.dims
        across = ceil_div(columns.points, columns.block)
        text = index_text(across, context.names)
        body.open_dim(rows, f"{program} // ({text}) * {rows.block}")
        body.open_dim(columns, f"{program} % ({text}) * {columns.block}")
        programs = product((ceil_div(rows.points, rows.block), across))
    _store_points(body, kernel)
    return finish(kernel, body, line_grid(programs), tile.options)


def _ends_within_vectors(kernel: NestKernel, context: KernelContext, tile: PointTile) -> bool:
    """True where a mask would have threads read element by element what they could read at once.

    The last point lies within a vector, or may. Tiles that end before it need no mask: a program
    asks whether its tile is one of those, and has the text of both, which is worth it if short.
    """
    (dim,) = tile.dims
    touched = (context.buffers[b].dtype.itemsize for b in argument_buffers(kernel))
    vector = VECTOR_BYTES // min(touched, default=VECTOR_BYTES)
    nodes = postorder([r for s in kernel.stages for n in s.nests for r in n.roots])
    neighbours = dim.block // (WARP * tile.warps) > 1
    return neighbours and len(nodes) <= MOST_TWICE and not is_multiple(dim.points, vector)


def _emit_shared(
    kernel: NestKernel, body: Body, tile: PointTile, shared: SharedReads
) -> EmittedKernel:
    """Points of an axis one after the other, behind what they read alike."""
    (dim,), axis, program = tile.dims, shared.axis, program_id(body.context)
    across = ceil_div(dim.points, dim.block)
    text = index_text(across, body.context.names)
    body.open_dim(dim, f"{program} % ({text}) * {dim.block}")
    for node in shared.reads:
        body.value(node)
    turn = body.fresh("turn")
    with body.loop(f"for {turn} in tl.static_range({shared.turns})"):
        first = f"{program} // ({text}) * {shared.turns}"
        body.name_axis(axis.symbol, f"({first} + {turn})", None)
        _store_points(body, kernel)
    programs = product((across, ceil_div(axis.extent, shared.turns)))
    return finish(kernel, body, line_grid(programs), tile.options)


def _store_points(body: Body, kernel: NestKernel) -> None:
    for stage in kernel.stages:
        for nest in stage.nests:
            for store in nest.stores:
                body.store(store)


def _emit_short(kernel: NestKernel, context: KernelContext, tile: ShortTile) -> EmittedKernel:
    body = ShortBody(context, Writer())
    rows, columns = tile.rows, tile.columns
    across = ceil_div(columns.points, columns.block)
    program, text = program_id(context), index_text(across, context.names)
    body.open_clamped(rows, f"{program} // ({text}) * {rows.block}", apart=False)
    if tile.apart:
        body.open_clamped(columns, f"{program} % ({text}) * {columns.block}", apart=True)
    else:
        body.open_dim(columns, f"{program} % ({text}) * {columns.block}")
    for symbol in tile.merged:
        body.name_axis(symbol, "0", None)
    for stage in kernel.stages:
        emit_stage(body, stage)
    programs = product((ceil_div(rows.points, rows.block), across))
    return finish(kernel, body, line_grid(programs), {"num_warps": tile.warps})


def _emit_short_rows(kernel: NestKernel, context: KernelContext, rows: TileDim) -> EmittedKernel:
    """Reductions of a row by a lane, then the rows by all lanes, in the order of memory.

    Rows of 11 would have 16 lanes each, which exchange every sum in four steps and all compute what
    is computed of it: log_softmax of 5.8 million of them took 754 us on an H200.
    """
    body = ShortBody(context, Writer())
    body.open_clamped(rows, f"{program_id(context)} * {rows.block}", apart=False)
    *stages, last = kernel.stages
    for stage in stages:
        emit_stage(body, stage)
    points = product([a.extent for a in last.order])
    body.open_dim(TileDim("r0", last.order, power_above(int(points)), 1), "0")
    for nest in last.nests:
        for store in nest.stores:
            body.store(store)
    return finish(
        kernel, body, line_grid(ceil_div(rows.points, rows.block)), {"num_warps": LANES // WARP}
    )


def _emit_rows(kernel: NestKernel, context: KernelContext, tile: RowTile) -> EmittedKernel:
    body = Body(context, Writer(), 2)
    rows, program = tile.rows, program_id(context)
    programs = ceil_div(rows.points, rows.block)
    if tile.apart:
        text = index_text(programs, context.names)
        open_batch(body, tile.apart, f"({program} // ({text}))")
        program = f"{program} % ({text})"
        programs = product((*(a.extent for a in tile.apart), programs))
    body.open_dim(rows, f"{program} * {rows.block}")
    opened: set[str] = set()
    ended: set[str] = set()
    """Dimensions whose last walk came to their end: the next one begins there, with what is in
    caches still."""
    merged: Stage | None = None
    for stage, following in zip(kernel.stages, (*kernel.stages[1:], None), strict=True):
        if stage is merged:
            continue
        columns = tile.columns[tuple(a.extent for a in stage.order)]
        looped = columns.name in tile.looped
        if tile.near:
            last = stage is kernel.stages[-1]
            body.policy = "evict_first" if last else "evict_last"
        online = find_online(stage, following) if looped else None
        if online is not None:
            across = rows_contiguous(kernel, stage, context, rows.axes)
            online.emit(body, rows, columns, across=across)
            merged = following
            ended.add(columns.name)
            continue
        if not looped and columns.name not in opened and columns.name not in tile.pieces:
            body.open_dim(columns, "0")
            opened.add(columns.name)
        walk = _Rows(body, stage, rows, columns, looped, tile.pieces.get(columns.name, ()))
        back = columns.name in ended and not walk.is_ordered
        walk.emit(back=back)
        if looped:
            ended = ended - {columns.name} if back else ended | {columns.name}
    return finish(kernel, body, line_grid(programs), {"num_warps": tile.warps})


class _Rows:
    """Writes one stage of a kernel with inner loops. Use once: `emit`."""

    def __init__(
        self,
        body: Body,
        stage: Stage,
        rows: TileDim,
        columns: TileDim,
        looped: bool,
        pieces: Sequence[Piece],
    ) -> None:
        self._body = body
        self._stage = stage
        self._rows = rows
        self._columns = columns
        self._looped = looped
        self._pieces = pieces
        found = {r.node: r for n in stage.nests for r in reductions_of(n)}
        self._accumulators = {
            node: [Accumulator(r, rows.name, d.name, looped) for d in pieces or (columns,)]
            for node, r in found.items()
            if searched_with(r, found.values()) is None
        }
        self._extremes = [r for n, r in found.items() if n not in self._accumulators]

    @property
    def is_ordered(self) -> bool:
        """True when a later turn must come later: it finds positions."""
        return any(r.is_arg for n in self._stage.nests for r in reductions_of(n))

    def emit(self, *, back: bool) -> None:
        """Writes the stage; `back`: turns from the end of the rows to their beginning."""
        body = self._body
        if not self._pieces:
            body.declare_dim(self._columns)
        for accumulator, *_ in self._accumulators.values():
            accumulator.declare(body)
        if self._looped:
            self._hoist()
        walk = self._walk() if self._looped else None
        if walk is not None:
            self._turns(walk, back=back)
        elif self._looped and not back and all(n.reduction for n in self._stage.nests):
            # The compiler unrolls turns without masks: sums of 1940 x 65536 bfloat16 down its
            # columns took 62 us on an H200, 79 with them, max of 22618 x 2967 59 and 94.
            for dim, head in ranges(body, self._columns):
                start = body.fresh("start")
                with body.loop(f"for {start} in {head}"):
                    body.open_dim(dim, start)
                    self._point()
            body.declare_dim(self._columns)
        elif self._looped:
            end = index_text(self._columns.points, body.context.names)
            start, block = body.fresh("start"), self._columns.block
            with body.loop(f"for {start} in range(0, {end}, {block})"):
                text = f"(({end}) - 1) // {block} * {block} - {start}" if back else start
                body.open_dim(self._columns, text)
                self._point()
        elif not self._pieces:
            self._point()
        for place, piece in enumerate(self._pieces):
            with body.piece(piece, str(piece.start)):
                self._point(place)
        for node, (accumulator, *others) in self._accumulators.items():
            body.define(node, accumulator.finish(body, *others))
        for r in self._extremes:
            search = searched_with(r, [a.reduction for a, *_ in self._accumulators.values()])
            assert search is not None
            (found,) = self._accumulators[search.node]
            body.define(r.node, found.extreme(body, r))
        store_reduced(body, self._stage)

    def _walk(self) -> Walk | None:
        """From a vector on, where rows are only reduced, or only written."""
        nests, written = self._stage.nests, [n for n in self._stage.nests if not n.reduction]
        if not written:
            values = [a.reduction.value for a, *_ in self._accumulators.values()]
            return find_walk(self._body, self._rows, self._columns, values)
        if len(written) < len(nests):
            return None
        roots, stores = [r for n in nests for r in n.roots], [s for n in nests for s in n.stores]
        return find_walk(self._body, self._rows, self._columns, roots, stores)

    def _turns(self, walk: Walk, *, back: bool) -> None:
        """Writes the turns of a walk, and what lies beside its whole vectors."""
        body, columns = self._body, self._columns
        for _ in turns(body, columns, walk, ordered=self.is_ordered, back=back):
            self._point()
        if self.is_ordered:
            return
        for found in self._accumulators.values():
            r = found[0].reduction
            found.append(Accumulator(r, self._rows.name, rest_of(columns), looped=False))
        with beside(body, columns, walk, begins=not self._accumulators):
            self._point(-1)

    def _point(self, place: int = 0) -> None:
        for nest in self._stage.nests:
            if not nest.reduction:
                for store in nest.stores:
                    self._body.store(store)
        for accumulators in self._accumulators.values():
            accumulators[place].step(self._body)

    def _hoist(self) -> None:
        """Emits before the loop what does not vary in it."""
        inner = {a.symbol for a in self._stage.order}
        late: set[Node] = set()
        roots = [r for n in self._stage.nests for r in n.roots]
        for node in postorder(roots):
            own = {s for e in index_exprs(node) for s in e.free_symbols}
            if node.op == "reduce" or own & inner or any(a in late for a in node.args):
                late.add(node)
            elif node.op not in ("const", "index"):
                self._body.value(node)
