"""A tensor that the model reaches in two ways is one state."""

from __future__ import annotations

import torch

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest


class _Cache:
    """No module: torch.export lifts its tensor as a constant."""

    def __init__(self) -> None:
        self.sums = torch.zeros(3)


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache = _Cache()
        self.register_buffer("sums", self.cache.sums)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache.sums.add_(x)
        return self.cache.sums * 2


def test_a_buffer_that_an_object_holds_too_is_a_state_of_its_own_name() -> None:
    graph, weights = ingest(capture_module(_Model(), (torch.ones(3),)))
    ((name, fqn),) = graph.states
    assert fqn == "sums" and not graph.weights
    assert [m.target for m in graph.mutations] == [name]
    assert weights.array("sums").tolist() == [0.0, 0.0, 0.0]
