"""Transforms of a length that only a run knows: what they mean, and what devices make of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.export import Dim

from aot.ir.interpreter import bind_dims, interpret_loops
from aot.ir.loops import LoopGraph
from aot.ir.templates import Fft, OpenFft, Support
from aot.ir.verify import verify_loops
from aot.passes.expand_templates import expand_templates
from tests.lowering.lowered import lowered, templates
from tests.schedule.graphs import BARE
from tests.settings import seeded

KINDS = {
    "": torch.fft.ifft,
    "there": lambda z: torch.fft.rfft(z.real),
    "whole": lambda z: torch.fft.fft(z.imag),
    "back": lambda z: torch.fft.irfft(z, n=2 * z.shape[1] - 1, norm="forward"),
}


def test_a_device_with_a_kernel_drops_what_others_need() -> None:
    graph = graph_of("")
    device = replace(BARE, templates=(Support(OpenFft), Support(Fft)))
    expanded = expand_templates(graph, device)
    (call,) = templates(expanded)
    assert isinstance(call, OpenFft) and call.otherwise is None
    assert 2 * len(expanded.ops) < len(graph.ops)


def graph_of(kind: str) -> LoopGraph:
    shapes = (({1: Dim("size", min=2, max=300)},),)
    x = torch.randn(3, 8, dtype=torch.complex64)
    return lowered(KINDS[kind], x, dynamic_shapes=shapes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_and_what_devices_without_it_do_are_what_eager_gives(kind: str) -> None:
    graph = graph_of(kind)
    assert [c.real for c in templates(graph) if isinstance(c, OpenFft)] == [kind]
    expanded = expand_templates(graph, BARE)
    verify_loops(expanded)
    assert not any(isinstance(c, OpenFft) for c in templates(expanded))
    for points in (2, 17, 261):
        x = np.random.default_rng(seeded()).standard_normal((3, points, 2)).astype(np.float32)
        wanted = KINDS[kind](torch.view_as_complex(torch.from_numpy(x)))
        if wanted.is_complex():
            wanted = torch.view_as_real(wanted)
        for made in (graph, expanded):
            arrays = {made.inputs[0]: x}
            dims = bind_dims(made.dims, [x.shape])
            (found,) = interpret_loops(made, arrays, lambda _: np.zeros(0), dims)
            assert np.allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-4)
