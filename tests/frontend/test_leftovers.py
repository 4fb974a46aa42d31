"""What a piece of Python leaves behind: names that are read later, objects that have changed."""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest
import torch

from aot.frontend.leftovers import Watched, names_read_later


def _loop_of(code: Any) -> int:
    return next(s.offset for s in dis.get_instructions(code) if s.opname == "FOR_ITER")


def _turns(rows: list[int], out: list[int], factor: int) -> int:
    total = 0
    for row in rows:
        scaled = row * factor
        with contextlib.suppress(ValueError):
            found = scaled + 1
        out.append(found)
        total += scaled
    return total


def test_names_that_are_read_before_they_are_set_again() -> None:
    code = _turns.__code__
    later = names_read_later(code, _loop_of(code), swallowed=False)
    assert later == {"out", "factor", "total"}
    # An exception that `suppress` ends would leave the name as it was.
    assert names_read_later(code, _loop_of(code)) == {*later, "found"}


def test_functions_that_read_all_names() -> None:
    def shows(rows: list[int]) -> Any:
        for row in rows:
            kept = row
        return locals(), kept

    assert "kept" in names_read_later(shows.__code__, _loop_of(shows.__code__))


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.count = 0
        self.seen: dict[str, list[int]] = {"rows": []}


def _leave_nothing(_: _Model) -> None:
    return


def _attribute(model: _Model) -> None:
    model.count += 1


def _inner_attribute(model: _Model) -> None:
    model.layer.in_features = 3


def _inner_list(model: _Model) -> None:
    model.seen["rows"].append(1)


def _class(model: _Model) -> None:
    type(model).turns = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("turn", "change"),
    [
        (_leave_nothing, ""),
        (_attribute, "what is in model"),
        (_inner_attribute, "what is in model"),
        (_inner_list, "what is in model"),
        (_class, "what is in model"),
    ],
)
def test_objects_that_a_turn_changes(turn: Callable[[_Model], None], change: str) -> None:
    told: list[str] = []
    # In a thread of its own: pytest calls this one, and changes while it does.
    thread = Thread(target=_walk, args=(_Rows(told), turn, _Model()))
    thread.start()
    thread.join()
    assert [text.partition("[")[0].partition(".")[0] for text in told] == [change]


def _walk(rows: _Rows, turn: Callable[[_Model], None], model: _Model) -> None:
    for _ in rows:
        turn(model)


class _Rows:
    """One turn, after which is told what it has changed."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def __iter__(self) -> Iterator[int]:
        frame = sys._getframe(1)
        return _Turn(self.told, Watched(frame, _loop_of(frame.f_code)))


class _Turn:
    def __init__(self, told: list[str], watched: Watched) -> None:
        self.told, self.watched, self.begun = told, watched, False

    def __iter__(self) -> _Turn:
        return self

    def __next__(self) -> int:
        if self.begun:
            self.told.append(self.watched.change())
            raise StopIteration
        self.begun = True
        return 0
