"""Legality: the one place that says whether two groups may share a kernel, and why not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from aot.ir.hints import Hints, larger_hints
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import LoopNest
from aot.ir.templates.base import TemplateCall
from aot.schedule.cost import saved_bytes
from aot.schedule.crossed import crossing, is_crossed
from aot.schedule.epilogue import attach_epilogue
from aot.schedule.groups import Group, apart
from aot.schedule.loops import group_cost, parallel_units
from aot.schedule.matching import dependences, match
from aot.schedule.precedence import Precedence
from aot.schedule.prologue import attach_prologue
from aot.schedule.scheduler import Scheduler
from aot.schedule.tile_kernels import tile_refusal

TOLERATED_SHARE = 0.1
"""Part of the instructions that a fusion may add whatever it saves."""

MAX_NESTS = 48
"""Nests in one kernel; beyond it compile time grows faster than run time falls."""


@dataclass(frozen=True)
class Verdict:
    """Whether two groups may be fused, why or why not, and the fused group."""

    ok: bool
    reason: str
    fused: Group | None = None


def _no(reason: str) -> Verdict:
    return Verdict(ok=False, reason=reason)


def _yes(reason: str, fused: Group) -> Verdict:
    return Verdict(ok=True, reason=reason, fused=fused)


@dataclass
class FusionState:
    """The groups so far; the working state of one run of fusion, changed by `merge` alone.

    `writer`: buffer -> key of its group; `updater`: buffer -> key of the group that takes over its
    memory, after all that read it; `readers`: buffer -> keys. `many_writers`: buffers that
    several operations write. `order`: keys such that each comes after those that it follows.
    """

    scheduler: Scheduler
    groups: dict[int, Group]
    many_writers: frozenset[str]
    writer: dict[str, int] = field(default_factory=dict)
    updater: dict[str, int] = field(default_factory=dict)
    readers: dict[str, set[int]] = field(default_factory=dict)
    writers: dict[str, set[int]] = field(default_factory=dict)
    costs: dict[int, float] = field(default_factory=dict)
    _read: dict[int, int] = field(default_factory=dict)
    order: Precedence = field(init=False)

    def __post_init__(self) -> None:
        """Indexes the groups."""
        for key, group in self.groups.items():
            self._index(key, group)
        positions = {key: group.position for key, group in self.groups.items()}
        self.order = Precedence(positions, self.consumers)

    def _index(self, key: int, group: Group) -> None:
        for name in group.writes:
            self.writer[name] = key
            self.writers.setdefault(name, set()).add(key)
        for name in group.updates.values():
            self.updater[name] = key
        for name in group.reads:
            self.readers.setdefault(name, set()).add(key)

    def merge(self, first: int, second: int, key: int, fused: Group) -> None:
        """Replaces two groups by a fused one."""
        self.order.merge(first, second, key)
        for old in (first, second):
            gone = self.groups.pop(old)
            for name in gone.reads:
                self.readers[name].discard(old)
            for name in gone.writes:
                self.writers[name].discard(old)
        self.groups[key] = fused
        self._index(key, fused)

    @property
    def graph(self) -> LoopGraph:
        """The graph whose operations the groups are."""
        return self.scheduler.graph

    @property
    def hints(self) -> Hints:
        """Example sizes."""
        return self.scheduler.hints

    @property
    def machine(self) -> Machine:
        """What the groups are fused for."""
        return self.scheduler.machine

    def cost(self, key: int) -> float:
        """Vector instructions of a group's kernel."""
        if key not in self.costs:
            self.costs[key] = group_cost(self.scheduler, self.groups[key])
        return self.costs[key]

    def read_bytes(self, key: int) -> int:
        """Bytes of all that a group reads."""
        if key not in self._read:
            self._read[key] = sum(self.scheduler.size(n) for n in self.groups[key].reads)
        return self._read[key]

    def scratch_bytes(self, group: Group) -> int:
        """Bytes of the group's results that one work unit both writes and reads again."""
        written = set(group.writes) & set(group.reads)
        total = sum(self.scheduler.size(n) for n in written)
        return total // max(1, self.hints.volume(group.outer))

    def saved_bytes(self, first: int, second: int) -> int:
        """Traffic that disappears when `second` joins `first`."""
        a, b = self.groups[first], self.groups[second]
        outside = frozenset(
            name
            for name in a.writes
            if self.readers.get(name, set()) - {first, second} or name in self.graph.results
        )
        return saved_bytes(self.scheduler.size, a, b, outside)

    def consumers(self, key: int) -> set[int]:
        """Groups that read what this one writes, write it later, or overwrite what it reads."""
        found: set[int] = set()
        mine = self.groups[key]
        for buffer in mine.writes:
            found |= self.readers.get(buffer, set())
            if buffer in self.many_writers:
                later = (k for k in self.writers[buffer] if self._follows(k, mine))
                found.update(later)
        found |= {self.updater[buffer] for buffer in mine.reads if buffer in self.updater}
        found.discard(key)
        return found

    def _follows(self, key: int, earlier: Group) -> bool:
        return self.groups[key].position > earlier.position

    def reaches(self, start: int, goal: int) -> bool:
        """True when `goal` follows from `start` through at least one other group."""
        return self.order.reaches(start, goal)


def can_fuse(state: FusionState, first: int, second: int) -> Verdict:
    """Whether the group `second` may join `first`, which precedes it or is independent of it."""
    a, b = state.groups[first], state.groups[second]
    if state.reaches(first, second) or state.reaches(second, first):
        return _no("it would make a cycle through another kernel")
    touched = {*a.writes, *b.writes} & state.many_writers
    if touched:
        return _no(f"{min(touched)} is written by several operations, in order")
    for one, other in ((a, b), (b, a)):
        parts = {name for pair in one.updates.items() for name in pair}
        shared = parts & {*other.reads, *other.writes}
        if shared:
            return _no(f"{min(shared)} is updated in place, between its readers")
    for group in (a, b):
        if any(nest.conflicts for nest in group.nests):
            return _no(f"points of {group.nests[0].name} may meet: it has a kernel of its own")
    if len(a.nests) + len(b.nests) > MAX_NESTS:
        return _no(f"the kernel would have more than {MAX_NESTS} nests")
    if any(group.template is not None and group.template.on_host for group in (a, b)):
        return _no("the host computes one of them")
    if b.template is not None:
        return _prologue(state, first, second)
    if a.template is not None:
        near, clips = _near_parts(state, a.template), not state.machine.local_buffers
        joined = attach_epilogue(state.graph, *apart(a, b), parts=near, clips=clips)
        if isinstance(joined, str):
            return _no(joined)
        return _yes("pointwise over the template's output: an epilogue", joined)
    return _fuse_nests(state, first, second)


def _near_parts(state: FusionState, call: TemplateCall) -> bool:
    """Whether a row of the result is still at a work unit's hands when its parts are read.

    That is its cache, or the registers of which it stores each element once.
    """
    if not call.by_parts:
        return False
    if not state.machine.local_buffers:
        return True
    itemsize = state.graph.buffers[call.output.buffer].dtype.itemsize
    row = state.hints.value(call.output.axes[-1].extent) * itemsize
    return row <= state.machine.local_bytes


def _prologue(state: FusionState, first: int, second: int) -> Verdict:
    a, b = state.groups[first], state.groups[second]
    assert b.template is not None
    if not state.machine.takes_producer(b.template):
        return _no("a template call takes no producer into its kernel")
    for name in a.writes:
        if state.readers.get(name, set()) - {first, second} or name in state.graph.results:
            return _no(f"{name} is read elsewhere")
    joined = attach_prologue(state.graph, *apart(a, b))
    if isinstance(joined, str):
        return _no(joined)
    return _yes("pointwise, where the template loads: a prologue", joined)


def _fuse_nests(state: FusionState, first: int, second: int) -> Verdict:
    a, b = state.groups[first], state.groups[second]
    matched = match(state.graph, *apart(a, b))
    if isinstance(matched, str):
        return _no(matched)
    one, two = matched.first, matched.second
    related = dependences(state.graph, one, two)
    joined = replace(one, nests=(*one.nests, *two.nests), position=min(a.position, b.position))
    if related is not None and _crosses(state, first, second, joined):
        return _yes("one tile is reduced along both of its axes", joined)
    if not related:
        whole = len(one.outer) == len(a.outer) and len(two.outer) == len(b.outer)
        if not whole and not _shares_blocks(state, first, second, joined):
            return _no("they are independent and their iteration spaces differ")
    if not state.machine.local_buffers:
        refused = tile_refusal(joined.nests, joined.outer) or _few_tiles(state, a, b, joined)
        reason = _agreement(joined) if related else "independent, over the same outer loops"
        return Verdict(not refused, refused or reason, None if refused else joined)
    refused = (
        _lost_parallelism(state, a, b, joined)
        or _large_scratch(state, a, b, joined)
        or _worse_vectors(state, first, second, joined)
    )
    if refused:
        return _no(refused)
    if not related:
        return _yes("independent, over the same outer loops, sharing reads", joined)
    return _yes(_agreement(joined), joined)


def _crosses(state: FusionState, first: int, second: int, joined: Group) -> bool:
    """True when the nests reduce tiles of the same large data along either axis."""
    tile = state.machine.crossed
    if tile is None or not joined.outer or not is_crossed(joined):
        return False
    grows = is_crossed(state.groups[first]) or is_crossed(state.groups[second])
    if not grows and state.saved_bytes(first, second) <= state.machine.large_bytes:
        return False
    if state.hints.volume(joined.outer) < state.machine.units // tile.share:
        return False
    return not isinstance(crossing(state.scheduler, joined), str)


def _shares_blocks(state: FusionState, first: int, second: int, joined: Group) -> bool:
    """True when both read the same large data, in blocks that stay in a cache between the two."""
    saved = state.saved_bytes(first, second)
    units = max(1, state.hints.volume(joined.outer))
    return (
        bool(joined.outer)
        and saved > state.machine.large_bytes
        and saved // units <= 2 * state.machine.local_bytes
    )


def _large_scratch(state: FusionState, a: Group, b: Group, joined: Group) -> str:
    """Why a work unit's own values would not stay in its cache; "" when they do."""
    size = state.scratch_bytes(joined)
    if size <= max(state.machine.local_bytes, state.scratch_bytes(a), state.scratch_bytes(b)):
        return ""
    return f"a work unit would keep {size} bytes, more than its cache"


def _worse_vectors(state: FusionState, first: int, second: int, joined: Group) -> str:
    """Why the fused loops cost more than the traffic that they save; "" when they do not."""
    apart = state.cost(first) + state.cost(second)
    extra = group_cost(state.scheduler, joined) - apart
    saved = state.saved_bytes(first, second)
    # A little more beside much is what scalar code for a value per row costs.
    if extra <= TOLERATED_SHARE * apart:
        return ""
    if extra * state.machine.instruction_bytes <= saved + state.machine.launch_bytes:
        return ""
    return f"{extra:.0f} more vector instructions cost more than {saved} bytes saved"


def _lost_parallelism(state: FusionState, a: Group, b: Group, joined: Group) -> str:
    """Why too few parallel work units would be left; "" when enough are, or the kernel is small."""
    hints = state.hints
    points = max(_points(hints, n) for n in joined.nests)
    if points * len(joined.nests) <= state.machine.serial_points:
        return ""
    before = max(hints.volume(a.outer), hints.volume(b.outer))
    units = hints.volume(joined.outer)
    if units >= min(before, state.machine.units):
        units = parallel_units(state.scheduler, joined)
    if units >= min(before, _enough(state, points // max(1, units))):
        return ""
    return f"it would leave {units} parallel units of {before}"


def _few_tiles(state: FusionState, a: Group, b: Group, joined: Group) -> str:
    """Why the kernel would have too few points outside its inner loops; "" when enough."""
    hints = state.hints
    points = max(_points(hints, n) for n in joined.nests)
    units = hints.volume(joined.outer)
    if units >= _enough(state, points // max(1, units)):
        return ""
    if points <= state.machine.row_points * units:
        # One program at any size: a run's may be larger than the example's.
        larger = larger_hints(state.graph.dims)
        grown = 0 if joined.outer else max(_points(larger, n) for n in joined.nests)
        if grown <= state.machine.row_points:
            return ""
        points = grown
    if units >= max(hints.volume(a.outer), hints.volume(b.outer)):
        return ""
    return f"{units} points of the outer loops are few for {points} points in all"


def _enough(state: FusionState, inner: int) -> int:
    """Work units that keep the device busy, where each walks so many points."""
    machine = state.machine
    return machine.units // (machine.wide_units if inner > machine.row_points else 1)


def _points(hints: Hints, nest: LoopNest) -> int:
    return hints.volume((*nest.axes, *nest.reduction))


def _agreement(joined: Group) -> str:
    names = " x ".join(str(a.extent) for a in joined.outer) or "a single point"
    return f"every element read is computed in the same iteration of {names}"
