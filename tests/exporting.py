"""torch.export without the work that is the same for every model: a quarter of each export's time.

What is exported stays the same. Nothing of torch is changed but how often it does something again.
"""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def ease_export() -> None:
    """Changes torch in this process, for all tests."""
    from torch import _C
    from torch._export import utils  # takes long, and only what runs tests needs it
    from torch._ops import OperatorBase

    utils._materialize_cpp_cia_ops = when_changed(
        lambda: _C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"),
        utils._materialize_cpp_cia_ops,
    )
    # Called some ten thousand times for a model, and makes types of its annotations each time.
    OperatorBase.py_impl = without_annotations(OperatorBase.py_impl)


def when_changed(state: Callable[[], Any], act: Callable[[], None]) -> Callable[[], None]:
    """`act`, left out while `state` gives what it gave the last time."""
    last: list[Any] = [None]

    def acting() -> None:
        now = state()
        if now != last[0]:
            act()
            last[0] = now

    return acting


def without_annotations(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of the same source, whose inner functions' annotations are never evaluated."""
    text = textwrap.dedent(inspect.getsource(function))
    flags = __future__.annotations.compiler_flag
    code = compile(text, inspect.getfile(function), "exec", flags, dont_inherit=True)
    made: dict[str, Any] = {}
    exec(code, function.__globals__, made)
    return made[function.__name__]
