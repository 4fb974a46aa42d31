"""A function as a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn


class Calls(nn.Module):
    """A module around a function, as packaging wants it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        """The function's result."""
        return self.function(*args)
