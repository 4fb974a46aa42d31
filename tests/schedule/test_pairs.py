"""Pieces that store every other element each: when they are one stage, and what that computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from aot.ir.kernels import KernelGraph, NestKernel, Stage
from aot.schedule.fusion import fuse
from aot.symbolic import coefficient_of
from tests.lowering.lowered import lowered
from tests.schedule.graphs import DEVICE, check_same, run_passes


def _kernels(function: Callable[..., object], *shapes: tuple[int, ...], dtype=torch.float32):
    graph = lowered(function, *(torch.rand(*shape).to(dtype) for shape in shapes))
    graph = run_passes(graph)
    made = fuse(graph, DEVICE)
    check_same(graph, made)
    return made


def _stages(graph: KernelGraph) -> list[Stage]:
    return [s for k in graph.kernels if isinstance(k, NestKernel) for s in k.stages]


def _pairs(graph: KernelGraph) -> int:
    """Stages with several nests that store to one buffer."""
    stored = [[s.buffer for n in stage.nests for s in n.stores] for stage in _stages(graph)]
    return sum(len(set(names)) < len(names) for names in stored)


def test_a_stack_along_the_last_dimension_is_one_stage_without_the_loop_of_two() -> None:
    made = _kernels(lambda x, y: torch.stack([x * 2, y], -1), (40, 100), (40, 100))
    assert _pairs(made) == len(_stages(made)) == 1
    (stage,) = _stages(made)
    assert [int(n.stores[0].index[-1]) for n in stage.nests] == [0, 1]
    assert all(int(axis.extent) > 2 for axis in stage.inner)
    assert stage.vector is not None


def test_both_parts_of_a_complex_product_pass_in_registers() -> None:
    made = _kernels(lambda x, y: x * y, (3000,), (3000,), dtype=torch.complex64)
    assert _pairs(made) == len(_stages(made)) == 1
    assert not made.kernels[0].local


def test_phases_of_an_upsampled_line_are_stored_together_along_it() -> None:
    def upsample(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv_transpose2d(x, w, stride=2, padding=1)

    made = _kernels(upsample, (1, 8, 16, 16), (8, 16, 4, 4))
    assert _pairs(made) == 1
    stage = _stages(made)[-1]
    assert stage.vector is not None
    places = [n.stores[0].index[-1] for n in stage.nests]
    assert all(coefficient_of(place, stage.vector.symbol) == 2 for place in places)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.stack([x, y, x], -1),  # three neighbours
        lambda x, y: torch.stack([x, y], -2),  # rows of both
        lambda x, y: torch.stack([x[:, :3], y[:, :3]], -1),  # too short for vectors
        lambda x, y: torch.cat([x, y], -1),
    ],
)
def test_others_stay_apart(function: Callable[..., object]) -> None:
    assert _pairs(_kernels(function, (40, 100), (40, 100))) == 0
