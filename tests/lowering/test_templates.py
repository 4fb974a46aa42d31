"""What the lowerings of products, convolutions, attention and resizing promise the later stages."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F

from aot.errors import DynamicShapeError, UnsupportedOperators
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.dtypes import BFLOAT16, FLOAT32
from aot.ir.loops import LoopGraph, reads
from aot.ir.nests import LoopNest
from aot.ir.templates import Attention, Conv, Matmul, Resample
from aot.ir.templates.base import K, TemplateCall
from aot.lowering.lower import lower
from aot.symbolic import FloorDiv, to_text


def lowered(function: Any, *args: Any, **settings: Any) -> LoopGraph:
    class Model(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    module = function if isinstance(function, torch.nn.Module) else Model()
    return lower(ingest(capture_module(module, args, **settings))[0])


def templates(graph: LoopGraph) -> list[TemplateCall]:
    return [op for op in graph.ops if isinstance(op, TemplateCall)]


def only_template(graph: LoopGraph, kind: type[K]) -> K:
    (call,) = templates(graph)
    assert isinstance(call, kind)
    return call


def test_linear_flattens_leading_dimensions_and_reads_the_weight_as_it_is() -> None:
    n = Dim("n", min=1)
    linear = torch.nn.Linear(5, 7)
    graph = lowered(linear, torch.ones(3, 4, 5), dynamic_shapes=({0: n},))
    call = only_template(graph, Matmul)
    a, b = call.a, call.b
    assert to_text(a.axes[0].extent) == f"4*{graph.dims[0].name}"
    assert b.index == (b.axes[1].symbol, b.axes[0].symbol)
    assert graph.buffers[b.buffer].kind == "weight"
    bias = graph.ops[graph.ops.index(call) + 1]
    assert isinstance(bias, LoopNest)
    assert reads(bias)[0] == call.output.buffer
    assert len(bias.axes) == 2


def test_half_products_stay_wide_until_the_bias_is_added() -> None:
    graph = lowered(torch.nn.Linear(5, 7).bfloat16(), torch.ones(3, 5).bfloat16())
    call = only_template(graph, Matmul)
    assert graph.buffers[call.output.buffer].dtype == FLOAT32
    assert graph.buffers[graph.outputs[0]].dtype == BFLOAT16


def test_broadcast_batches_are_views_not_copies() -> None:
    graph = lowered(torch.matmul, torch.ones(2, 1, 3, 4), torch.ones(5, 4, 6))
    call = only_template(graph, Matmul)
    a, b = call.a, call.b
    assert [to_text(i) for i in a.index][:2] == ["v0", "0"]
    assert to_text(b.index[0]) == "v1"


def test_convolution_attributes() -> None:
    conv = torch.nn.Conv2d(4, 6, 3, stride=(2, 1), padding=1, dilation=2, groups=2)
    call = only_template(lowered(conv, torch.ones(1, 4, 9, 9)), Conv)
    assert dict(call.attributes) == {
        "stride": (2, 1),
        "padding": (1, 1),
        "dilation": (2, 2),
        "groups": 2,
    }


def test_attention_is_one_call_with_the_mask_as_a_view() -> None:
    q, mask = torch.ones(2, 3, 4, 8), torch.ones(2, 1, 1, 4, dtype=torch.bool)
    graph = lowered(lambda x, m: F.scaled_dot_product_attention(x, x, x, m), q, mask)
    call = only_template(graph, Attention)
    assert [to_text(i) for i in call.mask.index] == ["v0", "0", "0", "v3"]
    assert call.scale == pytest.approx(8**-0.5)


def test_attention_that_drops_at_random_is_refused_with_its_reason() -> None:
    def dropping(x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)

    with pytest.raises(UnsupportedOperators, match="not for inference"):
        lowered(dropping, torch.ones(1, 1, 4, 8))


def inputs_of(graph: LoopGraph, nest: LoopNest) -> set[str]:
    """The graph's inputs that a nest depends on, directly or through others."""
    made = {s.buffer: op for op in graph.ops if isinstance(op, LoopNest) for s in op.stores}
    found: set[str] = set()
    waiting, seen = list(reads(nest)), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if graph.buffers[name].kind == "input":
            found.add(name)
        elif name in made:
            waiting.extend(reads(made[name]))
    return found


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_a_resize_is_two_passes_whose_tables_need_no_input(
    mode: str, antialias: bool, dtype: torch.dtype
) -> None:
    def resize(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, (24, 40), mode=mode, antialias=antialias)

    graph = lowered(resize, torch.ones(1, 3, 50, 60, dtype=dtype))
    passes = [op for op in graph.ops if isinstance(op, TemplateCall)]
    assert {call.kind for call in passes} == {"resample"}
    byte = dtype == torch.uint8
    horizontal, vertical = passes if byte else passes[::-1]  # eager rounds bytes after the rows
    assert (horizontal.axis, horizontal.panel) == (3, 10)
    assert shape_of(horizontal) == ["1", "3", "50" if byte else "24", "40"]
    assert vertical.axis == 2
    assert shape_of(vertical) == ["1", "3", "24", "40" if byte else "60"]
    tables = [op for op in graph.ops if isinstance(op, LoopNest)]
    assert not any(inputs_of(graph, nest) for nest in tables)
    assert len(tables) >= 6


def shape_of(call: TemplateCall) -> list[str]:
    return [to_text(a.extent) for a in call.output.axes]


def test_no_pixel_reads_outside_of_its_taps() -> None:
    def resize(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, (24, 64), mode="bilinear", antialias=True)

    graph = lowered(resize, torch.ones(1, 1, 96, 64))
    (vertical,) = [op for op in graph.ops if isinstance(op, Resample)]
    taps = vertical.weights.axes[1].extent
    assert to_text(taps) == "8"  # 4 inputs to either side


def test_nearest_by_a_whole_factor_is_a_view() -> None:
    graph = lowered(lambda x: F.interpolate(x, scale_factor=2.0), torch.ones(1, 3, 8, 8))
    (nest,) = graph.ops
    assert isinstance(nest, LoopNest)
    load = nest.stores[0].value
    assert load.op == "load"
    assert [isinstance(i, FloorDiv) for i in load.attr.index] == [False, False, True, True]


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
