"""Where new values of states go, and that every stage leaves what eager leaves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
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
from tests.launches import template_kernels
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


@pytest.mark.parametrize("name", CASES)
def test_every_stage_leaves_what_eager_leaves(name: str) -> None:
    checked_kernels(CASES[name])


def _places(plan: MemoryPlan, graph: KernelGraph) -> tuple[set[str], set[str]]:
    """The states that are written in place, and those that are copied to."""
    name = {b.name: b.fqn for b in graph.buffers.values()}
    in_place = {name[target] for _, target in plan.in_place if name[target]}
    return in_place, {name[m.target] for m in plan.copied}


def test_a_value_that_replaces_its_own_elements_is_in_place() -> None:
    _, graph, plan = checked_kernels(add)
    assert _places(plan, graph) == ({"a"}, set())
    assert not plan.placements


def test_a_value_that_moves_elements_is_copied() -> None:
    _, graph, plan = checked_kernels(roll)
    assert _places(plan, graph) == (set(), {"a"})
    assert [p.buffer for p in plan.placements] == [graph.mutations[0].value]


def test_of_two_that_change_places_none_is_written_before_both_are_read() -> None:
    _, graph, plan = checked_kernels(swap)
    in_place, copied = _places(plan, graph)
    assert in_place | copied == {"a", "b"}
    values = {m.target: m.value for m in graph.mutations}
    order = {name: k for k, kernel in enumerate(graph.kernels) for name in kernel.writes}
    for state, value in values.items():
        if graph.buffers[state].fqn not in in_place:
            continue
        readers = [k for k, kernel in enumerate(graph.kernels) if state in kernel.reads]
        assert all(k <= order[value] for k in readers)


def test_states_that_nothing_reads_are_written_where_they_are() -> None:
    _, graph, plan = checked_kernels(from_input)
    assert _places(plan, graph) == ({"a", "b"}, set())


def test_a_new_value_that_is_a_result_too_has_both_places() -> None:
    _, graph, plan = checked_kernels(both_results)
    assert graph.mutations[0].value not in graph.outputs
    assert _places(plan, graph) == ({"a"}, set())


class Cached(torch.nn.Module):
    """Two caches, a position that is state too, and a body that writes parts of the caches."""

    def __init__(self, body: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.register_buffer("a", torch.arange(32.0).reshape(2, 4, 4))
        self.register_buffer("b", torch.zeros(2, 4, 4))
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.body(self.a, self.b, self.at, x)
        self.at += 1
        return result


def put(a: torch.Tensor, b: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a[:, at] = x
    return (a * 2).sum(1)


def copy(a: torch.Tensor, b: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a.index_copy_(1, at, x)
    b.index_copy_(1, at, x + 1)
    return (a @ b.transpose(1, 2)).sum(1)


def slices(a: torch.Tensor, b: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a[:, 1:3, ::2] = x[:, :, :2]
    a[0] += 1
    b[1, 2] = x[0, 0]
    return a.sum(1) + b.sum(1)


def scattered(a: torch.Tensor, b: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a.scatter_(1, at.expand(2, 1, 4), x)
    a.index_fill_(2, at, 7.0)
    return a.sum(1)


def old_too(a: torch.Tensor, b: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    old = a.clone()
    a[:, at] = x
    return (old * a.sum()).sum(1)


def kept(a: torch.Tensor, b: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return a.index_copy(1, at, x).sum(1) + a.sum(1)


def crossed(a: torch.Tensor, b: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    first, second = a.sum(1), b.sum(1)
    a[:, at] = x + second[:, None]
    b[:, at] = x + first[:, None]
    return a.sum(1) + b.sum(1)


PARTS = {f.__name__: f for f in (put, copy, slices, scattered, old_too, kept, crossed)}


def checked_cached(body: Callable[..., torch.Tensor]) -> tuple[KernelGraph, MemoryPlan]:
    _, graph, plan = checked_stages(Cached(body).eval(), torch.ones(2, 1, 4))
    return graph, plan


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_written_as_eager_writes_them(name: str) -> None:
    checked_cached(PARTS[name])


@pytest.mark.parametrize("name", ["put", "copy", "slices", "scattered", "crossed"])
def test_a_part_of_a_state_is_all_that_is_written(name: str) -> None:
    graph, plan = checked_cached(PARTS[name])
    in_place, copied = _places(plan, graph)
    assert in_place >= {m.target.removeprefix("b_") for m in graph.mutations}
    assert not copied
    assert not any(d.verdict == "copied" for d in graph.decisions if d.stage == "update")
    for kernel in graph.kernels:
        for nest in (n for s in kernel.stages for n in s.nests):
            for store in nest.stores:
                if store.base:
                    points = np.prod([int(a.extent) for a in nest.axes])
                    assert points < np.prod([int(s) for s in graph.buffers[store.base].shape])


@pytest.mark.parametrize(
    ("name", "reason"),
    [("old_too", "its old value is needed later"), ("kept", "it is not a temporary")],
)
def test_a_base_that_is_still_needed_is_copied(name: str, reason: str) -> None:
    graph, _ = checked_cached(PARTS[name])
    assert [d.reason for d in graph.decisions if d.stage == "update"] == [reason]


class Projected(torch.nn.Module):
    """A product whose parts go to a result and to two caches."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(2, 4, 4))
        self.register_buffer("b", torch.zeros(2, 4, 4))
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))
        self.weight = torch.nn.Parameter(torch.arange(192.0).reshape(8, 24) / 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (x @ self.weight).view(1, 3, 2, 4).unbind(1)
        self.a.index_copy_(1, self.at, k.transpose(0, 1))
        self.b.index_copy_(1, self.at, v.transpose(0, 1))
        self.at += 1
        return q + self.a.sum(1) + self.b.sum(1)


def test_a_part_of_a_product_is_no_epilogue() -> None:
    _, graph, _ = checked_stages(Projected().eval(), torch.ones(1, 8))
    for kernel in template_kernels(graph):
        stores = [s for stage in kernel.stages for n in stage.nests for s in n.stores]
        assert not any(s.base for s in stores)
