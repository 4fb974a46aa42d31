"""Small real packages, one for each kind of thing that a plan can hold, for the mutator to change.

`python -m tests.hostile.packages FOLDER [TARGET]` builds those that are not there yet.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch.export import Dim

from aot import api
from tests.calls import Calls


class Tagger(nn.Module):
    """A recurrent layer and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Any:
        steps, state = self.lstm(x)
        return self.head(steps), state


class Cache(nn.Module):
    """A decoder's step: writes one position of a cache of keys, then attends to all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 16, 8))
        self.project = nn.Linear(16, 16)

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        q = self.project(x).view(1, 1, 2, 8).transpose(1, 2)
        self.keys.index_copy_(2, position, q)
        return nn.functional.scaled_dot_product_attention(q, self.keys, self.keys)


class Attention(nn.Module):
    """Self-attention over a sequence of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x, x, x, need_weights=False)[0]
        return result


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def _conv() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4),
    )  # fmt: skip


def _resize(x: Tensor) -> Any:
    bilinear = nn.functional.interpolate(x, size=(9, 7), mode="bilinear", antialias=True)
    return bilinear, nn.functional.interpolate(x, scale_factor=2.0, mode="bicubic")


def _found(x: Tensor) -> Any:
    rows = torch.nonzero(x > 0).squeeze(1)
    return torch.sigmoid(x[rows] * 2), rows


def _branch(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.softmax(1) * 2, (x,))


def _while(x: Tensor, n: Tensor) -> Any:
    turns, step = n.clamp(max=20), x.tanh()

    def body(i: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, (z * 0.5 + step).flip(0)

    start = torch.zeros((), dtype=torch.int64)
    return torch.while_loop(lambda i, z: i < turns, body, (start, x))


def _scan(xs: Tensor, start: Tensor) -> Any:
    def step(carried: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        new = (carried + x).tanh()
        return new, new.sum(0)

    return *scan(step, start, xs), map_over(lambda x, w: x @ w.t(), xs, start)


def _checked(x: Tensor, n: Tensor) -> Any:
    torch._assert_async(x.abs().sum() >= 0, "a sum of magnitudes is not negative")
    count = n.item()
    torch._check(count >= 1)  # type: ignore[operator]
    torch._check(count <= 64)  # type: ignore[operator]
    return torch.arange(count, dtype=torch.float32) * x.sum()


def _changed(x: Tensor, y: Tensor) -> Any:
    x.mul_(2).add_(y)
    return x + 1


class _Batch(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Any:
        return self.inner(x)


class _Scan(nn.Module):
    def forward(self, xs: Tensor, start: Tensor) -> Any:
        return _scan(xs, start)


@dataclass(frozen=True)
class Case:
    """A model, its example inputs, and options of `aot.api.package`."""

    model: Callable[[], nn.Module]
    inputs: tuple[Tensor, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


def cases() -> dict[str, Case]:
    """Every package by name."""
    rows = {0: Dim("rows", min=1, max=64)}
    batch = {"dynamic_shapes": ({0: Dim("batch", max=64)},)}
    tokens = torch.tensor([[1, 2, 3, 4]])
    return {
        "mlp": Case(_mlp, (torch.randn(4, 8),)),
        "mlp_batch": Case(lambda: _Batch(_mlp()), (torch.randn(4, 8),), batch),
        "lstm": Case(Tagger, (torch.randn(1, 6, 8),)),
        "resize": Case(lambda: Calls(_resize), (torch.randn(1, 2, 6, 5),)),
        "nonzero": Case(lambda: Calls(_found), (torch.randn(12),)),
        "cond": Case(lambda: Calls(_branch), (torch.randn(3, 4),)),
        "while": Case(lambda: Calls(_while), (torch.randn(3, 4), torch.tensor(5))),
        "scan": Case(lambda: Calls(_scan), (torch.randn(5, 3, 4), torch.randn(3, 4))),
        "scan_rows": Case(
            _Scan,
            (torch.randn(5, 3, 4), torch.randn(3, 4)),
            {"dynamic_shapes": (rows, {})},
        ),
        "checked": Case(lambda: Calls(_checked), (torch.randn(3), torch.tensor(5))),
        "cache": Case(Cache, (torch.randn(1, 1, 16), torch.tensor([3]))),
        "changed": Case(lambda: Calls(_changed), (torch.randn(3, 4), torch.randn(3, 4))),
        "swappable": Case(_mlp, (torch.randn(4, 8),), {"swappable": True}),
        "embedding": Case(lambda: nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 4)), (tokens,)),
        "conv": Case(_conv, (torch.randn(2, 3, 8, 8),)),
        "attention": Case(
            Attention, (torch.randn(1, 6, 16),), {"dynamic_shapes": ({1: Dim("length", max=32)},)}
        ),
    }


def build(folder: Path, names: tuple[str, ...] = (), target: str = "cpu:x86-64-v3") -> list[Path]:
    """Builds the packages of these names, or all, that are not in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, case in cases().items():
        if names and name not in names:
            continue
        path = folder / f"{name}.pkg"
        if not path.exists():
            torch.manual_seed(0)
            api.package(
                case.model().eval(), case.inputs, path=path,
                targets=[target], golden=False, **case.options,
            )  # fmt: skip
        paths.append(path)
    return paths


if __name__ == "__main__":
    for made in build(Path(sys.argv[1]), (), *sys.argv[2:3]):
        print(made)
