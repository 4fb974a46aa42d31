"""torch.export with less work gives what it gave."""

from __future__ import annotations

import pytest
import torch
from torch.export import export

from tests.exporting import (
    Overriding,
    ease_export,
    remembered,
    when_changed,
    without_annotations,
)

EVALUATED: list[str] = []


def annotation(name: str) -> type:
    EVALUATED.append(name)
    return int


def outer(k):
    def inner(x: annotation("inner")):
        return x + k

    return inner


def test_the_function_is_the_same_without_its_annotations() -> None:
    eased = without_annotations(outer)
    EVALUATED.clear()
    assert eased(2)(3) == 5
    assert not EVALUATED


def test_what_has_not_changed_is_not_done_again() -> None:
    state, done = [1], []
    act = when_changed(lambda: list(state), lambda: done.append(len(state)))
    act()
    act()
    state.append(2)
    act()
    assert done == [1, 2]


def test_what_was_made_is_given_again_until_the_state_is_another() -> None:
    state, made = [1], []
    make = remembered(lambda: list(state), lambda: made.append(len(state)) or made[-1])
    assert (make(), make()) == (1, 1)
    state.append(2)
    assert make() == 2 and made == [1, 2]


def test_tables_are_overridden_again_as_they_were_the_first_time() -> None:
    from contextlib import contextmanager

    op, entered = torch.ops.aten.relu.default, []

    @contextmanager
    def original(wanted):
        saved = dict(op.py_kernels)
        entered.append(len(wanted))
        op.py_kernels["key"] = wanted[op]
        try:
            yield
        finally:
            op.py_kernels.clear()
            op.py_kernels.update(saved)

    override, before = Overriding(original), dict(op.py_kernels)

    def seen(function) -> object:
        with override({op: function}):
            inside = op.py_kernels["key"]
        assert op.py_kernels == before
        return inside

    assert seen(abs) is abs and seen(abs) is abs and entered == [1]
    assert seen(max) is max and entered == [1, 1]
    op.py_kernels["other"] = min  # somebody has changed the operator meanwhile
    before["other"] = min
    try:
        assert seen(max) is max and entered == [1, 1, 1]
    finally:
        del op.py_kernels["other"]


@pytest.mark.filterwarnings("ignore")
def test_an_operator_that_is_new_is_seen_by_the_next_export() -> None:
    ease_export()

    class Doubles(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.test_exporting.twice(x)

    with torch.library._scoped_library("test_exporting", "DEF") as library:
        export(torch.nn.ReLU(), (torch.ones(2),)).run_decompositions()
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
        program = export(Doubles(), (torch.ones(2),))
        whole = program.run_decompositions({})
        apart = program.run_decompositions()
        assert "twice" in str(whole.graph)
        assert "twice" not in str(apart.graph)
