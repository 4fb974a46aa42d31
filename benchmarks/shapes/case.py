"""A case of the sweep: one problem of a random shape; and how its numbers are drawn."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import nn
from torch.export import Dim

Tensor = torch.Tensor
Choice = TypeVar("Choice")

SHORT = {
    torch.float32: "float32",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.float64: "float64",
}
"""Types by their names in a case's text."""


@dataclass(frozen=True)
class Scale:
    """How large the problems of a device are.

    Attributes:
        work: The most multiplications and additions of a case, for types that are computed in
            at most 4 bytes.
        elements: The most elements of a tensor.
        extent: The greatest extent of a matrix.
        least: Of the same, below which a case is drawn again: it would be a call's own time.
        types: Float types, each as often as it stands here.
    """

    work: float
    least: float
    elements: int
    extent: int
    types: tuple[torch.dtype, ...]


ELEMENT_WORK = 16.0
"""Operations that touching an element counts as."""

SCALES = {
    "cpu": Scale(
        2e9,
        5e6,
        1 << 22,
        4096,
        (*[torch.float32] * 4, *[torch.bfloat16] * 3, torch.float16, torch.float64),
    ),
    "cuda": Scale(
        4e11,
        1e9,
        1 << 26,
        16384,
        (*[torch.float32] * 3, *[torch.bfloat16] * 4, *[torch.float16] * 2, torch.float64),
    ),
    "tests": Scale(
        1e6, 1e4, 1 << 13, 256, (torch.float32, torch.bfloat16, torch.float16, torch.float64)
    ),
}
"""A case takes eager 50 µs to 100 ms, on one CPU thread and on a GPU; the tests' ones less."""


@dataclass(frozen=True)
class Case:
    """One problem.

    Attributes:
        text: Its kind, type and shapes, for people.
        dtype: The type of its floats.
        work: About how many multiplications and additions it takes; elements count as several.
        free: Which dimensions of each input may vary, by a name that inputs share: (("rows", ""),)
            are the first of the one there is. Empty: of none.
        least: What an extent of a name must be at least, if more than 2.
        make: A module and its inputs in float32 on torch's default device, from torch's default
            generator. Both are converted to `dtype`; what is not of floats stays.
    """

    text: str
    dtype: torch.dtype
    work: float
    make: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]
    free: tuple[tuple[str, ...], ...] = ()
    least: Mapping[str, int] = field(default_factory=dict)

    def build(self, device: str, seed: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
        """The module and its inputs: the same ones again for the same seed and device."""
        torch.manual_seed(seed)
        with torch.device(device):
            module, inputs = self.make()
        return module.eval().to(self.dtype), tuple(convert(x, self.dtype) for x in inputs)

    def example(
        self, inputs: tuple[Tensor, ...], smaller: int
    ) -> tuple[tuple[Tensor, ...], tuple[dict[int, Dim], ...]]:
        """Inputs whose free extents are so many times smaller, and the dims of these, to package.

        Strides are in the order of the inputs'. What no dimension is free of stays as it is.
        """
        dims: dict[str, Dim] = {}
        examples: list[Tensor] = []
        shapes: list[dict[int, Dim]] = []
        for x, names in zip(inputs, self.free, strict=True):
            shapes.append({})
            for k, name in enumerate(names):
                if not name or x.shape[k] <= self._least(name):
                    continue
                dims.setdefault(name, Dim(name, min=self._least(name)))
                shapes[-1][k] = dims[name]
            sizes = [
                max(n // smaller, self._least(name)) if k in shapes[-1] else n
                for k, (n, name) in enumerate(zip(x.shape, names, strict=True))
            ]
            examples.append(x[tuple(slice(size) for size in sizes)].clone())
        return tuple(examples), tuple(shapes)

    def _least(self, name: str) -> int:
        return self.least.get(name, 2)


def convert(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Floats in another type, with the same strides."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


class Numbers:
    """Draws the numbers of a case: the same ones again for the same seed."""

    def __init__(self, seed: str, scale: Scale) -> None:
        self._random = random.Random(seed)
        self.scale = scale

    def pick(self, *choices: Choice) -> Choice:
        """One of them; what stands there twice comes twice as often."""
        return self._random.choice(choices)

    def chance(self, part: float) -> bool:
        """True in that part of all cases."""
        return self._random.random() < part

    def whole(self, low: int, high: int) -> int:
        """Uniform in [low, high]."""
        return self._random.randint(low, high)

    def extent(self, low: int, high: int) -> int:
        """Uniform in its logarithm; round numbers are as frequent as they are in models.

        A third are powers of two, a third multiples of 8 and a third whatever comes, half of which
        is odd.
        """
        value = math.exp(self._random.uniform(math.log(low), math.log(high)))
        kind = self.whole(0, 2)
        if kind == 0:
            value = 2 ** round(math.log2(value))
        elif kind == 1:
            value = 8 * round(value / 8)
        return min(max(round(value), low), high)

    def dtype(self) -> torch.dtype:
        """A float type."""
        return self.pick(*self.scale.types)

    def work(self, dtype: torch.dtype) -> float:
        """The most work of a case of a type."""
        return self.scale.work / (8 if dtype == torch.float64 else 1)

    def fit(self, extents: Sequence[int], work: Callable[..., float], most: float) -> list[int]:
        """The extents, the greatest of them halved until the work is not above `most`."""
        found = list(extents)
        while work(*found) > most:
            k = max(range(len(found)), key=found.__getitem__)
            if found[k] == 1:
                break
            found[k] = found[k] // 2 | (found[k] & 1)
        return found
