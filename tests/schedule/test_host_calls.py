"""What a device leaves to the host stands between spans of kernels, at every depth of the flow."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from aot.backends.registry import backend_for
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.flow import Branch, CustomCall, Straight, items_of, parts_of
from aot.ir.interpreter import interpret_kernels
from aot.ir.kernels import KernelGraph
from aot.ir.printer import print_kernels
from aot.options import Target
from tests.conformance.executors import scheduled

GPU = Target("cuda", ("sm_90",))


def kernels_of(module: nn.Module, *inputs: torch.Tensor) -> KernelGraph:
    graph, _ = ingest(capture_module(module, inputs))
    return scheduled(graph, backend_for(GPU).machine(GPU))


def values(graph: KernelGraph, *inputs: torch.Tensor) -> np.ndarray:
    arrays = {name: x.numpy() for name, x in zip(graph.inputs, inputs, strict=True)}

    def none(fqn: str) -> np.ndarray:
        raise AssertionError(f"there are no weights: {fqn}")

    return interpret_kernels(graph, arrays, none, {})[0]


def well(size: int) -> torch.Tensor:
    torch.manual_seed(size)
    return torch.randn(size, size, dtype=torch.float64) + 4 * size**0.5 * torch.eye(size)


class Between(nn.Module):
    """Kernels before, between and after two calls."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inverse = torch.linalg.inv_ex(x.sum(0, keepdim=True) + x)[0]
        return torch.linalg.cholesky_ex((inverse @ inverse.mT).exp())[0] * 2


class Chosen(nn.Module):
    """A call within a branch alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inverted(x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv_ex(x + 1)[0].contiguous() - 1

        return torch.cond(x.sum() > 0, inverted, lambda x: x - 1, (x,)) @ x


def test_kernels_stand_in_spans_around_calls() -> None:
    x = well(70)
    graph = kernels_of(Between(), x)
    kinds = [type(item) for item in graph.flow]
    assert kinds == [Straight, CustomCall, Straight, CustomCall, Straight]
    spans = parts_of(graph.flow)
    assert [s.first for s in spans] == [0, spans[0].count, spans[0].count + spans[1].count]
    assert spans[-1].first + spans[-1].count == len(graph.kernels)
    assert not any(getattr(k, "template", None) and k.template.on_host for k in graph.kernels)
    np.testing.assert_allclose(values(graph, x), Between()(x), rtol=1e-9, atol=1e-12)
    assert "= call on the host host::host(operands=" in print_kernels(graph)


def test_calls_within_branches() -> None:
    for x in (well(66), -well(66)):
        graph = kernels_of(Chosen(), x)
        (branch,) = [item for item in graph.flow if isinstance(item, Branch)]
        inside = [
            sum(isinstance(i, CustomCall) for i in items_of(arm))
            for arm in (branch.then, branch.otherwise)
        ]
        assert inside == [1, 0]
        np.testing.assert_allclose(values(graph, x), Chosen()(x), rtol=1e-9, atol=1e-12)


def test_a_graph_without_calls_is_the_same() -> None:
    graph = kernels_of(Between(), well(20))
    assert not graph.flow and len(graph.kernels) > 2
