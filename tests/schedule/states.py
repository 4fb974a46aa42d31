"""Models that change their buffers, and every stage of them checked against eager."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.interpreter import interpret_kernels, interpret_loops
from aot.ir.kernels import KernelGraph, MemoryPlan
from aot.ir.verify import verify_kernels, verify_loops
from aot.link.derive import DerivedStore
from aot.lowering.lower import lower
from aot.schedule.fusion import fuse
from aot.schedule.memory import plan_memory
from tests.schedule.graphs import DEVICE, run_passes


class Changing(torch.nn.Module):
    """Buffers `a` and `b` of 4 x 6, and a body that changes them."""

    def __init__(self, body: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.register_buffer("a", torch.arange(24.0).reshape(4, 6))
        self.register_buffer("b", torch.zeros(4, 6))
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(self.a, self.b, x)


def add(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a += x
    return a.sum()


def swap(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    old = a.clone()
    a.copy_(b + x)
    b.copy_(old)
    return x + 1


def roll(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a.copy_(torch.roll(a, 1, 0))
    return a + x


def old_after(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    old = a.clone()
    a.mul_(2)
    return old.sum(0) * (a * x).sum()


def from_input(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a.copy_(x * 3)
    b.copy_(a + 1)
    return x * 2


def both_results(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a += x
    return a


CASES = {f.__name__: f for f in (add, swap, roll, old_after, from_input, both_results)}


def checked_kernels(
    body: Callable[..., torch.Tensor],
) -> tuple[torch.nn.Module, KernelGraph, MemoryPlan]:
    return checked_stages(Changing(body).eval(), torch.ones(4, 6))


def checked_stages(
    module: torch.nn.Module, example: torch.Tensor
) -> tuple[torch.nn.Module, KernelGraph, MemoryPlan]:
    """The module, its kernels, and their memory; every stage is checked on three runs."""
    graph, weights = ingest(capture_module(module, (example,)))
    lowered = lower(graph)
    passed = run_passes(lowered, DEVICE)
    scheduled = fuse(passed, DEVICE)
    verify_loops(lowered)
    verify_loops(passed)
    verify_kernels(scheduled)
    derived = DerivedStore(weights, scheduled.derived, scheduled.buffers, {})
    held: tuple[dict[str, np.ndarray], ...] = ({}, {}, {})
    for k in range(3):
        x = example * (k + 1)
        inputs = {scheduled.inputs[0]: x.numpy()}
        found = (
            interpret_loops(lowered, inputs, weights.array, {}, held[0]),
            interpret_loops(passed, inputs, derived.array, {}, held[1]),
            interpret_kernels(scheduled, inputs, derived.array, {}, held[2]),
        )
        expected = module(x).detach()
        for result in found:
            np.testing.assert_allclose(result[0], expected.numpy(), rtol=1e-5)
    for states in held:
        for name, value in states.items():
            np.testing.assert_allclose(value, getattr(module, name).detach().numpy(), rtol=1e-5)
    return module, scheduled, plan_memory(scheduled)


def places(plan: MemoryPlan, graph: KernelGraph) -> tuple[set[str], set[str]]:
    """The states that are written in place, and those that are copied to."""
    name = {b.name: b.fqn for b in graph.buffers.values()}
    in_place = {name[target] for _, target in plan.in_place if name[target]}
    return in_place, {name[m.target] for m in plan.copied}
