"""Programs that loops of Python write out, for `benchmarks.packaging.growth`.

Each is as a user writes it, and is made with so many steps, taps or directions: what its author
thinks of as one line is hundreds of operations when it is captured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

Dims = tuple[dict[int, torch.export.Dim] | None, ...]


@dataclass(frozen=True)
class Case:
    """A model, inputs of it, and which of their dims are dynamic."""

    model: nn.Module
    inputs: tuple[torch.Tensor, ...]
    dims: Dims


def _image() -> dict[int, torch.export.Dim]:
    least, most = 16, 4096
    return {k: torch.export.Dim(name, min=least, max=most) for k, name in ((2, "h"), (3, "w"))}


def _batch(most: int = 64) -> dict[int, torch.export.Dim]:
    return {0: torch.export.Dim("b", min=1, max=most)}


class Bilateral(nn.Module):
    """A mean of so many neighbours, weighted by how near and how alike they are."""

    def __init__(self, taps: int) -> None:
        super().__init__()
        self.width = math.isqrt(taps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The filtered images."""
        height, width = x.shape[2:]
        half = self.width // 2
        padded = functional.pad(x, (half,) * 4, mode="replicate")
        total, weights = torch.zeros_like(x), torch.zeros_like(x[:, :1])
        for dy in range(self.width):
            for dx in range(self.width):
                near = padded[:, :, dy : dy + height, dx : dx + width]
                apart = ((near - x) ** 2).sum(1, keepdim=True)
                far = ((dy - half) ** 2 + (dx - half) ** 2) / 8
                weight = torch.exp(-apart / 0.1 - far)
                total, weights = total + weight * near, weights + weight
        return total / weights


class Canny(nn.Module):
    """Edges: gradients, thinned across their direction, then grown so many times."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.turns = turns
        across = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])[None, None]
        self.register_buffer("across", across)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Which pixels are edges, and how strong these are."""
        gray = (x * torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)
        gx = functional.conv2d(gray, self.across, padding=1)
        gy = functional.conv2d(gray, self.across.transpose(2, 3), padding=1)
        size = torch.hypot(gx, gy)
        turn = (torch.atan2(gy, gx) * (4 / math.pi)).round().remainder(4)
        padded = functional.pad(size, (1, 1, 1, 1))
        height, width = x.shape[2:]

        def at(dy: int, dx: int) -> torch.Tensor:
            return padded[:, :, 1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width]

        def along(sign: int) -> torch.Tensor:
            rest = torch.where(turn == 2, at(sign, 0), at(sign, -sign))
            rest = torch.where(turn == 1, at(sign, sign), rest)
            return torch.where(turn == 0, at(0, sign), rest)

        thin = torch.where((size >= along(1)) & (size >= along(-1)), size, torch.zeros_like(size))
        strong, weak = thin > 1.5, thin > 0.7
        for _ in range(self.turns):
            strong = (functional.max_pool2d(strong.float(), 3, 1, 1) > 0) & weak
        return strong, thin


class DeltaRule(nn.Module):
    """Linear attention of a gated delta rule: a state, read and corrected by each position."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, b: torch.Tensor
    ) -> torch.Tensor:
        """What each position reads."""
        state = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])
        found = []
        for t in range(self.steps):
            state = state * g[:, :, t, None, None].exp()
            known = (k[:, :, t, :, None] * state).sum(-2)
            change = (v[:, :, t] - known) * b[:, :, t, None]
            state = state + k[:, :, t, :, None] * change[..., None, :]
            found.append((q[:, :, t, :, None] * state).sum(-2))
        return torch.stack(found, 2)


class Kalman(nn.Module):
    """A filter of four states and two measurements a step."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        moves = torch.eye(4) + 0.1 * torch.diag(torch.ones(2), 2)
        self.register_buffer("moves", moves)
        self.register_buffer("sees", torch.eye(4)[:2])
        self.register_buffer("noise", 0.01 * torch.eye(4))
        self.register_buffer("error", 0.1 * torch.eye(2))

    def forward(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The estimates, and the last one's covariance."""
        x, p = z.new_zeros(z.shape[0], 4), torch.eye(4).expand(z.shape[0], 4, 4)
        found = []
        for t in range(self.steps):
            x, p = x @ self.moves.T, self.moves @ p @ self.moves.T + self.noise
            s = self.sees @ p @ self.sees.T + self.error
            gain = p @ self.sees.T @ torch.linalg.inv(s)
            x = x + (gain @ (z[:, t] - x @ self.sees.T).unsqueeze(-1)).squeeze(-1)
            p = p - gain @ self.sees @ p
            found.append(x)
        return torch.stack(found, 1), p


class Cells(nn.Module):
    """An LSTM's cell, called once a step."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps, self.cell = steps, nn.LSTMCell(16, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The hidden values of all steps."""
        h = c = x.new_zeros(x.shape[0], 32)
        found = []
        for t in range(self.steps):
            h, c = self.cell(x[:, t], (h, c))
            found.append(h)
        return torch.stack(found, 1)


def _moved(
    slope: Callable[[torch.Tensor], torch.Tensor], y: torch.Tensor, step: float
) -> torch.Tensor:
    """A step of Runge and Kutta's method."""
    first = slope(y)
    second = slope(y + step / 2 * first)
    third = slope(y + step / 2 * second)
    last = slope(y + step * third)
    return y + step / 6 * (first + 2 * second + 2 * third + last)


class Lorenz(nn.Module):
    """A system of three equations, followed by Runge and Kutta's method."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def slope(self, y: torch.Tensor) -> torch.Tensor:
        """The derivative by time."""
        a, b, c = y.unbind(-1)
        return torch.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c], -1)

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """Where each point is after each step."""
        found, step = [], 0.01
        for _ in range(self.steps):
            y = _moved(self.slope, y, step)
            found.append(y)
        return torch.stack(found, 1)


class Network(nn.Module):
    """An equation whose slope is a small network, followed by Runge and Kutta's method."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.slope = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8))

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """Where each point is in the end."""
        step = 1 / self.steps
        for _ in range(self.steps):
            y = _moved(self.slope, y, step)
        return y


def bilateral(taps: int) -> Case:
    """Images of three channels."""
    return Case(Bilateral(taps), (torch.rand(1, 3, 32, 32),), (_image(),))


def canny(turns: int) -> Case:
    """Images of three channels."""
    return Case(Canny(turns), (torch.rand(1, 3, 64, 64),), (_image(),))


def delta_rule(steps: int) -> Case:
    """Two heads of 16."""
    wide = tuple(torch.randn(2, 2, steps, 16) for _ in range(3))
    inputs = (*wide, -torch.rand(2, 2, steps), torch.rand(2, 2, steps))
    return Case(DeltaRule(steps), inputs, (_batch(),) * 5)


def kalman(steps: int) -> Case:
    """A batch of tracks."""
    return Case(Kalman(steps), (torch.randn(4, steps, 2),), (_batch(),))


def cells(steps: int) -> Case:
    """A batch of sequences."""
    return Case(Cells(steps), (torch.randn(4, steps, 16),), (_batch(),))


def lorenz(steps: int) -> Case:
    """A batch of points."""
    return Case(Lorenz(steps), (4 * torch.rand(16, 3),), (_batch(10000),))


def network(steps: int) -> Case:
    """A batch of points."""
    return Case(Network(steps), (torch.randn(16, 8),), (_batch(10000),))


CASES: Mapping[str, Callable[[int], Case]] = {
    made.__name__: made for made in (bilateral, canny, delta_rule, kalman, cells, lorenz, network)
}
