"""Slices that begin between multiples of an alignment are copied; what is computed stays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch._higher_order_ops.scan import scan

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.flow import Copy, Repeat, items_of
from aot.ir.interpreter import interpret_outline
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline
from aot.passes.align_slices import align_slices


class Totals(torch.nn.Module):
    def forward(self, x):
        def step(carry, row):
            total = carry + row
            return total, total * 2

        return scan(step, torch.zeros_like(x[0]), x)


def _outline(x):
    graph, weights = ingest(capture_module(Totals(), (x,)))
    return lower_outline(outline(graph)), graph, weights


def _copies(model):
    loops = [item for item in items_of(model.flow) if isinstance(item, Repeat)]
    places = {s.buffer for loop in loops for s in loop.slices}
    copies = [item for item in items_of(model.flow) if isinstance(item, Copy)]
    return [c for c in copies if {c.source, c.target} & places]


@pytest.mark.parametrize("width", [3, 4])
def test_slices_between_multiples_are_copied(width):
    x = torch.randn(5, width)
    model, graph, weights = _outline(x)
    aligned = align_slices(model, 16)
    if width == 4:  # rows of 16 bytes
        assert aligned is model
        return
    assert len(_copies(aligned)) == len(_copies(model)) + 2  # the row in, the result out
    (name,) = graph.inputs
    before, after = (
        interpret_outline(m, {name: x.numpy()}, weights.array, {}) for m in (model, aligned)
    )
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def test_any_address_will_do_for_a_cpu():
    model, *_ = _outline(torch.randn(5, 3))
    assert align_slices(model, 1) is model
