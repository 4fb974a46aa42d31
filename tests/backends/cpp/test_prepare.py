"""What the C++ backend's `prepare` adds: packed weights, shared by equal uses, with reasons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from aot.backends.cpp.backend import CppBackend
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.kernels import KernelGraph
from aot.ir.verify import verify_kernels
from aot.options import ALL_CPU
from tests.conformance.executors import scheduled
from tests.launches import template_kernels


class Applied(torch.nn.Module):
    """A function of an input and one weight of 128 x 128."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.randn(128, 128))

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.weight)


def prepared(module: torch.nn.Module, *args: torch.Tensor) -> KernelGraph:
    backend = CppBackend()
    graph, _ = ingest(capture_module(module, args))
    made = backend.prepare(scheduled(graph, backend.machine(ALL_CPU)), ALL_CPU)
    verify_kernels(made)
    return made


def verdicts(graph: KernelGraph) -> list[tuple[str, str]]:
    return [(d.verdict, d.reason) for d in graph.decisions if d.stage == "pack"]


X = torch.randn(64, 128)


def test_products_finish_each_element_once_and_scans_are_not_said_to() -> None:
    (product,) = template_kernels(prepared(torch.nn.Linear(128, 40), X))
    assert product.finishes_once
    (scan,) = template_kernels(prepared(Applied(lambda x, w: torch.cumsum(x @ w, 1)), X))[1:]
    assert not scan.finishes_once


def test_a_linear_layer_reads_the_packed_weight_in_place_of_its_own() -> None:
    graph = prepared(torch.nn.Linear(128, 40), X)
    (kernel,) = template_kernels(graph)
    assert kernel.packed is not None
    operand, form = graph.buffers[kernel.packed.operand], graph.buffers[kernel.packed.form]
    assert kernel.packed.form in kernel.reads
    assert kernel.packed.operand not in kernel.reads
    assert [int(n) for n in form.shape] == [3, 128, 16]
    (recipe,) = [d for d in graph.derived if d.name == form.fqn]
    assert (recipe.recipe, recipe.sources) == ("pack_matmul", (operand.fqn,))
    assert verdicts(graph) == [
        ("packed", "computed when the package is built: pack_matmul"),
    ]


def test_equal_uses_of_a_weight_share_its_packed_form() -> None:
    graph = prepared(Applied(lambda x, w: torch.relu(x @ w).cumsum(1) @ w), X)
    first, second = (k.packed for k in template_kernels(graph) if k.template.kind == "matmul")
    assert first is not None
    assert first == second
    assert len([d for d in graph.derived if d.name == first.form]) == 1


@pytest.mark.parametrize(
    ("groups", "recipe", "last"),
    [
        (1, "pack_conv", False),
        (1, "pack_winograd", True),
        (4, "pack_planes", False),
        (32, "pack_depthwise", True),
        (32, "pack_planes", False),
        (8, "pack_planes", False),
    ],
)
def test_convolutions_pack_by_their_groups_and_the_layout(
    groups: int, recipe: str, last: bool
) -> None:
    x = torch.randn(1, 32, 24, 24)
    module = torch.nn.Conv2d(32, 32, 3, groups=groups, bias=False)
    given = x.to(memory_format=torch.channels_last) if last else x
    graph = prepared(module, given)
    (kernel,) = (k for k in template_kernels(graph) if k.template.kind == "conv")
    assert kernel.packed is not None
    assert recipe in [d.recipe for d in graph.derived if d.name == kernel.packed.form]


def test_an_operand_that_the_model_computes_is_not_packed_beforehand() -> None:
    graph = prepared(Applied(lambda x, w: x @ (x.T @ x).softmax(-1)), X)
    assert all(kernel.packed is None for kernel in template_kernels(graph))
    assert verdicts(graph) == []


def test_a_weight_that_the_epilogue_reads_too_stays_as_it_is() -> None:
    graph = prepared(Applied(lambda x, w: x @ w + w), torch.randn(128, 128))
    (kernel,) = template_kernels(graph)
    assert kernel.packed is None
    assert verdicts(graph) == [("as it is", "the epilogue reads it too")]
