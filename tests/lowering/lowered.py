"""What functions of torch become as loop graphs, for tests of lowerings."""

from __future__ import annotations

from typing import Any

import torch

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.loops import LoopGraph
from aot.ir.templates.base import K, TemplateCall
from aot.lowering.lower import lower
from aot.lowering.reals import in_reals


def lowered(function: Any, *args: Any, **settings: Any) -> LoopGraph:
    class Model(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    module = function if isinstance(function, torch.nn.Module) else Model()
    return lower(in_reals(ingest(capture_module(module, args, **settings))[0]))


def templates(graph: LoopGraph) -> list[TemplateCall]:
    return [op for op in graph.ops if isinstance(op, TemplateCall)]


def only_template(graph: LoopGraph, kind: type[K]) -> K:
    (call,) = templates(graph)
    assert isinstance(call, kind)
    return call
