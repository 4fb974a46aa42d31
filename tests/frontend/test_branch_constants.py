"""Constants of sub-graphs become the program's, once each, and the program computes as before."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule

from aot.frontend.branch_constants import lift_constants
from aot.frontend.joined import joining
from tests.calls import Calls

SHARED = torch.tensor([1.0, 2.0, 3.0])


def _model(x: Tensor) -> Tensor:
    x = x + torch.tensor([4.0, 5.0, 6.0])
    if x.sum() > 0:
        if x.max() > 7:
            return x * torch.tensor(2.0) + SHARED
        return x - SHARED
    return x * torch.tensor(3.0)


def _own_tensors(module: GraphModule) -> list[str]:
    return [
        str(node.target)
        for node in module.graph.nodes
        if node.op == "get_attr" and isinstance(getattr(module, str(node.target)), Tensor)
    ]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_sub_graphs_have_no_tensors_and_results_stay() -> None:
    model, x = Calls(_model), torch.tensor([0.5, -1.0, 2.0])
    with torch.no_grad(), joining(model, {}):
        program = torch.export.export(model, (x,), strict=False)
    inner = [m for m in program.graph_module.modules() if isinstance(m, GraphModule)]
    assert any(_own_tensors(m) for m in inner)
    lift_constants(program)
    assert not any(_own_tensors(m) for m in inner)
    again = program.run_decompositions({})
    constants = again.graph_signature.input_specs
    assert sum(spec.kind is InputKind.CONSTANT_TENSOR for spec in constants) >= 5
    for scale in (-20.0, 1.0, 20.0):
        torch.testing.assert_close(again.module()(x * scale), _model(x * scale))


def test_programs_without_branches_stay() -> None:
    model = Calls(lambda x: x + torch.tensor([1.0, 2.0]))
    program = torch.export.export(model, (torch.ones(2),), strict=False)
    before = str(program.graph)
    lift_constants(program)
    assert str(program.graph) == before
