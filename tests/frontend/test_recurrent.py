"""Recurrent layers stay whole in captured programs, whatever their length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

from aot.errors import InputMismatch
from aot.frontend.capture import Captured, capture_module
from aot.frontend.ingest import ingest
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

LAYERS: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "rnn_tanh": (nn.RNN, {}),
    "rnn_relu": (nn.RNN, {"nonlinearity": "relu"}),
}


def captured(layer: nn.Module, *, least: int = 1) -> Captured:
    shapes = ({0: Dim("steps", min=least), 1: Dim("rows", min=1)},)
    return capture_module(layer, (torch.ones(4, 2, 5),), dynamic_shapes=shapes)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_dynamic_length_is_one_operator(name: str) -> None:
    kind, settings = LAYERS[name]
    graph, _ = ingest(captured(kind(5, 7, num_layers=2, bidirectional=True, **settings)))
    targets = [op.target for op in graph.ops]
    assert targets.count(f"aot.{name}.default") == 1
    assert [(d.label, d.minimum) for d in graph.dims] == [("steps", 1), ("rows", 1)]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_results_have_the_sizes_and_strides_of_eager() -> None:
    layer, x = nn.LSTM(5, 7, batch_first=True, bidirectional=True, proj_size=3), torch.ones(4, 2, 5)
    program = capture_module(layer, (x,)).program
    (node,) = (n for n in program.graph.nodes if str(n.target) == "aot.lstm.default")
    seen, (hidden, cell) = layer(x)
    for traced, real in zip(node.meta["val"], (seen, hidden, cell), strict=True):
        assert traced.shape == real.shape
        assert traced.stride() == real.stride()


def test_a_length_may_not_be_zero() -> None:
    graph, _ = ingest(captured(nn.GRU(5, 7), least=0))
    (relation,) = graph.relations
    assert "Expected sequence length to be larger than 0 in RNN, at" in relation.message
    assert ingest(captured(nn.GRU(5, 7)))[0].relations == ()


def test_an_empty_sequence_is_eagers_error() -> None:
    with pytest.raises(InputMismatch, match="Expected sequence length to be larger than 0 in RNN"):
        capture_module(nn.GRU(5, 7), (torch.ones(0, 2, 5),))


def test_input_and_state_are_of_one_batch() -> None:
    shapes = ({1: Dim("rows", min=2)}, {1: Dim("others", min=2)})
    args = (torch.ones(4, 2, 5), torch.ones(1, 2, 7))
    graph, _ = ingest(capture_module(nn.GRU(5, 7), args, dynamic_shapes=shapes))
    assert len(graph.dims) == 1


def test_a_call_by_keywords_is_torchs_own() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, h: torch.Tensor, *weights: torch.Tensor) -> Any:
            return torch.gru(
                x,
                h,
                list(weights),
                has_biases=False,
                num_layers=1,
                dropout=0.0,
                train=False,
                bidirectional=False,
                batch_first=False,
            )

    args = (torch.ones(4, 2, 5), torch.ones(1, 2, 3), torch.ones(9, 5), torch.ones(9, 3))
    graph, _ = ingest(capture_module(Model(), args))
    assert [op.target for op in graph.ops] == ["aten.gru.input"]


def test_the_operator_runs_as_torchs_own_does() -> None:
    layer, x = nn.LSTM(5, 7), torch.ones(4, 2, 5)
    weights, state = [w.detach() for w in layer.parameters()], [torch.zeros(1, 2, 7)] * 2
    ours = torch.ops.aot.lstm(x, state, weights, True, 1, 0.0, False, False, False)
    torch.testing.assert_close(ours[0], layer(x)[0])


@pytest.mark.parametrize("settings", [{}, {"stride": 3, "padding": 1}, {"ceil_mode": True}])
@pytest.mark.parametrize("batched", [True, False])
def test_pooling_of_a_dynamic_length_is_that_of_two_axes(
    settings: dict[str, Any], batched: bool
) -> None:
    layer, x = nn.MaxPool1d(2, **settings), torch.randn((2, 3, 11) if batched else (3, 11))
    shapes = ({x.dim() - 1: Dim("steps", min=4)},)
    traced = capture_module(layer, (x,), dynamic_shapes=shapes)
    assert [d.label for d in ingest(traced)[0].dims] == ["steps"]
    torch.testing.assert_close(traced.program.module()(x), layer(x), rtol=0, atol=0)


def test_what_cannot_be_pooled_is_eagers_error() -> None:
    with pytest.raises(InputMismatch, match="max_pool1d"):
        capture_module(nn.MaxPool1d(2), (torch.ones(4),))


def test_a_layer_may_be_differentiated() -> None:
    layer = nn.LSTM(3, 4, batch_first=True)

    def gradient(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(layer(x)[0].sin().sum(), x)[0]

    given = torch.linspace(-1, 1, 2 * 2 * 3).reshape(2, 2, 3)
    spec = {"args": ({0: Dim("n", min=2, max=9)},)}
    program = capture_module(Calls(gradient), (given,), dynamic_shapes=spec)
    x = torch.linspace(-1, 2, 3 * 2 * 3).reshape(3, 2, 3)
    (found,) = interpret_lowered(program, (x,))
    np.testing.assert_allclose(found, gradient(x), 1e-5, 1e-5)
