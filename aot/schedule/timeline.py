"""When buffers are in use (liveness): a graph's kernels and control items as a line of events."""

from __future__ import annotations

from dataclasses import dataclass, field

from aot.ir.flow import Flow, Repeat, Span, Straight, flows_in, slices_of, touched_by
from aot.ir.kernels import KernelGraph


@dataclass(frozen=True)
class Timeline:
    """Events in the order in which they may happen.

    `touched`: the buffers that each event reads or writes; a slice counts as what it is a part of.
    `kernels`: the event of each kernel. `loops`: first and last event of each loop, inner loops
    before those around them.
    """

    touched: tuple[tuple[str, ...], ...]
    kernels: tuple[int, ...]
    loops: tuple[tuple[int, int], ...]

    def uses(self) -> dict[str, tuple[int, int]]:
        """First and last event of each buffer.

        What lives when a loop begins, and is used in it, lives until the loop ends.
        """
        found: dict[str, tuple[int, int]] = {}
        for event, names in enumerate(self.touched):
            for name in names:
                found[name] = (found.get(name, (event, event))[0], event)
        for begin, end in self.loops:
            for name, (first, last) in found.items():
                if first <= begin <= last < end:
                    found[name] = (first, end)
        return found


def timeline(graph: KernelGraph) -> Timeline:
    """The events of a graph; without a flow, one for each kernel."""
    walk = _Walk(graph, slices_of(graph.flow))
    walk.flow(graph.flow or (Straight(Span(0, len(graph.kernels))),))
    return Timeline(tuple(walk.touched), tuple(walk.kernels), tuple(walk.loops))


@dataclass
class _Walk:
    graph: KernelGraph
    slices: dict[str, str]
    touched: list[tuple[str, ...]] = field(default_factory=list)
    kernels: list[int] = field(default_factory=list)
    loops: list[tuple[int, int]] = field(default_factory=list)

    def event(self, names: tuple[str, ...]) -> int:
        self.touched.append(tuple(dict.fromkeys(self.whole(n) for n in names)))
        return len(self.touched) - 1

    def whole(self, name: str) -> str:
        """What the buffer is a part of, if it is a slice (perhaps of a slice)."""
        while name in self.slices:
            name = self.slices[name]
        return name

    def flow(self, flow: Flow[Span]) -> None:
        for item in flow:
            if isinstance(item, Straight):
                for kernel in self.graph.kernels[item.graph.first :][: item.graph.count]:
                    self.kernels.append(self.event((*kernel.reads, *kernel.writes)))
                continue
            reads, writes = touched_by(item)
            sources = tuple(s.source for s in item.slices) if isinstance(item, Repeat) else ()
            begin = self.event(sources if isinstance(item, Repeat) else (*reads, *writes))
            for inner in flows_in(item):
                self.flow(inner)
                if isinstance(item, Repeat):
                    # After the condition the predicate is read; at the end the slices still live.
                    self.event(reads)
            if isinstance(item, Repeat):
                self.loops.append((begin, self.event(sources)))
