"""Functions that a model gives to torch's loops and branches: traced as the model's own code is.

torch makes graphs of them first, whose calls it runs on tensors without values to see which sizes
they fix, and records what the calls are made of later. No mode of the model's code is there, so the
calls themselves are ours in these graphs. And torch keeps what it found by the code of a function
of its own: every later loop of the process was first held to the sizes of earlier ones, which fixed
open sizes, even where the model of the earlier ones had been refused. It also asks at once whether
what it found holds for the sizes that it was given, and takes none of them for 0 or 1: of `n // 4`
chunks it would conclude that there are at least 2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from types import FunctionType
from typing import Any
from unittest.mock import patch

import torch
from torch._dynamo import guards  # noqa: TID251 - of these graphs
from torch._dynamo import utils as first_step  # noqa: TID251 - torch.export runs these graphs by it
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from aot.frontend.open_dims import TRACED

Mode = Callable[[], AbstractContextManager[Any]]
"""What enters a mode."""


def _forgotten(function: Any) -> Any:
    """The same function, of which torch knows nothing."""
    if not isinstance(function, FunctionType):
        return function
    own = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    own.__kwdefaults__ = function.__kwdefaults__
    return own


def _compiled(own: Callable[..., Any], model: Any = None, *args: Any, **kwargs: Any) -> Any:
    """torch.compile, with which torch makes these graphs."""
    return own(_forgotten(model), *args, **kwargs)


@cache
def _inside(mode: Mode, target: Callable[..., Any]) -> Callable[..., Any]:
    """The call of a function in a mode; graphs print it by its name, which is this module's."""

    def entered(*args: Any, **kwargs: Any) -> Any:
        with mode():
            return target(*args, **kwargs)

    return entered


def _called(node: torch.fx.Node, args: tuple[Any, ...]) -> Any:
    """The function that a node of such a graph calls; None where it calls none."""
    if node.op == "call_method" and args and isinstance(args[0], torch.Tensor):
        return getattr(torch.Tensor, str(node.target), None)
    return node.target if node.op == "call_function" else None


@contextmanager
def _without_sizes_of_tracing() -> Iterator[None]:
    """Inside of it, while torch looks whether what it found holds, it concludes no such sizes."""
    evaluate = ShapeEnv.evaluate_expr

    def evaluated(env: Any, condition: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_of_tracing(condition):
            held = condition.subs(env.backed_var_to_val)
            if held.is_Boolean and bool(held):
                return held
        return evaluate(env, condition, *args, **kwargs)

    with patch.object(ShapeEnv, "evaluate_expr", evaluated):
        yield


def _is_of_tracing(condition: Any) -> bool:
    """Whether it says of a computed size only that torch takes it neither for 0 nor for 1."""
    if type(condition).__name__ not in ("LessThan", "GreaterThan"):
        return False
    least, size = condition.lts, condition.gts
    return bool(least == TRACED) and not size.is_Symbol


@contextmanager
def traced_functions(mode: Mode, ours: Collection[Any]) -> Iterator[None]:
    """Inside of it, functions of loops and branches are traced anew each time.

    Args:
        mode: In which a call is something else.
        ours: The functions whose calls are.
    """
    own = first_step.run_node
    made = guards.CheckFunctionManager.__init__

    def make(*args: Any, **kwargs: Any) -> None:
        with _without_sizes_of_tracing():
            made(*args, **kwargs)

    def run(tracer: Any, node: torch.fx.Node, args: Any, kwargs: Any, *more: Any) -> Any:
        target = _called(node, args)
        if target in ours:
            node.op, node.target = "call_function", _inside(mode, target)
        return own(tracer, node, args, kwargs, *more)

    with (
        patch.object(torch, "compile", partial(_compiled, torch.compile)),
        patch.object(first_step, "run_node", run),
        patch.object(guards.CheckFunctionManager, "__init__", make),
    ):
        yield
