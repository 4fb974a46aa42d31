"""Small kernels that do not need each other in one launch.

A launch costs a microsecond or two whatever it does. Each program of a joined launch runs the
function of one kernel, by its number (horizontal fusion: Li et al., Automatic Horizontal Fusion for
GPU Kernels, CGO 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aot.backends.triton.context import PROGRAM
from aot.backends.triton.kernel import FAULT, NAME, EmittedKernel, line_grid
from aot.ir.hints import Hints
from aot.ir.kernels import Kernel, KernelGraph, kernel_bases
from aot.symbolic import Expr, integer, is_int

_NUMBER = "program_number"
"""A part's own program."""

_ZERO = "(tl.num_programs(1) - 1) * 65536"
"""0, which the compiler does not know. From a program's number within the bounds of a branch LLVM
makes pairs of 16-bit indices, which ptxas 12.8 adds wrongly: it loses a constant of one of two."""

MOST_PARTS = 8
"""Kernels of one launch."""

WINDOW = 4
"""Launches that a kernel may move ahead by: what it writes lives that much longer."""

MOST_BYTES = 16 * 1024 * 1024
"""What a kernel that shares a launch may move; longer ones gain nothing by it."""


@dataclass
class _Group:
    """Kernels of one launch, by their positions in the graph. `open`: more may join."""

    members: list[int]
    open: bool
    faults: bool


def groups(
    graph: KernelGraph, emitted: Sequence[EmittedKernel], hints: Hints
) -> list[tuple[int, ...]]:
    """Which kernels share launches, in the order of launches; the one with checks comes first.

    Control flow counts kernels, so a graph with some keeps its launches.
    """
    if graph.flow:
        return [(k,) for k in range(len(graph.kernels))]
    left = {m.value for m in graph.mutations}
    found: list[_Group] = []
    touched = _Touched()
    for position, kernel in enumerate(graph.kernels):
        one = emitted[position]
        small = _is_small(graph, kernel, one, hints) and not left.intersection(kernel.writes)
        first = touched.after(kernel)
        place = len(found)
        if small:
            for g in range(max(first, len(found) - WINDOW), len(found)):
                if found[g].open and not (one.faults and found[g].faults):
                    place = g
                    break
        if place == len(found):
            found.append(_Group([], open=small, faults=False))
        group = found[place]
        group.members.append(position)
        group.faults |= one.faults
        group.open = small and len(group.members) < MOST_PARTS
        touched.add(kernel, place)
    return [tuple(sorted(g.members, key=lambda k: not emitted[k].faults)) for g in found]


@dataclass
class _Touched:
    """The last launch that reads, and that writes, each buffer; an update writes its base too."""

    read: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)

    def after(self, kernel: Kernel) -> int:
        """The first launch that the kernel may be in."""
        before = [self.written.get(name, -1) for name in (*kernel.reads, *_written(kernel))]
        before += [self.read.get(name, -1) for name in _written(kernel)]
        return 1 + max(before, default=-1)

    def add(self, kernel: Kernel, launch: int) -> None:
        """Notes what a kernel of that launch touches."""
        for name in kernel.reads:
            self.read[name] = max(launch, self.read.get(name, -1))
        for name in _written(kernel):
            self.written[name] = max(launch, self.written.get(name, -1))


def _written(kernel: Kernel) -> tuple[str, ...]:
    return (*kernel.writes, *kernel_bases(kernel).values())


def _is_small(graph: KernelGraph, kernel: Kernel, one: EmittedKernel, hints: Hints) -> bool:
    buffers = [graph.buffers[name] for name in (*kernel.reads, *kernel.writes)]
    moved = sum(hints.elements(b.shape) * b.dtype.itemsize for b in buffers)
    line = all(is_int(extent, 1) for extent in one.grid[1:])
    return one.small and line and moved <= MOST_BYTES


def joined(parts: Sequence[EmittedKernel]) -> EmittedKernel:
    """One kernel whose programs are those of the parts, one part after the other."""
    ends: list[Expr] = []
    for part in parts:
        ends.append(part.grid[0] + (ends[-1] if ends else integer(0)))
    # Numbers of programs that need sizes are arguments, computed when sizes are bound.
    unknown = [k for k, end in enumerate(ends[:-1]) if not end.is_Integer]
    parameters = [*_parameters(parts), *((f"end_{k}", "i64") for k in unknown)]
    bounds = [f"end_{k}" if k in unknown else str(end) for k, end in enumerate(ends)]
    names = ", ".join(name for name, _ in parameters)
    texts = [part.function for part in parts]
    same = [texts.index(text) for text in texts]  # equal parts share a function
    functions = "".join(_part_function(parts[k], k) for k in dict.fromkeys(same))
    branches = "".join(_branch(part, k, same[k], bounds) for k, part in enumerate(parts))
    body = f"    program = {PROGRAM}\n    zero = {_ZERO}\n{branches}"
    options = sorted(key_value for part in parts for key_value in part.options)
    return EmittedKernel(
        f"{functions}@triton.jit\ndef {NAME}({names}):\n{body}",
        tuple(name for name, _ in parameters),
        tuple(kind for _, kind in parameters),
        tuple(dict(options).items()),  # of several numbers the greatest, which comes last
        any(part.faults for part in parts),
        all(part.waits for part in parts),
        tuple(name for part in parts for name in part.buffers),
        (*(size for part in parts for size in part.sizes), *(ends[k] for k in unknown)),
        line_grid(ends[-1]),
        small=True,
    )


def _parameters(parts: Sequence[EmittedKernel]) -> list[tuple[str, str]]:
    """Names and types in the order of a launch: buffers, the fault, sizes; of each part in turn."""
    buffers: list[tuple[str, str]] = []
    sizes: list[tuple[str, str]] = []
    for k, part in enumerate(parts):
        own = [
            (f"{name}_{k}", kind)
            for name, kind in zip(part.parameters, part.signature, strict=True)
            if name != FAULT
        ]
        buffers += own[: len(part.buffers)]
        sizes += own[len(part.buffers) :]
    fault = [(FAULT, "*i32")] if any(part.faults for part in parts) else []
    return [*buffers, *fault, *sizes]


def _part_function(part: EmittedKernel, number: int) -> str:
    """A part's function, which gets its program's number from the one that calls it."""
    names = ", ".join((*part.parameters, _NUMBER))
    own, head, text = part.function.rpartition(f"def {NAME}(")
    _, _, body = text.partition(":\n")
    whole = f"{own}{head}{names}):\n{body.replace(PROGRAM, _NUMBER)}\n\n"
    return whole.replace(NAME, f"{NAME}_part{number}")


def _branch(part: EmittedKernel, number: int, function: int, bounds: Sequence[str]) -> str:
    """The programs of a part, which run that part's function."""
    head = "else" if number + 1 == len(bounds) else f"if program < {bounds[number]}"
    head = f"el{head}" if number > 0 and head != "else" else head
    own = "program + zero" if number == 0 else f"program - {bounds[number - 1]} + zero"
    names = (n if n == FAULT else f"{n}_{number}" for n in part.parameters)
    return f"    {head}:\n        {NAME}_part{function}({', '.join((*names, own))})\n"
