"""The order of kernels: the program's own, unless another needs clearly less memory at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aot.ir.decisions import Decision
from aot.ir.hints import Hints, hints_of
from aot.ir.kernels import KernelGraph, kernel_bases
from aot.ir.work import buffer_bytes
from aot.schedule.dependencies import Usage, analyse

WORTH = 0.9
"""Peak memory, relative to the program's own order, from which another order is taken."""


def order_kernels(graph: KernelGraph) -> KernelGraph:
    """The graph with its kernels in an order of low peak memory. The same object if unchanged."""
    # An update overwrites its base: it comes after all who read that.
    usage = analyse([(k.reads, (*k.writes, *kernel_bases(k).values())) for k in graph.kernels])
    sizes = _sizes(graph, hints_of(graph.dims))
    original = list(range(len(graph.kernels)))
    greedy = _greedy(graph, usage, sizes)
    before, after = (_peak(graph, usage, sizes, order) for order in (original, greedy))
    if after >= WORTH * before:
        return graph
    kernels = tuple(graph.kernels[k] for k in greedy)
    reason = f"{after} bytes of temporaries at a time in place of {before}"
    moved = tuple(graph.kernels[k].name for n, k in enumerate(greedy) if n != k)
    decision = Decision("order", moved, "moved", reason)
    return replace(graph, kernels=kernels, decisions=(*graph.decisions, decision))


def _sizes(graph: KernelGraph, hints: Hints) -> dict[str, int]:
    """Bytes of the temporaries that pass between kernels."""
    between = {name for k in graph.kernels for name in (*k.reads, *k.writes)}
    return {
        name: hints.value(buffer_bytes(graph.buffers[name]))
        for name in between
        if graph.buffers[name].kind == "temp" and name not in graph.results
    }


def _greedy(graph: KernelGraph, usage: Usage, sizes: dict[str, int]) -> list[int]:
    """Always the ready kernel that leaves least memory in use; the earliest of equals."""
    waiting = [set(p) for p in usage.producers]
    users: dict[int, list[int]] = {}
    for position, needs in enumerate(waiting):
        for need in needs:
            users.setdefault(need, []).append(position)
    left = {name: len(usage.readers.get(name, ())) for name in sizes}
    order: list[int] = []

    def growth(position: int) -> int:
        kernel = graph.kernels[position]
        made = sum(sizes.get(name, 0) for name in kernel.writes)
        freed = sum(sizes[name] for name in kernel.reads if left.get(name) == 1)
        return made - freed

    ready = {k: growth(k) for k, needs in enumerate(waiting) if not needs}
    while ready:
        chosen = min(ready, key=lambda k: (ready[k], k))
        del ready[chosen]
        order.append(chosen)
        last: list[str] = []
        for name in graph.kernels[chosen].reads:
            if name in left:
                left[name] -= 1
                last += [name] if left[name] == 1 else []
        # Who alone is left to read a buffer now frees it.
        grown = {k for name in last for k in usage.readers[name] if k in ready}
        for user in users.get(chosen, ()):
            waiting[user].discard(chosen)
            if not waiting[user]:
                grown.add(user)
        ready.update({k: growth(k) for k in grown})
    assert len(order) == len(waiting), "kernels that wait for each other"
    return order


def _peak(graph: KernelGraph, usage: Usage, sizes: dict[str, int], order: Sequence[int]) -> int:
    """Greatest sum of living temporaries while the kernels run in that order."""
    place = {kernel: n for n, kernel in enumerate(order)}
    last = {
        name: max((place[k] for k in usage.readers.get(name, ())), default=-1) for name in sizes
    }
    dying: dict[int, list[str]] = {}
    live: set[str] = set()
    held = peak = 0
    for n, position in enumerate(order):
        for name in graph.kernels[position].writes:
            if name in sizes and name not in live:
                live.add(name)
                held += sizes[name]
                dying.setdefault(max(n, last[name]), []).append(name)
        peak = max(peak, held)
        for name in dying.pop(n, ()):
            live.remove(name)
            held -= sizes[name]
    return peak
