"""Triton kernels of users for tests, and models that launch them; expected results in torch."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.export import Dim
from torch.library import triton_op, wrap_triton
from triton.language import exp as power_of_e
from triton.language.extra import libdevice

from tests.settings import seeded

LIMIT = tl.constexpr(3.0)
SHIFTS = tl.constexpr((1, 2))


@triton.jit
def _clip(x, most: tl.constexpr):
    return tl.minimum(tl.maximum(x, -most), most)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x + y."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + y, mask=at < n)


@triton_op("aot_test_triton::add", mutates_args={})
def add(x: Tensor, y: Tensor) -> Tensor:
    """x + y of equal contiguous tensors."""
    out = torch.empty_like(x)
    n = out.numel()
    wrap_triton(add_kernel)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, 64)
    return out


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 32}, num_warps=2, num_stages=1),
        triton.Config({"BLOCK": 128}, num_warps=4),
    ],
    key=["n"],
)
@triton.jit
def scaled_kernel(
    x_ptr,
    bias_ptr,
    out_ptr,
    n,
    step,
    factor,
    clips,
    BLOCK: tl.constexpr,
    KIND: tl.constexpr = "exp",
):
    """out = factor * f(x[:: step]) + bias, where `clips` says so within LIMIT."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at * step, mask=at < n, other=0).to(tl.float32)
    y = power_of_e(x) if KIND == "exp" else libdevice.tanh(x) * SHIFTS[1]
    y = y * factor
    if bias_ptr is not None:
        y += tl.load(bias_ptr + at, mask=at < n, other=0)
    y = tl.where(clips, _clip(y, LIMIT), y)
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=at < n)


def scaled(x: Tensor, bias: Tensor | None, step: int, clips: bool, kind: str) -> Tensor:
    """What `scaled_kernel` computes; an operator or part of a model."""
    n = x.numel() // step
    out = torch.empty(n, dtype=x.dtype, device=x.device)
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)  # noqa: E731  as users write it
    wrap_triton(scaled_kernel)[grid](x, bias, out, n, step, 0.7, clips, KIND=kind)
    return out


@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """x *= 2."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


@triton_op("aot_test_triton::double", mutates_args={"x"})
def double(x: Tensor) -> None:
    """x *= 2, in place."""
    wrap_triton(double_kernel)[(triton.cdiv(x.numel(), 64),)](x, x.numel(), BLOCK=64, num_warps=1)


@triton.jit
def product_kernel(
    a_ptr, b_ptr, out_ptr, sums_ptr, M, N, K, sam, sak, sbk, sbn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """out = a b, and the sums of its rows' tiles."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        depth = k + tl.arange(0, BK)
        a = tl.load(
            a_ptr + rows[:, None] * sam + depth[None, :] * sak,
            mask=(rows[:, None] < M) & (depth[None, :] < K),
            other=0,
        )
        b = tl.load(
            b_ptr + depth[:, None] * sbk + columns[None, :] * sbn,
            mask=(depth[:, None] < K) & (columns[None, :] < N),
            other=0,
        )
        total = tl.dot(a, b, total, input_precision="ieee")
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(
        out_ptr + rows[:, None] * N + columns[None, :],
        total.to(a_ptr.dtype.element_ty),
        mask=inside,
    )
    wide = tl.num_programs(1)
    tl.store(sums_ptr + rows * wide + tl.program_id(1), tl.sum(total, 1), mask=rows < M)


@triton_op("aot_test_triton::product", mutates_args={})
def product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """a b, and the sums of its rows in pieces of 32 columns."""
    (m, k), (_, n) = a.shape, b.shape
    out = torch.empty(m, n, dtype=a.dtype, device=a.device)
    sums = torch.empty(m, triton.cdiv(n, 32), device=a.device)
    wrap_triton(product_kernel)[(triton.cdiv(m, 16), triton.cdiv(n, 32))](
        a, b, out, sums, m, n, k, *a.stride(), *b.stride(), BM=16, BN=32, BK=16
    )  # fmt: skip
    return out, sums


class Case(NamedTuple):
    """A model, its inputs and what it is to give."""

    model: nn.Module
    inputs: tuple[Tensor, ...]
    expected: Any
    dynamic: Any = None


class _Of(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(24, 40, generator=_generator()).t())
        self.register_buffer("seen", torch.arange(100.0))

    def forward(self, *args: Tensor) -> Any:
        return self.function(self, *args)


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(seeded(3))


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=_generator())


def _changed_parts(m: Any, x: Tensor) -> Any:
    y = x + 1
    double(y)
    double(m.seen)
    return y * 3, m.seen + 0


def _chain(m: Any, x: Tensor) -> Any:
    y = add(torch.relu(x), x.sin())
    z = add(y, x)
    return z.sum(0), add(z * 2, y).cos()


def _chain_expected(m: Any, x: Tensor) -> Any:
    y = x.relu() + x.sin()
    return (y + x).sum(0), (3 * y + 2 * x).cos()


def _branches(m: Any, x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t: add(t, t), lambda t: t.cos(), (x,))


def _clipped(x: Tensor) -> Tensor:
    return x.clamp(-3.0, 3.0)


def _products(m: Any, a: Tensor) -> Any:
    out, sums = product(a, m.weight)
    again, _ = product(out.t(), a)
    return out, sums.sum(1), again


def _products_expected(m: Any, a: Tensor) -> Any:
    out = a @ m.weight
    return out, out.sum(1), out.t() @ a


N = Dim("n", min=0, max=10_000)


def cases() -> dict[str, Case]:
    """By name."""
    x = _random(7, 30)
    line = _random(100)
    return {
        "add": Case(_Of(lambda m, x, y: add(x, y)), (line, line.cos()), lambda m, x, y: x + y),
        "dynamic sizes": Case(
            _Of(_chain),
            (x,),
            lambda m, x: (
                (x.relu() + x.sin() + x).sum(0),
                (3 * (x.relu() + x.sin()) + 2 * x).cos(),
            ),
            ({0: N},),
        ),
        "one element": Case(
            _Of(lambda m, x, y: add(x, y)), (x[:1, :1], x[:1, :1]), lambda m, x, y: x + y
        ),
        "views": Case(
            _Of(lambda m, x, y: add(x.t().contiguous(), y[:, 2:].t().contiguous())),
            (x, _random(7, 32)),
            lambda m, x, y: x.t() + y[:, 2:].t(),
        ),
        "in place": Case(
            _Of(_changed_parts), (line,), lambda m, x: (6 * (x + 1), 2 * torch.arange(100.0))
        ),
        "changed input": Case(
            _Of(lambda m, x: (double(x), x.cos())[1]), (line.clone(),), lambda m, x: (2 * x).cos()
        ),
        "numbers and constants": Case(
            _Of(lambda m, x, b: scaled(x, b, 2, True, "exp")),
            (line, line[:50].clone()),
            lambda m, x, b: _clipped(0.7 * x[::2].exp() + b),
        ),
        "nothing in place of a tensor": Case(
            _Of(lambda m, x: scaled(x * 2, None, 1, False, "tanh") + 1),
            (line.bfloat16(),),
            lambda m, x: (1.4 * (2 * x).float().tanh()).bfloat16() + 1,
        ),
        "products": Case(_Of(_products), (_random(30, 40),), _products_expected),
        "branches": Case(
            _Of(_branches), (line,), lambda m, x: 2 * x if x.sum() > 0 else x.cos(), ({0: N},)
        ),
    }
