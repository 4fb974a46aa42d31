"""What the lowering of convolutions promises the later stages."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F
from torch.testing import assert_close

from aot.frontend.capture import capture_module
from aot.ir.printer import print_loops
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


class OfEachImage(torch.nn.Module):
    """A filter for each image, or each channel: as many groups as a run has of them."""

    def __init__(self, transposed: bool, channels: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 4, 3, 3))
        self.bias = torch.nn.Parameter(torch.randn(6))
        self.transposed, self.channels = transposed, channels

    def forward(self, x: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """The images, each convolved by its own."""
        images, depth, height, width = x.shape
        joined = x.reshape(1, images * depth, height, width)
        if self.channels:
            own = share.reshape(-1, 1, 1, 1).expand(-1, 1, 3, 3)
            return F.conv2d(joined, own, stride=(2, 1), groups=images * depth)
        own = self.weight * share[:, None, :, None, None]
        if self.transposed:
            own = own.transpose(1, 2).flatten(0, 1)
            out = F.conv_transpose2d(joined, own, self.bias.repeat(images), 2, 1, groups=images)
        else:
            bias = self.bias.repeat(images)
            out = F.conv2d(joined, own.flatten(0, 1), bias, padding=1, groups=images, dilation=2)
        return out.reshape(images, 6, *out.shape[2:])


@pytest.mark.parametrize(("transposed", "channels"), [(False, False), (True, False), (False, True)])
def test_as_many_groups_as_there_are_images(transposed: bool, channels: bool) -> None:
    generator = torch.Generator().manual_seed(seeded(7))
    model = OfEachImage(transposed, channels)

    def inputs(images: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(images, 4, side, side + 1, generator=generator)
        return x, torch.randn(images, 4, generator=generator)

    size = Dim.DYNAMIC
    spec = ({0: Dim("images"), 2: size, 3: size}, {0: Dim("images")})
    captured = capture_module(model, inputs(2, 9), dynamic_shapes=spec)
    for given in (inputs(2, 9), inputs(1, 7), inputs(5, 12)):
        found = torch.from_numpy(interpret_lowered(captured, given)[0])
        assert_close(found, model(*given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
def test_what_a_group_has_of_open_ones_is_a_number(transposed: bool) -> None:
    """With a quotient by the number of groups, launches say less than kernels declare."""
    size = Dim.DYNAMIC
    graph = lowered(
        OfEachImage(transposed, channels=False),
        *(torch.ones(2, 4, 9, 10), torch.ones(2, 4)),
        dynamic_shapes=({0: Dim("images"), 2: size, 3: size}, {0: Dim("images")}),
    )
    assert "// s" not in print_loops(graph)
