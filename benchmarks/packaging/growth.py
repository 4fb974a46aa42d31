"""Does packaging grow as the model does? `python -m benchmarks.packaging.growth [--layers 48]`.

`--program kalman --layers 16` follows one of the programs of `unrolled.py`, by its steps. Every
stage between capture and the compilers is given models of so many layers, twice and four times as
many. Its work is counted in calls of functions, which are the same on every machine, and timed in
processor seconds. The exponent is that of what is added: 1 where each layer adds the same, whatever
a model costs besides. What no call is made for, such as a loop over a list, only seconds show.
"""

from __future__ import annotations

import argparse
import cProfile
import math
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeVar

import torch
from sympy.core.cache import clear_cache
from torch import nn

from aot.backends.registry import backend_for
from aot.driver import Program, choose_programs
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import TensorGraph
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline
from aot.options import parse_target
from aot.passes.pipeline import run_passes
from aot.schedule.fusion import fuse
from aot.schedule.join import join
from aot.schedule.memory import plan_memory
from aot.symbolic import affine, coefficient_of, expand, ranges, shapes
from benchmarks.packaging import layers
from benchmarks.packaging.unrolled import CASES

SIZES = (1, 2, 4)
"""How many times the layers each model has."""

T = TypeVar("T")


@dataclass(frozen=True)
class Work:
    """What a stage has done: calls of functions (0 when they are not counted), seconds."""

    calls: int
    seconds: float


class Block(nn.Module):
    """A norm, a product and an activation, beside what goes in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.product = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer of rows."""
        return x + nn.functional.gelu(self.product(self.norm(x)))


def blocks(count: int, width: int = 16) -> TensorGraph:
    """The graph of so many blocks."""
    model = nn.Sequential(*(Block(width) for _ in range(count))).eval()
    return _graph(model, torch.randn(8, width))


def transformer(count: int) -> TensorGraph:
    """The graph of so many of the layers of `layers.py`."""
    return _graph(layers.layers(count, ""), *layers.inputs())


def program(name: str, count: int) -> TensorGraph:
    """The graph of a program that a loop of Python writes out, of so many steps."""
    torch.manual_seed(0)
    case = CASES[name](count)
    captured = capture_module(case.model.eval(), case.inputs, dynamic_shapes=case.dims)
    return ingest(captured, ())[0]


def _graph(model: nn.Module, *inputs: torch.Tensor) -> TensorGraph:
    return ingest(capture_module(model, inputs), ())[0]


def work_of(graph: TensorGraph, *, counted: bool) -> Mapping[str, Work]:
    """The work of each stage, for the CPU."""
    found: dict[str, Work] = {}
    forget()

    def run(stage: str, make: Callable[[], T]) -> T:
        profile = cProfile.Profile()
        begin = time.process_time()
        value = profile.runcall(make) if counted else make()
        seconds = time.process_time() - begin
        found[stage] = Work(sum(entry.callcount for entry in profile.getstats()), seconds)
        return value

    program = _program()
    backend, machine, target = program.backend, program.machine, program.target
    lowered = run("lower", lambda: lower_outline(outline(graph)))
    loops = run("passes", lambda: run_passes(lowered, machine))
    fused = run("fuse", lambda: join(loops.map(lambda part: fuse(part, machine))))
    kernels = run("prepare", lambda: backend.prepare(fused, target))
    run("plan_memory", lambda: plan_memory(kernels))
    run("emit", lambda: backend.emit(kernels, target))
    return found


def forget() -> None:
    """What is kept of expressions goes, so that no model finds what another has left."""
    clear_cache()
    for kept in (coefficient_of, expand, affine._affine, ranges._found, shapes._product):
        kept.cache_clear()


def exponent(work: Sequence[float]) -> float:
    """Of the growth of what is added, from the work at the three sizes."""
    first, second = (after - before for before, after in pairwise(work))
    return math.log2(max(second, 1e-9) / max(first, 1e-9))


def _program() -> Program:
    (program,) = choose_programs([parse_target("cpu")], backend_for)
    return program


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--transformer", action="store_true", help="attention in every layer")
    parser.add_argument("--program", choices=CASES)
    chosen = parser.parse_args()
    make = transformer if chosen.transformer else blocks
    if chosen.program:
        make = partial(program, chosen.program)
    counts = [times * chosen.layers for times in SIZES]
    graphs = [make(count) for count in counts]
    timed = [work_of(graph, counted=False) for graph in graphs]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    calls = [work_of(graph, counted=True) for graph in graphs]
    heads = " | ".join(f"{count} layers, s" for count in counts)
    print(f"| | {heads} | exponent | calls of the largest | exponent |")
    print("|---|" + "---|" * (len(counts) + 3))
    for stage in timed[0]:
        seconds = [work[stage].seconds for work in timed]
        called = [work[stage].calls for work in calls]
        shown = " | ".join(f"{each:.2f}" for each in seconds)
        print(
            f"| {stage} | {shown} | {exponent(seconds):.2f} | {called[-1]} "
            f"| {exponent(called):.2f} |"
        )
    print(f"\npeak memory: {peak} MB")


if __name__ == "__main__":
    main()
