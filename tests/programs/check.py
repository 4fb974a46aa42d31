"""Runs programs by every means that we have and compares them with eager."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import aot_runtime
import numpy as np
import torch
from torch.export import Dim

from aot import driver
from aot.errors import UserError
from aot.frontend.capture import Captured, capture_module
from aot.frontend.weights import to_array
from aot.options import Target, from_environment
from tests.comparing import ROUNDINGS, complaint
from tests.conformance.executors import interpret_fused, interpret_lowered, interpret_triton
from tests.examples.accuracy import default_double, widen
from tests.programs.networks import Case
from tests.programs.program import WIDE, Program
from tests.programs.state import GROWTH
from tests.rounding import reordered
from tests.settings import level

Arrays = list[np.ndarray]
SLACK = {torch.float64: 1e-12, torch.float32: 2.0**-19, torch.bfloat16: 2.0**-6}
"""An error of a network's result below this part of its magnitude is never too much; float64 has no
more precise reference."""

Run = Callable[[Captured, Sequence[tuple[torch.Tensor, ...]]], list[Arrays]]
"""(captured module, input sets) -> flat outputs of each set."""


class Together(torch.nn.Module):
    """Several programs as one module: their inputs and their results in a row."""

    def __init__(self, programs: Sequence[Program]) -> None:
        super().__init__()
        self.parts = [(len(p.inputs), p.function()) for p in programs]

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results: list[torch.Tensor] = []
        for count, function in self.parts:
            results += function(*tensors[:count])
            tensors = tensors[count:]
        return tuple(results)


def captured_of(programs: Sequence[Program]) -> Captured:
    """The programs as one captured module; each has a dynamic dim of its own, if any."""
    inputs = tuple(t for p in programs for t in p.tensors())
    dims = [
        None if given.dynamic is None else {given.dynamic: Dim(f"n{k}")}
        for k, program in enumerate(programs)
        for given in program.inputs
    ]
    shapes = {"tensors": tuple(dims)} if any(dims) else None
    return capture_module(Together(programs), inputs, dynamic_shapes=shapes)


def sizes_of(programs: Sequence[Program]) -> tuple[int, ...]:
    """How much longer than in the example the dynamic axes are, run by run."""
    return (0, GROWTH) if any(p.dynamic for p in programs) else (0,)


def problems(programs: Sequence[Program], run: Run) -> list[str]:
    """What is wrong with each program: "" for nothing.

    Raises what packaging raises; a group of several programs then has to be split.
    """
    grown = sizes_of(programs)
    sets = [tuple(t for p in programs for t in p.tensors(g)) for g in grown]
    found = [""] * len(programs)
    for growth, outputs in zip(grown, run(captured_of(programs), sets), strict=True):
        rest = iter(outputs)
        for k, program in enumerate(programs):
            own = [next(rest) for _ in program.outputs]
            found[k] = found[k] or compare(program, own, growth)
    return found


def compare(program: Program, ours: Arrays, growth: int = 0) -> str:
    """The first result that is not eager's; "" when all are."""
    every = program.with_outputs(range(len(program.coarsest)))
    tensors = program.tensors(growth)
    with torch.no_grad():
        eager = program.function()(*tensors)
        with default_double():
            exact = every.function(WIDE)(*(widen(t) for t in tensors))
    scale = max((_magnitude(e) for e in exact), default=0.0)
    for result, own, position in zip(ours, eager, program.outputs, strict=True):
        floor = ROUNDINGS.get(program.coarsest[position], 0.0) * scale
        problem = complaint(result, to_array(own), exact[position].numpy(), floor)
        if problem:
            return f"v{position} of the sizes + {growth}: {problem}"
    return ""


def _magnitude(tensor: torch.Tensor) -> float:
    floats = tensor.is_floating_point() and tensor.numel() > 0
    return float(tensor.abs().max()) if floats else 0.0


def network_problem(case: Case, run: Run) -> str:
    """As `problems`, of a network; where torch.export gives up on its dynamic size, of one size."""
    sets: list[tuple[torch.Tensor, ...]] = [(case.input(),)]
    dims = None if case.dynamic is None else ({case.dynamic: Dim("n", min=1)},)
    try:
        captured = capture_module(case.network, sets[0], dynamic_shapes=dims)
    except UserError:
        if case.dynamic is None:
            raise
        return network_problem(replace(case, dynamic=None), run)
    if case.dynamic is not None:
        sets.append((case.input(GROWTH),))
    wide = copy.deepcopy(case.network).double()
    for (x,), outputs in zip(sets, run(captured, sets), strict=True):
        with torch.no_grad():
            results = zip(
                case.network.results, outputs, case.network(x), wide(x.double()), strict=True
            )
        for number, own, eager, exact in results:
            # Sums of products that cancel err by a part of what was added, not of what is left.
            scale = max(1.0, _magnitude(exact))
            floor = SLACK[eager.dtype] * scale
            slack = partial(_moved, wide, x.double(), case.network.results.index(number), eager)
            problem = complaint(own, to_array(eager), exact.numpy(), floor, slack)
            if problem:
                return f"value {number} of {tuple(x.shape)}: {problem}"
    return ""


def _moved(wide: torch.nn.Module, x: torch.Tensor, position: int, eager: torch.Tensor) -> float:
    """How far a result moves when every sum is off by a rounding of its terms.

    A norm of a few nearly equal values divides by little, whatever the order they were summed in.
    """
    part = float(torch.finfo(eager.dtype).eps) / 2
    return float(reordered(lambda: wide(x), part)[position].max())


def in_package(target: Target) -> Run:
    """As a package for one target, on its device."""

    def run(captured: Captured, sets: Sequence[tuple[torch.Tensor, ...]]) -> list[Arrays]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "programs.pkg"
            driver.build(captured, from_environment(output=path, targets=(target,), golden=False))
            model = aot_runtime.load(path, target.device)
            return [[np.array(to_array(o)) for o in model(*inputs)] for inputs in sets]

    return run


def _each(executor: Callable[..., Arrays]) -> Run:
    return lambda captured, sets: [executor(captured, inputs) for inputs in sets]


RUNS: Mapping[str, Run] = {
    "loops": _each(interpret_lowered),
    "kernels": _each(interpret_fused),
    "triton": _each(interpret_triton),
    "cpu": in_package(Target("cpu", (level(),))),
}
"""By name."""


@dataclass(frozen=True)
class Failure:
    """A program that is wrong or does not package, with what is wrong."""

    program: Program
    reason: str


def smallest(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The program without what the failure does not need: outputs, then unused statements."""
    for output in program.outputs:
        alone = program.with_outputs([output]).trimmed()
        if fails(alone):
            return alone
    return program.trimmed() if fails(program.trimmed()) else program
