"""The memory plan: offsets by live ranges in one arena, and results in place of dying operands.

The new value of a state is written straight into the state's memory where every other reader of the
old value has run before; else it is a temporary until the run is over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from aot.ir.flow import scopes_of
from aot.ir.hints import Hints, hints_of
from aot.ir.kernels import (
    KernelGraph,
    MemoryPlan,
    NestKernel,
    Placement,
    TemplateKernel,
    fused_parts,
    kernel_bases,
)
from aot.ir.loops import reads, writes
from aot.ir.nests import LoopNest, Store
from aot.ir.scalar import Access, loads
from aot.ir.templates.base import TemplateCall
from aot.ir.work import buffer_bytes
from aot.schedule.timeline import timeline
from aot.symbolic import Expr, Symbol

ALIGNMENT = 64
"""Of places, in bytes: docs/format.md says so to readers of plans."""


@dataclass(frozen=True)
class LiveRange:
    """A temporary is live from the event that writes it first to its last use, inclusive.

    Events are those of `timeline`: kernels in order, and what control items do.
    """

    buffer: str
    first: int
    last: int
    size: int


def plan_memory(graph: KernelGraph) -> MemoryPlan:
    """Placement of every temporary that is neither local to a kernel nor an output."""
    hints = hints_of(graph.dims)
    tied = _tied(graph)
    kept = {**tied.fixed, **_kept_in_place(graph, {*tied.fixed, *tied.arena})}
    live = {name: life for name, life in live_ranges(graph, hints).items() if name not in kept}
    in_place = _in_place(graph, live, tied.arena)
    merged = _merge_live_ranges(live, in_place)
    placements = [p for arena in _arenas(graph, merged) for p in _place(graph, arena)]
    return MemoryPlan(
        tuple(placements),
        tuple(sorted({**in_place, **kept}.items())),
        tuple(m for m in graph.mutations if m.value not in kept),
    )


def _arenas(graph: KernelGraph, live: Mapping[str, LiveRange]) -> list[dict[str, LiveRange]]:
    """The temporaries of each arena: one for each scope of measured dims."""
    scopes = scopes_of(graph.flow)
    arenas: dict[int, dict[str, LiveRange]] = {}
    for name, life in live.items():
        symbols = {str(s) for size in graph.buffers[name].shape for s in size.free_symbols}
        scope = max((scopes.get(s, 0) for s in symbols), default=0)
        arenas.setdefault(scope, {})[name] = life
    return [arenas[scope] for scope in sorted(arenas)]


def _place(graph: KernelGraph, live: Mapping[str, LiveRange]) -> list[Placement]:
    offsets = _offsets(live)
    ordered = sorted(live.values(), key=lambda t: (offsets[t.buffer], t.first, t.buffer))
    placements: list[Placement] = []
    placed = _Alive()
    below: dict[str, frozenset[str]] = {}
    for item in ordered:
        size = buffer_bytes(graph.buffers[item.buffer])
        placements.append(Placement(item.buffer, size, _above(item, placed, below)))
        placed.add(item)
    return placements


def live_ranges(graph: KernelGraph, hints: Hints) -> dict[str, LiveRange]:
    """Live ranges, in events, of the temporaries that need a place in the arena."""
    found: dict[str, LiveRange] = {}
    local = {name for k in graph.kernels for part in fused_parts(k) for name in part.local}
    events = timeline(graph)
    left = {m.value for m in graph.mutations}
    for name, (first, last) in events.uses().items():
        buffer = graph.buffers[name]
        if buffer.kind != "temp" or name in graph.outputs or name in local:
            continue
        size = hints.elements(buffer.shape) * buffer.dtype.itemsize
        end = len(events.touched) if name in left else last
        found[name] = LiveRange(name, first, end, size)
    return found


@dataclass(frozen=True)
class _Tied:
    """Buffers of updates -> the one whose memory they share.

    `fixed`: that is a state or an output. `arena`: result of an update -> its base.
    """

    fixed: Mapping[str, str]
    arena: Mapping[str, str]


def _tied(graph: KernelGraph) -> _Tied:
    pairs = [pair for kernel in graph.kernels for pair in kernel_bases(kernel).items()]
    chains: dict[str, list[str]] = {}
    for result, base in pairs:
        chain = chains.get(base, [base])
        chain.append(result)
        chains.update(dict.fromkeys(chain, chain))
    fixed: dict[str, str] = {}
    arena: dict[str, str] = {}
    for result, base in pairs:
        chain = chains[base]
        home = next(
            (n for n in chain if graph.buffers[n].kind != "temp" or n in graph.outputs), None
        )
        if home is None:
            arena[result] = base
        else:
            fixed.update({name: home for name in (result, base) if name != home})
    return _Tied(fixed, arena)


def _kept_in_place(graph: KernelGraph, tied: Collection[str]) -> dict[str, str]:
    """New value -> the state whose memory it is written into.

    No kernel after the one that writes it reads the old value, and that one reads each element, if
    at all, where it writes it.
    """
    chosen: dict[str, str] = {}
    if graph.flow:
        return chosen  # kernels may run several times, or not at all
    for mutation in graph.mutations:
        state = graph.buffers[mutation.target]
        if state.kind != "state" or mutation.value in tied:
            continue
        writers = [k for k, kernel in enumerate(graph.kernels) if mutation.value in kernel.writes]
        readers = [k for k, kernel in enumerate(graph.kernels) if state.name in kernel.reads]
        if len(writers) != 1 or any(k > writers[0] for k in readers):
            continue
        kernel = graph.kernels[writers[0]]
        beside = writers[0] in readers
        plain = isinstance(kernel, NestKernel) and _replaces(
            graph, kernel, mutation.value, state.name
        )
        if not beside or plain:
            chosen[mutation.value] = state.name
    return chosen


def _in_place(
    graph: KernelGraph, live: Mapping[str, LiveRange], given: Mapping[str, str]
) -> dict[str, str]:
    """Result -> operand whose memory it takes: it dies in that kernel, read where it is written.

    `given`: pairs that hold anyway.
    """
    chosen = dict(given)
    taken = set(chosen.values())
    for position, kernel in zip(timeline(graph).kernels, graph.kernels, strict=True):
        if not isinstance(kernel, NestKernel | TemplateKernel):
            continue
        for result in kernel.writes:
            life = live.get(result)
            if life is None or life.first != position or result in given:
                continue
            for operand in kernel.reads:
                other = live.get(operand)
                dying = other is not None and other.last == position and other.first < position
                if dying and operand not in taken and _may_replace(graph, kernel, result, operand):
                    chosen[result] = operand
                    taken.add(operand)
                    break
    return chosen


def _may_replace(
    graph: KernelGraph, kernel: NestKernel | TemplateKernel, result: str, operand: str
) -> bool:
    """True when the result may overwrite the operand: `_replaces`, or by an epilogue."""
    if isinstance(kernel, NestKernel):
        return _replaces(graph, kernel, result, operand)
    return _finishes_over(graph, kernel, result, operand)


def _finishes_over(graph: KernelGraph, kernel: TemplateKernel, result: str, operand: str) -> bool:
    """True when an epilogue may store the result over an operand of its own.

    Equal shape, strides and type; the template and what it loads through read other buffers; the
    one stage, which is evaluated once for each element, reads the operand only where it stores.
    """
    if not kernel.finishes_once or len(kernel.stages) != 1 or not _alike(graph, result, operand):
        return False
    loading: list[LoopNest | TemplateCall] = [kernel.template, *kernel.prologue]
    if any(operand in reads(op) for op in loading):
        return False
    nests = kernel.stages[0].nests
    places = [s.index for n in nests for s in n.stores if s.buffer == result]
    seen = [access for nest in nests for access in _plain_reads(nest, operand)]
    if not seen or len(places) != 1 or not reads_in_time(nests, result, operand):
        return False
    return all(a is not None and a.index == places[0] for a in seen)


def reads_in_time(nests: Sequence[LoopNest], result: str, operand: str) -> bool:
    """Whether the nests of a stage have read an operand's element when they store the result's.

    Stores are made one after the other. Of equal loads there is one, where the first one stands.
    """
    reading = [
        (store.buffer, any(a.buffer == operand for a in _accesses(store)))
        for nest in nests
        for store in nest.stores
    ]
    stored = next(k for k, (name, _) in enumerate(reading) if name == result)
    return any(reads_it for _, reads_it in reading[: stored + 1]) or not any(
        reads_it for _, reads_it in reading
    )


def _accesses(store: Store) -> list[Access]:
    found = [node.attr for node in loads((store.value, *(node for _, node in store.binds)))]
    return [access for access in found if isinstance(access, Access)]


def _alike(graph: KernelGraph, result: str, operand: str) -> bool:
    """Whether elements of both lie at equal places; a buffer of the plan has one type."""
    new, old = graph.buffers[result], graph.buffers[operand]
    return (new.shape, new.strides, new.dtype) == (old.shape, old.strides, old.dtype)


def _replaces(graph: KernelGraph, kernel: NestKernel, result: str, operand: str) -> bool:
    """True when the result may overwrite the operand.

    Equal shape, strides and type; one nest writes the result and reads the operand there,
    at the same index, in time; other nests read it at that index too, or in an earlier stage of
    the same work unit.
    """
    if not _alike(graph, result, operand):
        return False
    writers = [
        (s, n) for s, st in enumerate(kernel.stages) for n in st.nests if result in writes(n)
    ]
    if len(writers) != 1:
        return False
    home, writer = writers[0]
    index = next(s.index for s in writer.stores if s.buffer == result)
    if not reads_in_time(kernel.stages[home].nests, result, operand):
        return False
    same_point = False
    for position, stage in enumerate(kernel.stages):
        for nest in stage.nests:
            for access in _plain_reads(nest, operand):
                if access is None or position > home:
                    return False
                if position == home and access.index != index:
                    return False
                if position < home and not _unit_local(kernel, access, index):
                    return False
                same_point |= nest is writer
    return same_point


def _plain_reads(nest: LoopNest, buffer: str) -> list[Access | None]:
    """Accesses of the nest to that buffer; None for one that is masked or indirect."""
    found: list[Access | None] = []
    for node in loads(nest.roots):
        access = node.attr
        assert isinstance(access, Access)
        if access.buffer == buffer:
            found.append(None if access.masked or access.binds else access)
    return found


def _unit_local(kernel: NestKernel, access: Access, index: tuple[Expr, ...]) -> bool:
    """True when a work unit reads, through `access`, only what it writes itself through `index`."""
    outer = {a.symbol for a in kernel.outer}
    if kernel.strip is not None:
        outer.add(kernel.strip.axis.symbol)
    used: set[Symbol] = set()
    for mine, other in zip(index, access.index, strict=True):
        shared = mine.free_symbols & outer
        used |= shared
        if shared and other != mine:
            return False
    return outer <= used


def _merge_live_ranges(
    live: Mapping[str, LiveRange], in_place: Mapping[str, str]
) -> dict[str, LiveRange]:
    """One live range for each chain of buffers that share memory, under the first one's name."""
    merged = dict(live)
    for result, operand in sorted(in_place.items(), key=lambda p: live[p[0]].first):
        owner = operand
        while owner in in_place:
            owner = in_place[owner]
        gone = merged.pop(result)
        old = merged[owner]
        merged[owner] = LiveRange(owner, old.first, max(old.last, gone.last), old.size)
    return merged


@dataclass
class _Alive:
    """Live ranges that have been added, by the events when they begin and when they are alive."""

    items: list[LiveRange] = field(default_factory=list)
    begun: dict[int, list[int]] = field(default_factory=dict)
    alive: dict[int, list[int]] = field(default_factory=dict)

    def add(self, item: LiveRange) -> None:
        """One more."""
        number = len(self.items)
        self.items.append(item)
        self.begun.setdefault(item.first, []).append(number)
        for event in range(item.first, item.last + 1):
            self.alive.setdefault(event, []).append(number)

    def beside(self, item: LiveRange) -> list[LiveRange]:
        """Those that are alive at an event when the item is, in the order in which they came."""
        found = set(self.alive.get(item.first, ()))
        for event in range(item.first + 1, item.last + 1):
            found.update(self.begun.get(event, ()))
        return [self.items[number] for number in sorted(found)]


def _offsets(live: Mapping[str, LiveRange]) -> dict[str, int]:
    """Best-fit offsets at the hint sizes: large buffers first, each into the tightest hole."""
    offsets: dict[str, int] = {}
    placed = _Alive()
    for item in sorted(live.values(), key=lambda t: (-t.size, t.first, t.buffer)):
        taken = sorted(
            (offsets[o.buffer], offsets[o.buffer] + _aligned(o.size)) for o in placed.beside(item)
        )
        offsets[item.buffer] = _tightest_hole(taken, _aligned(item.size))
        placed.add(item)
    return offsets


def _aligned(size: int) -> int:
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT


def _tightest_hole(taken: list[tuple[int, int]], size: int) -> int:
    best: tuple[int, int] | None = None
    end = 0
    for start, stop in taken:
        hole = start - end
        if hole >= size and (best is None or hole < best[0]):
            best = (hole, end)
        end = max(end, stop)
    return best[1] if best is not None else end


def _above(item: LiveRange, placed: _Alive, below: dict[str, frozenset[str]]) -> tuple[str, ...]:
    """Earlier placed buffers alive together with `item`, without those implied by others."""
    beneath = placed.beside(item)
    implied = frozenset[str]().union(*(below[o.buffer] for o in beneath))
    direct = tuple(o.buffer for o in beneath if o.buffer not in implied)
    below[item.buffer] = implied.union(o.buffer for o in beneath)
    return direct
