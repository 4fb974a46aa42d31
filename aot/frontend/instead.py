"""Calls of torch's functions that are something else while a model is captured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch.overrides import TorchFunctionMode


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
