"""Models of `torchaudio`, small."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from tests.models import inputs as given
from tests.models.architecture import Architecture
from tests.models.inputs import Dynamic, Inputs, Make
from tests.models.libraries import library


def _row(name: str, inputs: Make, dynamic: Dynamic, **options: Any) -> Architecture:
    """A function or a class of `torchaudio.models`."""
    build = partial(_build, name, options)
    rest = {"inputs": inputs, "dynamic": dynamic}
    return Architecture("torchaudio", name, "audio", build, **rest)


def _build(name: str, options: dict[str, Any]) -> nn.Module:
    made: nn.Module = getattr(library("torchaudio").models, name)(**options)
    return made


def _noise(name: str, *shape: int) -> Make:
    """Random numbers of a fixed shape for each element of the batch."""

    def make(batch: int, _: int, generator: torch.Generator) -> Inputs:
        return {name: torch.randn(batch, *shape, generator=generator)}

    return make


def _frames(features: int, more: int = 0) -> Make:
    """Frames of features, `length` and some of them, and how many of them each sound has."""

    def make(batch: int, length: int, generator: torch.Generator) -> Inputs:
        sounds = torch.randn(batch, length + more, features, generator=generator)
        return {"input": sounds, "lengths": torch.arange(length, length - batch, -1).clamp_min(1)}

    return make


def _wave_and_spectrum(batch: int, _: int, generator: torch.Generator) -> Inputs:
    """Samples, and the bins of their spectrum."""
    return {
        "waveform": torch.randn(batch, 1, 6 * 8, generator=generator),
        "specgram": torch.randn(batch, 1, 16, 6 + 4, generator=generator),
    }


def _two_waves(batch: int, _: int, generator: torch.Generator) -> Inputs:
    """A sound and another to compare it with."""
    return {
        "waveform": torch.randn(batch, 800, generator=generator),
        "reference": torch.randn(batch, 800, generator=generator),
    }


def _speech(batch: int, length: int, generator: torch.Generator) -> Inputs:
    """Tokens, the spectrum that is to be spoken, and how long both are."""
    tokens = torch.randint(1, 20, (batch, length), generator=generator)
    return {
        "tokens": tokens,
        "token_lengths": torch.full((batch,), length),
        "mel_specgram": torch.randn(batch, 8, 5, generator=generator),
        "mel_specgram_lengths": torch.full((batch,), 5),
    }


_BATCH = {0: "batch"}
_BOTH = {0: "batch", 1: "length"}
_WAVES: Dynamic = {"waveforms": _BATCH}
_LISTENER = {
    **{"extractor_mode": "group_norm", "extractor_conv_bias": False, "encoder_embed_dim": 32},
    **{"extractor_conv_layer_config": [(16, 10, 5), (16, 3, 2)], "encoder_num_heads": 4},
    **{"encoder_projection_dropout": 0.1, "encoder_pos_conv_kernel": 8, "encoder_num_layers": 2},
    **{"encoder_pos_conv_groups": 4, "encoder_attention_dropout": 0.1, "encoder_dropout": 0.1},
    **{"encoder_ff_interm_features": 48, "encoder_ff_interm_dropout": 0.1, "aux_num_out": 9},
    **{"encoder_layer_norm_first": False, "encoder_layer_drop": 0.1},
}
_LARGE = {**_LISTENER, "extractor_mode": "layer_norm", "encoder_layer_norm_first": True}
_BUCKETS = {"encoder_num_buckets": 16, "encoder_max_distance": 32}
_SEPARATOR = {
    **{"enc_num_feats": 16, "msk_num_feats": 8, "msk_num_hidden_feats": 16, "msk_num_layers": 2},
    **{"msk_num_stacks": 2},
}
_DEMUCS = {"sources": ["voice", "rest"], "channels": 8, "nfft": 256, "depth": 3}
_TACOTRON = {
    **{"n_mels": 8, "n_symbol": 20, "symbol_embedding_dim": 16, "encoder_embedding_dim": 16},
    **{"decoder_rnn_dim": 16, "attention_rnn_dim": 16, "attention_hidden_dim": 8},
    **{"attention_location_n_filter": 4, "attention_location_kernel_size": 3, "prenet_dim": 8},
    **{"postnet_embedding_dim": 16},
}
_WAVE_RNN = {
    **{"upsample_scales": [2, 4], "n_classes": 16, "hop_length": 8, "n_res_block": 2},
    **{"n_rnn": 32, "n_fc": 32, "n_freq": 16, "n_hidden": 16, "n_output": 16},
}
_QUALITY = {
    **{"feat_dim": 16, "win_len": 16, "d_model": 16, "nhead": 4, "hidden_dim": 16},
    **{"num_blocks": 1, "rnn_type": "LSTM", "chunk_size": 7},
}

AUDIO = (
    _row("Wav2Letter", _noise("x", 1, 4000), given.PLAIN, num_classes=12),
    _row("ConvTasNet", _noise("input", 1, 800), {"input": _BATCH}, **_SEPARATOR),
    _row("DeepSpeech", _noise("x", 1, 20, 8), given.PLAIN, n_feature=8, n_hidden=32, n_class=9),
    _row(
        "Conformer",
        _frames(16),
        {"input": _BOTH, "lengths": _BATCH},
        **{"input_dim": 16, "num_heads": 4, "ffn_dim": 32, "num_layers": 2},
        depthwise_conv_kernel_size=5,
    ),
    _row(
        "Emformer",
        _frames(16, 1),
        {},
        **{"input_dim": 16, "num_heads": 4, "ffn_dim": 32, "num_layers": 2, "segment_length": 4},
        right_context_length=1,
    ),
    _row("WaveRNN", _wave_and_spectrum, {"waveform": _BATCH, "specgram": _BATCH}, **_WAVE_RNN),
    _row("HDemucs", _noise("input", 2, 4096), {}, **_DEMUCS),
    _row("Tacotron2", _speech, {}, **_TACOTRON),
    _row("wav2vec2_model", _noise("waveforms", 800), _WAVES, **_LARGE),
    replace(
        _row("wav2vec2_model", _noise("waveforms", 800), _WAVES, **_LISTENER), name="hubert_base"
    ),
    _row("wavlm_model", _noise("waveforms", 800), _WAVES, **_LISTENER, **_BUCKETS),
    _row("squim_objective_model", _noise("x", 800), {}, **_QUALITY),
    _row(
        "squim_subjective_model",
        _two_waves,
        {},
        **{"ssl_type": "wav2vec2_base", "feat_dim": 768, "proj_dim": 16, "att_dim": 8},
    ),
)
