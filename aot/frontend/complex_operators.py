"""Operators on complex numbers that are made of others: decompositions for these alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

_aten: Any = torch.ops.aten
Decomposition = Callable[..., Any]


def _with_mean(spread: Any, overload: str, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """The variance or deviation, and the mean; `overload`: of `aten.var` and `aten.std`."""
    if not x.is_complex():
        return NotImplemented
    dims = args[0] if args and not isinstance(args[0], bool) else kwargs.get("dim")
    keepdim = kwargs.get("keepdim", args[2] if len(args) > 2 else False)
    own = {name: value for name, value in kwargs.items() if name != "dim"}
    given = args or ((dims,) if "dim" in kwargs else ())
    mean = x.mean(tuple(range(x.dim())) if dims is None else dims, keepdim)
    return getattr(spread, overload)(x, *given, **own), mean


def _drawn(draw: Any, scale: float, size: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """Both parts drawn; of normal numbers each has half of the variance."""
    like = isinstance(size, Tensor)
    dtype = size.dtype if like and dtype is None else dtype
    complex_ = dtype is not None and dtype.is_complex
    if not complex_ and not (like and size.is_complex()):
        return NotImplemented
    shape, kept = (size.shape, {"device": size.device}) if like else (size, kwargs)
    if not complex_:
        return draw(shape, dtype=dtype, **kept)
    re, im = (draw(shape, dtype=dtype.to_real(), **kept) for _ in range(2))
    return torch.complex(re * scale, im * scale)


def _uniform(x: Tensor, low: float = 0.0, high: float = 1.0, generator: Any = None) -> Any:
    if not x.is_complex():
        return NotImplemented
    re, im = (torch.rand(x.shape, dtype=x.dtype.to_real(), device=x.device) for _ in range(2))
    return torch.complex(re * (high - low) + low, im * (high - low) + low)


def _normal(x: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Both parts have the mean, and half of the variance each."""
    if not x.is_complex():
        return NotImplemented
    re, im = (torch.randn(x.shape, dtype=x.dtype.to_real(), device=x.device) for _ in range(2))
    width = std * 0.5**0.5
    return torch.complex(re * width + mean, im * width + mean)


def _logaddexp(a: Tensor, b: Tensor) -> Any:
    """The logarithm of a sum of exponentials, of which none overflows.

    Its imaginary part is the greater number's and a little, as in eager: it may be beyond pi.
    """
    if not (a.is_complex() or b.is_complex()):
        return NotImplemented
    turned = a.real < b.real
    most, least = torch.where(turned, b, a), torch.where(turned, a, b)
    added = torch.log1p(torch.exp(least - most)) + most
    nothing = (least.real == most.real) & least.real.isneginf()
    return torch.where(nothing, least, added)


def _logcumsumexp(x: Tensor, dim: int) -> Any:
    """Sums of neighbours, of pairs, of fours … (Hillis and Steele, 1986): none overflows.

    Imaginary parts may be whole turns from eager's, which adds one after the other.
    """
    size = x.shape[dim] if x.dim() else 1
    if not x.is_complex() or not isinstance(size, int):
        return NotImplemented
    step = 1
    while step < size:
        sums = _logaddexp(x.narrow(dim, step, size - step), x.narrow(dim, 0, size - step))
        x = torch.cat((x.narrow(dim, 0, step), sums), dim)
        step *= 2
    return x.clone()


def _rms_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Any:
    if not x.is_complex():
        return NotImplemented
    least = torch.finfo(x.dtype).eps if eps is None else eps
    squares = (x * x).mean(tuple(range(-len(shape), 0)), keepdim=True)
    made = x * torch.rsqrt(squares + least)
    return made if weight is None else made * weight


def _nonzero_static(x: Tensor, **kwargs: Any) -> Any:
    return torch.nonzero_static(x != 0, **kwargs) if x.is_complex() else NotImplemented


COMPLEX: Mapping[Any, Decomposition] = {
    **{
        getattr(getattr(_aten, f"{name}_mean"), overload): partial(
            _with_mean, getattr(_aten, name), overload
        )
        for name in ("var", "std")
        for overload in ("default", "dim", "correction")
    },
    _aten.rand.default: partial(_drawn, torch.rand, 1.0),
    _aten.rand_like.default: partial(_drawn, torch.rand, 1.0),
    _aten.randn.default: partial(_drawn, torch.randn, 0.5**0.5),
    _aten.randn_like.default: partial(_drawn, torch.randn, 0.5**0.5),
    _aten.uniform.default: _uniform,
    _aten.normal_functional.default: _normal,
    _aten.logaddexp.default: _logaddexp,
    _aten.logcumsumexp.default: _logcumsumexp,
    _aten.rms_norm.default: _rms_norm,
    _aten.nonzero_static.default: _nonzero_static,
}
"""Operators -> of complex operands what they are; NotImplemented for others, which stay whole."""
