"""Products of groups: each row multiplies its own group's matrix, and nothing else."""

from __future__ import annotations

import pytest
import torch

from aot.errors import UnsupportedOperators
from aot.frontend.operators import is_custom
from aot.ir.nests import LoopNest
from tests.lowering.lowered import lowered


def test_work_grows_with_the_rows_and_not_with_the_groups() -> None:
    a, b = torch.ones(32, 16).bfloat16(), torch.ones(4, 16, 24).bfloat16()
    ends = torch.tensor([4, 12, 20, 32], dtype=torch.int32)
    graph = lowered(lambda a, b, e: torch._grouped_mm(a, b, offs=e), a, b, ends)
    nests = [op for op in graph.ops if isinstance(op, LoopNest)]
    extents = [[int(axis.extent) for axis in (*n.axes, *n.reduction)] for n in nests]
    assert extents == [[32], [32, 24, 16]]


def test_groups_of_the_depth_are_refused() -> None:
    a, b = torch.ones(16, 32).bfloat16(), torch.ones(32, 16).bfloat16()
    ends = torch.tensor([16, 32], dtype=torch.int32)
    with pytest.raises(UnsupportedOperators, match="divide the depth"):
        lowered(lambda a, b, e: torch._grouped_mm(a, b, offs=e), a, b, ends)


def test_a_librarys_operator_with_a_lowering_is_not_custom() -> None:
    assert not is_custom("transformers::grouped_mm_fallback")
    assert is_custom("transformers::grouped_mm_fallback_backward")
