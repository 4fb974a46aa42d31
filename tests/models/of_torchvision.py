"""Models of `torchvision`: the smallest of a family, with few blocks where a class lets choose."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from torch import nn

from tests.models import inputs as given
from tests.models.architecture import Architecture
from tests.models.inputs import Make
from tests.models.libraries import library

_ALONE = {"num_classes": 10}
_SEGMENTS = {**_ALONE, "weights": None, "weights_backbone": None}


def _row(name: str, side: int = 64, **options: Any) -> Architecture:
    """A model of square images: a function of `torchvision.models`, or a class of it."""
    return _of(name, given.image(side, name="x"), "x", {**_ALONE, **options})


def _segments(name: str, side: int = 64, **options: Any) -> Architecture:
    """A model that gives each pixel a class."""
    parameter = "input" if name.startswith("lraspp") else "x"
    inputs = given.image(side, name=parameter)
    return _of(f"segmentation.{name}", inputs, parameter, {**_SEGMENTS, **options})


def _film(name: str, frames: int = 4, side: int = 32, **options: Any) -> Architecture:
    """A model of short films."""
    inputs = given.film(frames, side, name="x")
    return _of(f"video.{name}", inputs, "x", {**_ALONE, **options})


def _of(name: str, inputs: Make, parameter: str, options: dict[str, Any]) -> Architecture:
    called = name.rpartition(".")[2]
    dynamic = {parameter: {0: "batch"}}
    build = partial(_build, name, options)
    return Architecture("torchvision", called, "vision", build, inputs, dynamic)


def _build(name: str, options: dict[str, Any]) -> nn.Module:
    library("torchvision")
    where, _, called = name.rpartition(".")
    module = importlib.import_module(".".join(filter(None, ("torchvision.models", where))))
    made: nn.Module = getattr(module, called)(**options)
    return made


def _convnext() -> nn.Module:
    models = library("torchvision").models
    block = models.convnext.CNBlockConfig
    made: nn.Module = models.ConvNeXt([block(16, 32, 1), block(32, None, 1)], **_ALONE)
    return made


def _swin_v2() -> nn.Module:
    module = library("torchvision").models.swin_transformer
    chosen = {"block": module.SwinTransformerBlockV2, "downsample_layer": module.PatchMergingV2}
    made: nn.Module = module.SwinTransformer(**_SWIN, **chosen, **_ALONE)
    return made


def _mvit() -> nn.Module:
    module = library("torchvision").models.video.mvit
    blocks = [
        module.MSBlockConfig(1, 16, 32, [], [3, 3, 3], [], [1, 4, 4]),
        module.MSBlockConfig(2, 32, 32, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 2, 2]),
    ]
    flags = {"residual_pool": False, "residual_with_cls_embed": True, "rel_pos_embed": False}
    sizes = {"spatial_size": (32, 32), "temporal_size": 4, "proj_after_attn": False}
    made: nn.Module = module.MViT(block_setting=blocks, **sizes, **flags, **_ALONE)
    return made


_SWIN = {
    **{"patch_size": [4, 4], "embed_dim": 24, "depths": [2, 1], "num_heads": [2, 4]},
    **{"window_size": [4, 4]},
}
_SWIN_3D = {
    **{"patch_size": [2, 4, 4], "embed_dim": 24, "depths": [2, 1], "num_heads": [2, 4]},
    **{"window_size": [2, 4, 4]},
}
_MAXVIT = {
    **{"input_size": (64, 64), "stem_channels": 8, "partition_size": 2, "block_channels": [8, 16]},
    **{"block_layers": [1, 1], "head_dim": 8, "stochastic_depth_prob": 0.0},
}
_VIT = {
    **{"image_size": 32, "patch_size": 8, "num_layers": 2, "num_heads": 4, "hidden_dim": 32},
    **{"mlp_dim": 48},
}
_IMAGES = given.image(64, name="x")

VISION = (
    _row("alexnet"),
    _row("vgg11_bn", 32, init_weights=False),
    _row("resnet18"),
    _row("resnext50_32x4d"),
    _row("DenseNet", growth_rate=8, block_config=(1, 1, 1, 1), num_init_features=16),
    _row("efficientnet_b0"),
    _row("googlenet", init_weights=False),
    _row("inception_v3", 96, init_weights=False),
    _row("mnasnet0_5"),
    _row("mobilenet_v2"),
    _row("mobilenet_v3_small"),
    _row("mobilenet_v3_large"),
    _row("regnet_x_400mf"),
    _row("regnet_y_400mf"),
    _row("shufflenet_v2_x0_5"),
    _row("squeezenet1_0"),
    _row("squeezenet1_1"),
    _row("MaxVit", **_MAXVIT),
    _row("VisionTransformer", 32, **_VIT),
    _row("SwinTransformer", 32, **_SWIN),
    Architecture("torchvision", "ConvNeXt", "vision", _convnext, _IMAGES, given.PLAIN),
    Architecture("torchvision", "SwinTransformer V2", "vision", _swin_v2, _IMAGES, given.PLAIN),
    _segments("fcn_resnet50"),
    _segments("deeplabv3_mobilenet_v3_large"),
    _segments("lraspp_mobilenet_v3_large"),
    _film("r3d_18"),
    _film("mc3_18"),
    _film("r2plus1d_18"),
    _film("swin_transformer.SwinTransformer3d", **_SWIN_3D),
    Architecture("torchvision", "MViT", "vision", _mvit, given.film(4, 32, name="x"), given.PLAIN),
)
