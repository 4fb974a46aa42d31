"""Numbers that a model takes with `int(…)`, `float(…)` or `len(…)`, open while it is traced.

`int(lengths.max())` makes a plain number whatever it is given, which torch refuses to trace: what
the tensor holds is known only when the model runs. Of a size, as in `float(x.shape[0])`, it makes a
constant, without a word where the number is not a whole one, as in `int(0.3 * x.shape[0])`. In
modules where that happened, these names stand for what lets torch's symbolic numbers through and is
Python's own for all else.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest.mock import patch

import torch

from aot.frontend.places import is_users

Namespace = dict[str, Any]
"""The global names of a module."""

_untyped: Any = torch
"""torch, for functions of it that have no types."""

FIXED = "a number that sizes determine would be a constant"
"""What is said where torch says nothing."""

_SIGNS = ("Could not extract specialized integer", "Could not guard on data-dependent", FIXED)
"""What is said of a number that is asked for its value."""


class _Open(type):
    """Of a class that stands for one of Python's numbers: its values are those of that one."""

    _own: type[Any]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls._own)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls._own)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """The number, an open one where the argument is one."""
        if len(args) == 1 and not kwargs:
            value = _item(args[0], cls._own) if isinstance(args[0], torch.Tensor) else args[0]
            if isinstance(value, torch.SymFloat) and cls._own is int:
                return math.trunc(value)
            if isinstance(value, torch.SymInt | torch.SymFloat):
                return value if cls._own is int else _untyped.sym_float(value)
            args = (value,)
        return cls._own(*args, **kwargs)


def _item(x: torch.Tensor, kind: type[Any]) -> Any:
    """What the tensor holds; as a whole number, what is behind the point is dropped before."""
    return (x.trunc().to(torch.int64) if kind is int and x.is_floating_point() else x).item()


class _Int(int, metaclass=_Open):
    _own = int


class _Float(float, metaclass=_Open):
    _own = float


def _len(x: Any) -> Any:
    """Python's, which makes a plain number of whatever a tensor says."""
    return x.shape[0] if isinstance(x, torch.Tensor) and x.dim() else len(x)


_OPEN: Namespace = {"int": _Int, "float": _Float, "len": _len}


def asks_for_number(error: BaseException) -> Namespace | None:
    """The module whose own code, innermost in the error's trace, makes a number of a value.

    None for another failure, or where that code uses no such name, or has its own meaning of one.
    """
    if not any(sign in str(error) for sign in _SIGNS):
        return None
    frames = [f for f in _frames(error.__traceback__) if is_users(f.f_code.co_filename)]
    if not frames or not set(_OPEN).intersection(frames[-1].f_code.co_names):
        return None
    names = frames[-1].f_globals
    return None if set(_OPEN).intersection(names) else names


def user_modules(model: torch.nn.Module, more: Sequence[Namespace] = ()) -> list[Namespace]:
    """The modules of the user's code that define parts of the model, and those of `more`.

    Those with their own meaning of one of the names are left out.
    """
    owners = {
        type(part).__module__: sys.modules.get(type(part).__module__) for part in model.modules()
    }
    found: list[Namespace] = []
    for name, owner in owners.items():
        file = getattr(owner, "__file__", None)
        users = name == "__main__" if file is None else is_users(str(Path(file).absolute()))
        if owner is not None and users:
            found.append(vars(owner))
    for names in more:
        if not any(names is known for known in found):
            found.append(names)
    return [names for names in found if not set(_OPEN).intersection(names)]


def _frames(trace: TracebackType | None) -> Iterator[Any]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


_LAYERS: Namespace = vars(torch.nn.modules.rnn)
"""Of torch's recurrent layers, which make a plain number of a packed batch's size."""


_CONVERSIONS: Sequence[tuple[Any, str]] = (
    (torch.SymInt, "__int__"),
    (torch.SymFloat, "__int__"),
    (torch.SymFloat, "__float__"),
)


def _refusing(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A conversion to a plain number that raises where the user's code asks it of sizes.

    torch itself says it of whole numbers; of those it does where the name `int` would not help.
    """

    def asked(x: Any) -> Any:
        code, names = sys._getframe(1).f_code, sys._getframe(1).f_globals
        helps = "int" in code.co_names and "int" not in names
        is_told = helps or isinstance(x, torch.SymFloat)
        if is_told and is_users(code.co_filename) and x.node.expr.free_symbols:
            raise RuntimeError(f"{FIXED}: {x.node.expr}")
        return own(x)

    return asked


@contextmanager
def open_numbers(modules: Sequence[Namespace]) -> Iterator[None]:
    """Inside of it, `int` and `float` in these modules let numbers of the run through.

    So they do in torch's own module of recurrent layers. Elsewhere they raise of numbers that sizes
    determine.
    """
    every = (_LAYERS, *modules)
    for names in every:
        names.update(_OPEN)
    try:
        with ExitStack() as undo:
            for kind, name in _CONVERSIONS:
                own = getattr(kind, name)
                undo.enter_context(patch.object(kind, name, _refusing(own)))
            yield
    finally:
        for names in every:
            for name in _OPEN:
                del names[name]
