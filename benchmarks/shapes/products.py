"""Linear layers, blocks of them, and batched products of activations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.shapes.case import SHORT, Case, Numbers, Tensor
from tests.calls import Calls

Unary = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Unary | None] = {
    "": None,
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
}


class Forward(nn.Module):
    """x @ W with W of (inputs, outputs), as some models keep it; x may come transposed."""

    def __init__(self, k: int, n: int, transposed: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(k, n) * k**-0.5)
        self.transposed = transposed

    def forward(self, x: Tensor) -> Tensor:
        """The product."""
        return (x.t() if self.transposed else x) @ self.weight


class Dense(nn.Module):
    """A linear layer and what follows it."""

    def __init__(self, k: int, n: int, bias: bool, activation: Unary | None) -> None:
        super().__init__()
        self.linear = nn.Linear(k, n, bias=bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """The layer's result."""
        y: Tensor = self.linear(x)
        return y if self.activation is None else self.activation(y)


class Mlp(nn.Module):
    """Two layers; gated: SwiGLU."""

    def __init__(self, k: int, hidden: int, gated: bool) -> None:
        super().__init__()
        self.up = nn.Linear(k, hidden, bias=not gated)
        self.gate = nn.Linear(k, hidden, bias=False) if gated else None
        self.down = nn.Linear(hidden, k, bias=not gated)

    def forward(self, x: Tensor) -> Tensor:
        """The block's result."""
        hidden = F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x)
        result: Tensor = self.down(hidden)
        return result


def linear(d: Numbers) -> Case:
    """One layer or a block, with few, some or many rows."""
    kind = d.pick("linear", "linear", "linear", "forward", "transposed", "mlp", "swiglu")
    dtype, blocks = d.dtype(), {"mlp": 2, "swiglu": 3}.get(kind, 1)
    rows = d.pick((1, 16), (16, 64), (64, 512), (512, 4 * d.scale.extent))
    sizes = (d.extent(*rows), d.extent(16, d.scale.extent), d.extent(16, d.scale.extent))
    m, k, n = d.fit(sizes, lambda m, k, n: 2.0 * blocks * m * k * n, d.work(dtype))
    m, k, n = d.fit((m, k, n), lambda m, k, n: max(m * k, k * n, m * n), d.scale.elements * 4)
    activation, bias = d.pick(*ACTIVATIONS), d.chance(0.6)

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        x = torch.randn(m, k)
        if kind in ("mlp", "swiglu"):
            return Mlp(k, n, kind == "swiglu"), (x,)
        if kind == "linear":
            return Dense(k, n, bias, ACTIVATIONS[activation]), (x,)
        turned = kind == "transposed"
        return Forward(k, n, turned), (x.t().contiguous() if turned else x,)

    words = [kind, SHORT[dtype], f"{m}x{k}x{n}"]
    if kind == "linear":
        words += ["bias"] * bias + [activation] * bool(activation)
    free = (("", "rows") if kind == "transposed" else ("rows", ""),)
    return Case(" ".join(words), dtype, 2.0 * blocks * m * k * n, make, free)


def batched(d: Numbers) -> Case:
    """A batch of products of two activations, either of which may be transposed."""
    dtype = d.dtype()
    high = d.scale.extent // 4
    sizes = (d.extent(2, 256), d.extent(1, high), d.extent(8, high), d.extent(1, high))
    b, m, k, n = d.fit(sizes, lambda b, m, k, n: 2.0 * b * m * k * n, d.work(dtype))
    b, m, k, n = d.fit(
        (b, m, k, n), lambda b, m, k, n: b * max(m * k, k * n, m * n), d.scale.elements
    )
    turned, added = (d.chance(0.4), d.chance(0.4)), d.chance(0.25)

    def function(x: Tensor, y: Tensor, *addend: Tensor) -> Tensor:
        x = x.transpose(1, 2) if turned[0] else x
        y = y.transpose(1, 2) if turned[1] else y
        return torch.baddbmm(*addend, x, y) if addend else x @ y

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        x = torch.randn(b, k, m) if turned[0] else torch.randn(b, m, k)
        y = torch.randn(b, n, k) if turned[1] else torch.randn(b, k, n)
        return Calls(function), (x, y, torch.randn(b, m, n))[: 2 + added]

    letters = "".join("T" if t else "N" for t in turned)
    text = f"{'baddbmm' if added else 'bmm'} {letters} {SHORT[dtype]} {b}x{m}x{k}x{n}"
    x = ("batch", "k", "m") if turned[0] else ("batch", "m", "k")
    y = ("batch", "n", "k") if turned[1] else ("batch", "k", "n")
    free = (x, y, ("batch", "m", "n"))[: 2 + added]
    return Case(text, dtype, 2.0 * b * m * k * n, make, free)
