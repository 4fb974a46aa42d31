"""What the lowerings of recurrent layers promise the later stages."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from aot.errors import DynamicShapeError
from aot.symbolic import to_text
from tests.lowering.lowered import lowered, templates


def test_a_sequence_of_unknown_length_is_refused() -> None:
    def run(x: Any, h: Any, *weights: Any) -> Any:
        return torch.rnn_tanh(x, h, list(weights), False, 1, 0.0, False, False, False)

    args = (torch.ones(6, 2, 5), torch.ones(1, 2, 3), torch.ones(3, 5), torch.ones(3, 3))
    shapes = {"tensors": ({0: Dim("steps", min=2)}, None, None, None)}
    # torch.export fixes the length itself, before the lowering can refuse it.
    with pytest.raises(DynamicShapeError, match="dynamic shapes"):
        lowered(run, *args, dynamic_shapes=shapes)


def test_steps_of_a_recurrent_layer_share_one_product_of_the_input() -> None:
    graph = lowered(torch.nn.LSTM(5, 7), torch.ones(4, 2, 5))
    calls = templates(graph)
    assert [to_text(c.output.axes[0].extent) for c in calls] == ["8", "2", "2", "2", "2"]
