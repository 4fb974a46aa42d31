"""Computed sizes of 0 and 1 fix no size of an input, and bound none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn.functional import interpolate
from torch.testing import assert_close

from aot.frontend.capture import capture_module
from aot.frontend.computed_sizes import SmallSizes
from aot.frontend.ingest import ingest
from aot.symbolic import dim
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered


class Pyramid(nn.Module):
    """Halves an image four times, and adds what is coarse, made large, to what is fine."""

    def __init__(self) -> None:
        super().__init__()
        self.halves = nn.ModuleList([nn.Conv2d(2, 2, 3, stride=2, padding=1) for _ in range(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = [x]
        for half in self.halves:
            found.append(half(found[-1]).relu())
        y = found.pop()
        while found:
            fine = found.pop()
            y = fine + interpolate(y, size=fine.shape[-2:])
        return y


def halved(x: torch.Tensor) -> torch.Tensor:
    y = x[::2][::2]
    return y / y.sum(0, keepdim=True)


@pytest.mark.parametrize(
    ("model", "example", "others"),
    [
        (Pyramid(), (1, 2, 32, 16), [(1, 2, 4, 5), (2, 2, 17, 9), (1, 2, 33, 40)]),
        (Calls(halved), (3, 2), [(2, 2), (4, 2), (9, 2)]),
    ],
)
def test_sizes_below_and_above_the_example(
    model: nn.Module, example: tuple[int, ...], others: list[tuple[int, ...]]
) -> None:
    torch.manual_seed(0)
    axes: dict[int, Any] = {0: Dim("n", min=1, max=64)}
    if len(example) > 2:
        axes |= {k: Dim(f"side{k}", min=4, max=64) for k in (2, 3)}
    spec: Any = {"args": (axes,)} if isinstance(model, Calls) else (axes,)
    captured = capture_module(model.eval(), (torch.randn(example),), dynamic_shapes=spec)
    for shape in (example, *others):
        x = torch.randn(shape)
        (found,) = interpret_lowered(captured, (x,))
        with torch.no_grad():
            assert_close(torch.from_numpy(found), model(x))


def test_the_example_s_sizes_stay_what_is_planned_for() -> None:
    spec = {"args": ({0: Dim("n", min=1, max=64)},)}
    captured = capture_module(Calls(halved), (torch.randn(3, 2),), dynamic_shapes=spec)
    graph, _ = ingest(captured)
    ((low, high, hint),) = [(d.minimum, d.maximum, d.hint) for d in graph.dims]
    assert (low, high, hint) == (1, 64, 3)


def test_a_model_that_decides_by_such_a_size_is_traced_as_the_example_is() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        coarse = x[::4]
        return x * 2 if coarse.shape[0] == 1 else x * 3

    spec = {"args": ({0: Dim.DYNAMIC},)}
    captured = capture_module(Calls(function), (torch.ones(3),), dynamic_shapes=spec)
    (found,) = interpret_lowered(captured, (torch.ones(4),))
    assert_close(torch.from_numpy(found), torch.full((4,), 2.0))


def test_larger_sizes_are_such_that_nothing_is_small() -> None:
    small = SmallSizes()
    assert small.larger() == {}
    symbol = dim("s0")
    small.add(symbol - 2, {symbol: 3})
    assert small.larger() == {3: 96}
    small.add(symbol - symbol + 1, {})  # a number, which no size changes
    assert small.larger() == {3: 96}
