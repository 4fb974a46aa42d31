"""What the lowerings of resizing promise the later stages."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from aot.ir.loops import LoopGraph, reads
from aot.ir.nests import LoopNest
from aot.ir.templates import Resample
from aot.ir.templates.base import TemplateCall
from aot.symbolic import FloorDiv, to_text
from tests.lowering.lowered import lowered


def inputs_of(graph: LoopGraph, nest: LoopNest) -> set[str]:
    """The graph's inputs that a nest depends on, directly or through others."""
    made = {s.buffer: op for op in graph.ops if isinstance(op, LoopNest) for s in op.stores}
    found: set[str] = set()
    waiting, seen = list(reads(nest)), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if graph.buffers[name].kind == "input":
            found.add(name)
        elif name in made:
            waiting.extend(reads(made[name]))
    return found


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_a_resize_is_two_passes_whose_tables_need_no_input(
    mode: str, antialias: bool, dtype: torch.dtype
) -> None:
    def resize(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, (24, 40), mode=mode, antialias=antialias)

    graph = lowered(resize, torch.ones(1, 3, 50, 60, dtype=dtype))
    passes = [op for op in graph.ops if isinstance(op, TemplateCall)]
    assert {call.kind for call in passes} == {"resample"}
    byte = dtype == torch.uint8
    horizontal, vertical = passes if byte else passes[::-1]  # eager rounds bytes after the rows
    assert (horizontal.axis, horizontal.windows.panel(16)) == (3, 10)
    assert shape_of(horizontal) == ["1", "3", "50" if byte else "24", "40"]
    assert vertical.axis == 2
    assert shape_of(vertical) == ["1", "3", "24", "40" if byte else "60"]
    tables = [op for op in graph.ops if isinstance(op, LoopNest)]
    assert not any(inputs_of(graph, nest) for nest in tables)
    assert len(tables) >= 6


def shape_of(call: TemplateCall) -> list[str]:
    return [to_text(a.extent) for a in call.output.axes]


def test_no_pixel_reads_outside_of_its_taps() -> None:
    def resize(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, (24, 64), mode="bilinear", antialias=True)

    graph = lowered(resize, torch.ones(1, 1, 96, 64))
    (vertical,) = [op for op in graph.ops if isinstance(op, Resample)]
    taps = vertical.weights.axes[1].extent
    assert to_text(taps) == "8"  # 4 inputs to either side


def test_nearest_by_a_whole_factor_is_a_view() -> None:
    graph = lowered(lambda x: F.interpolate(x, scale_factor=2.0), torch.ones(1, 3, 8, 8))
    (nest,) = graph.ops
    assert isinstance(nest, LoopNest)
    load = nest.stores[0].value
    assert load.op == "load"
    assert [isinstance(i, FloorDiv) for i in load.attr.index] == [False, False, True, True]
