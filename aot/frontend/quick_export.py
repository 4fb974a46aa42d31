"""What torch does while it exports, and nobody needs, is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any
from unittest import mock

import torch
from torch.export import _trace
from torch.fx import _lazy_graph_module as lazy

_FAKIFY = "_fakify_params_buffers"
"""What makes a fake tensor of each weight."""


@contextmanager
def quick_export() -> Iterator[None]:
    """Within, exports do only what their results need; other versions of torch do all that they do.

    The text of a traced graph is compiled when it is first run or read, which is mostly never. And
    modes that look at the model's calls of torch's functions are not told of the hundred that
    torch makes for each weight, ahead of the model's own.
    """
    with ExitStack() as entered:
        if hasattr(lazy, "_use_lazy_graph_module"):
            entered.enter_context(lazy._use_lazy_graph_module(should_use=True))
        own = getattr(_trace, _FAKIFY, None)
        if own is not None:
            entered.enter_context(mock.patch.object(_trace, _FAKIFY, _untold(own)))
        yield


def _untold(own: Callable[..., Any]) -> Callable[..., Any]:
    def fakified(mode: Any, module: torch.nn.Module) -> Any:
        weights = chain(module.parameters(), module.buffers())
        # A class of the user's may say itself what its attributes are.
        if all(type(w) in (torch.Tensor, torch.nn.Parameter) for w in weights):
            with torch._C.DisableTorchFunction():
                return own(mode, module)
        return own(mode, module)

    return fakified
