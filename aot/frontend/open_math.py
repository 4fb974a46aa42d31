"""Functions of `math`, and tensors, of numbers that sizes, or tensors' values, determine.

`math.log(x.shape[1])` makes a plain number of the example's size, and torch then takes the size for
a constant. While a model is traced, these functions let torch's symbolic numbers through. What is
rounded to a whole number is computed in a run and read where it has no form of whole numbers alone:
`int(math.log2(x.shape[1]))` is a size that the model computes. Of the functions that make a tensor
of numbers, `torch.tensor` lets them through, and stands for the others.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.reference import PythonReferenceAnalysis

from aot.frontend.scaled_sizes import translate
from aot.frontend.sizes import finite

_untyped: Any = torch
"""torch, for functions of it that have no types."""

_TORCH = str(Path(torch.__file__).parent)

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


_SEVERAL = {
    **dict.fromkeys(("hypot", "atan2", "fmod", "copysign"), torch.float64),
    **dict.fromkeys(("gcd", "lcm"), torch.int64),
}
"""Functions of two numbers -> what they are computed in."""


def _of_two(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    """`math`'s function of two numbers, which is torch's where one of them is symbolic."""

    def function(*numbers: Any) -> Any:
        symbolic = [isinstance(x, torch.SymInt | torch.SymFloat) for x in numbers]
        if len(numbers) != 2 or not any(symbolic):
            return own(*numbers)
        values = [_untyped.scalar_tensor(x, dtype=_SEVERAL[name]) for x in numbers]
        made = getattr(torch, name)(*values).item()
        if isinstance(made, torch.SymInt):
            _untyped._check(made >= 0)
        return made

    return function


def _divided(x: torch.SymInt, by: Any) -> Any:
    """`divmod(x, by)`: torch has none for symbolic numbers."""
    return x // by, x % by


_ROUNDING = {"__trunc__": "trunc", "__floor__": "floor", "__ceil__": "ceil", "__round__": "round"}
"""What `int`, `math`'s functions and `round` ask a number for -> torch's function."""


def _whole(own: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A rounding of symbolic numbers: one of sizes alone stays that, others are read in a run."""

    def rounded(x: torch.SymFloat, *digits: Any) -> Any:
        found = own(x, *digits)
        # torch rounds such numbers, too, while it works out what operators give.
        is_torchs = sys._getframe(1).f_code.co_filename.startswith(_TORCH)
        if is_torchs or not isinstance(found, torch.SymInt) or _is_of_sizes(found):
            return found
        value = _untyped.scalar_tensor(x, dtype=torch.float64)
        return getattr(torch, name)(value).to(torch.int64).item()

    return rounded


def _raised(own: Callable[..., Any]) -> Callable[..., Any]:
    """`base ** x` of a whole number that a run reads: a power of whole numbers, which a run checks.

    torch asks whether x is negative, when the result is no whole number: `2 ** math.ceil(…)`.
    """

    def power(x: torch.SymInt, base: Any) -> Any:
        if type(base) is not int or base < 1 or not free_unbacked_symbols(x):
            return own(x, base)
        _untyped._check(x >= 0)
        made = torch.pow(_whole_tensor(base), _untyped.scalar_tensor(x, dtype=torch.int64)).item()
        _untyped._check(made >= 1)
        return made

    return power


def _shifted(x: torch.SymInt, base: Any) -> Any:
    """`base << x`: torch has none for symbolic numbers."""
    return base * 2**x if type(base) is int else NotImplemented


def _bits(own: Callable[..., Any]) -> Callable[..., Any]:
    """How many binary digits a symbolic number has, which torch takes for a constant."""

    def bit_length(x: torch.SymInt) -> Any:
        if not x.node.expr.free_symbols:
            return own(x)
        # The half lets roundings of the logarithm be: x and x + 1/2 have as many digits.
        value = _untyped.scalar_tensor(x, dtype=torch.float64).abs() + 0.5
        made = (torch.log2(value).floor() + 1).to(torch.int64).item()
        _untyped._check(made >= 0)
        return made

    return bit_length


def _whole_tensor(value: int) -> torch.Tensor:
    return torch.full((), value, dtype=torch.int64)


def _is_of_sizes(number: torch.SymInt) -> bool:
    """Whether it is integer arithmetic."""
    try:
        translate(number.node.expr, _greatest(number))
    except ValueError:
        return False
    return True


def _greatest(number: torch.SymInt) -> Callable[[Any], int | None]:
    """What expressions over the sizes that a number is made of never exceed."""
    environment = number.node.shape_env
    return lambda part: finite(environment.bound_sympy(part).upper)


@contextmanager
def truncating() -> Iterator[None]:
    """Inside of it, torch can write what it demands of sizes that `int(…)` and `/` have made.

    Its table of functions for a graph has quotients of floats alone, and asks a node's proxy for
    its value where it finds a rounding or a quotient of whole numbers.
    """
    own = {
        "trunc_to_int": lambda x, _: _untyped.sym_int(x),
        "floor_to_int": lambda x, _: _written(math.floor, x),
        "ceil_to_int": lambda x, _: _written(math.ceil, x),
        "int_truediv": operator.truediv,
    }
    with ExitStack() as undo:
        for name, function in own.items():
            undo.enter_context(patch.object(PythonReferenceAnalysis, name, staticmethod(function)))
        yield


def _written(function: Callable[..., Any], x: Any) -> Any:
    """A function of a number, as a node of the graph where the number is one."""
    if not isinstance(x, torch.fx.Proxy):
        return function(x)
    return x.tracer.create_proxy("call_function", function, (x,), {})


def _has_symbolic(data: Any) -> bool:
    """Whether there is a symbolic number among what a tensor is to be made of."""
    if isinstance(data, list | tuple):
        return any(map(_has_symbolic, data))
    return isinstance(data, torch.SymInt | torch.SymFloat)


def _made(own: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.as_tensor` and its like, which ask symbolic numbers for their values."""

    def tensor(data: Any, dtype: Any = None, device: Any = None, **more: Any) -> Any:
        if _has_symbolic(data):
            return torch.tensor(data, dtype=dtype, device=device)
        return own(data, dtype=dtype, device=device, **more)

    return tensor


def _made_like(own: Callable[..., Any]) -> Callable[..., Any]:
    """`x.new_tensor`, of x's type and device where no other is asked for."""

    def tensor(x: torch.Tensor, data: Any, **more: Any) -> Any:
        if _has_symbolic(data):
            return torch.tensor(data, **{"dtype": x.dtype, "device": x.device, **more})
        return own(x, data, **more)

    return tensor


@contextmanager
def open_math() -> Iterator[None]:
    """Inside of it, `math`'s functions, roundings and tensors let symbolic numbers through."""
    with ExitStack() as undo:
        for name in ("as_tensor", "asarray"):
            undo.enter_context(patch.object(torch, name, _made(getattr(torch, name))))
        likes = _made_like(torch.Tensor.new_tensor)
        undo.enter_context(patch.object(torch.Tensor, "new_tensor", likes))
        for name in (*_NAMES, "sqrt"):
            own = getattr(math, name)
            undo.enter_context(patch.object(math, name, _through(name, own)))
        for name in _SEVERAL:
            undo.enter_context(patch.object(math, name, _of_two(name, getattr(math, name))))
        for method, name in _ROUNDING.items():
            own = getattr(torch.SymFloat, method)
            undo.enter_context(patch.object(torch.SymFloat, method, _whole(own, name)))
        for method, how in (("__rpow__", _raised), ("bit_length", _bits)):
            changed = how(getattr(torch.SymInt, method))
            undo.enter_context(patch.object(torch.SymInt, method, changed))
        undo.enter_context(patch.object(torch.SymInt, "__rlshift__", _shifted, create=True))
        undo.enter_context(patch.object(torch.SymInt, "__divmod__", _divided, create=True))
        yield
