"""Models of images, sound and several of them of `transformers`."""

from __future__ import annotations

from tests.models import inputs as given
from tests.models.families import (
    SMALL,
    SMALL_CLIP,
    SMALL_CLIP_TEXT,
    SMALL_CLIP_VISION,
    SMALL_SEQ2SEQ,
    SMALL_VISION,
    row,
    several,
    speech,
    vision,
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
    vision("ViT", **SMALL_VISION),
    vision("DeiT", **SMALL_VISION),
    vision("Beit", **SMALL_VISION, use_relative_position_bias=True),
    vision("Data2VecVision", **SMALL_VISION),
    vision("Dinov2", **SMALL_VISION),
    vision("Dinov2WithRegisters", **SMALL_VISION),
    vision("ViTMSN", **SMALL_VISION),
    vision("IJepa", **SMALL_VISION),
    vision("Yolos", **{**SMALL_VISION, "image_size": [32, 32]}, num_detection_tokens=5),
    vision("Swin", **_WINDOWS),
    vision("Swinv2", **_WINDOWS),
    vision("ConvNext", **_PYRAMID),
    vision("ConvNextV2", **_PYRAMID),
    vision("ResNet", **_PYRAMID, embedding_size=8),
    vision("RegNet", **_PYRAMID, embedding_size=8, groups_width=8),
    vision("Bit", **_PYRAMID, embedding_size=8, num_groups=4),
    vision("PoolFormer", **_PYRAMID, num_encoder_blocks=2),
    vision("MobileNetV1", image_size=32, depth_multiplier=0.25),
    vision("MobileNetV2", image_size=32, depth_multiplier=0.25),
    vision("EfficientNet", image_size=32, width_coefficient=0.25, hidden_dim=320),
    vision("Segformer:SegformerForSemanticSegmentation", **_SEGMENTS, decoder_hidden_size=16),
    vision("SiglipVision", **SMALL_VISION),
    vision("CLIPVision", **SMALL_CLIP_VISION),
    vision("Levit", image_size=32, hidden_sizes=[16, 16, 16], depths=[1, 1, 1], key_dim=[8] * 3),
    vision("FocalNet", image_size=32, embed_dim=16, depths=[1, 1], focal_levels=[2, 2]),
    vision("Cvt"),
    vision("MobileViT", **SMALL_VISION, neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32]),
    vision("GLPN:GLPNForDepthEstimation", **_SEGMENTS, decoder_hidden_size=16),
    vision("DPT", **SMALL_VISION, backbone_out_indices=[0, 1], is_hybrid=False),
    row(
        "VideoMAE",
        "vision",
        {
            **SMALL_VISION,
            "num_frames": 4,
            "decoder_hidden_size": 16,
            "decoder_num_hidden_layers": 1,
        },
        inputs=given.video(4, 32),
        dynamic=given.IMAGE,
    ),
)

AUDIO = (
    speech("Wav2Vec2"),
    speech("Hubert"),
    speech("UniSpeech"),
    speech("UniSpeechSat"),
    speech("WavLM"),
    speech("Data2VecAudio", conv_pos_kernel_size=3, num_conv_pos_embeddings=2),
    row(
        "Whisper",
        "audio",
        {
            **SMALL_SEQ2SEQ,
            "num_mel_bins": 8,
            "max_source_positions": 20,
            "max_target_positions": 64,
        },
        inputs=given.spectrogram_and_tokens(8, 40),
        dynamic=given.SPEECH,
    ),
    row(
        "AST:ASTModel",
        "audio",
        {
            **SMALL_VISION,
            "max_length": 40,
            "num_mel_bins": 16,
            "frequency_stride": 8,
            "time_stride": 8,
        },
        inputs=given.patches_of_sound(40, 16),
        dynamic={"input_values": {0: "batch"}},
    ),
)

SEVERAL = (
    several("CLIP", **SMALL_CLIP),
    several("Siglip", text_config=SMALL_CLIP_TEXT, vision_config=SMALL_VISION),
    several("AltCLIP", **SMALL_CLIP),
    several("ChineseCLIP", **SMALL_CLIP),
    several("Blip", **SMALL_CLIP, image_text_hidden_size=16),
    several("Vilt", **{**SMALL, **SMALL_VISION}),
)
