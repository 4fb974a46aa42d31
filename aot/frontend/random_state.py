"""Random numbers: a state of the session that operators draw from.

torch draws from a generator of the process. A package has none: its numbers come from a state
(seed, runs so far), so that they are reproducible, and sessions are independent of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from aot.frontend.context import Context
from aot.ir.dtypes import INT64
from aot.ir.origin import NO_ORIGIN
from aot.ir.tensors import RANDOM_STATE, Mutation, TensorType, ValueRef
from aot.symbolic import integer

DRAWING = frozenset(
    """rand rand_like randn randn_like randint randint_like randperm bernoulli native_dropout
    normal normal_functional uniform exponential cauchy log_normal geometric multinomial
    poisson""".split()
)
"""Operators (without overloads) that draw random numbers."""

_NAME, _NEXT = "random_state", "random_state.next"
_TYPE = TensorType(INT64, (integer(2),), (integer(1),))


_IN_TRAINING = {"aten.rrelu_with_noise_functional.default": 4}
"""Overloads that draw when an argument is true, and which one."""


def draws(target: str, args: Sequence[Any]) -> bool:
    """Whether a call of the overload draws random numbers."""
    if target in _IN_TRAINING:
        return any(args[_IN_TRAINING[target] : _IN_TRAINING[target] + 1])
    namespace, _, rest = target.partition(".")
    return namespace == "aten" and rest.partition(".")[0] in DRAWING


def next_draw(context: Context) -> tuple[ValueRef, int]:
    """The state, and which of the program's draws this is: no two give the same numbers.

    Raises:
        ValueError: It is in a branch or a loop, whose turns would draw the same.
    """
    if context.prefix:
        raise ValueError("it draws random numbers in a branch or a loop; draw them before it")
    if _NAME not in context.given.states:
        context.given.add_state(_NAME, RANDOM_STATE, torch.zeros(2, dtype=torch.int64))
        context.ops.declare(_NAME, _TYPE)
        context.ops.declare(_NEXT, _TYPE)
    return ValueRef(_NAME), next(context.draws)


def advance(context: Context) -> tuple[Mutation, ...]:
    """What a run does to the state, if the program draws."""
    if _NAME not in context.given.states:
        return ()
    context.ops.call("aot.next_run.default", (ValueRef(_NAME),), _NEXT, _TYPE, NO_ORIGIN)
    return (Mutation(_NAME, _NEXT),)
