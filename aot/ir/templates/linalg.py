"""Dense linear algebra: the routines of our own library, and what they mean in NumPy.

Factorizations are few; the lowerings make the operators of them. Conventions are LAPACK's, whose
names the field uses: cholesky is potrf, lu getrf, solve gesv, inverse getri, triangular trtrs,
qr geqrf, reflections ormqr, eigh syev, svd gesvj (of matrices with at least as many rows as
columns).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aot.ir.templates.base import Array
from aot.ir.templates.library import LibraryRoutine, RecordParts, RoutineLibrary, Sizes
from aot.symbolic import Expr, FloorDiv, Minimum, integer

LINALG = RoutineLibrary("linalg", version=1, licence="as this project's")

Options = frozenset[str]


def least(m: Expr, n: Expr) -> Expr:
    """The lesser of a matrix's sizes: how many pivots or reflectors there are."""
    return m if m == n else Minimum(m, n)


# ---- what records hold ----


def _cholesky_parts(s: Sizes) -> RecordParts:
    return {"factor": (s.n, s.n), "info": ()}


def _lu_parts(s: Sizes) -> RecordParts:
    return {"lu": (s.m, s.n), "pivots": (least(s.m, s.n),), "order": (s.m,), "info": ()}


def _solve_parts(s: Sizes) -> RecordParts:
    return {**_lu_parts(s), "x": (s.n, s.r)}


def _inverse_parts(s: Sizes) -> RecordParts:
    return {"inverse": (s.n, s.n), "info": ()}


def _order_parts(s: Sizes) -> RecordParts:
    return {"order": (s.n,), "back": (s.n,)}


def _triangular_parts(s: Sizes) -> RecordParts:
    return {"x": (s.n, s.r)}


def _qr_parts(s: Sizes) -> RecordParts:
    return {"reflections": (s.m, s.n), "tau": (least(s.m, s.n),)}


def _reflections_parts(s: Sizes) -> RecordParts:
    return {"product": (s.m - 1, s.r)}


def _eigh_parts(s: Sizes) -> RecordParts:
    return {**_eigvalsh_parts(s), "vectors": (s.n, s.n)}


def _eigvalsh_parts(s: Sizes) -> RecordParts:
    return {"values": (s.n,)}


def _svd_parts(s: Sizes) -> RecordParts:
    return {**_eigvalsh_parts(s), "ut": (s.n, s.m), "vt": (s.n, s.n)}


# ---- what they mean ----


def cholesky(a: Array, _: Array, options: Options) -> Sequence[Array]:
    """(factor, info): the lower factor of the lower triangle."""
    n, factor = len(a), np.tril(a)
    for j in range(n):
        pivot = np.real(factor[j, j] - factor[j, :j] @ factor[j, :j].conj())
        if not pivot > 0:
            return factor, np.array(j + 1)
        factor[j, j] = np.sqrt(pivot)
        rest = factor[j + 1 :, j] - factor[j + 1 :, :j] @ factor[j, :j].conj()
        factor[j + 1 :, j] = rest / factor[j, j]
    return factor, np.array(0)


def lu(a: Array, _: Array, options: Options) -> Sequence[Array]:
    """(L and U, pivots from 1 on, the order of the rows, info)."""
    both, (m, n), info = a.copy(), a.shape, 0
    pivots, order = np.zeros(min(m, n)), np.arange(m)
    for k in range(min(m, n)):
        sizes = np.abs(both[k:, k].real) + np.abs(both[k:, k].imag)
        chosen = k if np.isnan(sizes[0]) else k + int(np.argmax(np.nan_to_num(sizes, nan=-1.0)))
        pivots[k] = chosen + 1
        both[[k, chosen]] = both[[chosen, k]]
        order[[k, chosen]] = order[[chosen, k]]
        if both[k, k] == 0:
            info = info or k + 1
            continue
        both[k + 1 :, k] /= both[k, k]
        both[k + 1 :, k + 1 :] -= np.outer(both[k + 1 :, k], both[k, k + 1 :])
    return both, pivots, order, np.array(info)


def _order(a: Array, _: Array, options: Options) -> Sequence[Array]:
    order = np.arange(a.shape[1])
    for k, pivot in enumerate(a[0].astype(int)):
        order[[k, pivot - 1]] = order[[pivot - 1, k]]
    return order, np.argsort(order)


def triangular(a: Array, b: Array, options: Options) -> Sequence[Array]:
    """X of T X = B."""
    n, x, upper = len(a), b.copy(), "upper" in options
    for i in range(n - 1, -1, -1) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        x[i] -= a[i, known] @ x[known]
        if "unit" not in options:
            x[i] /= a[i, i]
    return (x,)


def solve(a: Array, b: Array, options: Options) -> Sequence[Array]:
    """(as of `lu`, then X of A X = B)."""
    both, pivots, order, info = lu(a, b, options)
    (x,) = triangular(both, b[order.astype(int)], frozenset({"unit"}))
    return both, pivots, order, info, *triangular(both, x, frozenset({"upper"}))


def inverse(a: Array, _: Array, options: Options) -> Sequence[Array]:
    """(inverse, info)."""
    solved = solve(a, np.eye(len(a), dtype=a.dtype), options)
    return solved[-1], solved[-2]


def _qr(a: Array, _: Array, options: Options) -> Sequence[Array]:
    r, count = a.copy(), min(a.shape)
    tau = np.zeros(count)
    for k in range(count):
        first, below = r[k, k], r[k + 1 :, k].copy()
        if not below.any():
            continue
        beta = -np.copysign(np.hypot(first, np.linalg.norm(below)), first)
        tau[k] = (beta - first) / beta
        v = np.concatenate([[1.0], below / (first - beta)])
        r[k:, k:] -= tau[k] * np.outer(v, v @ r[k:, k:])
        r[k, k], r[k + 1 :, k] = beta, v[1:]
    return r, tau


def _reflections(a: Array, b: Array, options: Options) -> Sequence[Array]:
    tau, a, x = a[-1], a[:-1], b.copy()
    count = min(a.shape)
    for k in range(count) if "back" in options else range(count - 1, -1, -1):
        v = np.concatenate([[1.0], a[k + 1 :, k]])
        x[k:] -= tau[k] * np.outer(v, v @ x[k:])
    return (x,)


def _eigh(a: Array, _: Array, options: Options) -> Sequence[Array]:
    if not np.isfinite(a).all():
        return np.full(len(a), np.nan), np.full(a.shape, np.nan)
    return tuple(np.linalg.eigh(a))


def _eigvalsh(a: Array, b: Array, options: Options) -> Sequence[Array]:
    return _eigh(a, b, options)[:1]


def _svd(a: Array, _: Array, options: Options) -> Sequence[Array]:
    m, n = a.shape
    if not np.isfinite(a).all():
        return tuple(np.full(shape, np.nan) for shape in ((n,), (n, m), (n, n)))
    u, values, vt = np.linalg.svd(a, full_matrices=False)
    return values, u.T, vt


def _svdvals(a: Array, b: Array, options: Options) -> Sequence[Array]:
    return _svd(a, b, options)[:1]


# ---- what they cost ----


def _cubes(sizes: Sizes, thirds: int) -> Expr:
    return FloorDiv((integer(thirds) * sizes.m * sizes.n * sizes.n).expand(), integer(3))


def _cholesky_flops(s: Sizes) -> Expr:
    return _cubes(s, 1)


def _lu_flops(s: Sizes) -> Expr:
    return _cubes(s, 2)


def _solve_flops(s: Sizes) -> Expr:
    return _cubes(s, 2) + 2 * s.n * s.n * s.r


def _inverse_flops(s: Sizes) -> Expr:
    return _cubes(s, 6)


def _triangular_flops(s: Sizes) -> Expr:
    return s.n * s.n * s.r


def _order_flops(s: Sizes) -> Expr:
    return s.n


def _qr_flops(s: Sizes) -> Expr:
    return _cubes(s, 4)


def _reflections_flops(s: Sizes) -> Expr:
    return 4 * s.m * s.n * s.r


def _sweeps_flops(s: Sizes) -> Expr:
    return 24 * s.m * s.n * s.n


_BOTH = ("a", "b")
_BACK = frozenset({"back"})
_SHAPES = frozenset({"upper", "unit"})

_ROWS = (
    LibraryRoutine(LINALG, "cholesky", _cholesky_parts, cholesky, _cholesky_flops),
    LibraryRoutine(LINALG, "lu", _lu_parts, lu, _lu_flops),
    LibraryRoutine(LINALG, "solve", _solve_parts, solve, _solve_flops, _BOTH),
    LibraryRoutine(LINALG, "inverse", _inverse_parts, inverse, _inverse_flops),
    LibraryRoutine(LINALG, "order", _order_parts, _order, _order_flops),
    LibraryRoutine(LINALG, "eigh", _eigh_parts, _eigh, _sweeps_flops),
    LibraryRoutine(LINALG, "eigvalsh", _eigvalsh_parts, _eigvalsh, _sweeps_flops),
    LibraryRoutine(LINALG, "svd", _svd_parts, _svd, _sweeps_flops),
    LibraryRoutine(LINALG, "svdvals", _eigvalsh_parts, _svdvals, _sweeps_flops),
    LibraryRoutine(LINALG, "qr", _qr_parts, _qr, _qr_flops),
    LibraryRoutine(
        LINALG, "reflections", _reflections_parts, _reflections, _reflections_flops, _BOTH, _BACK
    ),
    LibraryRoutine(
        LINALG, "triangular", _triangular_parts, triangular, _triangular_flops, _BOTH, _SHAPES
    ),
)
ROUTINES: Mapping[str, LibraryRoutine] = {row.name: row for row in _ROWS}
