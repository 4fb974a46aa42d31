"""What a page shows of a model's kernels, explained or timed, and what follows from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from aot.ir.decisions import Decision
from aot.report.model import BufferReport


@dataclass(frozen=True)
class PageKernel:
    """One launch, in the order of execution.

    Attributes:
        name: The kernel's name.
        kind: "pointwise", "reduction", or the kind of its template; "" where it is not known.
        places: Model lines, each with the operators that it brought.
        reads: Names of the buffers that it reads.
        writes: Names of the buffers that it writes.
        nbytes: Bytes of those buffers.
        flops: Arithmetic operations; None where they are not known.
        least: Seconds that it takes at least; None where no machine was given.
        seconds: What it took; None where nothing was timed.
        details: More lines for who asks: its nests, its loops.
    """

    name: str
    kind: str
    places: tuple[tuple[str, tuple[str, ...]], ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    nbytes: int
    flops: int | None = None
    least: float | None = None
    seconds: float | None = None
    details: str = ""

    @property
    def time(self) -> float | None:
        """What it took, else what it takes at least."""
        return self.seconds if self.seconds is not None else self.least


@dataclass(frozen=True)
class TimelineEvent:
    """What happened on a timeline, in seconds from its begin.

    Attributes:
        name: What happened.
        track: On which thread or stream.
        begin: When it began.
        end: When it ended.
        kernel: The position of the launch in `PageProgram.kernels`; None of anything else.
    """

    name: str
    track: str
    begin: float
    end: float
    kernel: int | None = None


@dataclass(frozen=True)
class Link:
    """A kernel reads what an earlier one wrote: positions of both, and the buffer."""

    source: int
    target: int
    buffer: str


@dataclass(frozen=True)
class PageProgram:
    """What runs on one device.

    Attributes:
        title: Its target.
        facts: Sentences about all of it.
        kernels: Launches in the order of execution.
        buffers: What they read and write.
        events: What happened when; of explained programs, the least times one after the other.
        decisions: Every choice, with verdict and reason.
        timed: Whether the kernels have times that were measured.
    """

    title: str
    facts: tuple[str, ...]
    kernels: tuple[PageKernel, ...]
    buffers: tuple[BufferReport, ...]
    events: tuple[TimelineEvent, ...] = ()
    decisions: tuple[Decision, ...] = ()
    timed: bool = False

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Who reads from whom: of the writers ahead, the last one."""
        writers: dict[str, int] = {}
        found: dict[Link, None] = {}
        for index, kernel in enumerate(self.kernels):
            for name in kernel.reads:
                if name in writers:
                    found[Link(writers[name], index, name)] = None
            writers.update(dict.fromkeys(kernel.writes, index))
        return tuple(found)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """For each kernel, the length of the longest chain of kernels that it waits for."""
        columns = [0] * len(self.kernels)
        for link in sorted(self.links, key=lambda link: link.target):
            columns[link.target] = max(columns[link.target], columns[link.source] + 1)
        return tuple(columns)

    @cached_property
    def lives(self) -> Mapping[str, tuple[int, int]]:
        """For each temporary of the arena, the first launch that names it, and the last one."""
        lives: dict[str, tuple[int, int]] = {}
        placed = {b.name for b in self.buffers if b.offset is not None}
        for index, kernel in enumerate(self.kernels):
            for name in (*kernel.reads, *kernel.writes):
                if name in placed:
                    lives[name] = (lives.get(name, (index, index))[0], index)
        return lives

    @property
    def stages(self) -> tuple[tuple[str, tuple[Decision, ...]], ...]:
        """The decisions by the stage that made them."""
        names = dict.fromkeys(decision.stage for decision in self.decisions)
        return tuple((n, tuple(d for d in self.decisions if d.stage == n)) for n in names)


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        model: The model's name.
        title: What the page is.
        facts: Sentences about the model or the run.
        programs: One for each device.
        rows: More rows at the end: what, and how much.
        rows_title: Their heading.
    """

    model: str
    title: str
    facts: tuple[str, ...]
    programs: tuple[PageProgram, ...]
    rows: tuple[tuple[str, str], ...] = ()
    rows_title: str = ""


def lanes(columns: Sequence[int], links: Sequence[Link]) -> tuple[float, ...]:
    """A height for each kernel beside those of its column, near to what it reads from.

    Columns are centred on 0, and neighbours 1 apart (the barycentre heuristic of Sugiyama, Tagawa
    and Toda, 1981, in one sweep).
    """
    members: dict[int, list[int]] = {}
    for index, column in enumerate(columns):
        members.setdefault(column, []).append(index)
    sources: dict[int, list[int]] = {}
    for link in links:
        sources.setdefault(link.target, []).append(link.source)
    height = [0.0] * len(columns)

    def wanted(index: int) -> float:
        above = sources.get(index, ())
        return sum(height[s] for s in above) / len(above) if above else 0.0

    for column in sorted(members):
        ordered = sorted(members[column], key=lambda index: (wanted(index), index))
        for place, index in enumerate(ordered):
            height[index] = place - (len(ordered) - 1) / 2
    return tuple(height)
