"""Random networks: layers with weights of their own, chained and branched, for what programs of
single operators do not reach: packed weights, fused epilogues, results that end where they are
read, tensors that are joined or cut between layers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

CHANNELS = (1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 32, 48, 64)
EXTENTS = (1, 2, 5, 7, 8, 9, 13, 14, 16, 20, 28, 31)
MOST_ELEMENTS = 1 << 17
"""Of one tensor: larger ones would make a network of many layers slow in float64."""

LEAST_LAYERS, MOST_LAYERS = 4, 14


class Call(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.function(*tensors)


class Network(nn.Module):
    """Layers in order; each reads earlier values by number, value 0 is the input."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        self.reads: list[tuple[int, ...]] = []
        self.results: tuple[int, ...] = ()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = [x]
        for layer, reads in zip(self.layers, self.reads, strict=True):
            values.append(layer(*(values[i] for i in reads)))
        return tuple(values[i] for i in self.results)


@dataclass(frozen=True)
class Case:
    """A network with an example; `dynamic` names the input's axis whose size varies, or None."""

    seed: int
    network: Network
    example: torch.Tensor
    dynamic: int | None

    def input(self, growth: int = 0) -> torch.Tensor:
        """An input whose dynamic axis is longer by `growth`."""
        shape = list(self.example.shape)
        if self.dynamic is not None:
            shape[self.dynamic] += growth
        generator = torch.Generator().manual_seed(self.seed * 1000 + growth)
        values = torch.randn(shape, generator=generator).to(self.example.dtype)
        if self.example.dim() == 4 and not self.example.is_contiguous():
            return values.contiguous(memory_format=torch.channels_last)
        return values


Draft = tuple[nn.Module, tuple[int, ...]]


class Builder:
    """Adds layers that accept what is there; keeps each value at the example's sizes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rank = self.random.choice((1, 2, 2, 2, 2, 3))
        self.dtype = self.random.choice((torch.float32,) * 4 + (torch.float64, torch.bfloat16))
        self.network = Network()
        self.values: list[torch.Tensor] = []

    def some(self) -> int:
        """One of the values, the last ones most often."""
        count = len(self.values)
        return count - 1 if self.random.random() < 0.6 else self.random.randrange(count)

    def spatial(self) -> int:
        """One of the values that are still maps; the last one that is, where none is drawn."""
        maps = [i for i, v in enumerate(self.values) if v.dim() == self.rank + 2]
        return maps[-1] if self.random.random() < 0.6 else self.random.choice(maps)

    def each(self, of: Callable[[], int]) -> tuple[int, ...]:
        """One number for each spatial axis: mostly the same."""
        if self.random.random() < 0.75:
            return (of(),) * self.rank
        return tuple(of() for _ in range(self.rank))

    def add(self, layer: nn.Module, reads: tuple[int, ...]) -> bool:
        """Adds a layer if eager accepts it and its result is of a reasonable size."""
        layer = layer.to(self.dtype).eval()
        try:
            with torch.no_grad():
                value = layer(*(self.values[i] for i in reads))
        except (RuntimeError, ValueError, IndexError):
            return False
        reasonable = 0 < value.numel() <= MOST_ELEMENTS and value.isfinite().all()
        if not reasonable or float(value.abs().max()) > 100:
            return False
        self.network.layers.append(layer)
        self.network.reads.append(reads)
        self.values.append(value)
        return True

    def convolution(self) -> Draft:
        r = self.random
        at = self.spatial()
        kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
        if turned := r.random() < 0.2:
            kinds = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
        channels = self.values[at].shape[1]
        groups = r.choice([1, 1, 1, channels, *(g for g in (2, 4) if channels % g == 0)])
        out = r.choice(CHANNELS) if groups == 1 else channels * r.choice((1, 1, 2))
        size = self.each(lambda: r.choice((1, 1, 2, 3, 3, 3, 4, 5, 7)))
        options: dict[str, object] = {
            "stride": self.each(lambda: r.choice((1, 1, 1, 2, 2, 3))),
            "padding": tuple(r.choice((0, k // 2, k - 1)) for k in size),
            "dilation": self.each(lambda: r.choice((1, 1, 1, 2))),
            "groups": groups,
            "bias": r.random() < 0.6,
        }
        if not turned and r.random() < 0.15:
            options["padding_mode"] = r.choice(("reflect", "replicate", "circular"))
        return kinds[self.rank - 1](channels, out, size, **options), (at,)

    def norm(self) -> Draft:
        at = self.spatial()
        channels = self.values[at].shape[1]
        batch = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[self.rank - 1](channels)
        with torch.no_grad():
            batch.running_mean.uniform_(-1, 1)  # type: ignore[union-attr]
            batch.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
            batch.weight.uniform_(0.5, 2)
        groups = self.random.choice([g for g in (1, 2, 3, 4, 8) if channels % g == 0])
        layers = Call(lambda x: functional.layer_norm(x.transpose(1, -1), x.shape[1:2]))
        return self.random.choice((batch, batch, nn.GroupNorm(groups, channels), layers)), (at,)

    def activation(self) -> Draft:
        kinds = (nn.ReLU, nn.ReLU, nn.GELU, nn.SiLU, nn.Hardswish, nn.Sigmoid, nn.ELU, nn.Mish)
        return self.random.choice(kinds)(), (self.some(),)

    def pooling(self) -> Draft:
        r, at = self.random, self.spatial()
        place = self.rank - 1
        size = r.choice((2, 3))
        most = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)[place](
            size, stride=r.choice((1, 2)), padding=r.choice((0, 1)), ceil_mode=r.random() < 0.3
        )
        mean = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)[place](
            size, r.choice((1, 2)), r.choice((0, 1)), count_include_pad=r.random() < 0.5
        )
        kinds = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
        return r.choice((most, mean, kinds[place](r.choice((1, 2, 3))))), (at,)

    def resizing(self) -> Draft:
        r, at = self.random, self.spatial()
        smooth = ("linear", "bilinear", "trilinear")[self.rank - 1]
        mode = r.choice(("nearest", "nearest-exact", smooth))
        options = {"align_corners": r.random() < 0.5} if mode == smooth else {}
        return nn.Upsample(scale_factor=r.choice((2, 2, 1.5)), mode=mode, **options), (at,)

    def cut(self) -> Draft:
        """Channels, or a window, or every other place."""
        r, at = self.random, self.some()
        shape = self.values[at].shape
        axis = r.randrange(1, len(shape))
        length = shape[axis]
        begin = r.randrange(max(1, length // 2))
        step = r.choice((1, 1, 1, 2))
        end = r.randrange(begin + 1, length + 1)
        keep = Call(lambda x: x[(slice(None),) * axis + (slice(begin, end, step),)])
        flip = Call(lambda x: x.flip(axis))
        roll = Call(lambda x: x.roll(begin, axis))
        return r.choice((keep, keep, keep, flip, roll)), (at,)

    def padding(self) -> Draft:
        r, at = self.random, self.spatial()
        amounts = [r.choice((0, 0, 1, 2, -1)) for _ in range(2 * self.rank)]
        mode = r.choice(("constant", "constant", "reflect", "replicate"))
        if mode != "constant":
            amounts = [max(0, a) for a in amounts]
        return Call(lambda x: functional.pad(x, amounts, mode=mode)), (at,)

    def joined(self) -> Draft:
        """Two values of the same shape added, or of the same sizes but one joined there."""
        r = self.random
        at = self.some()
        shape = self.values[at].shape

        def close(other: torch.Tensor) -> bool:
            return other.dim() == len(shape) and shape[2:] == other.shape[2:]

        others = [i for i, v in enumerate(self.values) if close(v)]
        other = r.choice(others)
        if self.values[other].shape == shape and r.random() < 0.6:
            how = r.choice((torch.add, torch.add, torch.mul, torch.maximum))
            return Call(how), (at, other)
        return Call(lambda *x: torch.cat(x, 1)), (at, other, *r.choice(((), (other,))))

    def scaled(self) -> Draft:
        """A gate of channels, as in squeeze and excitation."""
        at = self.spatial()
        channels = self.values[at].shape[1]
        gate = nn.Linear(channels, channels)

        class Gate(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.gate = gate

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                scale = self.gate(x.flatten(2).mean(2)).sigmoid()
                return x * scale.reshape(scale.shape + (1,) * (x.dim() - 2))

        return Gate(), (at,)

    def mixed(self) -> Draft:
        """Products over the last axis, attention over places, or a shuffle of channels."""
        r, at = self.random, self.some()
        value = self.values[at]

        def attention(x: torch.Tensor) -> torch.Tensor:
            rows = x.flatten(2).transpose(1, 2)
            mixed = functional.scaled_dot_product_attention(rows, rows, rows)
            return mixed.transpose(1, 2).reshape(x.shape)

        def shuffle(x: torch.Tensor) -> torch.Tensor:
            return x.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)

        linear = nn.Linear(value.shape[-1], r.choice(CHANNELS), bias=r.random() < 0.7)
        return r.choice((linear, Call(attention), Call(shuffle), nn.Softmax(1))), (at,)


def network_of(seed: int) -> Case:
    """The network of a seed, with its example."""
    torch.manual_seed(seed)
    build = Builder(seed)
    r = build.random
    extents = [r.choice(EXTENTS) for _ in range(build.rank)]
    while torch.Size(extents).numel() > 2048:
        extents[extents.index(max(extents))] //= 2
    shape = (r.choice((1, 1, 2, 3)), r.choice(CHANNELS), *extents)
    example = torch.randn(shape).to(build.dtype)
    if build.rank == 2 and r.random() < 0.4:
        example = example.contiguous(memory_format=torch.channels_last)
        if r.random() < 0.5:
            build.network.to(memory_format=torch.channels_last)
    build.values.append(example)
    kinds = (
        (build.convolution, 8),
        (build.norm, 3),
        (build.activation, 4),
        (build.pooling, 2),
        (build.resizing, 1),
        (build.cut, 2),
        (build.padding, 1),
        (build.joined, 4),
        (build.scaled, 1),
        (build.mixed, 1),
    )
    layers = r.randint(LEAST_LAYERS, MOST_LAYERS)
    for _ in range(10 * MOST_LAYERS):
        (draft,) = r.choices([k for k, _ in kinds], [w for _, w in kinds])
        layers -= build.add(*draft())
        if not layers:
            break
    used = {i for reads in build.network.reads for i in reads}
    ends = [i for i in range(1, len(build.values)) if i not in used]
    more = [i for i in range(1, len(build.values)) if i in used and r.random() < 0.1]
    build.network.results = tuple(sorted({*ends, *more}))
    dynamic = r.choice((None, None, None, 0, len(shape) - 1))
    return Case(seed, build.network, example, dynamic)
