"""Custom operators for tests, in torch: namespace `aot_test`, defined once in a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import aot_runtime
import torch

LIBRARY = torch.library.Library("aot_test", "FRAGMENT")
"""Keeps the definitions alive."""


@contextmanager
def registered(
    operators: Mapping[str, Callable[..., Any]], device: str | None = None
) -> Iterator[None]:
    """A context in which the loader has this code for a kind of device."""
    for name, function in operators.items():
        aot_runtime.register_operator(name, function, device)
    yield
    for name in operators:
        aot_runtime.unregister_operator(name, device)


LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.define("twice.scalar(Tensor x, Scalar k) -> Tensor")
LIBRARY.define(
    "every(Tensor x, Tensor[] xs, Tensor? bias, SymInt n, int[] axes=[0], *, float w=1.5, "
    'str mode="plain", bool[] flags=[True, False], ScalarType dtype=float) -> (Tensor, Tensor)'
)
LIBRARY.define("change(Tensor(a!) x) -> ()")
LIBRARY.define("swap(Tensor(a!) x, Tensor(b!)? y, Tensor z, *, float k=2) -> Tensor")
LIBRARY.define("change_all(Tensor(a!)[] xs, int k) -> ()")
LIBRARY.define("some(Tensor x) -> Tensor")
LIBRARY.define("count(Tensor x) -> (Tensor, int)")


@torch.library.impl(LIBRARY, "twice", "CompositeExplicitAutograd")
def twice(x: torch.Tensor) -> torch.Tensor:
    """2 x."""
    return x * 2


@torch.library.impl(LIBRARY, "twice.scalar", "CompositeExplicitAutograd")
def twice_scalar(x: torch.Tensor, k: float) -> torch.Tensor:
    """2 k x."""
    return x * (2 * k)


@torch.library.impl(LIBRARY, "every", "CompositeExplicitAutograd")
def every(
    x: torch.Tensor,
    xs: list[torch.Tensor],
    bias: torch.Tensor | None,
    n: int,
    axes: tuple[int, ...] = (0,),
    *,
    w: float = 1.5,
    mode: str = "plain",
    flags: tuple[bool, ...] = (True, False),
    dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """w x + n, with the bias; and the sum of all rows of `xs`."""
    first = x * w + n
    return first if bias is None else first + bias, sum(t.sum(0) for t in xs)


@torch.library.impl(LIBRARY, "change", "CompositeExplicitAutograd")
def change(x: torch.Tensor) -> None:
    """x += 1."""
    x.add_(1)


@torch.library.impl(LIBRARY, "swap", "CompositeExplicitAutograd")
def swap(x: torch.Tensor, y: torch.Tensor | None, z: torch.Tensor, *, k: float = 2) -> torch.Tensor:
    """x += k z; y, where there is one, becomes z; gives the old x."""
    old = x.clone()
    x.add_(z * k)
    if y is not None:
        y.copy_(z)
    return old


@torch.library.impl(LIBRARY, "change_all", "CompositeExplicitAutograd")
def change_all(xs: list[torch.Tensor], k: int) -> None:
    """Each += k."""
    for x in xs:
        x.add_(k)


@torch.library.impl(LIBRARY, "some", "CPU")
def some(x: torch.Tensor) -> torch.Tensor:
    """The positive elements."""
    return x[x > 0]


@torch.library.register_fake("aot_test::some", lib=LIBRARY)
def _fake_some(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.impl(LIBRARY, "count", "CompositeExplicitAutograd")
def count(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """2 x, and a number."""
    return x * 2, 3
