"""A loaded package with flat inputs and outputs, on top of the loader's public interface."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import aot_runtime
from aot_runtime.format.devices import CPU_LEVELS, HOST, on_host
from aot_runtime.format.errors import (
    AotError,
    CorruptPackage,
    IncompatiblePackage,
    InputMismatch,
    InternalError,
    PackageError,
)
from aot_runtime.format.plan import (
    EntryStorage,
    InputStorage,
    Plan,
    Program,
    Tree,
    TreeConstant,
    TreeDict,
    TreeInput,
    TreeOutput,
    TreeSequence,
)
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.arrays import Array, numpy_dtype


@dataclass(frozen=True)
class LoadedModel:
    """A package ready to run.

    Attributes:
        plan: Its execution plan, as data.
        program: The plan's program that runs.
        model: The loader's object, with the model's own signature.
    """

    plan: Plan
    program: Program
    model: aot_runtime.Model

    @property
    def place(self) -> str:
        """What it runs on: "x86-64-v3", or "cuda sm_90"."""
        device = self.program.device
        return self.model.isa if on_host(device) else f"{device} {self.model.isa}"

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Run once.

        Args:
            inputs: One array for each input of the plan, in its order.

        Returns:
            One array for each output of the plan, in its order.

        Raises:
            InputMismatch: An input breaks the contract.
            AotError: The runtime fails otherwise; see `translated`.
        """
        arguments, named = call_arguments(self.plan, inputs)
        try:
            result = self.model(*arguments, **named)
        except aot_runtime.AotError as error:
            raise translated(error) from error
        return flat_outputs(self.plan, result)


def load_model(
    path: Path, isa: str | None = None, threads: int | None = None, device: str | None = None
) -> LoadedModel:
    """Load a package for running it.

    Args:
        path: The file.
        device: "cuda", "cuda:1", …; None takes the host where the package runs there.
        isa: Instruction set level to force; None takes the best.
        threads: Threads to run with; None takes the runtime's default.

    Raises:
        PackageError: The file is damaged, or has nothing for this machine.
        AotError: The runtime refuses it otherwise; see `translated`.
    """
    with PackageFile(path) as file:
        plan = file.plan
    where = device or default_device(plan)
    try:
        model = aot_runtime.load(str(path), device=where, isa=isa, num_threads=threads)
    except aot_runtime.AotError as error:
        raise translated(error) from error
    return LoadedModel(plan, program_of(plan, where.partition(":")[0], model.isa), model)


def default_device(plan: Plan) -> str:
    """The host where the package runs there, else the device of its first program."""
    devices = [program.device for program in plan.programs]
    return HOST if HOST in devices else devices[0]


def program_of(plan: Plan, device: str, arch: str) -> Program:
    """The program of a kind of device that runs on an architecture (or level) of it."""
    programs = [program for program in plan.programs if program.device == device]
    found = (p for p in programs if arch == p.arch or arch in {found.isa for found in p.libraries})
    return next(found, programs[0])


def translated(error: aot_runtime.AotError) -> AotError:
    """The runtime's error as one of ours, with the same words."""
    kinds: dict[type[aot_runtime.AotError], type[AotError]] = {
        aot_runtime.InvalidArgument: InputMismatch,
        aot_runtime.ShapeMismatch: InputMismatch,
        aot_runtime.CorruptPackage: CorruptPackage,
        aot_runtime.Incompatible: IncompatiblePackage,
        aot_runtime.InternalError: InternalError,
    }
    kind = kinds.get(type(error), PackageError)
    return kind(str(error), where=error.origin or None, advice=RUNTIME_ADVICE.get(kind, ""))


RUNTIME_ADVICE: dict[type[AotError], str] = {
    InputMismatch: "Give inputs that fit the contract; `aot-package inspect` shows it."
}
"""Advice for errors of a run, where ours for packaging would mislead."""


def supported_levels(plan: Plan) -> list[str]:
    """The levels of the package that this machine can run, slowest first.

    Raises:
        PackageError: There are none.
    """
    best = aot_runtime.cpu_isa()
    usable = CPU_LEVELS[: CPU_LEVELS.index(best) + 1] if best in CPU_LEVELS else ()
    carried = {library.isa for program in plan.programs for library in program.libraries}
    levels = [level for level in usable if level in carried]
    if not levels:
        have = ", ".join(sorted(carried)) or "no CPU"
        raise PackageError(
            f"the package has kernels for {have}; this CPU has {best}",
            advice="Build it with --target cpu, for all levels.",
        )
    return levels


def step_results(model: LoadedModel, inputs: Sequence[Any]) -> dict[tuple[int, int], Array]:
    """Every buffer as it was after each step that names it: (step, buffer) to a flat copy.

    States begin with their first values. Inputs and weights are left out: no step writes them.

    Raises:
        AotError: The run fails; see `translated`.
    """
    found: dict[tuple[int, int], Array] = {}
    buffers = model.program.buffers

    def keep(step: int, index: int, data: bytes) -> None:
        if not isinstance(buffers[index].storage, InputStorage | EntryStorage):
            found[step, index] = np.frombuffer(data, numpy_dtype(buffers[index].dtype))

    arguments, named = call_arguments(model.plan, inputs)
    model.model.reset()
    try:
        model.model.run_observed(keep, *arguments, **named)
    except aot_runtime.AotError as error:
        raise translated(error) from error
    return found


def profile(model: LoadedModel, inputs: Sequence[Any], runs: int) -> list[aot_runtime.StepTime]:
    """Times of every step, in the plan's order, summed over `runs` runs after one to warm up."""
    arguments, named = call_arguments(model.plan, inputs)
    return model.model.profile(*arguments, runs=runs, **named)


def call_arguments(plan: Plan, inputs: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of the model's own call, from flat inputs."""
    arguments: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in plan.signature.parameters:
        value = _nested(parameter.tree, inputs)
        if parameter.kind == "keyword":
            named[parameter.name] = value
        else:
            arguments.append(value)
    return arguments, named


def flat_outputs(plan: Plan, result: Any) -> list[Any]:
    """One array for each output of the plan, from the model's own result."""
    found: dict[int, Any] = dict(_leaves(plan.signature.result, result))
    return [found[index] for index in range(len(plan.outputs))]


def _nested(tree: Tree, inputs: Sequence[Any]) -> Any:
    match tree:
        case TreeInput(index):
            return inputs[index]
        case TreeConstant(value):
            return value
        case TreeSequence(kind, items):
            values = [_nested(item, inputs) for item in items]
            return tuple(values) if kind == "tuple" else values
        case TreeDict(members):
            return {key: _nested(item, inputs) for key, item in members}
        case TreeOutput(index):
            raise CorruptPackage(f"a parameter of the signature names output {index}")


def _leaves(tree: Tree, value: Any) -> Iterable[tuple[int, Any]]:
    match tree:
        case TreeOutput(index):
            yield index, value
        case TreeSequence(_, items):
            for item, part in zip(items, value, strict=True):
                yield from _leaves(item, part)
        case TreeDict(members):
            for key, item in members:
                yield from _leaves(item, value[key])
        case _:
            return
