"""Gradients of what is linear along each axis: means, smoothed resizing, repeated edges.

Such an operator makes of a line a line of another length, axis by axis. So its gradient does: each
element of the input gets the sum of what the results that read it were given, times how much they
took of it. Sizes may be those of a run. Halves are summed in float32, as torch does.

Resizing without antialiasing is not here: torch makes gathers of it before it is differentiated.
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


def _of_shares(rank: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Of adaptive_avg_pool: a product by the few shares, each of which reads a part of a line."""

    def gradient(grad: Tensor, x: Tensor) -> Tensor:
        given = _wide(grad)
        for axis in range(-rank, 0):
            length, shares = x.shape[axis], grad.shape[axis]
            share, here = _places(shares, x)[:, None], _places(length, x)
            first = torch.div(share * length, shares, rounding_mode="floor")
            last = -torch.div(-(share + 1) * length, shares, rounding_mode="floor")
            held = ((here >= first) & (here < last)).to(given.dtype) / (last - first)
            given = torch.matmul(given.movedim(axis, -1), held.to(given.dtype)).movedim(-1, axis)
        return given.to(grad.dtype)

    return gradient


def _scale(length: Any, wanted: Any, align_corners: bool, scale: float | None) -> Any:
    """How far apart in the input neighbours of the result are."""
    if align_corners:
        return (length - 1) / (wanted - 1) if wanted > 1 else 0.0
    return length / wanted if scale is None or not scale > 0 else 1.0 / scale


def _triangle(t: Tensor) -> Tensor:
    return (1 - t.abs()).clamp(min=0)


def _sharp(t: Tensor) -> Tensor:
    """The cubic of antialiased resizing, whose parameter is another one."""
    t = t.abs()
    near = (1.5 * t - 2.5) * t * t + 1
    far = ((-0.5 * t + 2.5) * t - 4) * t + 2
    return torch.where(t < 1, near, torch.where(t < 2, far, 0.0))


def _smoothed_gradient(weigh: Callable[[Tensor], Tensor], reach: int) -> Callable[..., Tensor]:
    """Of antialiased resizing: a product by the weights, which reach as far as the scale says."""

    def gradient(
        grad: Tensor,
        output_size: Sequence[Any],
        input_size: Sequence[Any],
        align_corners: bool,
        *scales: float | None,
    ) -> Tensor:
        given, rank = _wide(grad), len(output_size)
        for axis, scale in enumerate((*scales, *[None] * (rank - len(scales))), start=-rank):
            length, wanted = input_size[axis], grad.shape[axis]
            step = _scale(length, wanted, align_corners, scale)
            wide = torch.full((), 1.0, dtype=given.dtype) * step
            support = wide.clamp(min=1.0)
            here = torch.arange(length, dtype=given.dtype, device=grad.device)
            result = torch.arange(wanted, dtype=given.dtype, device=grad.device)[:, None]
            center = (result + 0.5) * step
            first = (center - support * reach + 0.5).floor().clamp(min=0)
            last = (center + support * reach + 0.5).floor().clamp(max=length)
            counts = weigh((here - center + 0.5) / support)
            counts = torch.where((here >= first) & (here < last), counts, 0.0)
            counts = counts / counts.sum(-1, keepdim=True)
            given = torch.matmul(given.movedim(axis, -1), counts).movedim(-1, axis)
        return given.to(grad.dtype)

    return gradient


def _of_repeated_edges(grad: Tensor, x: Tensor, padding: Sequence[Any]) -> Tensor:
    given, rank = _wide(grad), len(padding) // 2
    for axis in range(-rank, 0):
        before, length = padding[2 * (-axis - 1)], x.shape[axis]
        place = (_places(grad.shape[axis], x) - before).clamp(min=0).clamp(max=length - 1)
        shape = list(given.shape)
        shape[axis] = length
        given = given.new_zeros(shape).index_add(axis, place, given)
    return given.to(grad.dtype)


def _gradients() -> Mapping[Any, Callable[..., Tensor]]:
    found: dict[str, Callable[..., Tensor]] = {
        "avg_pool2d": _of_windows,
        "avg_pool3d": _of_windows,
        "_adaptive_avg_pool2d": _of_shares(2),
        "_adaptive_avg_pool3d": _of_shares(3),
        "_upsample_bilinear2d_aa": _smoothed_gradient(_triangle, 1),
        "_upsample_bicubic2d_aa": _smoothed_gradient(_sharp, 2),
    }
    for rank in (1, 2, 3):
        found[f"replication_pad{rank}d"] = _of_repeated_edges
    return {getattr(_aten, f"{name}_backward").default: how for name, how in found.items()}


LINEAR = _gradients()
"""The gradient's operator -> what makes it."""
