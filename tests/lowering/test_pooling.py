"""What the lowering of pooling promises the later stages."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from aot.ir.printer import print_loops
from tests.lowering.lowered import lowered


def test_a_place_in_a_plane_takes_one_quotient_for_each_dimension() -> None:
    """No remainder, and nothing that looks at signs: a place in a window is no less than 0."""

    def pooled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.max_pool3d(x, (2, 3, 5), return_indices=True)

    text = print_loops(lowered(pooled, torch.ones(1, 2, 8, 9, 10)))
    assert text.count("truncdiv") == 2
    assert "%" not in text and "//" not in text
