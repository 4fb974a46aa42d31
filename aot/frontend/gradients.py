"""Gradients of operators that torch computes in one piece, made of operators that we lower."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from aot.frontend.linear_gradients import LINEAR
from aot.frontend.point_gradients import AT_POINTS

_aten: Any = torch.ops.aten


def _convolution(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Those of input, weight and bias: convolutions the other way, and of each with the other.

    A transposed convolution is the gradient of a plain one: its own is the plain one.
    """
    rank, spatial = len(stride), range(2, x.dim())
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[2:], strict=True)]
    given, steps = (grad.shape, x.shape) if transposed else (x.shape, grad.shape)
    rest = [
        given[k + 2] - ((steps[k + 2] - 1) * stride[k] - 2 * padding[k] + reach[k])
        for k in range(rank)
    ]
    of_input = of_weight = None
    if wanted[0]:
        none = [0] * rank
        how = (stride, padding, dilation, not transposed, none if transposed else rest, groups)
        of_input = _aten.convolution.default(grad, weight, None, *how)
    if wanted[1]:
        large, small = (grad, x) if transposed else (x, grad)
        of_weight = _correlation(large, small, stride, padding, dilation, groups)
        for k, size in enumerate(weight.shape[2:], 2):
            of_weight = of_weight.narrow(k, 0, size)
    of_bias = grad.sum([0, *spatial]) if wanted[2] else None
    return of_input, of_weight, of_bias


def _correlation(
    large: Tensor,
    small: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Each channel of `small` with each of `large` of its group: a convolution over the batch."""
    batch, image, taps = large.shape[0], large.shape[2:], small.shape[2:]
    inner, outer = large.shape[1] // groups, small.shape[1] // groups
    x = large.reshape(batch, groups, inner, *image).movedim(2, 0)
    x = x.transpose(1, 2).reshape(inner, groups * batch, *image)
    weight = small.transpose(0, 1).reshape(groups * outer, batch, *taps)
    zeros = [0] * len(stride)
    how = (dilation, padding, stride, False, zeros, groups)
    found: Tensor = _aten.convolution.default(x, weight, None, *how)
    return found.transpose(0, 1)


GRADIENTS: Mapping[Any, Callable[..., Any]] = {
    _aten.convolution_backward.default: _convolution,
    **torch._decomp.get_decompositions([_aten.max_pool2d_with_indices_backward.default]),
    **LINEAR,
    **AT_POINTS,
}
"""The gradient's operator -> what makes it."""
