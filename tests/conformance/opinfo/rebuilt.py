"""Operators that have several right results, and what all of these have in common.

Factors of a matrix are unique but for signs and phases, eigenvalues that are no real numbers have
no order, and a complex number's logarithm has any number of turns. A case of such an operator goes
on to what is unique: the matrix that the factors multiply to, the remainder of an equation, sums
over all. That is part of the packaged model, and computed by eager alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

Results = list[Tensor]


def _orthonormal(factor: Tensor) -> Tensor:
    return factor.mH @ factor


def _singular(u: Tensor, values: Tensor, vh: Tensor) -> Results:
    k = values.shape[-1]
    whole = (u[..., :k] * values[..., None, :]) @ vh[..., :k, :]
    return [whole, values, _orthonormal(u), _orthonormal(vh.mH)]


def _linalg_svd(results: Any, a: Tensor, *_: Any, **__: Any) -> Results:
    return _singular(*results)


def _svd(results: Any, a: Tensor, some: bool = True, compute_uv: bool = True) -> Results:
    u, values, v = results
    return _singular(u, values, v.mH) if compute_uv else [values]


def _eigh(results: Any, a: Tensor, *_: Any, **__: Any) -> Results:
    values, vectors = results
    return [(vectors * values[..., None, :]) @ vectors.mH, values, _orthonormal(vectors)]


def _size(a: Tensor) -> Tensor:
    """Of each matrix a number that its eigenvalues do not exceed."""
    return 1 + a.abs().sum((-2, -1))


def _eigvals(values: Tensor, a: Tensor) -> Results:
    scaled = values / _size(a)[..., None]
    return [scaled.abs().sort(-1).values, 1 + scaled.sum(-1), 1 + (scaled * scaled).sum(-1)]


def _eig(results: Any, a: Tensor) -> Results:
    values, vectors = results
    left = a.to(vectors.dtype) @ vectors - vectors * values[..., None, :]
    norms = torch.linalg.vector_norm(vectors, dim=-2)
    return [*_eigvals(values, a), 1 + left / _size(a)[..., None, None], norms]


def _without_turns(result: Tensor, *_: Any, **__: Any) -> Results:
    if not result.is_complex():
        return [result]
    return [result.real, torch.polar(torch.ones_like(result.real), result.imag)]


REBUILT: Mapping[str, Callable[..., Results]] = {
    "linalg_eig": _eig,
    "linalg_eigh": _eigh,
    "linalg_eigvals": _eigvals,
    "linalg_svd": _linalg_svd,
    "logcumsumexp": _without_turns,
    "svd": _svd,
}
"""OpInfo name -> of the results and the arguments what is unique."""


def unique(op: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of an operator's cases: itself, or itself and what makes its results unique."""
    rebuild = REBUILT.get(op)
    return function if rebuild is None else partial(_rebuilt, function, rebuild)


def _rebuilt(function: Any, rebuild: Callable[..., Results], *args: Any, **kwargs: Any) -> Results:
    return rebuild(function(*args, **kwargs), *args, **kwargs)
