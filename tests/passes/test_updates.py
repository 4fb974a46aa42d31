"""Slices of states that are written: what is narrowed to the slice, and what is copied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from aot.ir.kernels import KernelGraph, MemoryPlan
from tests.launches import template_kernels
from tests.schedule.states import checked_stages, places


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
    in_place, copied = places(plan, graph)
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
