"""What goes along rows, or down columns: normalisations, softmax, searches, sorts, copies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.shapes.case import ELEMENT_WORK, SHORT, Case, Numbers, Tensor
from tests.calls import Calls

Function = Callable[[Tensor], Any]


def _rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


REDUCED: dict[str, Callable[[int], Function]] = {
    "softmax": lambda dim: lambda x: x.softmax(dim),
    "log_softmax": lambda dim: lambda x: x.log_softmax(dim),
    "argmax": lambda dim: lambda x: x.argmax(dim),
    "max": lambda dim: lambda x: x.max(dim),
    "var": lambda dim: lambda x: x.var(dim),
    "std": lambda dim: lambda x: x.std(dim),
    "sum": lambda dim: lambda x: x.sum(dim),
    "mean": lambda dim: lambda x: x.mean(dim),
    "norm": lambda dim: lambda x: torch.linalg.vector_norm(x, dim=dim),
    "logsumexp": lambda dim: lambda x: x.logsumexp(dim),
    "cumsum": lambda dim: lambda x: x.cumsum(dim),
    "masked softmax": lambda dim: lambda x: x.masked_fill(x < -1, -1e4).softmax(dim),
}
"""Along rows or down columns."""

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layer_norm": nn.LayerNorm,
    "rms_norm": nn.RMSNorm,
    "batch_norm": nn.BatchNorm1d,
}
"""Of a width."""

SEARCHED = ("topk", "sort", "transposed copy", "rotary", "cross entropy", "norm chain")


def rows(d: Numbers) -> Case:
    """Short, middling or long rows."""
    kind = d.pick(*REDUCED, *NORMS, *SEARCHED, *SEARCHED)
    dtype = d.dtype()
    most = d.scale.elements // (8 if kind in ("topk", "sort") else 1)
    width = d.extent(*d.pick((4, 64), (64, 1024), (1024, 8192), (8192, most // 4)))
    if kind in NORMS or kind in ("norm chain", "transposed copy"):
        width = min(width, 16384)
    width += width % 2 if kind == "rotary" else 0
    count = min(max(d.extent(most // 16, most) // width, 1), most)
    if kind in REDUCED:
        dim = d.pick(-1, -1, 0)
        return _case(kind, dtype, (count, width), Calls(REDUCED[kind](dim)), f"dim {dim}")
    if kind in NORMS:
        norm = NORMS[kind]
        return Case(
            f"{kind} {SHORT[dtype]} {count}x{width}",
            dtype,
            ELEMENT_WORK * count * width,
            lambda: (norm(width), (torch.randn(count, width),)),
            (("rows", ""),),
        )
    return OTHERS[kind](d, dtype, count, width)


def _case(
    kind: str,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    module: nn.Module,
    more: str = "",
    least: int = 2,
) -> Case:
    sizes = "x".join(str(s) for s in shape)
    text = f"{kind} {SHORT[dtype]} {sizes} {more}".strip()
    return Case(
        text,
        dtype,
        ELEMENT_WORK * math.prod(shape),
        lambda: (module, (torch.randn(shape),)),
        (("parts", "rows", "width")[-len(shape) :],),
        {"width": least},
    )


def _topk(d: Numbers, dtype: torch.dtype, count: int, width: int) -> Case:
    k = min(d.pick(1, 4, 8, 50), width)
    topk = Calls(lambda x: x.topk(k).values)
    return _case("topk", dtype, (count, width), topk, f"k {k}", max(k, 2))


def _sort(d: Numbers, dtype: torch.dtype, count: int, width: int) -> Case:
    return _case("sort", dtype, (count, width), Calls(lambda x: x.sort(-1).values))


def _transposed_copy(d: Numbers, dtype: torch.dtype, count: int, width: int) -> Case:
    parts = d.pick(1, 1, 4, 16)
    shape = (parts, -(-count // parts), width)
    return _case(
        "transposed copy", dtype, shape, Calls(lambda x: x.transpose(1, 2).contiguous() + 1)
    )


def _rotated(d: Numbers, dtype: torch.dtype, count: int, width: int) -> Case:
    head = d.pick(32, 64, 80, 128, 256)
    heads = d.pick(1, 4, 8, 32)
    tokens = max(count * width // (head * heads), 1)

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        angles = torch.rand(tokens, head) * 6
        return Calls(_rotary), (torch.randn(heads, tokens, head), angles.cos(), angles.sin())

    text = f"rotary {SHORT[dtype]} {heads}x{tokens}x{head}"
    free = (("", "tokens", ""), ("tokens", ""), ("tokens", ""))
    return Case(text, dtype, ELEMENT_WORK * heads * tokens * head, make, free)


def _cross_entropy(d: Numbers, dtype: torch.dtype, count: int, width: int) -> Case:
    return Case(
        f"cross entropy {SHORT[dtype]} {count}x{width}",
        dtype,
        ELEMENT_WORK * count * width,
        lambda: (
            Calls(F.cross_entropy),
            (torch.randn(count, width), torch.randint(width, (count,))),
        ),
        (("rows", ""), ("rows",)),
    )


class _NormChain(nn.Module):
    """A sum, its norm, and an activation: what stands between two products."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The sum and the activation."""
        total = x + y
        return total, F.gelu(self.norm(total))


def _norm_chain(d: Numbers, dtype: torch.dtype, count: int, width: int) -> Case:
    return Case(
        f"norm chain {SHORT[dtype]} {count}x{width}",
        dtype,
        ELEMENT_WORK * count * width,
        lambda: (_NormChain(width), (torch.randn(count, width), torch.randn(count, width))),
        (("rows", ""), ("rows", "")),
    )


OTHERS: dict[str, Callable[[Numbers, torch.dtype, int, int], Case]] = {
    "topk": _topk,
    "sort": _sort,
    "transposed copy": _transposed_copy,
    "rotary": _rotated,
    "cross entropy": _cross_entropy,
    "norm chain": _norm_chain,
}
