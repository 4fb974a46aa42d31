"""A family: one problem at any size n, and the tensors that it is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Tensor = torch.Tensor
Problem = tuple[Any, ...]
"""A function, then its arguments."""

STEP = 4
"""From one size to the next."""

SIZES = 4
"""Of a family, the largest last."""

DEVICE_TIMES = 16
"""How much larger a GPU's largest size is than that of one CPU thread."""


@dataclass
class Draw:
    """Makes a problem's inputs: the same ones again for the same seed and device."""

    device: str = "cpu"
    seed: int = 0
    _generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._generator = torch.Generator(self.device).manual_seed(self.seed)

    def floats(self, *shape: int, low: float = -1.0, high: float = 1.0) -> Tensor:
        """Uniform float32 in [low, high)."""
        unit = torch.rand(shape, generator=self._generator, device=self.device)
        return unit.mul_(high - low).add_(low)

    def places(self, high: int, *shape: int) -> Tensor:
        """Uniform int64 in [0, high): positions, some of them several times."""
        return torch.randint(high, shape, generator=self._generator, device=self.device)

    def order(self, n: int) -> Tensor:
        """The numbers below n, each once, in a random order."""
        return torch.randperm(n, generator=self._generator, device=self.device)

    def rising(self, *shape: int) -> Tensor:
        """Uniform float32, sorted along the last dimension."""
        return self.floats(*shape).sort(-1).values

    def bags(self, count: int, total: int) -> Tensor:
        """Starts of `count` segments of `total` elements, the first of them 0."""
        starts = self.places(total, count).sort().values
        starts[:1] = 0
        return starts

    def like(self, values: Tensor, shape: Sequence[int]) -> Tensor:
        """A tensor of a shape, its elements drawn from those of another."""
        at = self.places(max(values.numel(), 1), math.prod(shape))
        return values.to(self.device).reshape(-1)[at].reshape(tuple(shape))


class Blank(Draw):
    """Inputs of the same shapes and types whose values nobody reads: to package and to count."""

    def floats(self, *shape: int, low: float = -1.0, high: float = 1.0) -> Tensor:
        """Memory that is never touched."""
        return torch.empty(shape, device=self.device)

    def places(self, high: int, *shape: int) -> Tensor:
        """Memory that is never touched."""
        return torch.empty(shape, dtype=torch.int64, device=self.device)

    def order(self, n: int) -> Tensor:
        """Memory that is never touched."""
        return self.places(n, n)

    def rising(self, *shape: int) -> Tensor:
        """Memory that is never touched."""
        return self.floats(*shape)

    def bags(self, count: int, total: int) -> Tensor:
        """Memory that is never touched."""
        return self.places(total, count)

    def like(self, values: Tensor, shape: Sequence[int]) -> Tensor:
        """Memory that is never touched."""
        return torch.empty(tuple(shape), dtype=values.dtype, device=self.device)


@dataclass(frozen=True)
class Family:
    """A problem by its size.

    Attributes:
        name: Unique.
        problem: The function and its arguments at size n.
        top: The largest n of one CPU thread.
        least: The n at which counting work begins.
        work: The exponent of an algorithm as good as eager's, beside n; None: that of the bytes
            of inputs and outputs.
        device_times: How much larger n is on a GPU.
        last_wins: Places are written several times. Which write stays is the last one's on a CPU
            with one thread, and ours everywhere; on a GPU eager leaves it open.
    """

    name: str
    problem: Callable[[int, Draw], Problem]
    top: int = 2**22
    least: int = 2**14
    work: float | None = None
    device_times: int = DEVICE_TIMES
    last_wins: bool = False

    def sizes(self, device: str) -> tuple[int, ...]:
        """What is timed on a device, rising."""
        top = self.top * (1 if device == "cpu" else self.device_times)
        sizes = (top // STEP**k for k in reversed(range(SIZES)))
        return tuple(dict.fromkeys(max(n, 1) for n in sizes))


def table(problems: dict[str, Callable[[int, Draw], Problem]], **settings: Any) -> list[Family]:
    """Families of the same settings."""
    return [Family(name, problem, **settings) for name, problem in problems.items()]
