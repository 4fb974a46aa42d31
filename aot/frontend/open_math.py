"""Functions of the module `math` of numbers that sizes, or tensors' values, determine.

`math.log(x.shape[1])` makes a plain number of the example's size, and torch then takes the size for
a constant. While a model is traced, these functions let torch's symbolic numbers through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

_untyped: Any = torch
"""torch, for functions of it that have no types."""

_NAMES = (
    *("exp", "expm1", "log", "log1p", "log2", "log10", "erf"),
    *("sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh"),
)


def _number(name: str, x: Any) -> Any:
    """The function of a symbolic number, a symbolic number itself: computed when the model runs."""
    value = torch.scalar_tensor(x, dtype=torch.float64)
    return getattr(torch, name)(value).item()


def _through(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    """`math`'s function, which is torch's for symbolic numbers."""

    def function(x: Any, *more: Any) -> Any:
        if not isinstance(x, torch.SymInt | torch.SymFloat):
            return own(x, *more)
        if name == "sqrt":
            return _untyped.sym_sqrt(x)
        value = _number(name, x)
        return value / function(*more) if more else value  # log(x, base)

    return function


@contextmanager
def open_math() -> Iterator[None]:
    """Inside of it, `math`'s functions let symbolic numbers through."""
    with ExitStack() as undo:
        for name in (*_NAMES, "sqrt"):
            own = getattr(math, name)
            undo.enter_context(patch.object(math, name, _through(name, own)))
        yield
