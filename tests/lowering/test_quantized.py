"""Products of 8-bit integers are cut where float32 no longer adds up exactly."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from aot.errors import UnsupportedOperators
from aot.ir.templates import Matmul
from tests.lowering.lowered import lowered, templates


@pytest.mark.parametrize(
    ("dtype", "depth", "parts"),
    [
        *((torch.int8, depth, parts) for depth, parts in ((1, 1), (1024, 1), (1025, 2), (3000, 3))),
        *((torch.uint8, depth, parts) for depth, parts in ((514, 1), (515, 2))),
    ],
)
def test_parts_are_as_deep_as_sums_are_exact(dtype: torch.dtype, depth: int, parts: int) -> None:
    a, b = torch.ones(20, depth, dtype=dtype), torch.ones(depth, 8, dtype=torch.int8)
    found = templates(lowered(torch._int_mm, a, b))
    assert len(found) == parts and all(isinstance(op, Matmul) for op in found)
    assert sum(int(op.a.axes[-1].extent) for op in found) == depth


def test_a_dynamic_depth_is_refused_with_what_to_do() -> None:
    n = Dim("n", min=1, max=4000)
    a, b = torch.ones(20, 64, dtype=torch.int8), torch.ones(64, 8, dtype=torch.int8)
    with pytest.raises(UnsupportedOperators, match="depth of _int_mm is dynamic"):
        lowered(torch._int_mm, a, b, dynamic_shapes={"tensors": ({1: n}, {0: n})})
