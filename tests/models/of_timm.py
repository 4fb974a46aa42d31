"""Models of `timm`: the smallest of a family, with a block or two for each stage."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from tests.models import inputs as given
from tests.models.architecture import Architecture
from tests.models.libraries import library


def _row(name: str, side: int = 64, **options: Any) -> Architecture:
    """A model of square images under its name in timm's registry."""
    rest = {"inputs": given.image(side, name="x"), "dynamic": given.PLAIN}
    return Architecture("timm", name, "vision", partial(_build, name, options), **rest)


def _class(name: str, side: int = 64, **options: Any) -> Architecture:
    """A model of a class whose registered models leave nothing to choose."""
    rest = {"inputs": given.image(side, name="x"), "dynamic": given.PLAIN}
    return Architecture("timm", name, "vision", partial(_make, name, options), **rest)


def _build(name: str, options: dict[str, Any]) -> nn.Module:
    made: nn.Module = library("timm").create_model(name, num_classes=10, **options)
    return made


def _make(name: str, options: dict[str, Any]) -> nn.Module:
    made: nn.Module = getattr(library("timm").models, name)(num_classes=10, **options)
    return made


_ONES = (1, 1, 1, 1)
_PATCHES = {"img_size": 32, "depth": 2}
_STAGES = {"depths": _ONES}
_WIDTHS = {
    **{"embed_dims": (32, 48, 48, 48), "num_heads": (2, 4, 4, 4), "mlp_ratio": 2},
    **{"downsamples": (True, False, False, False), "outlook_attention": (True,) + (False,) * 3},
}
_NEST = {"embed_dims": (16, 32, 48), "num_heads": (1, 2, 4)}

VISION = (
    _row("test_vit", 32, img_size=32),
    _row("vit_relpos_small_patch16_224", 32, embed_dim=48, num_heads=4, **_PATCHES),
    _row("vit_small_r26_s32_224", img_size=64, embed_dim=48, num_heads=4, depth=1),
    _row("deit_tiny_distilled_patch16_224", 32, **_PATCHES),
    _row("beit_base_patch16_224", 32, embed_dim=48, num_heads=4, **_PATCHES),
    _row("eva02_tiny_patch14_224", 28, img_size=28, depth=2),
    _row("cait_xxs24_224", 32, **_PATCHES),
    _row("convit_tiny", 32, local_up_to_layer=1, **_PATCHES),
    _row("xcit_nano_12_p16_224", 32, **_PATCHES),
    _row("samvit_base_patch16", 32, embed_dim=48, num_heads=4, window_size=2, **_PATCHES),
    _row("tnt_s_legacy_patch16_224", 32, **_PATCHES),
    _row("crossvit_tiny_240", 240, depth=[[1, 1, 0]] * 2),
    _row("pit_ti_224", img_size=64),
    _class("VOLO", layers=_ONES, img_size=64, **_WIDTHS),
    _row("coat_lite_tiny", img_size=64, serial_depths=_ONES),
    _row("coatnet_pico_rw_224", img_size=64),
    _row("maxvit_pico_rw_256", img_size=64),
    _row("levit_128s", img_size=64, depth=(1, 1, 1)),
    _row("mvitv2_tiny", img_size=64),
    _class("Nest", img_size=64, depths=(1, 1, 1), **_NEST),
    _class("GlobalContextVit", img_size=(64, 64), embed_dim=16, num_heads=(1, 2, 4, 8), **_STAGES),
    _row("hiera_tiny_224", img_size=64, stages=_ONES),
    _row("swin_tiny_patch4_window7_224", 56, img_size=56, embed_dim=24, **_STAGES),
    _row("swinv2_tiny_window8_256", img_size=64, embed_dim=24, **_STAGES),
    _row("swinv2_cr_tiny_224", 56, img_size=56, embed_dim=24, **_STAGES),
    _row("tiny_vit_5m_224", **_STAGES),
    _row("twins_pcpvt_small", **_STAGES),
    _row("twins_svt_small", **_STAGES),
    _row("pvt_v2_b0", **_STAGES),
    _row("davit_tiny", **_STAGES),
    _row("visformer_tiny", img_size=64, depth=(1, 1, 1)),
    _row("sequencer2d_s", img_size=64, layers=_ONES),
    _row("efficientformer_l1", 224, **_STAGES),
    _row("efficientformerv2_s0", 224, **_STAGES),
    _row("efficientvit_b0", **_STAGES),
    _row("efficientvit_m0", img_size=64),
    _row("edgenext_xx_small", **_STAGES),
    _row("swiftformer_xs", layers=_ONES),
    _row("fastvit_t8", layers=_ONES),
    _row("mobilevit_xxs"),
    _row("mobilevitv2_050"),
    _class("MlpMixer", 32, img_size=32, patch_size=8, num_blocks=2, embed_dim=48),
    _row("resmlp_12_224", 32, img_size=32),
    _row("poolformer_s12"),
    _row("caformer_s18"),
    _class("ConvMixer", dim=32, depth=2),
    _row("test_convnext", 32),
    _row("convnextv2_atto", **_STAGES),
    _row("inception_next_atto", **_STAGES),
    _row("mambaout_femto", **_STAGES),
    _class("FocalNet", embed_dim=24, **_STAGES),
    _row("test_resnet", 32),
    _row("resnet10t"),
    _row("resnetv2_18"),
    _row("res2net50_14w_8s", layers=_ONES),
    _row("resnest14d"),
    _row("skresnet18", layers=_ONES),
    _row("legacy_seresnet18", layers=_ONES),
    _row("seresnext26ts"),
    _row("nf_resnet26"),
    _row("nf_regnet_b0"),
    _row("test_byobnet"),
    _row("lambda_resnet26t", img_size=64),
    _row("halonet26t", 256),
    _row("regnetx_002"),
    _row("regnety_002"),
    _row("repvgg_a0"),
    _row("repvit_m0_9"),
    _row("mobileone_s1"),
    _row("densenet121", block_config=_ONES),
    _row("dla46_c"),
    _row("dpn48b", k_sec=_ONES),
    _row("cs3darknet_focus_s"),
    _row("ese_vovnet19b_dw"),
    _row("hrnet_w18_small"),
    _row("hgnetv2_b0"),
    _row("selecsls42"),
    _row("xception41"),
    _row("inception_v3", 96),
    _row("test_efficientnet", 32),
    _row("mobilenetv3_small_050"),
    _row("mobilenetv4_conv_small_035"),
    _row("mnasnet_small"),
    _row("ghostnet_050"),
    _row("ghostnetv2_100"),
    _row("repghostnet_050"),
    _row("hardcorenas_a"),
    _row("rexnet_100"),
    _row("tinynet_e"),
    _row("lcnet_035"),
    _row("starnet_s050"),
    _row("shvit_s1"),
    _row("fasternet_t0", **_STAGES),
)
