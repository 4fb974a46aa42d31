"""The memory plan: temporaries share one arena, and dying inputs become results in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aot.ir.hints import Hints, hints_of
from aot.ir.kernels import Kernel, KernelGraph, MemoryPlan, Placement
from aot.ir.loops import Buffer, LoopNest, writes
from aot.ir.scalar import Access, loads
from aot.symbolic import Expr, Symbol, integer, product

ALIGNMENT = 64


@dataclass(frozen=True)
class Lifetime:
    """A temporary is alive from the kernel that writes it first to its last use, inclusive."""

    buffer: str
    first: int
    last: int
    size: int


def plan_memory(graph: KernelGraph) -> MemoryPlan:
    """Placement of every temporary that is neither local to a kernel nor an output."""
    hints = hints_of(graph.dims)
    lifetimes = buffer_lifetimes(graph, hints)
    in_place = _in_place(graph, lifetimes)
    merged = _merge_lifetimes(lifetimes, in_place)
    offsets = _offsets(merged)
    ordered = sorted(merged.values(), key=lambda t: (offsets[t.buffer], t.first, t.buffer))
    placements: list[Placement] = []
    below: dict[str, frozenset[str]] = {}
    for item in ordered:
        size = buffer_bytes(graph.buffers[item.buffer])
        above = _above(item, ordered[: len(placements)], offsets, below)
        placements.append(Placement(item.buffer, size, above))
    return MemoryPlan(tuple(placements), tuple(sorted(in_place.items())))


def buffer_bytes(buffer: Buffer) -> Expr:
    """Bytes of a buffer with dense strides."""
    return product((*buffer.shape, integer(buffer.dtype.itemsize)))


def buffer_lifetimes(graph: KernelGraph, hints: Hints) -> dict[str, Lifetime]:
    """Lifetimes, in kernel positions, of the temporaries that need a place in the arena."""
    found: dict[str, Lifetime] = {}
    local = {name for k in graph.kernels for name in k.local}
    for position, kernel in enumerate(graph.kernels):
        for name in (*kernel.reads, *kernel.writes):
            buffer = graph.buffers[name]
            if buffer.kind != "temp" or name in graph.outputs or name in local:
                continue
            first = found[name].first if name in found else position
            size = hints.elements(buffer.shape) * buffer.dtype.itemsize
            found[name] = Lifetime(name, first, position, size)
    return found


def _in_place(graph: KernelGraph, lifetimes: Mapping[str, Lifetime]) -> dict[str, str]:
    """Result -> operand whose memory it takes: it dies in that kernel, read where it is written."""
    chosen: dict[str, str] = {}
    for position, kernel in enumerate(graph.kernels):
        if kernel.template is not None:
            continue
        for result in kernel.writes:
            life = lifetimes.get(result)
            if life is None or life.first != position:
                continue
            for operand in kernel.reads:
                other = lifetimes.get(operand)
                dying = other is not None and other.last == position and other.first < position
                if (
                    dying
                    and operand not in chosen.values()
                    and _replaces(graph, kernel, result, operand)
                ):
                    chosen[result] = operand
                    break
    return chosen


def _replaces(graph: KernelGraph, kernel: Kernel, result: str, operand: str) -> bool:
    """True when the result may overwrite the operand.

    Equal shape, strides and element size; one nest writes the result and reads the operand there,
    at the same index; other nests read it at that index too (equal loads are done once, before the
    store), or in an earlier stage of the same work unit.
    """
    new, old = graph.buffers[result], graph.buffers[operand]
    if (new.shape, new.strides) != (old.shape, old.strides):
        return False
    if new.dtype.itemsize != old.dtype.itemsize:
        return False
    writers = [
        (s, n) for s, st in enumerate(kernel.stages) for n in st.nests if result in writes(n)
    ]
    if len(writers) != 1:
        return False
    home, writer = writers[0]
    index = next(s.index for s in writer.stores if s.buffer == result)
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


def _unit_local(kernel: Kernel, access: Access, index: tuple[Expr, ...]) -> bool:
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


def _merge_lifetimes(
    lifetimes: Mapping[str, Lifetime], in_place: Mapping[str, str]
) -> dict[str, Lifetime]:
    """One lifetime per piece of memory, under the name of its first tenant."""
    merged = dict(lifetimes)
    for result, operand in sorted(in_place.items(), key=lambda p: lifetimes[p[0]].first):
        owner = operand
        while owner in in_place:
            owner = in_place[owner]
        gone = merged.pop(result)
        old = merged[owner]
        merged[owner] = Lifetime(owner, old.first, max(old.last, gone.last), old.size)
    return merged


def _overlap(a: Lifetime, b: Lifetime) -> bool:
    return a.first <= b.last and b.first <= a.last


def _offsets(lifetimes: Mapping[str, Lifetime]) -> dict[str, int]:
    """Best-fit offsets at the hint sizes: large buffers first, each into the tightest hole."""
    offsets: dict[str, int] = {}
    for item in sorted(lifetimes.values(), key=lambda t: (-t.size, t.first, t.buffer)):
        size = _aligned(item.size)
        taken = sorted(
            (offsets[o.buffer], offsets[o.buffer] + _aligned(o.size))
            for o in lifetimes.values()
            if o.buffer in offsets and _overlap(o, item)
        )
        offsets[item.buffer] = _tightest_hole(taken, size)
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


def _above(
    item: Lifetime,
    placed: list[Lifetime],
    offsets: Mapping[str, int],
    below: dict[str, frozenset[str]],
) -> tuple[str, ...]:
    """Earlier placed buffers alive together with `item`, without those implied by others."""
    beneath = [o for o in placed if _overlap(o, item)]
    implied = frozenset[str]().union(*(below[o.buffer] for o in beneath))
    direct = tuple(o.buffer for o in beneath if o.buffer not in implied)
    below[item.buffer] = implied.union(o.buffer for o in beneath)
    return direct
