"""Dense linear algebra by orthogonal matrices: QR, and products with its reflections."""

from __future__ import annotations

from aot.ir.dtypes import INT64
from aot.ir.scalar import Node, const
from aot.ir.templates.general_linalg import GENERAL_ROUTINES
from aot.ir.templates.linalg import ROUTINES, least
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.library import Matrices, Shape, call_routine
from aot.lowering.linalg import identity, mirrored, triangle
from aot.lowering.registry import Call, CannotLower, SeveralResults
from aot.lowering.rows import REGISTRY
from aot.symbolic import as_expr


def with_taus(a: Tensor, tau: Tensor) -> Tensor:
    """The taus, and zeros where there are none, as one row more below the reflections."""
    rows, count, builder = a.shape[-2], tau.shape[-1], a.builder

    def body(at: Shape) -> Node:
        row, column = (builder.index_node(i) for i in at[-2:])
        above = e.lt(row, builder.index_node(rows))
        there = e.and_(e.not_(above), e.lt(column, builder.index_node(count)))
        factor = e.select(there, tau.load((*at[:-2], at[-1]), there), const(0.0, a.dtype))
        return e.select(above, a.load(at, above), factor)

    return builder.pointwise((*a.shape[:-2], rows + 1, a.shape[-1]), a.dtype, body)


def _product(a: Tensor, tau: Tensor, other: Matrices, *, back: bool = False) -> Tensor:
    """Q times other, or its transpose times other where `back`; Q is m x m."""
    given = Matrices(with_taus(a, tau))
    found = call_routine(ROUTINES["reflections"], given, other, ["back"] if back else [])
    return found.part("product")


@REGISTRY.row("aten.geqrf.default")
def geqrf(call: Call, a: Tensor) -> SeveralResults:
    """(R and below it the reflections, taus)."""
    found = call_routine(ROUTINES["qr"], Matrices(a))
    return found.part("reflections"), found.part("tau")


@REGISTRY.row("aten.linalg_qr.default")
def qr(call: Call, a: Tensor, mode: str = "reduced") -> SeveralResults:
    """(Q, R), Q m x k and R k x n of the lesser size k, or k = m where complete."""
    m, n = a.shape[-2:]
    found = call_routine(ROUTINES["qr"], Matrices(a))
    turned = found.part("reflections")
    k = m if mode == "complete" else least(m, n)
    r = triangle(turned, (k, n), e.le, unit=False)
    if mode == "r":
        return a.builder.pointwise((as_expr(0),), a.dtype, lambda at: const(0.0, a.dtype)), r
    start = Matrices(identity(a, found.batch, m, k))
    return _product(turned, found.part("tau"), start), r


def completed(q: Tensor) -> Tensor:
    """Orthonormal columns (m x n, n <= m), and behind them others to make m in all."""
    m, n = q.shape[-2:]
    if m == n:
        return q
    found = call_routine(ROUTINES["qr"], Matrices(q))
    start = Matrices(identity(q, found.batch, m, m))
    all_ = _product(found.part("reflections"), found.part("tau"), start)

    def body(at: Shape) -> Node:
        own = e.lt(q.builder.index_node(at[-1]), q.builder.index_node(n))
        return e.select(own, q.load(at, own), all_.load(at))

    return q.builder.pointwise(all_.shape, q.dtype, body)


@REGISTRY.row("aten.linalg_householder_product.default", "aten.orgqr.default")
def householder_product(call: Call, a: Tensor, tau: Tensor) -> Tensor:
    """The first columns of H_1 H_2 ..., as many as a has."""
    start = identity(a, a.shape[:-2], *a.shape[-2:])
    return _product(a, tau, Matrices(start))


@REGISTRY.row("aten.ormqr.default")
def ormqr(
    call: Call,
    a: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool = True,
    transpose: bool = False,
) -> Tensor:
    """Q other, Q^T other, other Q or other Q^T, Q = H_1 H_2 ..."""
    if other.shape[:-2] != a.shape[:-2]:
        raise CannotLower("its batches are of different shapes")
    if left:
        return _product(a, tau, Matrices(other), back=transpose)
    return mirrored(_product(a, tau, Matrices(other).mt, back=not transpose))


@REGISTRY.row("aot.lstsq.default")
def lstsq(call: Call, a: Tensor, b: Tensor) -> SeveralResults:
    """(X of least norm that makes A X - B least, A's rank)."""
    found = call_routine(GENERAL_ROUTINES["lstsq"], Matrices(a), Matrices(b))
    return found.part("x"), found.part("rank", INT64)
