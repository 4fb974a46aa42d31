"""Constants of sub-graphs become the program's, once each, and the program computes as before."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch.export import Dim
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from aot.frontend.branch_constants import lift_constants
from aot.frontend.capture import capture_module
from aot.frontend.joined import joining
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

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


def _of_loops(x: Tensor) -> Any:
    def step(c: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        return c + row * torch.tensor(2.0), c * torch.tensor([1.0, 2.0])

    def goes_on(k: Tensor, y: Tensor) -> Tensor:
        return k < torch.tensor([5, 3])[1]

    def turn(k: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return k + 1, y * torch.tensor([2.0, 0.5])

    def side(y: Tensor) -> Tensor:
        return torch.cond(
            y.sum() > 9, lambda z: z - torch.tensor(1.0), lambda z: z + torch.tensor(1.0), (y,)
        )

    joined = partial(_joined, factor=3.0)
    return (
        scan(step, x[0].clone(), x),
        torch_map(lambda row: row * torch.tensor(3.0), x),
        associative_scan(joined, x, 0, combine_mode="generic"),
        torch.cond(x.sum() > 0, side, lambda y: y * torch.tensor(2.0), (x,)),
        while_loop(goes_on, turn, (torch.tensor(0), x.clone())),
    )


def _joined(x: Tensor, y: Tensor, factor: float) -> Tensor:
    return x * y * torch.tensor(factor)


def test_loops_and_branches_that_the_model_writes() -> None:
    spec = {"args": ({0: Dim("n", min=2, max=9)},)}
    captured = capture_module(Calls(_of_loops), (torch.rand(3, 2),), dynamic_shapes=spec)
    for n, scale in ((3, 1.0), (8, 9.0), (2, -1.0)):
        x = torch.rand(n, 2) * scale
        found = interpret_lowered(captured, (x,))
        wanted = pytree.tree_leaves(_of_loops(x))
        for y, z in zip(found, wanted, strict=True):
            np.testing.assert_allclose(y, z, 1e-5, 1e-5)


def test_programs_without_branches_stay() -> None:
    model = Calls(lambda x: x + torch.tensor([1.0, 2.0]))
    program = torch.export.export(model, (torch.ones(2),), strict=False)
    before = str(program.graph)
    lift_constants(program)
    assert str(program.graph) == before
