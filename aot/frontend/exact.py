"""Eager PyTorch as the measure of a package: exact outputs, and the value of every line."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from aot.errors import AotError
from aot.frontend.capture import Captured, eval_mode
from aot.frontend.eager import arguments_of
from aot.frontend.golden import Example, run_eager
from aot.frontend.places import places_of
from aot.frontend.weights import to_array
from aot.ir.origin import Origin

Array = np.ndarray[Any, Any]

_WIDE = {
    **dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64),
    torch.complex64: torch.complex128,
}


@dataclass(frozen=True)
class LineValue:
    """What an operator of the captured program gave.

    Attributes:
        origin: The model's line, and the operator.
        value: Its result.
    """

    origin: Origin
    value: Array


def eager_run(captured: Captured, inputs: Sequence[Array]) -> Example:
    """Inputs with what eager gives for them, in the model's own types.

    Raises:
        InputMismatch: Eager refuses them.
    """
    args, kwargs = arguments_of(captured, inputs)
    return run_eager(captured, args, kwargs)


class ExactModel:
    """A model in float64, where it runs in it.

    Args:
        captured: The model; it is copied.
    """

    def __init__(self, captured: Captured) -> None:
        wide = copy.deepcopy(captured.module)
        wide.double()
        self._captured = replace(captured, module=wide)

    def outputs(self, inputs: Sequence[Array]) -> tuple[Array, ...] | None:
        """The outputs in float64; None where the model insists on a narrower type."""
        args, kwargs = pytree.tree_map_only(
            torch.Tensor,
            lambda x: x.to(_WIDE.get(x.dtype, x.dtype)),
            arguments_of(self._captured, inputs),
        )
        try:
            return run_eager(self._captured, args, kwargs).outputs
        except AotError:
            return None


def line_values(captured: Captured, inputs: Sequence[Array]) -> tuple[LineValue, ...]:
    """What every operator of the captured program gives for these inputs, in order, in eager."""
    args, kwargs = arguments_of(captured, inputs)
    module = captured.program.module(check_guards=False)
    places = places_of(captured.root)
    found: list[LineValue] = []

    class Watched(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            if n.op == "call_function" and isinstance(result, torch.Tensor):
                origin = places.origin(n.meta.get("stack_trace"), str(n.target))
                found.append(LineValue(origin, to_array(result.detach().clone())))
            return result

    with eval_mode(captured.module), torch.no_grad():
        leaves = pytree.tree_leaves((args, kwargs))
        Watched(module).run(*leaves, enable_io_processing=False)
    return tuple(found)
