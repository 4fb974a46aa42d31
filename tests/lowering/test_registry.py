"""Programs that a version of torch has traced wrongly are refused, and the reason is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from aot.errors import UnsupportedOperators
from aot.frontend.capture import Captured, capture_module
from aot.frontend.ingest import ingest
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline


class Counts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bincount(x)


class Unique(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.unique(x, return_counts=True)


def traced_otherwise(
    module: nn.Module, example: torch.Tensor, target: str, change: Callable[[Any], Any]
) -> Captured:
    """The captured module, where what torch says of an operator's results is changed."""
    captured = capture_module(module, (example,))
    (node,) = (n for n in captured.program.graph.nodes if str(n.target) == target)
    node.meta["val"] = change(node.meta["val"])
    for user in node.users:
        if "getitem" in str(user.target):
            user.meta["val"] = node.meta["val"][user.args[1]]
    return captured


def reason(captured: Captured) -> str:
    with pytest.raises(UnsupportedOperators) as raised:
        lower_outline(outline(ingest(captured)[0]))
    return str(raised.value)


def test_a_state_of_too_many_dimensions() -> None:
    captured = traced_otherwise(
        nn.LSTM(3, 4),
        torch.zeros(5, 2, 3),
        "aot.lstm.default",
        lambda results: (results[0], *(r.unsqueeze(0) for r in results[1:])),
    )
    assert "traces a result of 3 dimensions as one of 4; a newer version" in reason(captured)


def test_counts_of_another_type() -> None:
    captured = traced_otherwise(
        Counts(), torch.tensor([1, 2]), "aot.bincount.default", lambda r: r.to(torch.uint8)
    )
    assert "traces a result of int64 as one of uint8" in reason(captured)


def test_lengths_of_another_type() -> None:
    captured = traced_otherwise(
        Unique(),
        torch.zeros(4),
        "aten._unique2.default",
        lambda results: (*results[:2], results[2].float()),
    )
    assert "traces a result of int64 as one of float32" in reason(captured)
