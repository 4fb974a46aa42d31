"""Every architecture that is packaged and compared, and those that are refused."""

from __future__ import annotations

from collections.abc import Mapping

from tests.models import language, of_timm, of_torchaudio, of_torchvision, senses

ARCHITECTURES = (
    *(*language.ENCODERS, *language.DECODERS, *language.EXPERTS, *language.CACHED),
    *(*language.PAIRS, *language.STATE_SPACES, *senses.VISION, *senses.AUDIO, *senses.SEVERAL),
    *(*of_timm.VISION, *of_torchvision.VISION, *of_torchaudio.AUDIO),
)

REFUSED: Mapping[str, str] = {
    "transformers Vilt": "data-dependent",
}
"""Architectures that do not package -> words of the reason. One that does fails its test until its
row is removed."""
