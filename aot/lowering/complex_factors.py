"""Factors of complex matrices, and the systems that they solve."""

from __future__ import annotations

from aot.ir.dtypes import INT32, INT64
from aot.ir.scalar import Node
from aot.ir.templates.linalg import least
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.complex_linalg import (
    Pair,
    adjoint,
    conjugated,
    general,
    outcomes,
    pair,
    transposed,
)
from aot.lowering.library import Records, Shape, broadcast
from aot.lowering.linalg import (
    identity,
    order_of,
    refuse_checks,
    taken,
    triangle,
    unpacked,
    wants_pivots,
    zeros,
)
from aot.lowering.orthogonal import with_taus
from aot.lowering.registry import Call, CannotLower, SeveralResults
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr

# ---- Cholesky ----


@REGISTRY.row("complex.aten.linalg_cholesky_ex.default")
def cholesky_ex(
    call: Call, a: Pair, *, upper: bool = False, check_errors: bool = False
) -> SeveralResults:
    """(factor, info) of Hermitian matrices, of which one triangle is read."""
    refuse_checks(check_errors)
    found = general("complex_cholesky", adjoint(a) if upper else a)
    factor, info = pair(found, "factor"), found.part("info", INT32)
    return outcomes(call, adjoint(factor) if upper else factor, info)


@REGISTRY.row("complex.aten.cholesky_solve.default")
def cholesky_solve(call: Call, b: Pair, factor: Pair, upper: bool = False) -> SeveralResults:
    """X of A X = B from a factor of A."""
    lower = adjoint(factor) if upper else factor
    return _triangular(adjoint(lower), _triangular(lower, b, upper=False), upper=True)


@REGISTRY.row("complex.aten.cholesky_inverse.default")
def cholesky_inverse(call: Call, factor: Pair, upper: bool = False) -> SeveralResults:
    """The inverse of A from a factor of A."""
    return cholesky_solve(call, _identity(factor, *factor[0].shape[-2:]), factor, upper)


def _identity(like: Pair, rows: Expr, columns: Expr) -> Pair:
    re = identity(like[0], like[0].shape[:-2], rows, columns)
    return re, zeros(re, re.shape)


# ---- triangular systems ----


def _triangular(t: Pair, b: Pair, *, upper: bool, unit: bool = False) -> Pair:
    """X of T X = B; of T that triangle is read."""
    options = [name for name, wanted in (("upper", upper), ("unit", unit)) if wanted]
    return pair(general("complex_triangular", t, b, options), "x")


@REGISTRY.row("complex.aten.linalg_solve_triangular.default")
def solve_triangular(
    call: Call, t: Pair, b: Pair, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> SeveralResults:
    """X of T X = B, or of X T = B, which is T^T X^T = B^T."""
    if left:
        return _triangular(t, b, upper=upper, unit=unitriangular)
    turned = _triangular(transposed(t), transposed(b), upper=not upper, unit=unitriangular)
    return transposed(turned)


@REGISTRY.row("complex.aten.triangular_solve.default")
def triangular_solve(
    call: Call,
    b: Pair,
    t: Pair,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> SeveralResults:
    """(X of T X = b or T^T X = b, T)."""
    given = transposed(t) if transpose else t
    x = _triangular(given, b, upper=upper != transpose, unit=unitriangular)
    shape = (*broadcast(t[0].shape[:-2], b[0].shape[:-2]), *t[0].shape[-2:])
    same = tuple(p.builder.pointwise(shape, p.dtype, p.load_broadcast) for p in t)
    return outcomes(call, x, (same[0], same[1]))


# ---- LU ----


@REGISTRY.row("complex.aten.linalg_lu_factor_ex.default")
def lu_factor_ex(
    call: Call, a: Pair, *, pivot: bool = True, check_errors: bool = False
) -> SeveralResults:
    """(L without its diagonal and U, pivots, info)."""
    refuse_checks(check_errors)
    wants_pivots(pivot)
    found = general("complex_lu", a)
    return outcomes(call, pair(found, "lu"), found.part("pivots", INT32), found.part("info", INT32))


def _unpacked(call: Call, lu: Pair, order: Tensor | None, wanted: bool = True) -> SeveralResults:
    p, lower, upper = unpacked(lu[0], order, wanted)
    m, n = lu[0].shape[-2:]
    k, empty = least(m, n), (zeros(lu[0]), zeros(lu[0]))
    if lower is None or upper is None:
        both = empty, empty
    else:
        both = (
            (lower, triangle(lu[1], (m, k), e.gt, unit=False)),
            (upper, triangle(lu[1], (k, n), e.le, unit=False)),
        )
    return outcomes(call, empty if p is None else (p, zeros(p, p.shape)), *both)


@REGISTRY.row("complex.aten.linalg_lu.default")
def lu(call: Call, a: Pair, *, pivot: bool = True) -> SeveralResults:
    """(P, L, U) with A = P L U."""
    wants_pivots(pivot)
    found = general("complex_lu", a)
    return _unpacked(call, pair(found, "lu"), found.part("order", INT64))


@REGISTRY.row("complex.aten.lu_unpack.default")
def lu_unpack(
    call: Call, lu: Pair, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> SeveralResults:
    """(P, L, U) of a factorization; empty tensors for what is not wanted."""
    order = order_of(pivots, lu[0]).part("order", INT64) if unpack_pivots else None
    return _unpacked(call, lu, order, unpack_data)


@REGISTRY.row("complex.aten.linalg_lu_solve.default")
def lu_solve(
    call: Call, lu: Pair, pivots: Tensor, b: Pair, *, left: bool = True, adjoint: bool = False
) -> SeveralResults:
    """X of A X = B, or X A = B, A^H X = B, X A^H = B, from a factorization of A."""
    order = order_of(pivots, lu[0])
    factors, x = conjugated(lu) if adjoint else lu, b if left else transposed(b)
    if adjoint == left:
        x = _triangular(transposed(factors), x, upper=False)
        x = _triangular(transposed(factors), x, upper=True, unit=True)
        back = order.part("back", INT64)
        x = taken(x[0], back), taken(x[1], back)
    else:
        x = after_lu(factors, order.part("order", INT64), x)
    return x if left else transposed(x)


def after_lu(lu: Pair, order: Tensor, b: Pair) -> Pair:
    """X of A X = B from a factorization of A."""
    x = taken(b[0], order), taken(b[1], order)
    return _triangular(lu, _triangular(lu, x, upper=False, unit=True), upper=True)


@REGISTRY.row("complex.aten._linalg_det.default")
def det(call: Call, a: Pair) -> SeveralResults:
    """(determinant, LU, pivots)."""
    found = general("complex_determinant", a, options=("product",))
    return outcomes(call, pair(found, "det"), *_read(call, a))


@REGISTRY.row("complex.aten._linalg_slogdet.default")
def slogdet(call: Call, a: Pair) -> SeveralResults:
    """(direction, logarithm of the absolute value, LU, pivots) of the determinant."""
    found = general("complex_determinant", a)
    return outcomes(call, pair(found, "sign"), found.part("logdet"), *_read(call, a))


def _read(call: Call, a: Pair) -> tuple[Pair | None, Tensor | None]:
    """(LU, pivots), where one of an operator's last outputs is read."""
    if call.op.outputs[-2:] == (None, None):
        return None, None
    found = general("complex_lu", a)
    return pair(found, "lu"), found.part("pivots", INT32)


# ---- QR ----


@REGISTRY.row("complex.aten.geqrf.default")
def geqrf(call: Call, a: Pair) -> SeveralResults:
    """(R and below it the reflections, taus)."""
    found = general("complex_qr", a)
    return outcomes(call, pair(found, "reflections"), pair(found, "tau"))


def _product(a: Pair, tau: Pair, other: Pair, *, back: bool = False) -> Pair:
    """Q times other, or its adjoint times other where `back`; Q is m x m."""
    given = with_taus(a[0], tau[0]), with_taus(a[1], tau[1])
    options = ["back"] if back else []
    return pair(general("complex_reflections", given, other, options), "product")


def _basis(found: Records, like: Pair, columns: Expr) -> Pair:
    turned = pair(found, "reflections")
    return _product(turned, pair(found, "tau"), _identity(like, like[0].shape[-2], columns))


@REGISTRY.row("complex.aten.linalg_qr.default")
def qr(call: Call, a: Pair, mode: str = "reduced") -> SeveralResults:
    """(Q, R), Q m x k and R k x n of the lesser size k, or k = m where complete."""
    m, n = a[0].shape[-2:]
    found = general("complex_qr", a)
    turned = pair(found, "reflections")
    k = m if mode == "complete" else least(m, n)
    r = tuple(triangle(x, (k, n), e.le, unit=False) for x in turned)
    if mode == "r":
        return outcomes(call, (zeros(a[0]), zeros(a[0])), (r[0], r[1]))
    return outcomes(call, _basis(found, a, k), (r[0], r[1]))


def completed(q: Pair) -> Pair:
    """Orthonormal columns (m x n, n <= m), and behind them others to make m in all."""
    m, n = q[0].shape[-2:]
    if m == n:
        return q
    every = _basis(general("complex_qr", q), q, m)

    def joined(own: Tensor, more: Tensor) -> Tensor:
        def body(at: Shape) -> Node:
            given = e.lt(own.builder.index_node(at[-1]), own.builder.index_node(n))
            return e.select(given, own.load(at, given), more.load(at))

        return own.builder.pointwise(more.shape, own.dtype, body)

    return joined(q[0], every[0]), joined(q[1], every[1])


@REGISTRY.row("complex.aten.linalg_householder_product.default", "complex.aten.orgqr.default")
def householder_product(call: Call, a: Pair, tau: Pair) -> SeveralResults:
    """The first columns of H_1 H_2 ..., as many as a has."""
    return _product(a, tau, _identity(a, *a[0].shape[-2:]))


@REGISTRY.row("complex.aten.ormqr.default")
def ormqr(
    call: Call, a: Pair, tau: Pair, other: Pair, left: bool = True, transpose: bool = False
) -> SeveralResults:
    """Q other, Q^H other, other Q or other Q^H, Q = H_1 H_2 ..."""
    if other[0].shape[:-2] != a[0].shape[:-2]:
        raise CannotLower("its batches are of different shapes")
    if left:
        return _product(a, tau, other, back=transpose)
    return adjoint(_product(a, tau, adjoint(other), back=not transpose))


@REGISTRY.row("complex.aot.lstsq.default")
def lstsq(call: Call, a: Pair, b: Pair) -> SeveralResults:
    """(X of least norm that makes A X - B least, A's rank)."""
    found = general("complex_lstsq", a, b)
    return outcomes(call, pair(found, "x"), found.part("rank", INT64))
