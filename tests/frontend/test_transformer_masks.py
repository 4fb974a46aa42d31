"""Masks of torch's transformers: whatever their values are, packages give what inference gives."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn.modules import transformer
from torch.testing import assert_close

from aot.frontend.capture import capture_module
from aot.frontend.transformer_masks import settled_masks
from tests.conformance.executors import interpret_lowered


class Encoder(nn.Module):
    """A layer that masks positions after one, and keys that the caller names."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.encoder(x, mask=mask, src_key_padding_mask=padding)
        return found


def example(batch: int, steps: int) -> tuple[torch.Tensor, ...]:
    padding = torch.zeros(batch, steps, dtype=torch.bool)
    padding[0, -1] = steps > 1
    mask = torch.ones(steps, steps, dtype=torch.bool).triu(1)
    return torch.randn(batch, steps, 8), mask, padding


def test_an_encoder_with_a_mask_and_padding_follows_its_sizes() -> None:
    torch.manual_seed(0)
    model = Encoder().eval()
    b, t = Dim("batch", min=1, max=16), Dim("steps", min=1, max=32)
    spec = ({0: b, 1: t}, {0: t, 1: t}, {0: b, 1: t})
    captured = capture_module(model, example(3, 5), dynamic_shapes=spec)
    for sizes in ((3, 5), (1, 1), (2, 9)):
        given = example(*sizes)
        (found,) = interpret_lowered(captured, given)
        with torch.no_grad():
            assert_close(torch.from_numpy(found), model(*given))
        turned, nowhere = given[1].T, torch.zeros_like(given[2])  # no causal one
        (found,) = interpret_lowered(captured, (given[0], turned, nowhere))
        with torch.no_grad():
            assert_close(torch.from_numpy(found), model(given[0], turned, nowhere))


def test_a_mask_is_causal_where_the_caller_says_so() -> None:
    own = transformer._detect_is_causal_mask
    mask = torch.ones(3, 3, dtype=torch.bool).triu(1)
    with settled_masks():
        assert not transformer._detect_is_causal_mask(mask)
        assert transformer._detect_is_causal_mask(mask, is_causal=True)
    assert transformer._detect_is_causal_mask is own


class Padded(nn.Module):
    """An encoder that torch runs without the padding, where that is at the ends."""

    def __init__(self, norm: nn.Module | None) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=norm)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.encoder(x, src_key_padding_mask=padding)
        return found


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("normed", [False, True])
def test_padding_at_the_ends_is_what_inference_makes_of_it(normed: bool) -> None:
    torch.manual_seed(0)
    norm = nn.LayerNorm(8) if normed else None
    if norm is not None:
        nn.init.normal_(norm.bias)
    model = Padded(norm).eval()
    axes = {0: Dim("batch", min=1, max=16), 1: Dim("steps", min=1, max=32)}
    x, _, padding = example(3, 5)
    captured = capture_module(model, (x, padding), dynamic_shapes=(axes, axes))
    assert model.encoder.norm is norm
    inside = torch.zeros(2, 4, dtype=torch.bool)
    inside[1, 1] = True  # not at the end: all is computed, of both
    inside[0, -1] = True
    for given in (
        (x, padding),
        (torch.randn(2, 4, 8), inside),
        (torch.randn(1, 1, 8), inside[:1, :1]),
    ):
        (found,) = interpret_lowered(captured, given)
        with torch.no_grad():
            assert_close(torch.from_numpy(found), model(*given))
