"""Convolutions in 1 to 3 dimensions, of every kind that networks have."""

from __future__ import annotations

import math

import torch
from torch import nn

from benchmarks.shapes.case import ELEMENT_WORK, SHORT, Case, Numbers, Tensor

LAYERS = {
    1: (nn.Conv1d, nn.ConvTranspose1d),
    2: (nn.Conv2d, nn.ConvTranspose2d),
    3: (nn.Conv3d, nn.ConvTranspose3d),
}
LAST = {2: torch.channels_last, 3: torch.channels_last_3d}
KINDS = ("dense", "dense", "pointwise", "first", "depthwise", "grouped", "transposed")
SIDES = {1: (64, 8192), 2: (7, 224), 3: (7, 32)}
"""The least and greatest extent of the data, by its dimensions."""

PLACES = 8
"""Of data at least, where its extents vary."""


def convolution(d: Numbers) -> Case:
    """One layer, its data with channels first or last."""
    kind, dims, dtype = d.pick(*KINDS), d.pick(1, 2, 2, 2, 2, 3), d.dtype()
    kernel, stride, dilation, padding = _window(d, kind, dims)
    inputs, outputs, groups = _channels(d, kind)
    side, images = d.extent(*SIDES[dims]), d.pick(1, 1, 2, 4, 8)
    taps = kernel**dims

    def work(images: int, side: int) -> float:
        places = images * (side if kind == "transposed" else max(side // stride, 1)) ** dims
        return 2.0 * places * taps * inputs * outputs / groups

    def elements(images: int, side: int) -> float:
        grown = stride**dims if kind == "transposed" else 1
        return float(images * side**dims * max(inputs, outputs * grown))

    images, side = d.fit((images, side), work, d.work(dtype))
    images, side = d.fit((images, side), elements, d.scale.elements * 2)
    side = max(side, dilation * (kernel - 1) + 1 - 2 * padding)
    last, bias = dims > 1 and d.chance(0.5), d.chance(0.6)

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        layer = LAYERS[dims][kind == "transposed"]
        module = layer(
            inputs,
            outputs,
            kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )
        x = torch.randn(images, inputs, *[side] * dims)
        if last:
            module, x = module.to(memory_format=LAST[dims]), x.to(memory_format=LAST[dims])
        return module, (x,)

    text = (
        f"conv{dims}d {kind} {SHORT[dtype]} {images}x{inputs}x{'x'.join([str(side)] * dims)} to "
        f"{outputs} kernel {kernel} stride {stride} dilation {dilation} padding {padding} "
        f"groups {groups}{' bias' * bias}{' channels last' * last}"
    )
    free = (("images", "", *[f"side{k}" for k in range(dims)]),)
    reach = max(dilation * (kernel - 1) + 1 + stride, PLACES)
    return Case(
        text,
        dtype,
        work(images, side) + ELEMENT_WORK * elements(images, side),
        make,
        free,
        {f"side{k}": reach for k in range(dims)},
    )


def _window(d: Numbers, kind: str, dims: int) -> tuple[int, int, int, int]:
    """Kernel, stride, dilation, padding."""
    if kind == "pointwise":
        return 1, d.pick(1, 1, 1, 2), 1, 0
    if kind == "transposed":
        stride = d.pick(1, 2, 2, 3)
        kernel = stride * d.pick(1, 2) if stride > 1 else d.pick(3, 4)
        return kernel, stride, 1, (kernel - stride) // 2
    if kind == "first":
        kernel = d.pick(3, 3, 4, 5, 7, 16) if dims < 3 else d.pick(3, 5)
        stride = kernel if kernel in (4, 16) else d.pick(1, 2, 2)
        return kernel, stride, 1, 0 if kernel in (4, 16) else kernel // 2
    kernel = d.pick(3, 3, 3, 5, 7) if dims < 3 else 3
    dilation = d.pick(1, 1, 1, 2)
    return kernel, d.pick(1, 1, 2), dilation, dilation * (kernel // 2)


def _channels(d: Numbers, kind: str) -> tuple[int, int, int]:
    """Inputs, outputs, groups."""
    if kind == "first":
        return d.whole(1, 4), d.extent(8, 96), 1
    if kind == "depthwise":
        channels = d.extent(8, 768)
        return channels, channels, channels
    inputs, outputs = d.extent(8, 512), d.extent(8, 512)
    if kind == "grouped":
        groups = d.pick(2, 4, 8, 32)
        return groups * math.ceil(inputs / groups), groups * math.ceil(outputs / groups), groups
    return inputs, outputs, 1
