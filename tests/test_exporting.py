"""torch.export with less work gives what it gave."""

from __future__ import annotations

import pytest
import torch
from torch.export import export

from tests.exporting import ease_export, when_changed, without_annotations

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
