"""What the lowering of attention promises the later stages."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from aot.ir.templates import Attention
from aot.symbolic import to_text
from tests.lowering.lowered import lowered, only_template


def test_attention_is_one_call_with_the_mask_as_a_view() -> None:
    q, mask = torch.ones(2, 3, 4, 8), torch.ones(2, 1, 1, 4, dtype=torch.bool)
    graph = lowered(lambda x, m: F.scaled_dot_product_attention(x, x, x, m), q, mask)
    call = only_template(graph, Attention)
    assert [to_text(i) for i in call.mask.index] == ["v0", "0", "0", "v3"]
    assert call.scale == pytest.approx(8**-0.5)


def test_attention_that_drops_at_random_is_its_products() -> None:
    def dropping(x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)

    graph = lowered(dropping, torch.ones(1, 1, 4, 8))
    assert not any(isinstance(op, Attention) for op in graph.ops)
