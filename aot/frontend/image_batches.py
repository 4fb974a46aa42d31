"""What torch.vmap makes of operators on batches of images, of batches of open sizes.

These have a batch of their own first, or channels: the batch of vmap is folded into it, and taken
out of the results. torch's own rules do the same, by sizes that they ask for as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aot.frontend.opened_batches import below, opened, rebatched

_aten: Any = torch.ops.aten

_SAMPLED = (
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "upsample_trilinear3d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)
_POOLED = (
    "avg_pool2d",
    "avg_pool3d",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
)
_PADDED = tuple(f"{kind}_pad{d}d" for kind in ("reflection", "replication") for d in (1, 2, 3))

IMAGES: Mapping[str, int] = {
    "convolution": 1,
    "im2col": 1,
    "col2im": 1,
    "grid_sampler_2d": 2,
    "grid_sampler_3d": 2,
    **dict.fromkeys((*_SAMPLED, *_POOLED, *_PADDED), 1),
}
"""Operator -> how many of its first tensors are batches of images."""


def folded(operator: Any, images: int, *args: Any, **given: Any) -> Any:
    """The operator on batches of images, those of each vmap's element behind each other."""
    found = [opened(a) for a in args]
    size = next(x.shape[0] for x, own in found if own)
    if any(own for _, own in found[images:]):
        return by_groups(size, *(x if own else _repeated(x, size) for x, own in found))

    def fold(x: Tensor, own: bool) -> Tensor:
        return (x if own else _repeated(x, size)).flatten(0, 1)

    count = found[0][0].shape[1 if found[0][1] else 0]  # images, or channels of one
    rest = [x for x, _ in found[images:]]
    with below():
        made = operator(*(fold(x, own) for x, own in found[:images]), *rest, **given)

    def taken_out(y: Tensor) -> Tensor:
        return rebatched(y.reshape(size, count, *y.shape[1:]))

    return tuple(map(taken_out, made)) if isinstance(made, tuple) else taken_out(made)


def _repeated(x: Any, size: Any) -> Any:
    return x.expand(size, *x.shape) if isinstance(x, Tensor) else x


def by_groups(size: Any, x: Tensor, weight: Tensor, bias: Tensor | None, *more: Any) -> Any:
    """Convolutions each by weights of its own: as many groups, a number that kernels know."""
    *shape, groups = more
    size = int(size)
    count, channels = x.shape[1], x.shape[2]
    with below():
        wide = x.movedim(0, 1).reshape(count, size * channels, *x.shape[3:])
        own = None if bias is None else bias.flatten(0, 1)
        made = _aten.convolution.default(wide, weight.flatten(0, 1), own, *shape, size * groups)
        apart = made.reshape(count, size, made.shape[1] // size, *made.shape[2:])
    return rebatched(apart.movedim(1, 0))


def group_norm(x: Tensor, weight: Any, bias: Any, n: Any, c: Any, hw: Any, *more: Any) -> Any:
    """Of so many more images; weights that each has of its own are applied afterwards."""
    found = [opened(v) for v in (x, weight, bias)]
    (inner, own), *weights = found
    size = next(v.shape[0] for v, is_own in found if is_own)
    inner = inner if own else _repeated(inner, size)
    plain = not any(is_own for _, is_own in weights)
    given = [v for v, _ in weights] if plain else [None, None]
    with below():
        whole = inner.flatten(0, 1)
        made, *rest = _aten.native_group_norm.default(whole, *given, size * n, c, hw, *more)
        made = made.reshape(inner.shape)
        if not plain:
            made = _scaled(made, weights)
        rest = [r.reshape(size, n, *r.shape[1:]) for r in rest]
    return tuple(rebatched(y) for y in (made, *rest))


def _scaled(x: Tensor, weights: Any) -> Tensor:
    """Times weights and with biases along channels."""
    for k, (v, own) in enumerate(weights):
        if v is not None:
            lead = (v.shape[0], 1) if own else (1, 1)
            beside = v.reshape(*lead, v.shape[-1], *[1] * (x.dim() - 3))
            x = x * beside if k == 0 else x + beside
    return x


def rules() -> dict[str, Callable[..., Any]]:
    """Operator -> what vmap does for it."""
    own = {
        name: partial(folded, getattr(_aten, name).default, images)
        for name, images in IMAGES.items()
    }
    return {**own, "native_group_norm": group_norm}
