"""Decisions of a model on values, both sides of which are traced and joined by a branch.

Python cannot go both ways at `if mask.any():`. So the model is traced up to the decision, and left
there: what is known then is the tensor that decides. The result is that of `cond`: on each side the
whole model again, with the decision's answer given. What both sides compute before the decision is
in both of them; what the decision itself needs is computed once more, ahead of them. A side may
come to further decisions, and is a branch itself.

A side that raises by a statement of its own has no result: the decision is an assertion there. All
that decided on the way to it was answered, so every run that gives these answers raises.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from unittest.mock import patch

import torch
from torch._higher_order_ops.utils import reenter_make_fx
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.nn.utils import stateless
from torch.utils import _pytree as pytree

from aot.frontend.decisions import Demands, Site, answering, frames_from, raised_in
from aot.frontend.instead import entered_again
from aot.frontend.leftovers import Reached
from aot.frontend.places import failure_of

MOST = 8
"""Decisions that are joined, each for one more trace of the model."""

_BOTH = (True, False)

_in_a_graph: Any = reenter_make_fx
"""The function as one whose operators are recorded in a graph of their own."""

Path = tuple[bool, ...]
"""Answers to the decisions of a run, in the order of its asking."""


class NotJoined(RuntimeError):
    """The sides cannot be joined, with the reason."""


class _Undecided(BaseException):
    """Leaves the model at a decision that has no answer yet."""

    def __init__(self, value: torch.Tensor) -> None:
        super().__init__()
        self.value = value


@dataclass(frozen=True)
class _Raised:
    """A side that has no result, and what it raises in its place."""

    message: str


@contextmanager
def joining(module: torch.nn.Module, checks: Demands) -> Iterator[None]:
    """Inside of it, the module can be traced through decisions on values.

    Args:
        module: The model.
        checks: Decisions that are assertions, which have their answers from elsewhere.
    """
    joined = _Joined(module, module.forward, checks)

    @functools.wraps(module.forward)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return joined.result((), args, kwargs)

    call = torch.fx.Tracer.call_module
    leaving = functools.partialmethod(_leaving, call)
    with (
        patch.object(module, "forward", forward),
        patch.object(torch.fx.Tracer, "call_module", leaving),
    ):
        yield


def _leaving(tracer: torch.fx.Tracer, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a module, and leaves it in torch's notes where an exception has left it."""
    depth = len(tracer.module_stack)
    try:
        return call(tracer, *args, **kwargs)
    finally:
        while len(tracer.module_stack) > depth:
            tracer.module_stack.popitem()


@dataclass
class _Joined:
    """A model whose decisions become branches.

    Attributes:
        module: The model.
        forward: Its own forward.
        checks: As `joining`.
        asserted: Paths behind which one side raises -> the other answer, and what that one says.
        joins: Paths at whose end there is a branch.
    """

    module: torch.nn.Module
    forward: Callable[..., Any]
    checks: Demands
    asserted: dict[Path, tuple[bool, str]] = field(default_factory=dict)
    joins: set[Path] = field(default_factory=set)

    def result(self, path: Path, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the model gives where it decides so, further decisions joined."""
        while True:
            found = self._run(path, args, kwargs)
            if isinstance(found, _Raised):
                raise NotJoined(found.message)
            if not isinstance(found, _Undecided):
                return found
            self._learn(path, args, kwargs)
            if path in self.joins:
                return self._branch(path, found.value, args, kwargs)
            answer, message = self.asserted[path]
            holds = found.value if answer else found.value.logical_not()
            torch.ops.aten._assert_async.msg(holds, message)
            path = (*path, answer)

    def _learn(self, path: Path, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Finds out what the decision at the path's end is, where that is not known."""
        if path in self.asserted or path in self.joins:
            return
        sides: dict[bool, Any] = {}

        def run(*operands: torch.Tensor) -> tuple[()]:
            for answer in _BOTH:
                sides[answer] = self._given(self._run, (*path, answer), args, kwargs, operands)
            return ()

        # In a graph of its own, which is dropped: only whether a side raises is asked.
        with disable_proxy_modes_tracing():
            _in_a_graph(run)(*self._operands(args, kwargs))
        raising = [answer for answer, side in sides.items() if isinstance(side, _Raised)]
        if len(raising) == 1:
            self.asserted[path] = (not raising[0], sides[raising[0]].message)
            return
        self.joins.add(path)
        if len(self.joins) > MOST:
            raise NotJoined(f"the model takes more than {MOST} decisions on values")

    def _run(self, path: Path, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The model's result with these answers, a decision beyond them, or what it raises."""
        answers = _Answers(path, self.checks)
        before, reached = self._versions(args, kwargs), Reached()
        reached.walk((self.module, "the model", True))
        reached.walk((getattr(self.forward, "__globals__", None), "the module's names", False))
        results: list[Any] = []

        def run() -> None:
            try:
                with answers.given():
                    results.append(self.forward(*args, **kwargs))
            except _Undecided as undecided:
                results.append(undecided)

        error = failure_of(run)
        if error is not None:
            if not path or answers.left or not raised_in(error, answers.stack):
                raise error
            results.append(_Raised(f"{type(error).__name__}: {error}".removesuffix(": ")))
        (found,) = results
        if self._versions(args, kwargs) != before:
            raise NotJoined("the model writes to its inputs or buffers")
        if change := reached.change():
            raise NotJoined(f"a run of the model changes {change}")
        return found

    def _versions(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[int]:
        given = [*pytree.tree_leaves((args, kwargs)), *_weights(self.module).values()]
        return [x._version for x in given if isinstance(x, torch.Tensor)]

    def _branch(
        self, path: Path, value: torch.Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """The result of the side that the value chooses."""
        forms: list[tuple[list[Any], pytree.TreeSpec]] = []
        again = entered_again()

        def side(answer: Path) -> Callable[..., tuple[torch.Tensor, ...]]:
            def traced(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
                with again():
                    found = self._given(self.result, path + answer, args, kwargs, operands)
                parts, form = pytree.tree_flatten(found)
                forms.append(([_form(part) for part in parts], form))
                return tuple(_own(part) for part in parts if isinstance(part, torch.Tensor))

            return traced

        operands = self._operands(args, kwargs)
        sides = side((True,)), side((False,))
        found = torch.ops.higher_order.cond(value.reshape(()), *sides, operands)
        if any(free_unbacked_symbols(result) for result in found):
            raise NotJoined("its results are of another size on each side")
        (parts, form), *others = forms
        if any(other != (parts, form) for other in others):
            raise NotJoined("its results are of another structure on each side")
        results = iter(found)
        return pytree.tree_unflatten(
            [next(results) if part is torch.Tensor else part for part in parts], form
        )

    def _operands(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        """All tensors that a side may read."""
        leaves = pytree.tree_leaves((args, kwargs))
        given = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return (*given, *{id(w): w for w in _weights(self.module).values()}.values())

    def _given(
        self,
        run: Callable[[Path, Sequence[Any], Mapping[str, Any]], Any],
        path: Path,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        operands: Sequence[torch.Tensor],
    ) -> Any:
        """What the model gives where its tensors are these, in the order of `_operands`."""
        waiting = iter(operands)
        chosen, named = pytree.tree_map_only(torch.Tensor, lambda _: next(waiting), (args, kwargs))
        weights = _weights(self.module)
        # Tied weights are one operand.
        taken = dict(zip(dict.fromkeys(map(id, weights.values())), waiting, strict=True))
        own = {name: taken[id(weight)] for name, weight in weights.items()}
        with stateless._reparametrize_module(self.module, own):
            return run(path, chosen, named)


def _own(result: torch.Tensor) -> torch.Tensor:
    """A copy: a branch gives tensors of its own, and never one twice.

    Strides are products of sizes then; torch compares those of both sides as they are written.
    """
    if result.is_contiguous():
        return result.clone(memory_format=torch.contiguous_format)
    return result.clone()


def _form(part: Any) -> Any:
    return torch.Tensor if isinstance(part, torch.Tensor) else part


def _weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    parameters = module.named_parameters(remove_duplicate=False)
    return {**dict(parameters), **dict(module.named_buffers(remove_duplicate=False))}


@dataclass
class _Answers:
    """Answers to the decisions of one run.

    Attributes:
        path: The answers.
        checks: As `joining`.
        asked: Tensors that have decided, and how many of the answers they took: one that decides
            again decides alike.
        stack: The functions that were being called when the last answer was given.
    """

    path: Path
    checks: Demands
    asked: list[torch.Tensor] = field(default_factory=list)
    stack: tuple[FrameType, ...] = ()

    @property
    def left(self) -> int:
        """Answers that were not asked for."""
        return len(self.path) - len(self.asked)

    @contextmanager
    def given(self) -> Iterator[None]:
        """Inside of it, decisions have these answers."""
        with ExitStack() as undo:
            undo.enter_context(answering(self._decide))
            yield

    def _decide(self, site: Site, own: Callable[[], Any], value: torch.Tensor) -> Any:
        if site in self.checks or _is_known(value):
            return own()
        for number, tensor in enumerate(self.asked):
            if tensor is value:
                return self.path[number]
        if not self.left:
            raise _Undecided(value if value.dtype == torch.bool else value.ne(0))
        self.asked.append(value)
        self.stack = tuple(frames_from(2))
        return self.path[len(self.asked) - 1]


def _is_known(value: torch.Tensor) -> bool:
    """Whether the value is no input's: a constant that the model makes."""
    return getattr(value, "constant", None) is not None
