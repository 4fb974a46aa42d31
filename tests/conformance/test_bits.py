"""What docs/numerics.md says is equal to eager bit for bit: comparisons of values do not see it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import EXECUTORS

BITS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}
"""A type of floats -> whole numbers of its size."""

Results = tuple[torch.Tensor, ...]


def odd_values(dtype: torch.dtype) -> torch.Tensor:
    """Zeros of both signs, infinities, NaN of both signs with payloads, subnormals, others."""
    info, whole = torch.finfo(dtype), BITS[dtype]
    infinite = torch.tensor([torch.inf, -torch.inf], dtype=dtype).view(whole)
    quiet = torch.tensor(torch.nan, dtype=dtype).view(whole)
    payloads = torch.stack((quiet + 3, quiet | torch.iinfo(whole).min, *infinite)).view(dtype)
    small = torch.tensor([info.smallest_normal, -info.smallest_normal], dtype=dtype)
    below = torch.tensor([1, 5, 77], dtype=whole).view(dtype)
    plain = torch.tensor([0.0, -0.0, 1.5, -2.25, info.max, info.min], dtype=dtype)
    return torch.cat((plain, payloads, small, small / 2, below, -below))


def moves(x: torch.Tensor, at: torch.Tensor, where: torch.Tensor) -> Results:
    """Joins, gathers, selections, turned and reversed copies, writes."""
    table = x[:18].reshape(3, 6)
    return (
        torch.cat((x, x[3:])),
        x[at],
        x.flip(0),
        x.roll(5),
        table.t().contiguous(),
        table.gather(1, at[:3, None].expand(3, 4) % 6),
        torch.where(where, x, x.flip(0)),
        x.masked_fill(where, -0.0),
        torch.zeros_like(x).scatter(0, at, x),
        torch.nn.functional.pad(x, (2, 1), value=-0.0),
        x.repeat(2),
    )


def arithmetic(x: torch.Tensor, y: torch.Tensor) -> Results:
    """What is rounded once, or not at all."""
    return x + y, x - y, x * y, x / y, -x, x.abs(), x * 0.5 + y


def differing(function: Callable[..., Results], args: Results, executor: str) -> list[int]:
    """The results that are not eager's to the bit."""
    found = EXECUTORS[executor](capture_module(Calls(function), args), args)
    eager = function(*args)
    assert len(found) == len(eager)
    return [k for k, (a, e) in enumerate(zip(found, eager, strict=True)) if not _same_bits(a, e)]


def _same_bits(found: np.ndarray, eager: torch.Tensor) -> bool:
    """Any NaN of bfloat16 is one: it is widened where it is read, and eager's moves change it."""
    whole, wanted = BITS[eager.dtype], eager.contiguous()
    own = np.ascontiguousarray(found).view(f"i{found.dtype.itemsize}")
    same = own == wanted.view(whole).numpy()
    if eager.dtype == torch.bfloat16:
        same |= np.isnan(found.astype(np.float32)) & wanted.isnan().numpy()
    return bool(same.all())


@pytest.mark.parametrize("dtype", BITS, ids=lambda d: str(d).removeprefix("torch."))
def test_moves_keep_all_bits(dtype: torch.dtype, executor: str) -> None:
    x = odd_values(dtype)
    draws = torch.Generator().manual_seed(3)
    at = torch.randperm(len(x), generator=draws)
    assert not differing(moves, (x, at, at % 2 == 0), executor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_plain_arithmetic_is_rounded_as_eager_rounds(dtype: torch.dtype, executor: str) -> None:
    x = odd_values(dtype)
    x = x[x.isfinite()]
    draws = torch.Generator().manual_seed(4)
    plain = torch.randn(40, dtype=dtype, generator=draws)
    x = torch.cat((x, plain, plain * torch.finfo(dtype).smallest_normal))
    y = x.roll(11)
    y = torch.where(y == 0, torch.ones_like(y), y)  # The sign of NaN is nobody's.
    assert not differing(arithmetic, (x, y), executor)
    captured = capture_module(Calls(torch.sqrt), (x.abs(),))
    # Eager's own vectors of float32 are off by an ulp for a tenth of them.
    (roots,) = EXECUTORS[executor](captured, (x.abs(),))
    np.testing.assert_array_equal(roots, np.sqrt(x.abs().numpy()))


def with_constants(x: torch.Tensor) -> Results:
    """Operations that look as if they did nothing, and are not nothing for zeros of a sign."""
    zero = torch.zeros((), dtype=x.dtype)
    return (
        *(x + 0, x + 0.0, x - 0.0, x + -0.0, 0.0 - x, x * 1.0, x * -1.0, x / 1.0, x * 0.0),
        *(x + zero, x - zero, torch.add(x, x, alpha=0), x.clamp(min=-1.0), torch.sign(x)),
        *(x.round(), x.trunc(), x.ceil(), x.floor(), x.neg()),
        *(torch.copysign(x, x.flip(0)), x.pow(1), x.pow(3)),
        *(x.fmod(1.0), x.remainder(1.0), torch.hypot(x, zero), torch.lerp(x, x, 0.0)),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_zeros_keep_their_signs(dtype: torch.dtype, executor: str) -> None:
    x = torch.tensor([0.0, -0.0, -0.25, 0.25, -1.0, 2.5, -2.5, 0.0, -0.0], dtype=dtype)
    assert not differing(with_constants, (x,), executor)
