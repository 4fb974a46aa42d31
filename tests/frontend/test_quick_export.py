"""Exports that leave out what nobody needs give the same programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from torch.export import export

from aot.frontend.composites import Traceable
from aot.frontend.quick_export import quick_export
from benchmarks.packaging import layers
from tests.frontend.test_by_node import _told


class Said(torch.Tensor):
    """A weight that is told of what is asked of it."""

    asked: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        cls.asked.append(getattr(func, "__name__", ""))
        return super().__torch_function__(func, types, args, kwargs or {})


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    calls: list[object] = []
    own = Traceable.instead

    def instead(self: Traceable, func: Any, args: Any, given: Any) -> Any:
        calls.append(func)
        return own(self, func, args, given)

    with monkeypatch.context() as patched:
        patched.setattr(Traceable, "instead", instead)
        yield calls


def test_the_program_is_the_same_and_weights_are_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = layers.layers(2, ""), layers.inputs()
    with counted(monkeypatch) as slow, Traceable():
        theirs = export(model, inputs)
    with counted(monkeypatch) as quick, quick_export(), Traceable():
        ours = export(model, inputs)
    assert _told(ours) == _told(theirs)
    assert len(quick) < len(slow) / 2
    torch.testing.assert_close(ours.module()(*inputs), model(*inputs))


def test_a_weight_of_the_users_own_class_is_asked() -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("said", torch.ones(2).as_subclass(Said))
    Said.asked.clear()
    with quick_export():
        export(model, (torch.ones(1, 2),))
    assert Said.asked
