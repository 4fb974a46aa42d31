"""Crossed kernels: one read of a matrix is reduced along both of its axes (`x.sum(0)`, `x.sum(1)`).

For devices whose work units are tiles. A work unit has all of its few rows and loops over blocks of
columns. Nests that reduce along columns give results of rows, which are complete after the loop;
nests that reduce along rows give results of columns, complete after each block. Matrices of more
rows are cut into blocks of rows before, whose partial results a second step combines
(`split_reductions`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from aot.ir.hints import Hints
from aot.ir.kernels import NestKernel, Stage
from aot.ir.loops import LoopGraph, reads, writes
from aot.ir.nests import Axis, LoopNest
from aot.ir.scalar import Access, Node, loads, postorder
from aot.schedule.groups import Group, rename
from aot.schedule.matching import IndexTerm
from aot.schedule.scheduler import Scheduler
from aot.schedule.stages import StageDraft, drop_unread
from aot.schedule.strides import strided_accesses
from aot.schedule.tile_kernels import with_producers_recomputed
from aot.schedule.vectorisation import order_by_stride
from aot.symbolic import Symbol, coefficient_of, product


@dataclass(frozen=True)
class Crossing:
    """A group's nests on the loops of one tile; each recomputes what it reads of the others.

    Inside of the group's outer axes a nest keeps `rows` and reduces `columns`, or keeps `columns`
    and reduces `rows`, or is pointwise over both or over `rows`.
    """

    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    nests: tuple[LoopNest, ...]


def is_crossed(group: Group) -> bool:
    """True when some nest reduces at more points than the outer loops have."""
    return any(n.reduction and n.axes != group.outer for n in group.nests)


def crossing(scheduler: Scheduler, group: Group) -> Crossing | str:
    """The group's nests over the rows and columns of one tile; or why that cannot be."""
    graph, hints, tile = scheduler.graph, scheduler.hints, scheduler.machine.crossed
    if tile is None:
        return "the device holds no such tiles"
    nests = with_producers_recomputed(graph, group.nests)
    count = len(group.outer)
    model = next((n for n in nests if n.reduction and len(n.axes) > count), None)
    if model is None:
        return "nothing reduces beside the outer loops"
    rows, columns = _rows_and_columns(graph, hints, model, model.axes[count:])
    volume = product([a.extent for a in rows])
    if not volume.is_Integer or not tile.least_rows <= int(volume) <= tile.most_rows:
        return f"{volume} rows are no tile's height"
    if hints.volume(columns) < tile.least_columns:
        return "the columns are few"
    known = dict(_places(model, (*rows, *columns)))
    found: list[LoopNest] = []
    for nest in nests:
        fresh = _onto(nest, count, (*rows, *columns), known)
        if fresh is None or not _fits(fresh, count, set(rows), set(columns)):
            return f"{nest.name} has loops that the tile has not"
        found.append(fresh)
        known.update(p for p in _places(fresh, (*rows, *columns)) if p[0] not in known)
    crossed = Crossing(rows, columns, tuple(found))
    return _refused(crossed, count) or crossed


def _rows_and_columns(
    graph: LoopGraph, hints: Hints, model: LoopNest, kept: tuple[Axis, ...]
) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """The kept axes and the reduced ones of a reducing nest, contiguous ones as the columns."""
    moves = [m for m in strided_accesses(graph, model) if not m.store]
    rows, columns = kept, model.reduction
    if any(m.stride(a.symbol) == 1 for m in moves for a in kept):
        rows, columns = columns, rows
    return (
        tuple(order_by_stride(hints, moves, rows)),
        tuple(order_by_stride(hints, moves, columns)),
    )


def _places(nest: LoopNest, axes: Iterable[Axis]) -> list[tuple[IndexTerm, Symbol]]:
    """The index terms of those loop variables, in the loads and stores of the nest."""
    accesses = [n.attr for n in loads(nest.roots)]
    touched = [(a.buffer, a.index) for a in accesses if isinstance(a, Access)]
    touched += [(s.buffer, s.index) for s in nest.stores]
    found: list[tuple[IndexTerm, Symbol]] = []
    for buffer, index in touched:
        for k, expr in enumerate(index):
            for axis in axes:
                weight = coefficient_of(expr, axis.symbol)
                if weight is not None and weight != 0:
                    found.append(((buffer, k, weight), axis.symbol))
    return found


def _onto(
    nest: LoopNest, count: int, loops: tuple[Axis, ...], known: dict[IndexTerm, Symbol]
) -> LoopNest | None:
    """The nest with its own loops renamed: by what they index, then by extents."""
    own = (*nest.axes[count:], *nest.reduction)
    extents = {a.symbol: a.extent for a in own}
    free = {a.symbol: a.extent for a in loops}
    pairs: dict[Symbol, Symbol] = {}
    for place, symbol in _places(nest, own):
        target = known.get(place)
        if symbol not in pairs and target in free and free[target] == extents[symbol]:
            pairs[symbol] = target
            del free[target]
    for axis in own:
        if axis.symbol in pairs:
            continue
        target = next((s for s, e in free.items() if e == axis.extent), None)
        if target is None:
            return None
        pairs[axis.symbol] = target
        del free[target]
    return rename(nest, pairs)


def _fits(nest: LoopNest, count: int, rows: set[Axis], columns: set[Axis]) -> bool:
    kept, reduced = set(nest.axes[count:]), set(nest.reduction)
    if reduced:
        return (kept, reduced) in ((rows, columns), (columns, rows))
    return kept in (rows, rows | columns)


def _refused(crossed: Crossing, count: int) -> str:
    """Why values cannot be passed on between the nests; "" when they can."""
    rows = set(crossed.rows)
    made: dict[str, LoopNest] = {}
    kinds: set[bool] = set()
    for nest in crossed.nests:
        for node in loads(nest.roots):
            assert isinstance(node.attr, Access)
            writer = made.get(node.attr.buffer)
            if writer is None:
                continue
            store = next(s for s in writer.stores if s.buffer == node.attr.buffer)
            by_row = set(writer.axes[count:]) == rows and store.index == node.attr.index
            if not by_row or node.attr.binds or store.mode != "set":
                return f"{nest.name} reads other points of {writer.name}"
        across = bool(nest.reduction) and set(nest.reduction) == rows
        if across and any(n.attr in ("argmin", "argmax") for n in _reduces(nest)):
            return f"{nest.name} wants the positions of rows"
        if nest.reduction:
            kinds.add(across)
        if any(s.binds or s.mode != "set" for s in nest.stores):
            return f"{nest.name} scatters"
        made.update({s.buffer: nest for s in nest.stores})
    return "" if len(kinds) == 2 else "nothing reduces along the other axis"


def _reduces(nest: LoopNest) -> list[Node]:
    return [n for n in postorder(nest.roots) if n.op == "reduce"]


def build_crossed_kernel(
    scheduler: Scheduler, group: Group, name: str, needed: frozenset[str]
) -> NestKernel:
    """The kernel of a group that `crossing` accepts. `needed`: buffers read outside the group.

    Raises:
        ValueError: `crossing` refuses the group.
    """
    found = crossing(scheduler, group)
    if isinstance(found, str):
        raise ValueError(f"{group.name} is no crossing: {found}")
    drafts = drop_unread(_drafts(found, len(group.outer)), needed)
    stages = tuple(Stage(d.inner, d.reduction, d.domain, None, d.nests) for d in drafts)
    nests = [n for s in stages for n in s.nests]
    written = list(dict.fromkeys(b for n in nests for b in writes(n)))
    read = list(dict.fromkeys(b for n in nests for b in reads(n)))
    return NestKernel(
        name,
        group.outer,
        stages,
        None,
        tuple(b for b in written if b not in needed),
        tuple(b for b in read if b not in written),
        tuple(b for b in written if b in needed),
    )


def _drafts(crossed: Crossing, count: int) -> tuple[StageDraft, ...]:
    """The nests as stages: loops over the columns, and what is computed per row between them.

    A nest that reads a result of the rows comes after the loop over the columns that makes it.
    """
    level: dict[str, int] = {}
    placed: dict[tuple[int, bool], list[LoopNest]] = {}
    for nest in crossed.nests:
        turn = max((level[b] + 1 for b in reads(nest) if b in level), default=0)
        walks = bool(nest.reduction) or set(nest.axes[count:]) != set(crossed.rows)
        kept = (*nest.axes[:count], *crossed.rows, *crossed.columns)
        whole = walks and not nest.reduction
        ordered = replace(nest, axes=kept) if whole else nest
        placed.setdefault((turn, walks), []).append(ordered)
        level.update({s.buffer: turn for s in nest.stores})
    return tuple(
        StageDraft(crossed.rows, crossed.columns if walks else (), tuple(nests))
        for (_, walks), nests in sorted(placed.items(), key=lambda item: item[0])
    )
