"""What the lowerings of recurrent layers promise the later stages."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from aot.errors import UnsupportedOperators
from aot.ir.loops import LoopGraph
from aot.ir.templates import Matmul, Recurrence
from aot.symbolic import to_text
from tests.lowering.lowered import lowered, templates


def sizes(call: Any) -> list[str]:
    return [to_text(a.extent) for a in call.output.axes]


def steps_of(graph: LoopGraph) -> list[Recurrence]:
    return [c for c in templates(graph) if isinstance(c, Recurrence)]


def test_all_steps_are_one_product_of_the_input_and_one_call() -> None:
    shapes = ({0: Dim("steps", min=1)},)
    graph = lowered(nn.LSTM(5, 7), torch.ones(4, 2, 5), dynamic_shapes=shapes)
    product, steps = templates(graph)
    (length,) = (d.name for d in graph.dims)
    assert isinstance(product, Matmul) and isinstance(steps, Recurrence)
    assert sizes(product) == [f"2*{length}", "28"]
    assert sizes(steps) == [f"{length} + 1", "2", "7"]


def test_each_layer_and_direction_has_its_steps() -> None:
    layer = nn.GRU(5, 7, num_layers=2, bidirectional=True)
    calls = steps_of(lowered(layer, torch.ones(4, 2, 5)))
    assert [c.backwards for c in calls] == [False, True, False, True]
    assert all(c.bias is not None and sizes(c) == ["4", "2", "7"] for c in calls)


def test_last_cells_are_kept_where_somebody_reads_them() -> None:
    layer = nn.LSTM(5, 7, proj_size=3)
    (whole,) = steps_of(lowered(layer, torch.ones(4, 2, 5)))
    (seen,) = steps_of(lowered(lambda x: layer(x)[0], torch.ones(4, 2, 5)))
    assert whole.ends and sizes(whole) == ["5", "2", "7"]
    assert not seen.ends and sizes(seen) == ["4", "2", "3"]


def test_halves_are_computed_in_float32() -> None:
    graph = lowered(nn.RNN(5, 7).half(), torch.ones(4, 2, 5).half())
    (call,) = steps_of(graph)
    assert {graph.buffers[view.buffer].dtype.name for _, view in call.operands} == {"float32"}
    assert {graph.buffers[name].dtype.name for name in graph.outputs} == {"float16"}


def test_dropout_is_refused() -> None:
    def run(x: Any, h: Any, *weights: Any) -> Any:
        return torch.gru(x, h, list(weights), False, 1, 0.5, True, False, False)

    args = (torch.ones(6, 2, 5), torch.ones(1, 2, 3), torch.ones(9, 5), torch.ones(9, 3))
    with pytest.raises(UnsupportedOperators, match="drops values at random"):
        lowered(run, *args)
