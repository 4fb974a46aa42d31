"""What the lowerings of products promise the later stages."""

from __future__ import annotations

import torch
from torch.export import Dim

from aot.ir.dtypes import BFLOAT16, FLOAT32
from aot.ir.loops import reads
from aot.ir.nests import LoopNest
from aot.ir.templates import Matmul
from aot.symbolic import to_text
from tests.lowering.lowered import lowered, only_template


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
