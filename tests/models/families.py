"""Rows of `transformers`: small configurations, and what a family of models is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from tests.models import inputs as given
from tests.models.architecture import Architecture
from tests.models.inputs import VOCABULARY
from tests.models.libraries import library

SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
SMALL_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SMALL_DECODER = {
    **SMALL,
    **SMALL_TOKENS,
    "use_cache": False,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
SMALL_EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2}
SMALL_GPT = {
    **{**SMALL_TOKENS, "use_cache": False, "vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2},
    **{"n_head": 4, "n_positions": 64, "n_inner": 48},
}
SMALL_SEQ2SEQ = {
    **{"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4},
    **{"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64},
    **{**SMALL_TOKENS, "use_cache": False, "decoder_start_token_id": 1},
}
SMALL_T5 = {
    **{"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2},
    **{"num_heads": 4, "use_cache": False, "decoder_start_token_id": 0},
}
SMALL_VISION = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"intermediate_size": 48, "image_size": 32, "patch_size": 8},
}
SMALL_SPEECH = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"intermediate_size": 48, "conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2)},
    **{"conv_kernel": (10, 3, 2), "num_feat_extract_layers": 3, "apply_spec_augment": False},
    **{"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, "vocab_size": VOCABULARY},
}
SMALL_CLIP_TEXT = {**SMALL, **SMALL_TOKENS, "projection_dim": 16}
SMALL_CLIP_VISION = {**SMALL_VISION, "projection_dim": 16}
SMALL_CLIP = {
    "text_config": SMALL_CLIP_TEXT,
    "vision_config": SMALL_CLIP_VISION,
    "projection_dim": 16,
}


def row(name: str, kind: str, options: Mapping[str, Any], **rest: Any) -> Architecture:
    """`name`: "Bert" for BertModel with BertConfig; "Vits:VitsForX:VitsXConfig" for others."""
    base, model, config = (*name.split(":"), "", "")[:3]
    build = partial(_build, model or f"{base}Model", config or f"{base}Config", options)
    return Architecture("transformers", base, kind, build, **rest)


def _build(model: str, config: str, options: Mapping[str, Any]) -> nn.Module:
    transformers = library("transformers")
    chosen = getattr(transformers, config)(**options)
    made: nn.Module = getattr(transformers, model)(chosen)
    return made


def encoder(name: str, **options: Any) -> Architecture:
    """An encoder of tokens under a mask."""
    chosen = {**SMALL, **options}
    return row(name, "encoder", chosen, inputs=given.tokens, dynamic=given.TEXT)


def decoder(name: str, **options: Any) -> Architecture:
    """A decoder with the language model's head."""
    chosen = {**SMALL_DECODER, **options}
    full = f"{name}:{name}ForCausalLM"
    return row(full, "decoder", chosen, inputs=given.tokens, dynamic=given.TEXT)


def experts(name: str, **options: Any) -> Architecture:
    """A decoder with a mixture of experts, of which each token takes two."""
    chosen = {**SMALL_DECODER, **SMALL_EXPERTS, **options}
    full = name if ":" in name else f"{name}:{name}ForCausalLM"
    return row(full, "experts", chosen, inputs=given.tokens, dynamic=given.TEXT)


def cached(name: str, **options: Any) -> Architecture:
    """The decoder, one token a run, with its cache of keys and values in the session."""
    plain = decoder(name, **{**options, "use_cache": True})
    steps = tuple((1, position) for position in range(10))
    return replace(
        plain,
        **{"name": f"{name} with a cache", "kind": "decoder with a cache", "cache": 16},
        **{"inputs": given.next_token, "dynamic": {}, "sizes": steps},
    )


def gpt(name: str, model: str = "", **options: Any) -> Architecture:
    """A decoder whose configuration has the names of GPT-2's."""
    chosen, full = {**SMALL_GPT, **options}, f"{name}:{model or name + 'ForCausalLM'}"
    return row(full, "decoder", chosen, inputs=given.tokens, dynamic=given.TEXT)


def pair(name: str, options: Mapping[str, Any]) -> Architecture:
    """An encoder and a decoder."""
    rest = {"inputs": given.source_and_target, "dynamic": given.PAIR}
    return row(name, "encoder-decoder", options, **rest)


def states(name: str, **options: Any) -> Architecture:
    """A model that carries a state along the tokens."""
    chosen = {**SMALL, **SMALL_TOKENS, "use_cache": False, **options}
    return row(name, "state-space", chosen, inputs=given.only_tokens, dynamic=given.BARE)


def unrolled(name: str, **options: Any) -> Architecture:
    """A state-space model that loops over positions in Python: torch.export fixes their number."""
    sizes = ((2, 7), (3, 7), (1, 7))
    return replace(states(name, **options), dynamic=given.ROWS, sizes=sizes)


def vision(name: str, side: int = 32, **options: Any) -> Architecture:
    """A model of square images."""
    return row(name, "vision", options, inputs=given.image(side), dynamic=given.IMAGE)


def speech(name: str, **options: Any) -> Architecture:
    """A model of waveforms."""
    rest = {"inputs": given.waveform, "dynamic": given.SOUND}
    sizes = ((2, 1000), (3, 1600), (1, 777))
    return row(name, "audio", {**SMALL_SPEECH, **options}, sizes=sizes, **rest)


def several(name: str, side: int = 32, **options: Any) -> Architecture:
    """A model of images and captions."""
    rest = {"inputs": given.image_and_text(side), "dynamic": given.IMAGE_TEXT}
    return row(name, "several", options, **rest)
