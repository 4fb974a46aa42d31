"""Decisions of a model on values, of which one side does nothing but raise.

torch.export gives up at `if (x < 0).any(): raise ValueError(…)`, since it knows no values. Run on
the example, the model decides each such question one way. It runs once more for each with the
answer turned round; where it then raises by a statement of its own, and does nothing else, the
question is an assertion: the model is traced with the example's answer, and the package checks it.
Any other decision stays what torch makes of it, an error (ADR 0053); or, where that was asked for,
it is an assertion too: that runs decide as the example does (ADR 0097).
"""

from __future__ import annotations

import dis
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, GetSetDescriptorType
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from aot.frontend.composites import are_close, are_same
from aot.frontend.places import SourcePaths, failure_of

Site = tuple[CodeType, int]
"""Where a decision is made: code, and the instruction in it."""

MOST = 256
"""Decisions of one run that are looked at, each at the price of a run."""

_untyped: Any = torch
"""torch, for functions of it that have no types."""


@dataclass(frozen=True)
class Demand:
    """A decision that is an assertion.

    Attributes:
        value: The answer that must be.
        message: What the model raises else, or that a run decides otherwise than the example.
        of_example: Whether it is the latter.
    """

    value: bool
    message: str
    of_example: bool = False


Demands = Mapping[Site, Demand]
_Truth = Callable[..., torch.Tensor | None]
_Decide = Callable[[Site, Callable[[], Any], torch.Tensor], Any]
"""(place, torch's own answer, the tensor that holds it) -> the answer."""


def _itself(x: torch.Tensor, *_: Any) -> torch.Tensor | None:
    return x if x.numel() == 1 else None


def _if_bool(x: torch.Tensor) -> torch.Tensor | None:
    return x if x.dtype == torch.bool and x.numel() == 1 else None


_DECIDING: Sequence[tuple[Any, str, _Truth]] = (
    (torch.Tensor, "__bool__", _itself),
    (torch.Tensor, "item", _if_bool),
    (torch.Tensor, "equal", are_same),
    (torch.Tensor, "allclose", are_close),
    (torch.Tensor, "is_nonzero", _itself),
    (torch, "equal", are_same),
    (torch, "allclose", are_close),
    (torch, "is_nonzero", _itself),
)
"""(owner, function, the tensor of its answer; None where the call decides nothing)."""


@contextmanager
def answering(decide: _Decide) -> Iterator[None]:
    """Inside of it, functions that make a bool of a tensor ask `decide`.

    They are exchanged by name: a mode of torch's does not see what its own functions call.
    """
    with ExitStack() as undo:
        for owner, name, truth in _DECIDING:
            _exchange(undo, owner, name, _asking(getattr(owner, name), truth, decide))
        yield


def _asking(own: Any, truth: _Truth, decide: _Decide) -> Callable[..., Any]:
    def ask(*args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        value = truth(*args, **kwargs) if isinstance(args[0], torch.Tensor) else None
        if value is None:
            return own(*args, **kwargs)
        return decide((frame.f_code, frame.f_lasti), lambda: own(*args, **kwargs), value)

    return ask


def _exchange(undo: ExitStack, owner: Any, name: str, new: Any) -> None:
    undo.enter_context(patch.object(owner, name, new))


@contextmanager
def asserted(checks: Demands) -> Iterator[None]:
    """Inside of it, decisions that are assertions have their answer, and the trace an assertion."""
    if not checks:
        yield
        return

    def decide(site: Site, own: Callable[[], Any], value: torch.Tensor) -> Any:
        wanted = checks.get(site)
        if wanted is None:
            return own()
        holds = value if wanted.value else value.logical_not()
        torch.ops.aten._assert_async.msg(holds, wanted.message)
        return wanted.value

    with answering(decide):
        yield


def checks_of(
    run: Callable[[], object],
    undo: Callable[[], object],
    *,
    dynamic: bool,
    as_example: Callable[[Site, bool], str] | None = None,
) -> Demands:
    """The decisions of a run of the model that are assertions.

    Args:
        run: Runs the model on its example.
        undo: Called after each run: takes back what it has changed.
        dynamic: Whether sizes are open, so that what the example's say is not what all say.
        as_example: Where decisions that do not raise shall be assertions too: what to say where
            the place decides otherwise. One that has had both answers is none.

    Returns:
        The assertions; none where the run itself fails.
    """
    made: list[tuple[Site, bool]] = []

    def note(site: Site, own: Callable[[], Any], _: object) -> Any:
        made.append((site, bool(own())))
        return made[-1][1]

    with answering(note):
        failure = failure_of(run)
    undo()
    if failure is not None:
        return {}
    answers: dict[Site, set[bool]] = {}
    for site, answer in made:
        answers.setdefault(site, set()).add(answer)
    checks: dict[Site, Demand] = {}
    for number, (site, answer) in enumerate(made[:MOST]):
        message = _Turned(number, dynamic).message(run) if len(answers[site]) == 1 else None
        undo()
        answers[site] |= set() if message is not None else {not answer}
        checks.setdefault(site, Demand(answer, message or ""))
    kept = {site for site, seen in answers.items() if len(seen) == 1 and site in checks}
    found = {site: check for site, check in checks.items() if site in kept}
    if as_example is not None:
        only: dict[Site, set[bool]] = {}
        for site, answer in made:
            only.setdefault(site, set()).add(answer)
        for site, (answer, *others) in only.items():
            if not others:
                demand = Demand(answer, as_example(site, answer), of_example=True)
                found.setdefault(site, demand)
    return found


def of_example(places: SourcePaths, site: Site, answer: bool) -> str:
    """What a run is told that decides otherwise than the example, whose answer is given."""
    code, offset = site
    lines = [n for at, n in dis.findlinestarts(code) if n and at <= offset]
    number = max(lines[-1:], default=code.co_firstlineno)
    text = linecache.getline(code.co_filename, number).strip()
    return (
        f"the model was packaged with --decide-as-example, and decides otherwise in this run at "
        f"{places.short(code.co_filename)}:{number}: {str(answer).lower()} in the example, "
        f"`{text}`"
    )


class _Unknown:
    """A number of which only text is wanted; `misused` says that it was not."""

    def __init__(self, turned: _Turned) -> None:
        self._turned = turned

    def __format__(self, _: str) -> str:
        return "…"

    __str__ = __repr__ = lambda self: "…"

    def _refuse(self, *_: Any) -> Any:
        self._turned.does_more = True
        raise TypeError("its value decides")

    __bool__ = __int__ = __float__ = __index__ = __eq__ = __lt__ = __le__ = __gt__ = _refuse
    __ge__ = __ne__ = __add__ = __sub__ = __mul__ = __truediv__ = __neg__ = __abs__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = _refuse
    __hash__ = None  # type: ignore[assignment]


_SIZES = ("shape", "ndim", "size", "numel", "dim", "stride", "__len__")
_NUMBERS = ("tolist", "numpy", "__int__", "__float__", "__index__", "__array__")


@dataclass
class _Turned:
    """A run of the model in which the decision of that number has the other answer.

    `does_more`: whether, once it is turned, the model does anything but make a text and raise.
    """

    number: int
    dynamic: bool
    does_more: bool = False
    seen: int = 0
    stack: tuple[FrameType, ...] = ()
    undo: ExitStack = field(default_factory=ExitStack)

    def message(self, run: Callable[[], object]) -> str | None:
        """What the model raises; None where it does anything else."""
        with _Writes(self), answering(self._decide), self.undo:
            error = failure_of(run)
            if (
                error is None
                or not self.stack
                or self.does_more
                or not raised_in(error, self.stack)
            ):
                return None
            return f"{type(error).__name__}: {error}".removesuffix(": ")

    def _decide(self, _: Site, own: Callable[[], Any], __: object) -> Any:
        answer, number = bool(own()), self.seen
        self.seen += 1
        self.does_more |= bool(self.stack)
        if number != self.number:
            return answer
        self.stack = tuple(frames_from(2))
        for name in ("__format__", "__repr__"):
            _exchange(self.undo, torch.Tensor, name, lambda *_, **__: "…")
        _exchange(self.undo, torch.Tensor, "item", lambda _: _Unknown(self))
        for name in _NUMBERS:
            _exchange(self.undo, torch.Tensor, name, self._number)
        for name in _SIZES if self.dynamic else ():
            _exchange(self.undo, torch.Tensor, name, self._noting(getattr(torch.Tensor, name)))
        return not answer

    def _noting(self, own: Any) -> Any:
        """A method or a property of sizes, of which it is noted that it is asked."""

        def ask(x: torch.Tensor, *args: Any) -> Any:
            self.does_more = True
            return own.__get__(x) if isinstance(own, GetSetDescriptorType) else own(x, *args)

        return property(ask) if isinstance(own, GetSetDescriptorType) else ask

    def _number(self, *_: Any, **__: Any) -> Any:
        self.does_more = True
        raise TypeError("its value decides")


def raised_in(error: BaseException, stack: Sequence[FrameType]) -> bool:
    """Whether a raise or an assert of one of the functions being called it was."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame not in stack:
        return False
    done = {i.offset: i.opname for i in dis.get_instructions(trace.tb_frame.f_code)}
    return done.get(trace.tb_lasti) == "RAISE_VARARGS"


def frames_from(depth: int) -> Iterator[FrameType]:
    """The functions that are being called: the caller's caller (2), and so on outwards."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        yield frame
        frame = frame.f_back


class _Writes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees whether anything is changed once the decision is turned."""

    def __init__(self, turned: _Turned) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._turned = turned

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The call itself."""
        if self._turned.stack and func._schema.is_mutable:
            self._turned.does_more = True
        return func(*args, **(kwargs or {}))
