"""What torch.vmap makes of operators that move or name elements, of batches of open sizes.

torch's own rules for these ask for the batch's size as a number, and so take an open one for a
constant. Here the batch is a first dimension of the operator's own tensors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aot.frontend.image_batches import rules
from aot.frontend.opened_batches import below, opened, rebatched

_untyped: Any = torch
"""torch, for functions of it that have no types."""

_aten: Any = torch.ops.aten


def _for_batches(rule: Callable[..., Any], *args: Any, **given: Any) -> Any:
    """The rule on the tensors below this vmap, each with its batch first; the results' batches."""
    found = [opened(a) for a in args]
    size = next(x.shape[0] for x, own in found if own)

    def whole(x: Any, own: bool) -> Any:
        return x if own or not isinstance(x, Tensor) else x.expand(size, *x.shape)

    with below():
        made = rule(*(whole(x, own) for x, own in found), **given)
    return rebatched(made) if isinstance(made, Tensor) else tuple(map(rebatched, made))


def _written(rule: Callable[..., Any], x: Tensor, *args: Any, **given: Any) -> Tensor:
    """The same for an operator that writes into its first tensor, which has a batch."""
    made = _for_batches(rule, x, *args, **given)
    return x.copy_(made)


def _along(operator: Any, x: Tensor, dim: int, index: Tensor, *more: Any, **given: Any) -> Tensor:
    """An operator along a dimension, whose index has as many dimensions as what it is of."""
    if x.dim() > 1:
        made: Tensor = operator(x, dim % (x.dim() - 1) + 1, index, *more, **given)
        return made
    rows = [v[:, None] if isinstance(v, Tensor) and v.dim() == 1 else v for v in (x, index, *more)]
    found: Tensor = operator(rows[0], 1, *rows[1:], **given)
    return found if index.dim() > 1 else found[:, 0]


def _slices(x: Tensor, dim: int, index: Tensor) -> tuple[int, Tensor]:
    """Of an operator that names slices along a dimension: where it is, and each element's name."""
    at = dim % max(x.dim() - 1, 1) + 1
    names = index if index.dim() > 1 else index[:, None]
    rest = [1] * (at - 1), [1] * (x.dim() - at - 1)
    shape: list[Any] = list(x.shape)
    shape[at] = names.shape[1]
    return at, names.reshape(names.shape[0], *rest[0], names.shape[1], *rest[1]).expand(shape)


def _index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    at, names = _slices(x, dim, index)
    return x.gather(at, names)


def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    at, names = _slices(x, dim, index)
    return x.scatter_add(at, names, (source if alpha == 1 else source * alpha).expand(names.shape))


def _index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    at, names = _slices(x, dim, index)
    return x.scatter(at, names, source.expand(names.shape))


def _index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    at, names = _slices(x, dim, index)
    return x.scatter(at, names, value)


def _layer_norm(
    x: Tensor, shape: Sequence[Any], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...]:
    normed, *rest = _aten.native_layer_norm.default(x, shape, None, None, eps)

    def beside(y: Tensor) -> Tensor:
        between = [1] * (x.dim() - 1 - len(shape))
        return y.reshape(y.shape[0], *between, *y.shape[1:])

    normed = normed if weight is None else normed * beside(weight)
    return (normed if bias is None else normed + beside(bias), *rest)


def _solve(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, ...]:
    vectors = b.dim() == 2 or b.shape[1:] == a.shape[1:-1]
    b = b[..., None] if vectors else b
    rank = max(a.dim(), b.dim())
    a, b = (x.reshape(x.shape[0], *[1] * (rank - x.dim()), *x.shape[1:]) for x in (a, b))
    given = {"left": left, "check_errors": check_errors}
    found, *rest = _aten._linalg_solve_ex.default(a, b, **given)
    return (found[..., 0] if vectors else found, *rest)


def _cross(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    rank = max(x.dim(), y.dim())
    x, y = (v.reshape(v.shape[0], *[1] * (rank - v.dim()), *v.shape[1:]) for v in (x, y))
    made: Tensor = _aten.linalg_cross.default(x, y, dim=dim if dim < 0 else dim + 1)
    return made


def _searchsorted(x: Tensor, values: Tensor, **given: Any) -> Tensor:
    flat = x.dim() == 2 and values.dim() != 2
    asked = values.reshape(values.shape[0], -1) if flat else values
    made: Tensor = _aten.searchsorted.Tensor(x, asked.contiguous(), **given)
    return made.reshape(values.shape) if flat else made


def _along_each(operator: Any) -> Callable[..., Any]:
    return partial(_along, operator)


RULES: Mapping[str, Callable[..., Any]] = {
    "gather": _along_each(_aten.gather.default),
    "scatter.src": _along_each(_aten.scatter.src),
    "scatter.value": _along_each(_aten.scatter.value),
    "scatter_add": _along_each(_aten.scatter_add.default),
    "scatter_reduce.two": _along_each(_aten.scatter_reduce.two),
    "index_select": _index_select,
    "index_add": _index_add,
    "index_copy": _index_copy,
    "index_fill.int_Scalar": _index_fill,
    "native_layer_norm": _layer_norm,
    "_linalg_solve_ex": _solve,
    "linalg_cross": _cross,
    "searchsorted.Tensor": _searchsorted,
}
"""Operator -> what it is of tensors whose first dimension is the batch."""

_WRITTEN = ("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill")
"""Those that there are of two kinds; the other writes into its first tensor."""


@contextmanager
def open_batches() -> Iterator[None]:
    """Inside of it, torch.vmap takes these operators of batches whose size is open."""
    with _untyped.library._scoped_library("aten", "IMPL") as library, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel of torch's is one of ours meanwhile
        for name, rule in RULES.items():
            packet, dot, overload = name.partition(".")
            kinds = {name: partial(_for_batches, rule)}
            if packet in _WRITTEN:
                kinds[f"{packet}_{dot}{overload}"] = partial(_written, rule)
            for kind, own in kinds.items():
                library.impl(kind, own, "FuncTorchBatched", allow_override=True)
        for name, images in rules().items():
            library.impl(name, images, "FuncTorchBatched", allow_override=True)
        yield
