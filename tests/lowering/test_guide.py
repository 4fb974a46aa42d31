"""docs/adding-an-op.md is followed: its rows are all that every backend needs of an operator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from aot.errors import UnsupportedOperators
from aot.frontend.capture import Captured, capture_module
from aot.frontend.weights import to_array
from aot.lowering.families import rows
from aot.lowering.registry import Row
from aot.lowering.rows import REGISTRY
from tests.comparing import difference
from tests.conformance.executors import EXECUTORS
from tests.settings import seeded

GUIDE = Path(__file__).parents[2] / "docs" / "adding-an-op.md"
APART, REFUSED = ADDED = ("aten.hardswish.default", "aten.flip.default")
"""Without their rows, torch takes the first one apart; the other one is refused."""


class Both(nn.Module):
    """The operators of the guide, one within the other."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.hardswish(torch.flip(x, (0, -1))) + x


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Row]:
    """The table of lowerings, in which nobody has added them."""
    left = {target: row for target, row in rows().items() if target not in ADDED}
    monkeypatch.setattr(REGISTRY, "rows", left)
    return left


def captured(x: Tensor) -> Captured:
    return capture_module(Both(), (x,), name="both")


def numbers() -> Tensor:
    generator = torch.Generator().manual_seed(seeded())
    return torch.rand(5, 7, generator=generator) * 12 - 6


def test_operators_without_a_row_are_refused(without: Mapping[str, Row]) -> None:
    x = numbers()
    with pytest.raises(UnsupportedOperators) as raised:
        EXECUTORS["loops"](captured(x), (x,))
    assert REFUSED in str(raised.value) and APART not in str(raised.value)


def test_operators_with_a_row_stay_whole(without: Mapping[str, Row]) -> None:
    def operators() -> set[str]:
        return {str(node.target) for node in captured(numbers()).program.graph.nodes}

    assert APART not in operators()
    REGISTRY.row(APART)(lambda call, x: x)
    assert APART in operators()


@pytest.mark.parametrize("executor", ["loops", "kernels", "triton", "cpu:x86-64-v3"])
def test_the_guides_rows_are_all_that_it_takes(executor: str, without: Mapping[str, Row]) -> None:
    for code in re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(code, str(GUIDE), "exec"), {})
    assert set(ADDED) <= set(without)
    x = numbers()
    (found,) = EXECUTORS[executor](captured(x), (x,))
    exact = to_array(Both()(x.double()))
    assert difference(found, to_array(Both()(x)), torch.float32, exact) == ""
