"""A loaded package with flat inputs and outputs, on top of the loader's public interface."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aot_runtime

from aot.errors import AotError, CorruptPackage, IncompatiblePackage, InputMismatch, PackageError
from aot.link.plan import (
    Plan,
    Tree,
    TreeConstant,
    TreeDict,
    TreeInput,
    TreeOutput,
    TreeSequence,
)
from aot.link.reader import PackageFile


@dataclass(frozen=True)
class LoadedModel:
    """A package ready to run.

    Attributes:
        plan: Its execution plan, as data.
        model: The loader's object, with the model's own signature.
    """

    plan: Plan
    model: aot_runtime.Model

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Run once.

        Args:
            inputs: One array for each input of the plan, in its order.

        Returns:
            One array for each output of the plan, in its order.

        Raises:
            InputMismatch: An input breaks the contract.
        """
        arguments, named = call_arguments(self.plan, inputs)
        try:
            result = self.model(*arguments, **named)
        except aot_runtime.Error as error:
            raise translated(error) from error
        return flat_outputs(self.plan, result)


def load_model(path: Path, isa: str | None = None, threads: int | None = None) -> LoadedModel:
    """Load a package for running it.

    Args:
        path: The file.
        isa: Instruction set level to force; None takes the best.
        threads: Threads to run with; None takes the runtime's default.

    Raises:
        PackageError: The file is damaged, or has nothing for this machine.
    """
    with PackageFile(path) as file:
        plan = file.plan
    try:
        model = aot_runtime.load(str(path), isa=isa, num_threads=threads)
    except aot_runtime.Error as error:
        raise translated(error) from error
    return LoadedModel(plan, model)


def translated(error: aot_runtime.Error) -> AotError:
    """The runtime's error as one of ours, with the same words."""
    kinds: dict[type[aot_runtime.Error], type[AotError]] = {
        aot_runtime.InvalidArgument: InputMismatch,
        aot_runtime.ShapeMismatch: InputMismatch,
        aot_runtime.CorruptPackage: CorruptPackage,
        aot_runtime.Incompatible: IncompatiblePackage,
    }
    kind = kinds.get(type(error), PackageError)
    return kind(str(error), where=getattr(error, "origin", "") or None)


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
