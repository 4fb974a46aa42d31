"""Inputs of the models, for a batch and a length; the length is what varies: tokens, samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

Inputs = dict[str, torch.Tensor]
Make = Callable[[int, int, torch.Generator], Inputs]
"""(batch, length, generator) -> inputs by parameter name."""

Dynamic = Mapping[str, Mapping[int, str]]
"""Input -> axis -> name of the dynamic dim."""

VOCABULARY = 99

_BOTH = {0: "batch", 1: "length"}
TEXT: Dynamic = {"input_ids": _BOTH, "attention_mask": _BOTH}
PAIR: Dynamic = {**TEXT, "decoder_input_ids": {0: "batch", 1: "target"}}
BARE: Dynamic = {"input_ids": _BOTH}
TEXT_ROWS: Dynamic = {"input_ids": {0: "batch"}, "attention_mask": {0: "batch"}}
PAIR_ROWS: Dynamic = {**TEXT_ROWS, "decoder_input_ids": {0: "batch"}}
ROWS: Dynamic = {"input_ids": {0: "batch"}}
IMAGE: Dynamic = {"pixel_values": {0: "batch"}}
PLAIN: Dynamic = {"x": {0: "batch"}}
IMAGE_TEXT: Dynamic = {**TEXT, **IMAGE}
SOUND: Dynamic = {"input_values": _BOTH}
SPEECH: Dynamic = {"input_features": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "target"}}


def _ids(batch: int, length: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (batch, length), generator=generator)


def only_tokens(batch: int, length: int, generator: torch.Generator) -> Inputs:
    """Token numbers."""
    return {"input_ids": _ids(batch, length, generator)}


def tokens(batch: int, length: int, generator: torch.Generator) -> Inputs:
    """Token numbers and a mask: later rows end in more padding."""
    lengths = torch.arange(length, length - batch, -1).clamp_min(1)
    mask = (torch.arange(length)[None, :] < lengths[:, None]).long()
    return {**only_tokens(batch, length, generator), "attention_mask": mask}


def next_token(batch: int, position: int, generator: torch.Generator) -> Inputs:
    """One token, and its position in the cache."""
    return {**only_tokens(batch, 1, generator), "cache_position": torch.tensor([position])}


def source_and_target(batch: int, length: int, generator: torch.Generator) -> Inputs:
    """What an encoder reads, and what a decoder has so far."""
    target = _ids(batch, length + 3, generator)
    return {**tokens(batch, length, generator), "decoder_input_ids": target}


def image(side: int, channels: int = 3, name: str = "pixel_values") -> Make:
    """Square images of a fixed side."""

    def make(batch: int, _: int, generator: torch.Generator) -> Inputs:
        return {name: torch.randn(batch, channels, side, side, generator=generator)}

    return make


def image_and_text(side: int) -> Make:
    """An image and a caption for each element of the batch."""

    def make(batch: int, length: int, generator: torch.Generator) -> Inputs:
        return {**tokens(batch, length, generator), **image(side)(batch, length, generator)}

    return make


def video(frames: int, side: int) -> Make:
    """Short films."""

    def make(batch: int, _: int, generator: torch.Generator) -> Inputs:
        return {"pixel_values": torch.randn(batch, frames, 3, side, side, generator=generator)}

    return make


def film(frames: int, side: int, name: str) -> Make:
    """Short films, channels first."""

    def make(batch: int, _: int, generator: torch.Generator) -> Inputs:
        return {name: torch.randn(batch, 3, frames, side, side, generator=generator)}

    return make


def waveform(batch: int, length: int, generator: torch.Generator) -> Inputs:
    """Samples of sound."""
    return {"input_values": torch.randn(batch, length, generator=generator)}


def spectrogram_and_tokens(bins: int, frames: int) -> Make:
    """Bins over a fixed time, and the decoder's tokens so far."""

    def make(batch: int, length: int, generator: torch.Generator) -> Inputs:
        features = torch.randn(batch, bins, frames, generator=generator)
        return {"input_features": features, "decoder_input_ids": _ids(batch, length, generator)}

    return make


def patches_of_sound(frames: int, bins: int) -> Make:
    """A spectrogram that is looked at as an image."""

    def make(batch: int, _: int, generator: torch.Generator) -> Inputs:
        return {"input_values": torch.randn(batch, frames, bins, generator=generator)}

    return make
