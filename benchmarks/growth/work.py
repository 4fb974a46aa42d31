"""What a family's kernels do at a size, counted: no kernel is built, nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from aot.backends.registry import backend_for
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.hints import Hints
from aot.ir.kernels import KernelGraph
from aot.ir.machine import Machine
from aot.ir.tensors import Dim
from aot.ir.work import buffer_bytes, graph_points
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline
from aot.options import parse_target
from aot.passes.pipeline import run_passes
from aot.schedule.fusion import fuse
from aot.schedule.join import join
from aot.symbolic import dim
from benchmarks.growth.family import STEP, Blank, Family
from benchmarks.growth.fit import exponent
from tests.calls import Calls

TARGETS = {"cpu": "cpu", "cuda": "cuda:sm_90"}
"""Device -> the target whose machine the kernels are made for."""

COUNTED = 3
"""Sizes whose work is counted."""

STEEPER = 0.1
"""Above what is expected by more: a product where there should be a sum."""

LATER = 2
"""Steps by which a family whose work grows too fast is looked at further on."""

MORE_KERNELS = 0.5
"""A sort in passes has more of them for more elements, as the logarithm; a loop as n."""


@dataclass(frozen=True)
class Work:
    """At one size of a family, for one machine.

    Attributes:
        points: Steps of all kernels (`aot.ir.work.graph_points`).
        nbytes: Of inputs and outputs.
        kernels: How many there are.
    """

    points: int
    nbytes: int
    kernels: int


@dataclass(frozen=True)
class Growth:
    """How the work of a family grows on a device, as exponents of n.

    Attributes:
        points: Of the steps of all kernels.
        expected: Of the steps of an algorithm as good as eager's.
        kernels: Of the number of kernels.
    """

    points: float
    expected: float
    kernels: float

    @property
    def problem(self) -> str:
        """What is wrong with it; "" when nothing is."""
        if self.points > self.expected + STEEPER:
            return f"work grows as n^{self.points:.2f}, not n^{self.expected:.2f}"
        if self.kernels > MORE_KERNELS:
            return f"the number of kernels grows as n^{self.kernels:.2f}"
        return ""


def growth_of_work(family: Family, devices: Collection[str] = tuple(TARGETS)) -> dict[str, Growth]:
    """The growth on each device, from the work at three sizes.

    A size from which on kernels are others (long rows in parts, many parts by a table) is a step
    and no growth: where the least sizes show a problem, later ones that show none have the word.

    Raises:
        AotError: The problem cannot be packaged.
    """
    sizes = [family.least * STEP**k for k in range(COUNTED)]
    counted = {n: count_work(family, n, devices) for n in sizes}
    grown = {device: _growth(family, counted, device) for device in devices}
    for _ in range(LATER):
        steep = [device for device in devices if grown[device].problem]
        if not steep:
            break
        counted.pop(min(counted))
        further = max(counted) * STEP
        counted[further] = count_work(family, further, steep)
        later = {device: _growth(family, counted, device) for device in steep}
        grown |= {device: each for device, each in later.items() if not each.problem}
    return grown


def _growth(family: Family, counted: Mapping[int, Mapping[str, Work]], device: str) -> Growth:
    def slope(value: Callable[[Work], int]) -> float:
        found = exponent([(n, value(work[device])) for n, work in counted.items()])
        assert found is not None, "there are several sizes"
        return found

    return Growth(
        slope(lambda w: w.points),
        slope(lambda w: w.nbytes) if family.work is None else family.work,
        slope(lambda w: w.kernels),
    )


def machine_of(device: str) -> Machine:
    """Facts of the device's target."""
    target = parse_target(TARGETS[device])
    return backend_for(target).machine(target)


def count_work(family: Family, n: int, devices: Iterable[str]) -> dict[str, Work]:
    """The work at size n on each device.

    Raises:
        AotError: The problem cannot be packaged.
    """
    function, *args = family.problem(n, Blank())
    graph, _ = ingest(capture_module(Calls(function), args))
    lowered = lower_outline(outline(graph))
    counted = {}
    for device in devices:
        machine = machine_of(device)
        loops = run_passes(lowered, machine)
        kernels = join(loops.map(lambda part, m=machine: fuse(part, m)))
        counted[device] = _work(kernels, n)
    return counted


def _work(graph: KernelGraph, n: int) -> Work:
    """A size that data decides is n, or as near as it can be."""
    hints = Hints({dim(d.name): _bound(d, n) for d in graph.dims})
    outside = (*graph.inputs, *graph.outputs)
    nbytes = sum(hints.value(buffer_bytes(graph.buffers[name])) for name in outside)
    return Work(hints.value(graph_points(graph)), nbytes, len(graph.kernels))


def _bound(size: Dim, n: int) -> int:
    most = n if size.maximum is None else min(size.maximum, n)
    return max(size.minimum, most)
