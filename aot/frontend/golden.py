"""Example inputs and reference outputs as arrays, in the order of the graph's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

from aot.errors import AotError, CompilerFailed, InputMismatch, InternalError
from aot.frontend.capture import Captured, eval_mode
from aot.frontend.derivatives import differentiating
from aot.frontend.free_results import OtherResults, has_free_results
from aot.frontend.places import UserCode, failure_of, first_lines, place_of_error
from aot.frontend.weights import to_array

Array = np.ndarray


@dataclass(frozen=True)
class Example:
    """One set of inputs with what eager PyTorch computes for it, from the buffers' first values.

    Attributes:
        inputs: The inputs.
        outputs: Eager's outputs.
        others: Other outputs that are as right, of a model with operators that have several right
            results.
    """

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    others: tuple[tuple[Array, ...], ...] = ()


OTHERS = 2
"""Runs with other results; one alone may by chance leave alike what is not determined."""


def examples(captured: Captured) -> tuple[Example, ...]:
    """The example inputs and the extra inputs, each with eager's outputs."""
    free = has_free_results(captured.program)
    return tuple(
        replace(run_eager(captured, a, k), others=_others(captured, a, k) if free else ())
        for a, k in (captured.example, *captured.extra)
    )


def _others(
    captured: Captured, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Array, ...], ...]:
    found: list[tuple[Array, ...]] = []
    for seed in range(OTHERS):
        with OtherResults(seed):
            found.append(run_eager(captured, args, kwargs).outputs)
    return tuple(found)


def run_eager(captured: Captured, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Example:
    """These inputs as arrays, with eager's outputs for them.

    Raises:
        InputMismatch: Eager refuses them.
    """
    args, kwargs = _own_tensors((args, dict(kwargs)))
    inputs = tuple(array.copy() for array in flat_arrays((args, kwargs)))
    with _for_inference(captured), UserCode(_failing(captured)):
        result = _own_tensors(captured.module(*args, **kwargs))
    return Example(inputs, _outputs(captured, result))


@contextmanager
def _for_inference(captured: Captured) -> Iterator[None]:
    """The module runs as its package does, and what it keeps is as before afterwards."""
    module = captured.module
    gradients = differentiating(module) if captured.derivatives else nullcontext()
    with eval_mode(module), kept_values(captured), torch.no_grad(), gradients:
        yield


def _outputs(captured: Captured, result: Any) -> tuple[Array, ...]:
    """What the package gives as tensors: tensors, and numbers that sizes determine."""
    program = captured.program
    output = next(n for n in program.graph.nodes if n.op == "output")
    specs = program.graph_signature.output_specs
    given = [
        isinstance(item, torch.fx.Node)
        for item, spec in zip(output.args[0], specs, strict=True)
        if spec.kind is OutputKind.USER_OUTPUT
    ]
    leaves = zip(pytree.tree_leaves(result), given, strict=True)
    return tuple(
        to_array(leaf) if isinstance(leaf, torch.Tensor) else np.asarray(leaf)
        for leaf, is_given in leaves
        if is_given
    )


def _failing(captured: Captured) -> Callable[[BaseException], AotError]:
    def convert(error: BaseException) -> AotError:
        return InputMismatch(
            "eager PyTorch cannot run the model on its example inputs here",
            where=place_of_error(error, captured.root),
            details=first_lines(error),
            advice="Give its operators an implementation for the CPU, or package with --no-golden.",
        )

    return convert


@contextmanager
def refused_by_eager(captured: Captured) -> Iterator[None]:
    """A block that fails with the example's fault where eager fails with the example, too.

    torch traces some operators with types that their kernels refuse, such as a product of
    integers by a weight of floats; no stage after them knows what to make of it.

    Raises:
        InputMismatch: Eager refuses the example inputs.
    """
    try:
        yield
    except (ValueError, CompilerFailed, InternalError) as error:
        args, kwargs = captured.example
        with _for_inference(captured):
            eager = failure_of(lambda: captured.module(*args, **dict(kwargs)))
        if eager is None:
            raise
        raise InputMismatch(
            "the model itself fails with the example inputs",
            where=place_of_error(eager, captured.root) or captured.name,
            details=first_lines(eager),
        ) from error


def _own_tensors(nested: Any) -> Any:
    """The same containers with copies of the tensors: the model may change what it is given."""
    return pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, nested)


@contextmanager
def kept_values(captured: Captured) -> Iterator[None]:
    """Gives the module's buffers, and parameters that it changes, the values back that they had."""
    saved = [
        (owner, name, buffer, buffer.clone())
        for owner in captured.module.modules()
        for name, buffer in owner.named_buffers(recurse=False)
    ]
    changed = captured.program.graph_signature.parameters_to_mutate.values()
    parameters = [captured.module.get_parameter(name) for name in changed]
    values = [parameter.clone() for parameter in parameters]
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, values, strict=True):
                parameter.copy_(value)
            for owner, name, buffer, value in saved:
                owner._buffers[name] = buffer  # the model may have put another tensor there
                buffer.copy_(value)


def flat_arrays(nested: Any) -> tuple[Array, ...]:
    """The tensors in nested containers, in the order of the graph's inputs or outputs."""
    leaves, _ = pytree.tree_flatten(nested)
    return tuple(to_array(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
