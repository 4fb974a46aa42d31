"""Operators along one dimension that a template computes row by row: scans and sorts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from aot.ir.dtypes import BOOL, INT32, INT64, UINT8, UINT32, UINT64, DType
from aot.ir.nests import View
from aot.ir.scalar import binary, const, make
from aot.ir.templates.argsort import Argsort
from aot.ir.templates.scan import Scan
from aot.lowering.axes import insert, remove, replace, wrap_dim
from aot.lowering.builder import Tensor
from aot.lowering.matmul import rounded
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.lowering.views import moved
from aot.symbolic import Expr, as_expr, product, ravel, unravel


def _rows(x: Tensor, axis: int) -> View:
    """x as a matrix whose rows run along `axis`."""
    lead = remove(x.shape, axis)
    shape = (product(lead), x.shape[axis])
    return x.builder.view(x, shape, lambda at: insert(unravel(at[0], lead), axis, at[1]))


def _unrows(matrix: Tensor, shape: tuple[Expr, ...], axis: int) -> Tensor:
    """The inverse of `_rows` for a result of that shape."""
    lead = remove(shape, axis)
    return moved(matrix, shape, lambda at: (ravel(remove(at, axis), lead), at[axis]))


def running(x: Tensor, axis: int, dtype: DType, combine: str) -> Tensor:
    """Running results along `axis`, in the given type (see templates.scan)."""
    x = rounded(x, dtype)
    shape = (product(remove(x.shape, axis)), x.shape[axis])
    call = partial(Scan, x=_rows(x, axis), combine=combine)
    matrix = x.builder.template(call, shape, dtype)
    return _unrows(matrix, x.shape, axis)


@REGISTRY.row("aot.running.default")
def running_results(call: Call, x: Tensor, dim: int, combine: str) -> Tensor:
    """Running results along `dim` in x's type, as of an associative scan."""
    return running(x, dim, x.dtype, combine)


def _scan(call: Call, x: Tensor, dim: int, combine: str) -> Tensor:
    dtype = call.result_type().dtype
    if x.rank == 0:
        return moved(rounded(x, dtype), (), lambda at: at)
    return running(x, wrap_dim(dim, x.rank), dtype, combine)


@REGISTRY.row("aten.cumsum.default")
def cumsum(call: Call, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Running sums along `dim`; integers and bools sum in int64."""
    return _scan(call, x, dim, "sum")


@REGISTRY.row("aten.cumprod.default")
def cumprod(call: Call, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Running products along `dim`; integers and bools multiply in int64."""
    return _scan(call, x, dim, "prod")


@REGISTRY.row("aten.logcumsumexp.default")
def logcumsumexp(call: Call, x: Tensor, dim: int) -> Tensor:
    """Logarithms of running sums of exponentials along `dim`."""
    return _scan(call, x, dim, "logaddexp")


def _extremes(call: Call, x: Tensor, dim: int, combine: str) -> tuple[Tensor, Tensor]:
    """Running extrema, and where the last element is that equals each; NaN is beyond all."""
    if x.rank == 0:
        return _scalar_order(x)
    axis = wrap_dim(dim, x.rank)
    held = UINT8 if x.dtype == BOOL else x.dtype
    found = rounded(running(x, axis, held, combine), x.dtype)
    shape = (product(remove(x.shape, axis)), x.shape[axis])
    scan = partial(Scan, x=_rows(x, axis), combine=combine, places=True, found=_rows(found, axis))
    places = x.builder.template(scan, shape, INT64)
    return found, _unrows(places, x.shape, axis)


@REGISTRY.row("aten.cummax.default")
def cummax(call: Call, x: Tensor, dim: int) -> tuple[Tensor, ...]:
    """Running maxima along `dim`, and their positions."""
    return _extremes(call, x, dim, "max")


@REGISTRY.row("aten.cummin.default")
def cummin(call: Call, x: Tensor, dim: int) -> tuple[Tensor, ...]:
    """Running minima along `dim`, and their positions."""
    return _extremes(call, x, dim, "min")


def order_along(x: Tensor, axis: int, kept: Expr, descending: bool) -> Tensor:
    """Positions along `axis` of the first `kept` elements in sorted order, stable."""
    return _ordered(x, axis, kept, partial(Argsort, descending=descending))


def at_rank(x: Tensor, axis: int, rank: Expr) -> Tensor:
    """Positions, of size 1 along `axis`, of the elements that `rank` others come before."""
    return _ordered(x, axis, as_expr(1), partial(Argsort, descending=False, skipped=rank))


def _ordered(x: Tensor, axis: int, kept: Expr, call: Callable[..., Argsort]) -> Tensor:
    shape = (product(remove(x.shape, axis)), kept)
    x = _signed(x)
    matrix = x.builder.template(partial(call, x=_rows(x, axis)), shape, INT64)
    return _unrows(matrix, replace(x.shape, axis, kept), axis)


def _signed(x: Tensor) -> Tensor:
    """Wide unsigned integers as signed ones in the same order, which keys of sorts are."""
    held = {UINT64: INT64, UINT32: INT32}.get(x.dtype)
    if held is None:
        return x
    turn = const(held.ends[0], held)
    return x.builder.pointwise(
        x.shape, held, lambda at: binary("xor", make("bitcast", held, x.load(at)), turn)
    )


def picked(x: Tensor, positions: Tensor, axis: int) -> Tensor:
    """x at the given positions along `axis`."""
    size = x.shape[axis]

    def point(at: tuple[Expr, ...]) -> Any:
        where = x.builder.indirect(positions.load(at), size, wrap=False)
        return x.load(replace(at, axis, where))

    return x.builder.pointwise(positions.shape, x.dtype, point)


def _scalar_order(x: Tensor) -> tuple[Tensor, Tensor]:
    positions = x.builder.pointwise((), INT64, lambda at: const(0, INT64))
    return moved(x, (), lambda at: at), positions


@REGISTRY.row("aten.sort.default")
def sort(call: Call, x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, ...]:
    """Values and positions, NaN last (first when descending); ties keep their order."""
    if x.rank == 0:
        return _scalar_order(x)
    axis = wrap_dim(dim, x.rank)
    positions = order_along(x, axis, x.shape[axis], descending)
    return picked(x, positions, axis), positions


@REGISTRY.row("aten.sort.stable")
def sort_stable(
    call: Call, x: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, ...]:
    """As sort, which is stable anyway."""
    return sort(call, x, dim, descending)


@REGISTRY.row("aten.argsort.default")
def argsort(call: Call, x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """Positions that sort x along `dim`."""
    if x.rank == 0:
        return _scalar_order(x)[1]
    axis = wrap_dim(dim, x.rank)
    return order_along(x, axis, x.shape[axis], descending)


@REGISTRY.row("aten.topk.default")
def topk(
    call: Call, x: Tensor, k: Expr | int, dim: int = -1, largest: bool = True, ordered: bool = True
) -> tuple[Tensor, ...]:
    """The k greatest (or least) elements and their positions, always in order."""
    if x.rank == 0:
        return _scalar_order(x)
    axis = wrap_dim(dim, x.rank)
    positions = order_along(x, axis, as_expr(k), largest)
    return picked(x, positions, axis), positions
