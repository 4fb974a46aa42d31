"""Gradients of what is linear along each axis: means of windows and repeated edges.

Such an operator makes of a line a line of another length, axis by axis. So its gradient does: each
element of the input gets the sum of what the results that read it were given, times how much they
took of it. Sizes may be those of a run. Halves are summed in float32, as torch does.

Resizing is not here: without antialiasing torch makes gathers of it before it is differentiated,
and with it the gradient is an operator with a lowering, as that of `adaptive_avg_pool` is
(`lowering/resampling_back.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_aten: Any = torch.ops.aten

_NARROW = (torch.bfloat16, torch.float16)


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in _NARROW else x


def _across(values: Tensor, x: Tensor, axis: int) -> Tensor:
    """A vector, so shaped that it lies along an axis (counted from the end) of x."""
    return values.reshape(-1, *[1] * (-axis - 1)).to(x.dtype)


def _places(size: Any, x: Tensor) -> Tensor:
    return torch.arange(size, device=x.device)


def _of_windows(
    grad: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Tensor:
    """Of avg_pool: an element reads the windows that hold it, of which there are few."""
    rank = len(kernel_size)
    steps = tuple(stride) or tuple(kernel_size)
    given = _wide(grad)
    if divisor_override is not None:
        given = given / divisor_override
    for axis, (size, step, pad) in enumerate(
        zip(kernel_size, steps, padding, strict=True), start=-rank
    ):
        length, windows = x.shape[axis], grad.shape[axis]
        if divisor_override is None:
            first = _places(windows, x) * step - pad
            last = (first + size).clamp(max=length + pad)
            if not count_include_pad:
                first, last = first.clamp(min=0), last.clamp(max=length)
            given = given / _across(last - first, given, axis)
        here = _places(length, x) + pad
        newest = torch.div(here, step, rounding_mode="floor")
        total = torch.zeros((), dtype=given.dtype, device=x.device)
        for back in range(-(-size // step)):
            window = newest - back
            holds = (window >= 0) & (window < windows) & (here < window * step + size)
            there = window.clamp(min=0).clamp(max=windows - 1)
            part = given.index_select(axis, there)
            total = total + torch.where(_across(holds, holds, axis), part, 0.0)
        given = total
    return given.to(grad.dtype)


def _of_repeated_edges(grad: Tensor, x: Tensor, padding: Sequence[Any]) -> Tensor:
    given, rank = _wide(grad), len(padding) // 2
    for axis in range(-rank, 0):
        before, length = padding[2 * (-axis - 1)], x.shape[axis]
        place = (_places(grad.shape[axis], x) - before).clamp(min=0).clamp(max=length - 1)
        shape = list(given.shape)
        shape[axis] = length
        given = given.new_zeros(shape).index_add(axis, place, given)
    return given.to(grad.dtype)


_untyped: Any = torch

# torch has a function of the sizes of the linear one alone; the cubic one's takes only numbers.
_sizes = _untyped.library.Library("aten", "IMPL")
_sizes.impl(
    "_upsample_bicubic2d_aa_backward",
    lambda grad, output_size, input_size, *how: grad.new_empty(input_size),
    "Meta",
)


def _gradients() -> Mapping[Any, Callable[..., Tensor]]:
    found: dict[str, Callable[..., Tensor]] = {
        "avg_pool2d": _of_windows,
        "avg_pool3d": _of_windows,
    }
    for rank in (1, 2, 3):
        found[f"replication_pad{rank}d"] = _of_repeated_edges
    return {getattr(_aten, f"{name}_backward").default: how for name, how in found.items()}


LINEAR = _gradients()
"""The gradient's operator -> what makes it."""
