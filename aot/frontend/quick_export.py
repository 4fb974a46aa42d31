"""What torch does while it exports, and nobody needs, is left out."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from types import CodeType, FrameType, ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.export import _trace, exported_program
from torch.fx import _lazy_graph_module as lazy
from torch.fx import proxy
from torch.fx.experimental import proxy_tensor
from torch.utils import _traceback

_FAKIFY = "_fakify_params_buffers"
"""What makes a fake tensor of each weight."""

_BOOKKEEPING: Sequence[tuple[ModuleType, str]] = (
    (proxy_tensor, "track_tensor_tree"),
    (_trace, "_replace_unbacked_bindings"),
    (_trace, "_preserve_requires_grad_pass"),
)
"""What notes which node each value is, and of each node what its value says of itself.

What writes into the whole graph is none of it: assertions on sizes are written there by torch's
functions of proxies, which have to be told."""

_WHOLE = "_create_graph_module_for_export"
"""What makes the program's own graph runnable."""

_FRAMES = "_extract_symbolized_tb"
"""What makes the frames of a stack of names and lines, each anew for each node."""

_STACK = "CapturedTraceback"
"""What takes the stack of Python's frames for each node, by way of C++."""


@contextmanager
def quick_export() -> Iterator[None]:
    """Within, exports do only what their results need; other versions of torch do all that they do.

    The text of a traced graph is compiled when it is first run or read, which is mostly never. And
    modes that look at the model's calls of torch's functions are not told of the hundred that
    torch makes for each weight, ahead of the model's own and with them. Frames of the stacks by
    which nodes are known to be of the user's code are the same objects where they are alike.
    """
    plain: list[bool] = []
    with ExitStack() as entered:
        if hasattr(lazy, "_use_lazy_graph_module"):
            entered.enter_context(lazy._use_lazy_graph_module(should_use=True))
            if hasattr(exported_program, _WHOLE):
                make = lazy._make_graph_module
                entered.enter_context(mock.patch.object(exported_program, _WHOLE, make))
        own = getattr(_trace, _FAKIFY, None)
        if own is not None:
            entered.enter_context(mock.patch.object(_trace, _FAKIFY, _untold(own, plain)))
        for module, name in _BOOKKEEPING:
            if hasattr(module, name):
                silent = _silent(getattr(module, name), plain)
                entered.enter_context(mock.patch.object(module, name, silent))
        # Remembered for as long as this is there: sources may change between exports.
        frame = lru_cache(maxsize=None)(traceback.FrameSummary)
        if hasattr(_traceback, _FRAMES):
            entered.enter_context(mock.patch.object(_traceback, _FRAMES, _frames_once(frame)))
        if hasattr(proxy, _STACK):
            entered.enter_context(mock.patch.object(proxy, _STACK, _walked(frame)))
        yield


def _untold(own: Callable[..., Any], plain: list[bool]) -> Callable[..., Any]:
    """`plain` becomes whether all weights are tensors of torch's own class."""

    def fakified(mode: Any, module: torch.nn.Module) -> Any:
        weights = chain(module.parameters(), module.buffers())
        # A class of the user's may say itself what its attributes are.
        plain[:] = [all(type(w) in (torch.Tensor, torch.nn.Parameter) for w in weights)]
        if plain[0]:
            with torch._C.DisableTorchFunction():
                return own(mode, module)
        return own(mode, module)

    return fakified


def _silent(own: Callable[..., Any], plain: list[bool]) -> Callable[..., Any]:
    def silent(*args: Any, **kwargs: Any) -> Any:
        if plain != [True]:
            return own(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            return own(*args, **kwargs)

    return silent


_Frame = Callable[[str, int, str], traceback.FrameSummary]


def _frames_once(frame: _Frame) -> Callable[..., Any]:
    def extracted(symbols: Sequence[Mapping[str, Any]], skip: int) -> traceback.StackSummary:
        stack = traceback.StackSummary()
        stack.extend(frame(s["filename"], s["line"], s["name"]) for s in reversed(symbols[skip:]))
        return stack

    return extracted


def _walked(frame: _Frame) -> SimpleNamespace:
    """Stands where a node's stack is asked of torch, and walks Python's own frames.

    They are the same. torch has C++ gather them, and name them as dictionaries, sixty for a node.
    Which line an instruction is of, Python reads from the start of its function's table at each
    question: it is remembered, with the function's code, whose place in memory is its name here.
    """
    known: dict[tuple[int, int], traceback.FrameSummary] = {}
    held: dict[int, CodeType] = {}

    def extract() -> _Stack:
        stack = traceback.StackSummary()
        at: FrameType | None = sys._getframe(1)
        while at is not None:
            code = at.f_code
            place = (id(code), at.f_lasti)
            summary = known.get(place)
            if summary is None:
                held[place[0]] = code
                summary = known[place] = frame(code.co_filename, at.f_lineno, code.co_name)
            stack.append(summary)
            at = at.f_back
        stack.reverse()
        return _Stack(stack)

    return SimpleNamespace(extract=extract)


@dataclass(frozen=True)
class _Stack:
    """As torch's own, as far as who makes nodes asks it."""

    frames: traceback.StackSummary

    def summary(self) -> traceback.StackSummary:
        """From the outermost frame to the innermost."""
        return self.frames
