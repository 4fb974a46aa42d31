"""Exports that leave out what nobody needs give the same programs."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from torch.export import export
from torch.fx import GraphModule

from aot.frontend.composites import Traceable
from aot.frontend.quick_export import _walked, quick_export
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
    # The model's own calls, and what goes through the whole graph, which writes assertions.
    assert len(quick) < len(slow) / 4, (len(quick), len(slow))
    torch.testing.assert_close(ours.module()(*inputs), model(*inputs))


def test_what_nodes_say_of_themselves_is_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = layers.layers(2, ""), layers.inputs()
    with counted(monkeypatch) as calls, quick_export(), Traceable():
        program = export(model, inputs)
    # What writes assertions asks inputs and weights; nothing asks all nodes.
    assert calls.count(torch.Tensor.stride) < len(program.graph.nodes)
    assert torch.Tensor.requires_grad.__set__ not in calls


def test_a_weight_of_the_users_own_class_is_asked() -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("said", torch.ones(2).as_subclass(Said))
    Said.asked.clear()
    with quick_export():
        export(model, (torch.ones(1, 2),))
    assert Said.asked


def test_places_in_the_users_code_are_told_as_torch_tells_them() -> None:
    model, inputs = layers.layers(2, ""), layers.inputs()
    with quick_export():
        ours = export(model, inputs)
    theirs = export(model, inputs)
    told = [[n.meta.get("stack_trace") for n in program.graph.nodes] for program in (ours, theirs)]
    assert told[0] == told[1]
    assert any(layers.__file__ in place for place in told[0] if place)


def test_a_program_runs_although_its_text_was_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[GraphModule] = []
    own = GraphModule.recompile

    def recompile(self: GraphModule) -> Any:
        compiled.append(self)
        return own(self)

    model = nn.Linear(3, 2)
    x = torch.ones(1, 3)
    monkeypatch.setattr(GraphModule, "recompile", recompile)
    with quick_export():
        program = export(model, (x,))
    assert not compiled
    torch.testing.assert_close(program.graph_module(*model.parameters(), x)[0], model(x))
    torch.testing.assert_close(program.module()(x), model(x))
    assert compiled


def test_stacks_of_nodes_are_not_gathered_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = layers.layers(1, ""), layers.inputs()
    own, asked = torch._C._profiler.symbolize_tracebacks, []

    def counted_once(stacks: list[Any]) -> Any:
        asked.append(len(stacks))
        return own(stacks)

    monkeypatch.setattr(torch._C._profiler, "symbolize_tracebacks", counted_once)
    theirs = export(model, inputs)
    nodes = len(asked)
    with quick_export():
        ours = export(model, inputs)
    assert nodes > len(ours.graph.nodes) > 5 * (len(asked) - nodes)
    stacks = [[node.stack_trace for node in made.graph.nodes] for made in (ours, theirs)]
    # But for the outermost frames, which are of this test.
    assert [s and s.splitlines()[-2:] for s in stacks[0]] == [
        s and s.splitlines()[-2:] for s in stacks[1]
    ]


def test_what_line_a_place_is_of_is_asked_once() -> None:
    asked: list[tuple[str, int, str]] = []

    def frame(file: str, line: int, name: str) -> traceback.FrameSummary:
        asked.append((file, line, name))
        return traceback.FrameSummary(file, line, name)

    walked = _walked(frame)
    stacks, counts = [], []
    for _ in range(3):
        stacks.append(walked.extract().summary())
        counts.append(len(asked))
    assert counts[0] == counts[2] <= len(stacks[0])
    assert all(at is again for at, again in zip(stacks[0], stacks[2], strict=True))
    (own,) = traceback.extract_stack(limit=1)
    after = walked.extract().summary()[-1]
    assert (after.filename, after.name) == (own.filename, own.name)
    assert after.lineno == (own.lineno or 0) + 1 != stacks[0][-1].lineno
