"""Models with control flow, as they come to the scheduler; and their kernels, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch._higher_order_ops.scan import scan

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.flow import Outline
from aot.ir.interpreter import interpret_kernels, interpret_outline
from aot.ir.kernels import KernelGraph
from aot.ir.loops import LoopGraph
from aot.ir.verify import verify_kernels
from aot.link.derive import DerivedStore
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline
from aot.passes import pipeline
from aot.schedule.fusion import fuse
from aot.schedule.join import join
from tests.calls import Calls
from tests.schedule.graphs import DEVICE


def branching(x: torch.Tensor) -> torch.Tensor:
    """One of two functions between two others."""
    y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x.exp(),))
    return y.exp() * x.tanh()


def repeating(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A scan over the rows, with a table that every turn reads."""
    table = x[0].exp()
    return scan(lambda c, a: (c + a * table, a * 2), x[0], x)


def scheduled(function: Any, *examples: torch.Tensor) -> tuple[Outline[LoopGraph], KernelGraph]:
    """The model's parts after all passes, and its kernels, which compute the same."""
    graph, weights = ingest(capture_module(Calls(function), examples[:1]))
    loops = pipeline.run_passes(lower_outline(outline(graph)), DEVICE)
    kernels = join(loops.map(lambda part: fuse(part, DEVICE)))
    verify_kernels(kernels)
    store = DerivedStore(weights, kernels.derived, kernels.buffers, {})
    for example in examples:
        given = {graph.inputs[0]: example.numpy()}
        before = interpret_outline(loops, given, store.array, {})
        after = interpret_kernels(kernels, given, store.array, {})
        for want, got in zip(before, after, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
    return loops, kernels
