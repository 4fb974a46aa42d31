"""Architectures of `transformers` as data: configuration, inputs, and which sizes are dynamic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.models import inputs as given
from tests.models.inputs import VOCABULARY, Dynamic, Make


@dataclass(frozen=True)
class Architecture:
    """One model of `transformers` with a small random configuration.

    Attributes:
        name: What the tables call it.
        kind: encoder, decoder, encoder-decoder, state-space, vision, audio, several.
        model: The class in `transformers`.
        config: Its configuration's class.
        options: Of the configuration: everything small.
        inputs: Makes inputs of a size.
        dynamic: Which sizes one package serves; empty: the example's only.
        sizes: (batch, length) of the example, then of more runs.
        cache: Positions of the cache that the model keeps as its state; 0: it keeps none. The
            sizes are then (1, position), one run after the other.
    """

    name: str
    kind: str
    model: str
    config: str
    options: Mapping[str, Any]
    inputs: Make
    dynamic: Dynamic
    sizes: tuple[tuple[int, int], ...] = ((2, 7), (3, 12), (1, 5))
    cache: int = 0

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """The sizes to compare at."""
        return self.sizes if self.dynamic or self.cache else self.sizes[:1]

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dynamic dims."""
        return tuple(dict.fromkeys(d for axes in self.dynamic.values() for d in axes.values()))


_SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_DECODER = {**_SMALL, **_TOKENS, "use_cache": False, "num_key_value_heads": 2, "head_dim": 8}
_GPT = {
    **{**_TOKENS, "use_cache": False, "vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2},
    **{"n_head": 4, "n_positions": 64, "n_inner": 48},
}
_SEQ2SEQ = {
    **{"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4},
    **{"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64},
    **{**_TOKENS, "use_cache": False, "decoder_start_token_id": 1},
}
_T5 = {
    **{"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2},
    **{"num_heads": 4, "use_cache": False, "decoder_start_token_id": 0},
}
_VISION = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"intermediate_size": 48, "image_size": 32, "patch_size": 8},
}
_SPEECH = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"intermediate_size": 48, "conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2)},
    **{"conv_kernel": (10, 3, 2), "num_feat_extract_layers": 3, "apply_spec_augment": False},
    **{"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, "vocab_size": VOCABULARY},
}
_CLIP_TEXT = {**_SMALL, **_TOKENS, "projection_dim": 16}
_CLIP_VISION = {**_VISION, "projection_dim": 16}
_CLIP = {"text_config": _CLIP_TEXT, "vision_config": _CLIP_VISION, "projection_dim": 16}


def _model(name: str, kind: str, options: Mapping[str, Any], **rest: Any) -> Architecture:
    """`name`: "Bert" for BertModel with BertConfig; "Vits:VitsModelForX" for another class."""
    base, _, model = name.partition(":")
    return Architecture(base, kind, model or f"{base}Model", f"{base}Config", options, **rest)


def _encoder(name: str, **options: Any) -> Architecture:
    chosen = {**_SMALL, **options}
    return _model(name, "encoder", chosen, inputs=given.tokens, dynamic=given.TEXT)


def _decoder(name: str, **options: Any) -> Architecture:
    """A decoder with the language model's head."""
    chosen, model = {**_DECODER, **options}, f"{name}:{name}ForCausalLM"
    return _model(model, "decoder", chosen, inputs=given.tokens, dynamic=given.TEXT)


def _cached(name: str, **options: Any) -> Architecture:
    """The decoder, one token a run, with its cache of keys and values in the session."""
    plain = _decoder(name, **{**options, "use_cache": True})
    steps = tuple((1, position) for position in range(10))
    return replace(
        plain,
        **{"name": f"{name} with a cache", "kind": "decoder with a cache", "cache": 16},
        **{"inputs": given.next_token, "dynamic": {}, "sizes": steps},
    )


def _gpt(name: str, model: str = "", **options: Any) -> Architecture:
    chosen, model = {**_GPT, **options}, f"{name}:{model or name + 'ForCausalLM'}"
    return _model(model, "decoder", chosen, inputs=given.tokens, dynamic=given.TEXT)


def _pair(name: str, options: Mapping[str, Any]) -> Architecture:
    rest = {"inputs": given.source_and_target, "dynamic": given.PAIR}
    return _model(name, "encoder-decoder", options, **rest)


def _states(name: str, **options: Any) -> Architecture:
    chosen = {**_SMALL, **_TOKENS, "use_cache": False, **options}
    return _model(name, "state-space", chosen, inputs=given.only_tokens, dynamic=given.BARE)


def _unrolled(name: str, **options: Any) -> Architecture:
    """A state-space model that loops over positions in Python: torch.export fixes their number."""
    sizes = ((2, 7), (3, 7), (1, 7))
    return replace(_states(name, **options), dynamic=given.ROWS, sizes=sizes)


def _vision(name: str, side: int = 32, **options: Any) -> Architecture:
    return _model(name, "vision", options, inputs=given.image(side), dynamic=given.IMAGE)


def _speech(name: str, **options: Any) -> Architecture:
    rest = {"inputs": given.waveform, "dynamic": given.SOUND}
    sizes = ((2, 1000), (3, 1600), (1, 777))
    return _model(name, "audio", {**_SPEECH, **options}, sizes=sizes, **rest)


def _several(name: str, side: int = 32, **options: Any) -> Architecture:
    rest = {"inputs": given.image_and_text(side), "dynamic": given.IMAGE_TEXT}
    return _model(name, "several", options, **rest)


_DISTIL = {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
_DISENTANGLED = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
_EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2}

ENCODERS = (
    _encoder("Bert"),
    _encoder("Roberta"),
    _encoder("XLMRoberta"),
    _encoder("Electra", embedding_size=24),
    _encoder("Albert", embedding_size=24),
    _encoder("MPNet"),
    _encoder("Camembert"),
    _encoder("Data2VecText"),
    _encoder("MegatronBert"),
    _encoder("Ernie"),
    _encoder("Esm", pad_token_id=0, mask_token_id=1),
    _encoder("RoFormer", embedding_size=32),
    _encoder("SqueezeBert", embedding_size=32),
    _encoder("RemBert", input_embedding_size=24),
    _encoder("Nystromformer", num_landmarks=4, segment_means_seq_len=4),
    _encoder("ConvBert", embedding_size=32, conv_kernel_size=3, head_ratio=2),
    _encoder("MobileBert", embedding_size=32, intra_bottleneck_size=16, true_hidden_size=16),
    _encoder("DebertaV2", **_DISENTANGLED),
    _encoder("Deberta", **_DISENTANGLED),
    _encoder("ModernBert", pad_token_id=0, cls_token_id=1, sep_token_id=2),
    _encoder("NomicBert"),
    _encoder("EuroBert", **_TOKENS),
    _encoder("Longformer", attention_window=4),
    _model("FNet", "encoder", _SMALL, inputs=given.only_tokens, dynamic=given.BARE),
    _model("DistilBert", "encoder", _DISTIL, inputs=given.tokens, dynamic=given.TEXT),
)

DECODERS = (
    _gpt("GPT2", "GPT2LMHeadModel"),
    _gpt("GPTBigCode"),
    _gpt("GPTJ", rotary_dim=4),
    _gpt("CodeGen", rotary_dim=4),
    _gpt("OpenAIGPT", "OpenAIGPTLMHeadModel"),
    _gpt("CTRL", "CTRLLMHeadModel", dff=48),
    _decoder("GPTNeoX"),
    _decoder("GPTNeo", attention_types=[[["global", "local"], 1]], num_heads=4, num_layers=2),
    _decoder("OPT", ffn_dim=48, word_embed_proj_dim=32),
    _decoder("Bloom", n_head=4, n_layer=2),
    _decoder("Mpt", d_model=32, n_heads=4, n_layers=2, max_seq_len=64),
    _decoder("Llama"),
    _decoder("Mistral", sliding_window=6),
    _decoder("Mixtral", **_EXPERTS),
    _decoder("Qwen2"),
    _decoder("Qwen3"),
    _decoder("Qwen3Moe", **_EXPERTS, moe_intermediate_size=24, decoder_sparse_step=1),
    _decoder("Gemma"),
    _decoder("Gemma2", sliding_window=6, query_pre_attn_scalar=8),
    _decoder("Phi"),
    _decoder("Phi3"),
    _model(
        "Falcon:FalconForCausalLM",
        "decoder",
        {**_SMALL, **_TOKENS, "use_cache": False, "new_decoder_architecture": True},
        inputs=given.tokens,
        dynamic=given.TEXT,
    ),
    _decoder("StableLm"),
    _decoder("Starcoder2"),
    _decoder("Olmo"),
    _decoder("Olmo2"),
    _decoder("Cohere"),
    _decoder("Granite"),
    _decoder("Glm", partial_rotary_factor=0.5),
    _decoder("SmolLM3"),
    _decoder("Nemotron"),
    _decoder("Persimmon"),
    _decoder("BioGpt"),
    _decoder("XGLM", d_model=32, ffn_dim=48, num_layers=2, attention_heads=4),
)

CACHED = (
    _cached("Llama"),
    _cached("Mistral"),
    _cached("Qwen2"),
    _cached("Qwen3"),
    _cached("Gemma"),
    _cached("Olmo2"),
    _cached("Granite"),
    _cached("SmolLM3"),
)

PAIRS = (
    _pair("T5", _T5),
    _pair("MT5", _T5),
    _pair("UMT5", _T5),
    _pair("LongT5", _T5),
    _pair("Bart", _SEQ2SEQ),
    _pair("MBart", _SEQ2SEQ),
    _pair("Marian", _SEQ2SEQ),
    _pair("Pegasus", _SEQ2SEQ),
    _pair("PLBart", _SEQ2SEQ),
    _pair("M2M100", _SEQ2SEQ),
    _pair("Blenderbot", _SEQ2SEQ),
    _pair("BlenderbotSmall", _SEQ2SEQ),
)

STATE_SPACES = (
    _unrolled("Mamba:MambaForCausalLM", state_size=4, time_step_rank=4, expand=2),
    _unrolled("FalconMamba:FalconMambaForCausalLM", state_size=4, time_step_rank=4, expand=2),
    replace(
        _states(
            "Mamba2:Mamba2ForCausalLM",
            **{"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 4},
        ),
        sizes=((2, 7), (3, 13), (1, 5)),  # it pads to whole chunks, which it asks first
    ),
    _unrolled("Rwkv:RwkvForCausalLM", attention_hidden_size=32, context_length=64),
    _unrolled("RecurrentGemma:RecurrentGemmaForCausalLM", lru_width=32, attention_window_size=8),
    _unrolled(
        "Jamba:JambaForCausalLM",
        **{"num_key_value_heads": 2, "mamba_d_state": 4, "mamba_dt_rank": 4, "num_experts": 2},
        **{"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    ),
)

_PYRAMID = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}
_WINDOWS = {
    **{"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2]},
    **{"num_heads": [2, 4], "window_size": 4},
}
_SEGMENTS = {
    **{"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [4, 2], "hidden_sizes": [8, 16]},
    **{"patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2]},
    **{"mlp_ratios": [2, 2]},
}

VISION = (
    _vision("ViT", **_VISION),
    _vision("DeiT", **_VISION),
    _vision("Beit", **_VISION, use_relative_position_bias=True),
    _vision("Data2VecVision", **_VISION),
    _vision("Dinov2", **_VISION),
    _vision("Dinov2WithRegisters", **_VISION),
    _vision("ViTMSN", **_VISION),
    _vision("IJepa", **_VISION),
    _vision("Yolos", **{**_VISION, "image_size": [32, 32]}, num_detection_tokens=5),
    _vision("Swin", **_WINDOWS),
    _vision("Swinv2", **_WINDOWS),
    _vision("ConvNext", **_PYRAMID),
    _vision("ConvNextV2", **_PYRAMID),
    _vision("ResNet", **_PYRAMID, embedding_size=8),
    _vision("RegNet", **_PYRAMID, embedding_size=8, groups_width=8),
    _vision("Bit", **_PYRAMID, embedding_size=8, num_groups=4),
    _vision("PoolFormer", **_PYRAMID, num_encoder_blocks=2),
    _vision("MobileNetV1", image_size=32, depth_multiplier=0.25),
    _vision("MobileNetV2", image_size=32, depth_multiplier=0.25),
    _vision("EfficientNet", image_size=32, width_coefficient=0.25, hidden_dim=320),
    _vision("Segformer:SegformerForSemanticSegmentation", **_SEGMENTS, decoder_hidden_size=16),
    _vision("SiglipVision", **_VISION),
    _vision("CLIPVision", **_CLIP_VISION),
    _vision("Levit", image_size=32, hidden_sizes=[16, 16, 16], depths=[1, 1, 1], key_dim=[8] * 3),
    _vision("FocalNet", image_size=32, embed_dim=16, depths=[1, 1], focal_levels=[2, 2]),
    _vision("Cvt"),
    _vision("MobileViT", **_VISION, neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32]),
    _vision("GLPN:GLPNForDepthEstimation", **_SEGMENTS, decoder_hidden_size=16),
    _vision("DPT", **_VISION, backbone_out_indices=[0, 1], is_hybrid=False),
    _model(
        "VideoMAE",
        "vision",
        {**_VISION, "num_frames": 4, "decoder_hidden_size": 16, "decoder_num_hidden_layers": 1},
        inputs=given.video(4, 32),
        dynamic=given.IMAGE,
    ),
)

AUDIO = (
    _speech("Wav2Vec2"),
    _speech("Hubert"),
    _speech("UniSpeech"),
    _speech("UniSpeechSat"),
    _speech("WavLM"),
    _speech("Data2VecAudio", conv_pos_kernel_size=3, num_conv_pos_embeddings=2),
    _model(
        "Whisper",
        "audio",
        {**_SEQ2SEQ, "num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 64},
        inputs=given.spectrogram_and_tokens(8, 40),
        dynamic=given.SPEECH,
    ),
    _model(
        "AST:ASTModel",
        "audio",
        {**_VISION, "max_length": 40, "num_mel_bins": 16, "frequency_stride": 8, "time_stride": 8},
        inputs=given.patches_of_sound(40, 16),
        dynamic={"input_values": {0: "batch"}},
    ),
)

SEVERAL = (
    _several("CLIP", **_CLIP),
    _several("Siglip", text_config=_CLIP_TEXT, vision_config=_VISION),
    _several("AltCLIP", **_CLIP),
    _several("ChineseCLIP", **_CLIP),
    _several("Blip", **_CLIP, image_text_hidden_size=16),
    _several("Vilt", **{**_SMALL, **_VISION}),
)

ARCHITECTURES = (*ENCODERS, *DECODERS, *CACHED, *PAIRS, *STATE_SPACES, *VISION, *AUDIO, *SEVERAL)

REFUSED: Mapping[str, str] = {
    "Longformer": "data-dependent",
    "FNet": "number of points",
    "Vilt": "data-dependent",
    "Jamba": "grouped_mm",
}
"""Architectures that do not package -> words of the reason. One that does fails its test until its
row is removed."""
