"""Programs that compute several points of an outer axis, and once what is the same for all.

Tables that heads or images share are read again for each of them, from the second-level cache,
whose bandwidth they take from everything else. Places and weights that channels share, as those of
an interpolation where a tensor says, are computed again for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aot.backends.triton.context import KernelContext
from aot.ir.hints import Hints, op_weight
from aot.ir.kernel_facts import index_exprs
from aot.ir.kernels import NestKernel
from aot.ir.nests import Axis, LoopNest
from aot.ir.scalar import Access, Node, postorder
from aot.symbolic import Symbol, is_int

TURNS, HALF_TURNS = (8, 4, 2), (2,)
"""Points of the axis that a program may compute; of halves, which are computed in float32. Of
rotary embeddings in float32 (32 heads) eight took 0.81 of the time of one on an H200, 90 % of a
copy's bandwidth; of those in bfloat16 eight took 78 us, four 79 and two 74."""

LEAST_BYTES = 1 << 18
"""Of what is read alike: less stays in the first-level caches."""

LEAST_PART = 4
"""It is at least a quarter of all else that is read and stored."""

MOST_WEIGHT = 400
"""Price of a thread's points in all turns, whose code is written out."""

PROGRAMS = 4
"""Of each of a device's units, that are left at least."""

LEAST_WORK, WORTH, MOST_TURNS = 64, 0.7, 8
"""Price of a point that takes longer than its memory does, of which so much at most is left by what
is computed once, and points of the axis at most that a program takes for that."""

MOST_WORK, LEAST_POINTS = 200, 384
"""Price of all turns, and points of the other axes, for each of a device's units: bicubic ones took
1.08 of the time with three channels of 512 x 512 at a time on an H200, and bilinear ones 0.73, 0.65
with eight of 16 (8 x 256 x 256), but 1.19 with eight of 64 (128 x 128)."""


@dataclass(frozen=True)
class SharedReads:
    """`turns` points of `axis` are one program's; `reads`: what is read or computed alike.

    `weight`: the price of all turns of a point of the other axes.
    """

    axis: Axis
    turns: int
    reads: tuple[Node, ...]
    weight: int


def shared_reads(
    kernel: NestKernel, context: KernelContext, hints: Hints, programs: int, weight: int, units: int
) -> SharedReads | None:
    """What a kernel's programs should read once; None where each point has its own.

    `programs`: without it; `weight`: the price of a thread's points.
    """
    if len(kernel.outer) < 2 or not is_int(kernel.outer[0].extent) or not _is_plain(kernel):
        return None
    axis = kernel.outer[0]
    alike, apart = _reads(kernel, axis.symbol)
    here, there = ({b: context.buffers[b] for b in _buffers(nodes)} for nodes in (alike, apart))
    halves = all(b.dtype.itemsize <= 2 for b in (*here.values(), *there.values()))
    fitting = (
        t
        for t in (HALF_TURNS if halves else TURNS)
        if int(axis.extent) % t == 0
        and t * weight <= MOST_WEIGHT
        and programs >= t * PROGRAMS * units
    )
    turns = next(fitting, 1)
    if turns == 1:
        return None
    far = sum(hints.elements(b.shape) * b.dtype.itemsize for b in here.values()) >= LEAST_BYTES
    stored = {s.buffer for n in _nests(kernel) for s in n.stores} & context.pointers.keys()
    else_bytes = sum(b.dtype.itemsize for b in there.values())
    else_bytes += sum(context.buffers[name].dtype.itemsize for name in stored)
    if not far or LEAST_PART * sum(b.dtype.itemsize for b in here.values()) < else_bytes:
        return None
    return SharedReads(axis, turns, alike, turns * weight)


def shared_work(kernel: NestKernel, points: int, units: int) -> SharedReads | None:
    """What a kernel's programs should compute once; None where no axis is worth it.

    `points`: of all axes. The last one's are neighbours, which lanes of a program are.
    """
    nodes = postorder([r for n in _nests(kernel) for r in n.roots])
    total = sum(map(op_weight, nodes))
    if total < LEAST_WORK or not _is_plain(kernel):
        return None
    best, least = None, WORTH * total
    for axis in kernel.outer[:-1]:
        varying = _varying(nodes, axis.symbol)
        own = sum(map(op_weight, varying))
        fitting = (
            t
            for t in range(MOST_TURNS, 1, -1)
            if is_int(axis.extent)
            and int(axis.extent) % t == 0
            and total + (t - 1) * own <= MOST_WORK
            and points // t >= LEAST_POINTS * units
        )
        turns = next(fitting, 1)
        price = own + (total - own) / turns
        if turns > 1 and price <= least:
            alike = tuple(n for n in nodes if n not in varying and n.op not in ("const", "index"))
            best, least = SharedReads(axis, turns, alike, total + (turns - 1) * own), price
    return best


def _nests(kernel: NestKernel) -> Iterator[LoopNest]:
    return (nest for stage in kernel.stages for nest in stage.nests)


def _is_plain(kernel: NestKernel) -> bool:
    """True where no points meet."""
    return not any(s.conflicts for n in _nests(kernel) for s in n.stores)


def _reads(kernel: NestKernel, axis: Symbol) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Loads from memory that do not vary along the axis, and those that do."""
    alike: dict[Node, None] = {}
    apart: dict[Node, None] = {}
    nodes = postorder([r for n in _nests(kernel) for r in n.roots])
    varying = _varying(nodes, axis)
    for node in nodes:
        if isinstance(node.attr, Access) and node.attr.buffer not in kernel.local:
            (apart if node in varying else alike)[node] = None
    return tuple(alike), tuple(apart)


def _varying(nodes: Iterable[Node], axis: Symbol) -> set[Node]:
    """Those of a body's nodes, in order, whose values vary along an axis."""
    varying: set[Node] = set()
    for node in nodes:
        own = {s for e in index_exprs(node) for s in e.free_symbols}
        if axis in own or any(a in varying for a in node.args):
            varying.add(node)
    return varying


def _buffers(nodes: tuple[Node, ...]) -> Iterator[str]:
    return (n.attr.buffer for n in nodes if isinstance(n.attr, Access))
