"""What the lowering of convolutions promises the later stages."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from aot.frontend.capture import capture_module
from aot.ir.templates import Conv
from tests.conformance.executors import interpret_lowered
from tests.lowering.lowered import lowered, only_template
from tests.settings import seeded


def test_convolution_attributes() -> None:
    conv = torch.nn.Conv2d(4, 6, 3, stride=(2, 1), padding=1, dilation=2, groups=2)
    call = only_template(lowered(conv, torch.ones(1, 4, 9, 9)), Conv)
    assert dict(call.attributes) == {
        "stride": (2, 1),
        "padding": (1, 1),
        "dilation": (2, 2),
        "groups": 2,
        "prepared": (),
    }


@pytest.mark.parametrize(
    "layer",
    [
        torch.nn.Conv2d(4, 6, 3, groups=2),
        torch.nn.Conv2d(4, 6, 3),
        torch.nn.ConvTranspose2d(4, 6, 2, stride=2),
    ],
)
def test_calls_say_where_channels_are_in_memory(layer: torch.nn.Module) -> None:
    x = torch.ones(1, 4, 9, 9)
    inner = x.contiguous(memory_format=torch.channels_last)
    assert only_template(lowered(layer, inner), Conv).last
    assert only_template(lowered(layer, x), Conv).last is None


@pytest.mark.parametrize(
    ("layer", "channels", "taps", "padding"),
    [
        (torch.nn.ConvTranspose1d(4, 6, 4, stride=2, padding=1), 12, 2, 1),
        (torch.nn.ConvTranspose1d(4, 6, 5, stride=3), 18, 2, 1),
        (torch.nn.ConvTranspose1d(4, 6, 2, stride=2), 12, 1, 0),
        (torch.nn.ConvTranspose1d(4, 6, 3, padding=1), 6, 3, 1),
        (torch.nn.ConvTranspose1d(4, 6, 3, stride=2, dilation=2, groups=2), 6, 3, 2),
        (torch.nn.ConvTranspose1d(4, 6, 3, stride=4, dilation=2), 12, 2, 1),
        (torch.nn.ConvTranspose1d(4, 6, 3, stride=2, dilation=3), 12, 4, 3),
    ],
)
def test_a_transposed_one_multiplies_no_zeros_between_inputs(
    layer: torch.nn.Module, channels: int, taps: int, padding: int
) -> None:
    call = only_template(lowered(layer, torch.ones(1, 4, 9)), Conv)
    attributes = dict(call.attributes)
    assert (attributes["stride"], attributes["padding"]) == ((1,), (padding,))
    assert [int(a.extent) for a in call.w.axes] == [channels, 4 // layer.groups, taps]


class Each(torch.nn.Module):
    """The results of several layers of one input."""

    def __init__(self, layers: list[torch.nn.Module]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(x) for layer in self.layers)


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_transposed_ones_of_every_geometry(stride: int) -> None:
    generator = torch.Generator().manual_seed(seeded())
    x = torch.randn(2, 4, 5, generator=generator, dtype=torch.float64)
    numbers = product((1, 2, 3, 6), (1, 2, 4), (0, 1, 4), (0, 1))
    layers = [
        torch.nn.ConvTranspose1d(4, 6, kernel, stride, padding, extra, 2, dilation=dilation)
        for dilation, kernel, padding, extra in numbers
        if extra < max(stride, dilation) and 4 * stride + dilation * (kernel - 1) >= 2 * padding
    ]
    each = Each(layers).double()
    with torch.no_grad():
        found = interpret_lowered(capture_module(each, (x,)), (x,))
        for layer, ours, right in zip(layers, found, each(x), strict=True):
            assert torch.allclose(torch.from_numpy(ours), right, rtol=0, atol=1e-12), layer
