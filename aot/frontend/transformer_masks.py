"""Masks of torch's own transformers, of which torch decides by their values.

- `nn.TransformerEncoder` and `nn.TransformerDecoder` look whether a mask is the causal one, to tell
  attention that it need not read it. A mask that is read gives what the hint gives. A caller who
  says `is_causal=True` is taken at his word, as torch does.
- In inference an encoder that is given padding at the ends of its sequences alone does not compute
  what is there: its layers' result is 0 (then it is normalised). While a model is traced, torch
  computes it; so it is set to 0 here, in the runs in which torch would do so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn.modules import transformer


def _is_said_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    return is_causal is True


def _forward(own: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`nn.TransformerEncoder.forward`, with 0 for padding before the last normalisation."""

    def forward(
        encoder: nn.TransformerEncoder,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        padding = src_key_padding_mask
        if padding is None or mask is not None or not _leaves_padding_out(encoder, src):
            return own(encoder, src, mask, padding, is_causal)
        norm, encoder.norm = encoder.norm, None
        try:
            found = own(encoder, src, mask, padding, is_causal)
        finally:
            encoder.norm = norm
        found = torch.where(_computed(padding).unsqueeze(-1), found, 0)
        return found if norm is None else norm(found)

    return forward


def _leaves_padding_out(encoder: nn.TransformerEncoder, src: Tensor) -> bool:
    """Whether torch would, in inference, whatever the mask's values are."""
    return (
        torch.backends.mha.get_fastpath_enabled()
        and getattr(encoder, "use_nested_tensor", False)
        and getattr(encoder, "mask_check", True)
        and not encoder.layers[0].training
        and src.dim() == 3
        and not torch.is_autocast_enabled()
    )


def _computed(padding: Tensor) -> Tensor:
    """The places that torch computes: all of them where padding stands before something else."""
    there = padding.logical_not()
    at_ends = (there == there.long().cummin(1).values.bool()).all()
    return there | at_ends.logical_not()


@contextmanager
def settled_masks() -> Iterator[None]:
    """Inside of it, nothing is decided by the values of such masks, and results are inference's."""
    encoder = nn.TransformerEncoder
    with (
        patch.object(transformer, "_detect_is_causal_mask", _is_said_causal),
        patch.object(encoder, "forward", _forward(encoder.forward)),
    ):
        yield
