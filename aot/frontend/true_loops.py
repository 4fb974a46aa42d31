"""Loops over the true elements of a mask: `for row in mask.nonzero(): …`.

How many there are is known only when the model runs, which torch.export cannot unroll. Where the
mask's own sizes are known, so are all the rows that there may be, and their order: the loop takes a
turn for each, and a run makes those whose element is true (`turns.settle`). A row is then a
constant, from which the model may take numbers: `experts[row[0]]`.

Python's own part of a turn, which is run whether or not a run makes it, must leave nothing behind:
each turn is looked at (`leftovers.Watched`), and a loop that is left early is refused.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from types import CodeType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from aot.errors import ExportError
from aot.frontend import turns
from aot.frontend.composites import require
from aot.frontend.instead import Instead
from aot.frontend.leftovers import Watched

_untyped: Any = torch
"""torch, for functions of it that have no types."""

MOST = 512
"""Elements of a mask whose loop is written out; each is a copy of the loop's body."""

_FINDING = (torch.nonzero, Tensor.nonzero, torch.argwhere, Tensor.argwhere, torch.where)
_SHAPING = (
    *(Tensor.squeeze, Tensor.flatten, Tensor.reshape, Tensor.view, torch.squeeze, torch.flatten),
    *(torch.reshape, Tensor.contiguous),
)
"""What may make of a column its numbers, and nothing else."""


@dataclass(frozen=True)
class _Rows:
    """What a tensor holds: where elements are true.

    Attributes:
        rows: The tensor.
        version: Of its contents when this was noted.
        true: The mask's elements as bools, as they were then.
        axis: Its only coordinate; None where each row has all of them.
    """

    rows: Tensor
    version: int
    true: Tensor
    axis: int | None

    def elements(self) -> Iterator[tuple[int, ...]]:
        """Where the mask may be true, in order."""
        return product(*map(range, self.true.shape))

    def row(self, at: tuple[int, ...]) -> Tensor:
        """The row of that element."""
        value = list(at) if self.axis is None else at[self.axis]
        return torch.tensor(value, device=self.rows.device)


@dataclass(frozen=True)
class _Row:
    """One row with several coordinates: torch knows constants of one element only."""

    row: Tensor
    version: int
    at: tuple[int, ...]

    def coordinate(self, axis: int) -> Tensor:
        """A constant of its own."""
        return torch.tensor(self.at[axis], device=self.row.device)


Turn = tuple[CodeType, int, tuple[int, ...], tuple[int, ...]]
"""A turn of a loop: the loop's code and place in it, the sizes of its mask, and the element."""


class TurnFails(RuntimeError):
    """A turn finds no such element, key or index, whatever the inputs are; so it is never made.

    Attributes:
        turn: The turn.
        message: What the model raises in it.
    """

    def __init__(self, turn: Turn, error: LookupError) -> None:
        super().__init__(str(error))
        self.turn = turn
        self.message = f"{type(error).__name__}: {error}"


class TrueLoops(Instead):
    """Inside of it, loops over true elements take a turn for each element of the mask.

    `failing`: turns that are known to fail, and how: runs that would make one are refused.
    """

    def __init__(self, failing: Mapping[Turn, str]) -> None:
        super().__init__()
        self._failing = failing
        self._known: list[_Rows] = []
        self._taken: list[_Row] = []
        self._loops: list[_Loop] = []

    def instead(
        self, func: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]
    ) -> Any:
        """The call itself; what its result holds is noted."""
        if func in _FINDING and isinstance(args[0] if args else None, Tensor):
            if func is torch.where and (len(args) > 1 or given):
                return NotImplemented
            return self._found(args[0], func(*args, **given))
        if func in (Tensor.__getitem__, Tensor.__setitem__) and _plain(args[1]) is not args[1]:
            return func(args[0], _plain(args[1]), *args[2:])
        row = self._row(args[0]) if func is Tensor.__getitem__ else None
        if row is not None and type(args[1]) is int:
            return row.coordinate(args[1])
        before = self._rows(args[0]) if args and isinstance(args[0], Tensor) else None
        if before is None:
            return NotImplemented
        made = func(*args, **given)
        if not isinstance(made, Tensor) or made is before.rows or made.dim() > 1:
            return made
        if func in _SHAPING and before.true.dim() == 1:
            self._note(made, before.true, 0)
        elif func is Tensor.__getitem__ and before.axis is None and made.dim() == 1:
            axis = _column(args[1])
            if axis is not None:
                self._note(made, before.true, axis % before.true.dim())
        return made

    def _found(self, mask: Tensor, rows: Any) -> Any:
        if not mask.dim() or not all(isinstance(size, int) for size in mask.shape):
            return rows
        if prod(mask.shape) > MOST:
            return rows
        true = mask != 0
        for axis, made in enumerate((rows,) if isinstance(rows, Tensor) else rows):
            self._note(made, true, None if isinstance(rows, Tensor) else axis)
        return rows

    def _note(self, rows: Tensor, true: Tensor, axis: int | None) -> None:
        self._known.append(_Rows(rows, rows._version, true, axis))

    def _rows(self, x: Tensor) -> _Rows | None:
        found = next((known for known in self._known if known.rows is x), None)
        return found if found is not None and found.version == x._version else None

    def _row(self, x: Tensor) -> _Row | None:
        found = next((known for known in self._taken if known.row is x), None)
        return found if found is not None and found.version == x._version else None

    def _take(self, row: Tensor, at: tuple[int, ...]) -> None:
        if row.dim():
            self._taken.append(_Row(row, row._version, at))

    @contextmanager
    def unrolled(self) -> Iterator[None]:
        """Inside of it too, `for` asks for the turns.

        Raises:
            ExportError: A loop is left before its last turn, or leaves more than tensors behind.
            TurnFails: As it says.
        """
        with patch.object(Tensor, "__iter__", self._asking(Tensor.__iter__)), _open_formats():
            try:
                yield
            except LookupError as error:
                turn = next((loop.turn for loop in reversed(self._loops) if loop.turn), None)
                if turn is None or turn in self._failing:
                    raise
                raise TurnFails(turn, error) from error
        for loop in self._loops:
            loop.require_done()

    def _asking(self, own: Callable[[Tensor], Iterator[Any]]) -> Callable[[Tensor], Iterator[Any]]:
        def ask(x: Tensor) -> Iterator[Any]:
            row = self._row(x)
            if row is not None:
                return iter([row.coordinate(axis) for axis in range(len(row.at))])
            frame = sys._getframe(1)
            rows = self._rows(x)
            count: Any = x.shape[0] if x.dim() else 0
            offset = _loop_after(frame.f_code, frame.f_lasti)
            if rows is None or offset is None or isinstance(count, int):
                return own(x)
            self._loops.append(_Loop(rows, Watched(frame, offset), self._failing, self._take))
            return self._loops[-1]

        return ask


def _plain(index: Any) -> Any:
    """An index with its constants as numbers, which torch's own code takes for unknown ones."""
    parts = index if isinstance(index, tuple) else (index,)
    plain = tuple(_number(part) for part in parts)
    if all(a is b for a, b in zip(parts, plain, strict=True)):
        return index
    return plain if isinstance(index, tuple) else plain[0]


def _number(x: Any) -> Any:
    constant = getattr(x, "constant", None) if isinstance(x, Tensor) else None
    if constant is None or constant.dim() or constant.dtype not in _WHOLE:
        return x
    return int(constant.item())


_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8)


def _column(index: Any) -> int | None:
    """k of `x[:, k]`."""
    if isinstance(index, tuple) and len(index) == 2 and index[0] == slice(None):
        return index[1] if isinstance(index[1], int) else None
    return None


_GENERATORS = 0x20 | 0x80 | 0x200
"""Flags of code that yields."""


def _loop_after(code: CodeType, offset: int) -> int | None:
    """The FOR_ITER that a `for` statement has after its GET_ITER at that offset; else None."""
    if code.co_flags & _GENERATORS:
        return None
    steps = [s for s in dis.get_instructions(code) if s.opname not in ("EXTENDED_ARG", "CACHE")]
    pairs = pairwise(steps)
    following = next((b for a, b in pairs if a.offset == offset and a.opname == "GET_ITER"), None)
    found = following is not None and following.opname == "FOR_ITER"
    return following.offset if found and following is not None else None


class _Loop:
    """The iterator of one such loop."""

    def __init__(
        self,
        rows: _Rows,
        watched: Watched,
        failing: Mapping[Turn, str],
        take: Callable[[Tensor, tuple[int, ...]], None],
    ) -> None:
        self._rows = rows
        self._watched = watched
        self._failing = failing
        self._take = take
        self._elements = iter([(at, rows.true[at]) for at in rows.elements()])
        self._made: Tensor | None = None
        self._done = False
        self.turn: Turn | None = None
        """The turn that is being taken."""

    def __iter__(self) -> _Loop:
        return self

    def __next__(self) -> Tensor:
        """The next row.

        Raises:
            ExportError: The turn before has left something behind.
        """
        if self._made is not None:
            turns.end(self._made)
            self._made = self.turn = None
            change = self._watched.change()
            if change:
                raise self._refusal(f"changes {change}")
        code, offset = self._watched.frame.f_code, self._watched.offset
        for at, made in self._elements:
            turn = code, offset, tuple(self._rows.true.shape), at
            if turn not in self._failing:
                self._made, self.turn = made, turn
                turns.begin(made)
                row = self._rows.row(at)
                self._take(row, at)
                return row
            require(made.logical_not(), self._failing[turn])
        self._done = True
        raise StopIteration

    def require_done(self) -> None:
        """Refuse a loop that has not come to its end.

        Raises:
            ExportError: It has not.
        """
        if not self._done:
            raise self._refusal("leaves it before its end")

    def _refusal(self, what: str) -> ExportError:
        frame = self._watched.frame
        return ExportError(
            f"a loop runs over the true elements of a mask, and a turn of it {what}: how many "
            "turns there are is known only when the model runs",
            where=f"{frame.f_code.co_filename}:{self._watched.line}",
            advice=turns.ADVICE,
        )


@contextmanager
def _open_formats() -> Iterator[None]:
    """Inside of it, a constant's text is its number, as out of a trace: `f"expert_{row[0]}"`."""
    own: Any = Tensor.__format__

    def text(x: Tensor, spec: str) -> str:
        constant = getattr(x, "constant", None)
        if constant is not None and not constant.dim():
            return format(constant.item(), spec)
        return str(own(x, spec))

    with patch.object(Tensor, "__format__", text):
        yield
