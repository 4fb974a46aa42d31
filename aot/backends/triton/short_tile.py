"""Tiles of kernels whose reductions are short: a lane for each result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aot.backends.triton.context import KernelContext, TileDim
from aot.ir.hints import Hints, is_function
from aot.ir.kernel_facts import index_exprs
from aot.ir.kernels import FusedKernel, NestKernel, Stage
from aot.ir.nests import Axis
from aot.ir.scalar import Access, IndexValue, Node, loads, postorder
from aot.ir.templates.resample import Resample
from aot.symbolic import Expr, Symbol, coefficient_of, is_int, power_above, substitute

MOST_POINTS = 64
"""Points of a reduction that are written out."""

MOST_NODES = 4096
"""Operations that a kernel may become by that."""

FEW_POINTS, MANY_RESULTS = 16, 4096
"""More points than these only for so many results: otherwise too few threads would be busy."""

STRETCH = 16
"""Elements between the reads of neighbouring lanes up to which they share cache lines."""

SHORTEST = 4
"""Points up to which a thread has 16 results rather than 8."""

COLUMNS = 32
"""Columns are flattened from several axes until there are so many."""

MOST_COLUMNS = 512
"""Columns of a program of one row."""

LANES = 128
"""Threads of a program."""

VECTOR_BYTES = 16
"""That a thread loads at once."""

MOST_CODE = 2048
"""Instructions of functions in a kernel, about: more would outgrow the instruction cache, and the
compiler would read what all of them want before the first one."""

FUNCTION = 64
"""Instructions of a function that the device has no instruction for, about."""

_QUICK = frozenset(("exp", "exp2", "log", "log2", "sigmoid"))
"""Functions that the device has an instruction for."""

HELD = 128
"""Points that a thread keeps for a second reduction, each in one of its 255 registers."""


@dataclass(frozen=True)
class ShortTile:
    """Rows and columns of results.

    `merged`: variables of axes that an axis of the columns has taken in; they stand for 0.
    `apart`: lanes own single columns, since reads are scattered.
    """

    rows: TileDim
    columns: TileDim
    merged: tuple[Symbol, ...]
    apart: bool
    warps: int


def short_tile(
    kernel: NestKernel, context: KernelContext, hints: Hints, units: int
) -> ShortTile | None:
    """The tile of a kernel whose reductions are all short; None for others."""
    if not kernel.outer or not all(_is_short(s) for s in kernel.stages):
        return None
    results = hints.volume(kernel.outer)
    points = max(hints.volume(s.order) for s in kernel.stages)
    if points > FEW_POINTS and (results < MANY_RESULTS or _finds_places(kernel)):
        return None
    touched = accesses(kernel, context, None)
    fitting = MOST_CODE // max(1, *(_code(s, hints) for s in kernel.stages))
    if fitting < 1:
        return None
    rows, columns, merged = _split(kernel, touched, hints)
    inner = {a.symbol for s in kernel.stages for a in s.order}
    apart = False
    for offset, bound in touched.reads:
        step = _step(offset, bound, columns[-1], hints)
        if offset.free_symbols & inner and not 0 <= step <= STRETCH:
            return None
        apart |= step > 1 or any(a.symbol in bound for a in columns)
    placed = touched.placed
    if (
        points > SHORTEST
        and columns[-1].symbol in placed
        and placed.isdisjoint(a.symbol for a in rows)
    ):
        high, across, warps = _one_row(max(1, hints.volume(columns)))
    else:
        again = sum(bool(s.order) for s in kernel.stages) > 1
        held = min(fitting, max(1, HELD // points)) if again else fitting
        high, across, warps = _blocks(rows, columns, points, apart, held, hints, units)
    return ShortTile(
        TileDim("x", rows, high, 0), TileDim("y", columns, across, 1), merged, apart, warps
    )


def short_rows(kernel: NestKernel, context: KernelContext, hints: Hints) -> TileDim | None:
    """The rows of a program whose short rows a lane each reduces, before all lanes store them.

    None where that is not worth it: rows of whole vectors have few lanes each as they are.
    """
    *stages, last = kernel.stages
    if not kernel.outer or not stages or not all(_is_short(s) and s.order for s in stages):
        return None
    if not last.inner or last.order != last.inner or _finds_places(kernel):
        return None
    points = max(hints.volume(s.order) for s in kernel.stages)
    rows = hints.volume(kernel.outer)
    if not all(is_int(a.extent) for a in last.order) or points > FEW_POINTS or rows < MANY_RESULTS:
        return None
    if max(_code(s, hints) for s in stages) > MOST_CODE:
        return None
    touched = accesses(kernel, context, None)
    inner = {a.symbol for s in kernel.stages for a in s.order}
    walked = [(o, b) for o, b in touched.reads if o.free_symbols & inner or b & inner]
    steps = [_step(offset, bound, kernel.outer[-1], hints) for offset, bound in walked]
    sizes = [context.buffers[b].dtype.itemsize for b in kernel.reads]
    if not steps or not all(0 <= step <= STRETCH for step in steps):
        return None
    if all(step * size % VECTOR_BYTES == 0 for step in steps for size in sizes):
        return None
    return TileDim("x", kernel.outer, LANES, 0)


def _finds_places(kernel: NestKernel) -> bool:
    """True where each point of a reduction is a chain of comparisons behind the one before."""
    nodes = postorder([r for s in kernel.stages for n in s.nests for r in n.roots])
    return any(n.op == "reduce" and n.attr in ("argmin", "argmax") for n in nodes)


def _is_short(stage: Stage) -> bool:
    if not stage.order:
        return True
    if stage.inner or not all(n.reduction for n in stage.nests):
        return False
    if not all(a.extent.is_Integer and int(a.extent) > 0 for a in stage.order):
        return False
    points = 1
    for axis in stage.order:
        points *= int(axis.extent)
    nodes = len(postorder([r for n in stage.nests for r in n.roots]))
    return points <= MOST_POINTS and points * nodes <= MOST_NODES


def _code(stage: Stage, hints: Hints) -> int:
    """Instructions that the functions of a stage's points become for one result, about."""
    reduces = [n for n in postorder([r for n in stage.nests for r in n.roots]) if n.op == "reduce"]
    inside = postorder([a for n in reduces for a in n.args])
    functions = sum(is_function(n.op) and n.op not in _QUICK for n in inside)
    return FUNCTION * functions * hints.volume(stage.order)


@dataclass(frozen=True)
class Accesses:
    """Offsets of a kernel's reads, with the variables that their bound values use, and stores.

    `valued`: variables whose own values the kernel computes with.
    """

    reads: tuple[tuple[Expr, frozenset[Symbol]], ...]
    stores: tuple[Expr, ...]
    valued: frozenset[Symbol]

    @property
    def placed(self) -> frozenset[Symbol]:
        """Variables along which a table places reads."""
        return frozenset[Symbol]().union(*(bound for _, bound in self.reads))


def accesses(kernel: FusedKernel, context: KernelContext, call: Resample | None) -> Accesses:
    """What a kernel reads and writes; of a template call, its operand x and its output."""
    reads: list[tuple[Expr, frozenset[Symbol]]] = []
    stores: list[Expr] = []
    if call is not None:
        x, output = call.x, call.output
        at = {a.symbol: o.symbol for a, o in zip(x.axes, output.axes, strict=True)}
        index = [substitute(e, at) for e in x.index]
        reads.append((context.offset(x.buffer, index), frozenset()))
        if output.buffer in context.pointers:
            stores.append(context.offset(output.buffer, output.index))
    valued: set[Symbol] = set()
    for stage in kernel.stages:
        for nest in stage.nests:
            for node in postorder(nest.roots):
                if isinstance(node.attr, IndexValue):
                    valued |= node.attr.expr.free_symbols
            for node in loads(nest.roots):
                access = node.attr
                assert isinstance(access, Access)
                if access.buffer not in context.pointers:
                    continue
                bound = _symbols(_placing(node.args[: len(access.binds)]))
                reads.append((context.offset(access.buffer, access.index), bound))
            for store in nest.stores:
                if store.buffer in context.pointers:
                    stores.append(context.offset(store.buffer, store.index))
    return Accesses(tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(stores)), frozenset(valued))


def _placing(nodes: Iterable[Node]) -> list[Node]:
    """Of what says where to read, the tables: not what a reduction has found."""
    return [n for n in nodes if not any(inner.op == "reduce" for inner in postorder([n]))]


def _symbols(nodes: Iterable[Node]) -> frozenset[Symbol]:
    return frozenset(s for n in postorder(nodes) for e in index_exprs(n) for s in e.free_symbols)


def _step(offset: Expr, bound: frozenset[Symbol], axis: Axis, hints: Hints) -> int:
    """Elements between the reads of neighbours along an axis; 2 where a table says; -1: unknown."""
    if axis.symbol in bound:
        return 2
    step = coefficient_of(offset, axis.symbol)
    if step is None or not step.free_symbols <= hints.dims.keys():
        return -1
    return hints.value(step)


def _split(
    kernel: NestKernel, accesses: Accesses, hints: Hints
) -> tuple[tuple[Axis, ...], tuple[Axis, ...], tuple[Symbol, ...]]:
    """(rows, columns, merged): the outer axes in the order of memory that the kernel writes."""
    axes = list(kernel.outer)
    steps = [coefficient_of(accesses.stores[-1], a.symbol) for a in axes] if accesses.stores else []
    if steps and all(s is not None for s in steps):
        sizes = [hints.value(s) for s in steps if s is not None]
        axes = [axes[k] for k in sorted(range(len(axes)), key=lambda k: -sizes[k])]
    columns, merged = [axes.pop()], list[Symbol]()
    while axes:
        if is_one_axis(accesses, axes[-1], columns[0]):
            outer = axes.pop()
            merged.append(outer.symbol)
            columns[0] = Axis(columns[0].symbol, outer.extent * columns[0].extent)
        elif hints.volume(columns) < COLUMNS:
            columns.insert(0, axes.pop())
        else:
            break
    # Windows that a table places overlap from row to row: those rows in one tile share reads.
    placed = accesses.placed
    rows = sorted(axes, key=lambda a: a.symbol in placed)
    return tuple(rows), tuple(columns), tuple(merged)


def is_one_axis(accesses: Accesses, outer: Axis, inner: Axis) -> bool:
    """True when nothing in the kernel tells the two axes from one flat axis."""
    if accesses.valued & {outer.symbol, inner.symbol}:
        return False
    for offset, bound in (*accesses.reads, *((s, frozenset[Symbol]()) for s in accesses.stores)):
        if bound & {outer.symbol, inner.symbol}:
            return False
        far, near = (coefficient_of(offset, a.symbol) for a in (outer, inner))
        if far is None or near is None or far != near * inner.extent:
            return False
    return True


def _blocks(
    rows: tuple[Axis, ...],
    columns: tuple[Axis, ...],
    length: int,
    apart: bool,
    most: int,
    hints: Hints,
    units: int,
) -> tuple[int, int, int]:
    """(rows, columns, warps): more results a thread the shorter their sums, if all are busy.

    `most`: results of a thread.
    """
    deep, wide = max(1, hints.volume(rows)), max(1, hints.volume(columns))
    each = 16 if length <= SHORTEST and not apart else 8
    points = LANES * min(each, power_above(most + 1) // 2)
    least = LANES
    # Scattered reads take longer to come: more threads wait for them.
    units = 2 * units if apart and length > SHORTEST else units
    while points > least and deep * wide < points * units:
        points //= 2
    high = min(points // LANES, power_above(deep))
    across = _best_block(wide, points // high)
    high = min(points // across, power_above(deep))
    warps = max(1, min(4, high * across // 32))
    return high, across, warps


def _one_row(wide: int) -> tuple[int, int, int]:
    """(rows, columns, warps) where a table places reads along the columns and along nothing else.

    Rows share no reads then: one at a time, and threads of one warp side by side, keep what they
    read in the nearest cache.
    """
    across = max(32, min(MOST_COLUMNS, power_above(wide)))
    return 1, across, 1


def _best_block(points: int, most: int) -> int:
    """The widest block that wastes hardly more lanes than the best one."""
    sizes = [1 << k for k in range(5, 11) if 1 << k <= most] or [most]
    covered = {s: -(-points // s) * s for s in sizes}
    least = min(covered.values())
    return max(s for s in sizes if covered[s] * 8 <= least * 9)
