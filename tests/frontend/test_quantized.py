"""Operators of quantised models are seen through, in programs that users exported as well."""

from __future__ import annotations

from typing import Any

import torch
from torch.ao.quantization.fx import _decomposed as declared
from torch.export import Dim

from aot.frontend.capture import capture_module, capture_program
from aot.frontend.ingest import ingest
from aot.frontend.quantized import library_operators
from tests.calls import Calls

_ops: Any = torch.ops.quantized_decomposed


def _model() -> Calls:
    def function(x: torch.Tensor) -> torch.Tensor:
        q = _ops.quantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8)
        return _ops.dequantize_per_tensor(q, 0.02, 3, -128, 127, torch.int8)

    return Calls(function)


def _operators(captured: Any) -> set[str]:
    graph, _ = ingest(captured)
    return {op.target.partition(".")[0] for op in graph.ops}


def test_what_is_declared_has_its_code() -> None:
    assert declared.quantized_decomposed_lib
    found = library_operators()
    assert _ops.quantize_per_channel.default in found
    assert _ops.dequantize_per_tensor.tensor2 in found


def test_a_quantised_model_has_operators_of_torch_alone() -> None:
    shapes = {"args": ({0: Dim("n")},)}
    captured = capture_module(_model(), (torch.ones(4, 3),), dynamic_shapes=shapes)
    assert _operators(captured) == {"aten"}


def test_so_has_a_program_that_was_exported() -> None:
    program = torch.export.export(_model(), (torch.ones(4, 3),))
    assert _operators(capture_program(program)) == {"aten"}
