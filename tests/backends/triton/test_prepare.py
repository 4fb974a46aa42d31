"""What the Triton backend's `prepare` adds, each with a decision; kernels alone decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from aot.backends.triton.backend import TritonBackend
from aot.ir.kernel_facts import checks_indices
from aot.ir.kernels import JoinedKernel, KernelGraph, fused_parts
from aot.ir.verify import verify_kernels
from aot.options import Target
from aot.symbolic import presence
from tests.backends.triton.templates import captured, emitted, kernels_of
from tests.launches import template_kernels

TARGET = Target("cuda", ("sm_90",))
ROW = torch.randn(1, 64)
INDEX = torch.tensor([3, 0, 2])


def prepared(function: Callable[..., Any], *args: torch.Tensor) -> KernelGraph:
    graph = TritonBackend().prepare(kernels_of(captured(function, args)), TARGET)
    verify_kernels(graph)
    return graph


def test_small_kernels_share_a_launch_and_a_decision_says_so() -> None:
    graph = prepared(lambda x, y: (x.softmax(-1), y.cumsum(1)), ROW, torch.randn(8, 40))
    (kernel,) = graph.kernels
    assert isinstance(kernel, JoinedKernel)
    (decision,) = [d for d in graph.decisions if d.stage == "launch"]
    assert decision.subject == tuple(part.name for part in kernel.parts)
    assert decision.verdict == "one launch"


def test_kernels_for_different_sizes_share_no_launch() -> None:
    """Parts of a transform's range: all but one of them have nothing to do in a run."""
    shapes = ({1: Dim("n", min=4, max=4096)},)
    program = captured(torch.fft.fft, (torch.randn(2, 64, dtype=torch.complex64),), shapes)
    graph = TritonBackend().prepare(kernels_of(program), TARGET)
    shared = [k for k in graph.kernels if isinstance(k, JoinedKernel)]
    assert shared
    for kernel in shared:
        written = [[graph.buffers[name].shape for name in part.writes] for part in kernel.parts]
        found = {frozenset(p for s in shapes for e in s for p in presence(e)) for shapes in written}
        assert len(found) == 1


def test_a_workspace_is_a_buffer_of_its_kernel_with_a_decision() -> None:
    def resized(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(
            x, (9, 20), mode="bilinear", antialias=True, align_corners=False
        )

    graph = prepared(resized, torch.randn(1, 1, 100, 48))
    (kernel,) = [k for k in template_kernels(graph) if k.workspace]
    assert graph.buffers[kernel.workspace].kind == "temp"
    (decision,) = [d for d in graph.decisions if d.stage == "workspace"]
    assert (decision.subject, decision.verdict) == ((kernel.name,), kernel.workspace)


CHECKED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "gather": (lambda x, i: x[:, i], (ROW, INDEX)),
    "gather before a scan": (lambda x, i: x[:, i].cumsum(1), (ROW, INDEX)),
    "gather after a product": (
        lambda x, i: (x @ x)[i],
        (torch.randn(64, 64), INDEX),
    ),
    "short windows": (lambda x, i: x[:, i].view(1, 3, 1).sum(1), (ROW, INDEX)),
    "masked": (lambda x, i: torch.where(i > 1, x[0, i], 0.0), (ROW, INDEX)),
    "none": (lambda x, i: x.softmax(-1), (ROW, INDEX)),
}


@pytest.mark.parametrize("name", CHECKED)
def test_what_is_said_of_checks_before_emission_is_what_is_emitted(name: str) -> None:
    function, args = CHECKED[name]
    source = emitted(captured(function, args))
    functions = {f.name: f for f in source.functions}
    for kernel, launch in zip(source.graph.kernels, source.launches, strict=True):
        assert functions[launch.function].faults == checks_indices(kernel), kernel.name
    checked = [
        part for k in source.graph.kernels for part in fused_parts(k) if checks_indices(part)
    ]
    assert bool(checked) == (name != "none")
