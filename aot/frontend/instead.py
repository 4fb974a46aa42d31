"""Calls of torch's functions that are something else while a model is captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch.overrides
from torch.overrides import TorchFunctionMode

_modes: Any = torch.overrides
"""Its functions that have no types."""


class Instead(TorchFunctionMode):
    """Inside of it, calls are what `instead` makes of them."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The call, or what is there instead."""
        given = dict(kwargs or {})
        made = self.instead(func, args, given)
        return func(*args, **given) if made is NotImplemented else made

    def instead(
        self, func: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]
    ) -> Any:
        """The result of a call with these arguments; NotImplemented where it stays torch's."""
        raise NotImplementedError


def entered_again() -> Callable[[], AbstractContextManager[None]]:
    """What enters the modes of now once more, where torch has left them.

    It does so while a mode handles a call: functions that are given to an operator, such as the
    sides of a branch, are traced without the modes else.
    """
    modes = [m for m in _modes._get_current_function_mode_stack() if isinstance(m, Instead)]

    @contextmanager
    def again() -> Iterator[None]:
        entered = _modes._get_current_function_mode_stack()
        missing = [m for m in modes if not any(m is e for e in entered)]
        for mode in missing:
            _modes._push_mode(mode)
        try:
            yield
        finally:
            for _ in missing:
                _modes._pop_mode()

    return again
