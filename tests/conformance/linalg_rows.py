"""Rows of dense linear algebra."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.conformance.complex_rows import COMPLEX as COMPLEX_TYPES
from tests.conformance.complex_rows import complexes
from tests.conformance.harness import Args, Row, ordinary

REAL = (torch.float32, torch.float64)
SIZES = ((2,), (3, 1), (2, 9), (18, 5), (2, 40))
"""Batches and sizes of square matrices: side by side in vectors' lanes, and one by one."""

linalg = torch.linalg


def strong(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Well-conditioned matrices whose pivots are not on the diagonal."""
    n = shape[-1]
    return ordinary(dtype, *shape) + 4 * n * torch.eye(n, dtype=dtype).roll(1, 0)


def positive(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Positive definite matrices; what is above the diagonal is another one's."""
    half, n = ordinary(dtype, *shape), shape[-1]
    return (half @ half.mT + 4 * n * torch.eye(n, dtype=dtype)).tril() + half.triu(1)


def _squares(
    make: Callable[..., torch.Tensor], columns: int = 0
) -> Callable[[torch.dtype], Sequence[Args]]:
    def samples(dtype: torch.dtype) -> Sequence[Args]:
        shapes = [(*s, s[-1]) for s in SIZES]
        right = [(ordinary(dtype, *s[:-1], columns),) if columns else () for s in shapes]
        return [(make(dtype, *s), *b) for s, b in zip(shapes, right, strict=True)]

    return samples


def _row(
    name: str, function: Callable[..., Any], make: Callable[..., torch.Tensor], columns: int = 0
) -> Row:
    return Row(name, function, _squares(make, columns), REAL)


def _first(a: torch.Tensor) -> torch.Tensor:
    return a if a.dim() == 2 else a[0]


def _of_factors(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    factors = linalg.lu_factor(a)
    return [
        linalg.lu_solve(*factors, b),
        linalg.lu_solve(*factors, b, adjoint=True),
        linalg.lu_solve(*factors, b.mT, left=False),
        linalg.lu_solve(*factors, b.mT, left=False, adjoint=True),
    ]


def _triangles(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    t = a.roll(-1, -2)
    return [
        linalg.solve_triangular(t, b, upper=True),
        linalg.solve_triangular(t.mT, b, upper=False),
        linalg.solve_triangular(t, b, upper=False),
        linalg.solve_triangular(t, b.mT, upper=False, left=False),
        linalg.solve_triangular(t / 99.0, b, upper=True, unitriangular=True),
        linalg.solve_triangular(_first(t), b, upper=True),
        torch.triangular_solve(b, t, upper=False, transpose=True)[0],
    ]


CHOLESKY = (
    _row("cholesky", linalg.cholesky, positive),
    _row("cholesky_ex upper", lambda a: linalg.cholesky_ex(a.mT, upper=True), positive),
    _row(
        "cholesky_solve",
        lambda a, b: torch.cholesky_solve(b, linalg.cholesky(a)),
        positive,
        3,
    ),
    _row("cholesky_inverse", lambda a: torch.cholesky_inverse(a.triu(), upper=True), positive),
)
LU = (
    _row("lu_factor", linalg.lu_factor_ex, strong),
    _row("lu", linalg.lu, strong),
    _row("lu wide", lambda a: linalg.lu(a[..., : max(1, a.shape[-1] // 2), :]), strong),
    _row("lu tall", lambda a: linalg.lu(a[..., : max(1, a.shape[-1] // 2)]), strong),
    _row("lu_unpack", lambda a: torch.lu_unpack(*linalg.lu_factor(a)), strong),
    _row("lu_solve", _of_factors, strong, 3),
    _row("solve", linalg.solve, strong, 5),
    _row("solve from the right", lambda a, b: linalg.solve(a, b.mT, left=False), strong, 4),
    _row("solve of vectors", lambda a, b: linalg.solve(a, b[..., 0]), strong, 1),
    _row("solve of many for one", lambda a, b: linalg.solve(_first(a), b), strong, 2),
    _row("inverse", torch.inverse, strong),
    _row("inverse of transposed", lambda a: linalg.inv_ex(a.mT), strong),
    _row("det", linalg.det, strong),
    _row("slogdet", linalg.slogdet, strong),
    _row("matrix_power", lambda a: linalg.matrix_power(a, -2), strong),
    _row("solve_triangular", _triangles, strong, 3),
)


def _rectangles(dtype: torch.dtype) -> Sequence[Args]:
    shapes = ((2, 2), (3, 4, 2), (18, 3, 5))  # those of larger ones are rebuilt in another test
    return [(ordinary(dtype, *s) + 4 * torch.eye(*s[-2:], dtype=dtype),) for s in shapes]


def _times_q(a: torch.Tensor) -> list[torch.Tensor]:
    turned, tau = torch.geqrf(a)
    other = a.cos()
    return [
        torch.ormqr(turned, tau, other),
        torch.ormqr(turned, tau, other, transpose=True),
        torch.ormqr(turned, tau, other.mT, left=False),
        torch.ormqr(turned, tau, other.mT, left=False, transpose=True),
    ]


def _first_columns(a: torch.Tensor) -> torch.Tensor:
    tall = a if a.shape[-2] >= a.shape[-1] else a.mT
    return linalg.householder_product(*torch.geqrf(tall))


def _right_sides(dtype: torch.dtype) -> Sequence[Args]:
    tall, right = ordinary(dtype, 5, 3), ordinary(dtype, 5, 2)
    # Any three rows may be nearly dependent: then eager's own error is a matter of luck.
    square = tall[:3] + 6 * torch.eye(3, dtype=dtype)
    pairs = ((tall, right), (square, right[:3]), (tall.mT.contiguous(), right[:3]))
    several = (ordinary(dtype, 2, 5, 3), ordinary(dtype, 2, 5, 1))
    return [(a, b, how) for a, b in (*pairs, several) for how in ("gels", "gelsy", "gelss")]


def _least_squares(a: torch.Tensor, b: torch.Tensor, how: str) -> tuple[torch.Tensor, ...]:
    found = linalg.lstsq(a, b, driver=how)
    return found.solution, found.residuals, found.rank


QR = (
    Row("geqrf", torch.geqrf, _rectangles, REAL),
    Row("qr", linalg.qr, _rectangles, REAL),
    Row("qr complete", lambda a: linalg.qr(a, mode="complete"), _rectangles, REAL),
    Row("qr without q", lambda a: linalg.qr(a, mode="r")[1], _rectangles, REAL),
    Row("householder_product", _first_columns, _rectangles, REAL),
    Row("ormqr", _times_q, _rectangles, REAL),
    Row("lstsq", _least_squares, _right_sides, REAL),
)


def _exchanged(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Permutations, of which each is another one."""
    one = torch.eye(shape[-1], dtype=dtype)
    return torch.stack([one.roll(k + 1, 0) for k in range(math.prod(shape[:-2]))]).reshape(shape)


def _complex(dtype: torch.dtype) -> Sequence[Args]:
    """One matrix, large ones, and more than a vector has lanes, with pivots of their own."""
    shapes = ((1, 1), (2, 40, 40), (18, 5, 5))
    pivots = (4 * s[-1] * _exchanged(dtype, *s) for s in shapes)
    right = (complexes(dtype, *s[:-1], 3) for s in shapes)
    return [(complexes(dtype, *s) + p, b) for s, p, b in zip(shapes, pivots, right, strict=True)]


def _solved(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    return [
        linalg.solve(a, b),
        linalg.solve(a, b.mT, left=False),
        linalg.solve(a, b[..., 0]),
        linalg.inv_ex(a)[0],
    ]


def _values(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    return [
        linalg.svdvals(b),
        linalg.svdvals(b.mT),
        linalg.matrix_norm(b, 2),
        linalg.cond(a),
        linalg.eigvalsh(a),
        linalg.eigvalsh(a, UPLO="U"),
    ]


OF_COMPLEX = (
    Row("complex systems", _solved, _complex, COMPLEX_TYPES),
    Row("complex singular values", _values, _complex, COMPLEX_TYPES[:1]),
)


def _hermitian(a: torch.Tensor) -> torch.Tensor:
    n = a.shape[-1]
    return a @ a.mH + 4 * n * torch.eye(n, dtype=a.dtype)


def _of_hermitian(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    whole = _hermitian(a)
    other = torch.triu(whole) + torch.tril(a, -1)
    lower = linalg.cholesky(torch.tril(whole) + torch.triu(a, 1))
    return [
        lower,
        linalg.cholesky(other, upper=True),
        linalg.cholesky_ex(-whole)[1],
        torch.cholesky_solve(b, lower),
        torch.cholesky_inverse(lower.mH, upper=True),
    ]


def _complex_factors(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    return [
        *linalg.lu(torch.cat([a, b], -1)),
        *linalg.lu_factor(torch.cat([a, b], -1).mT),
        *_of_factors(a, b),
        linalg.det(a / 8),
        *linalg.slogdet(a),
        *torch.ops.aten._linalg_solve_ex(a, b)[:3],
    ]


def _complex_reflections(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    tall = torch.cat([a.mT, b.mT], -2)
    turned, tau = torch.geqrf(tall)
    return [
        turned,
        tau,
        *linalg.qr(b),
        linalg.qr(b, mode="complete")[0],
        linalg.householder_product(turned, tau),
        *_times_q(tall),
        linalg.pinv(b),
    ]


def _beside_greatest(made: torch.Tensor) -> torch.Tensor:
    """Sums whose terms cancel: each element is as inexact as the greatest one."""
    return made + made.abs().amax((-2, -1), keepdim=True)


def _rebuilt(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    u, s, vh = linalg.svd(b)
    narrow, of_narrow, last = linalg.svd(b.mT, full_matrices=False)
    k = s.shape[-1]
    values, vectors = linalg.eigh(a, UPLO="U")
    return [
        _beside_greatest((u[..., :k] * s[..., None, :]) @ vh[..., :k, :]),
        u.mH @ u,
        vh @ vh.mH,
        _beside_greatest((narrow * of_narrow[..., None, :]) @ last),
        _beside_greatest((vectors * values[..., None, :]) @ vectors.mH),
        linalg.pinv(_hermitian(a), hermitian=True),
    ]


def _from_eigenvectors(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    values, vectors = linalg.eig(a)
    left = a.to(vectors.dtype) @ vectors - vectors * values[..., None, :]
    return [
        1 + left / (8 * a.shape[-1]),
        linalg.vector_norm(vectors, dim=-2),
        linalg.eigvals(a).abs().sort().values,
        linalg.eigvals(a).sum(-1),
    ]


def _symmetric_factors(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    made = []
    for whole, hermitian in ((a + a.mT, False), (a + a.mH, a.is_complex())):
        zeros = whole - torch.diag_embed(whole.diagonal(dim1=-2, dim2=-1))
        for given in (whole, zeros):
            ld, pivots, info = linalg.ldl_factor_ex(given, hermitian=hermitian)
            found = linalg.ldl_solve(ld, pivots, b, hermitian=hermitian)
            made += [ld, pivots, info] if a.shape[-1] < 10 else []  # larger ones in blocks
            made += [given @ found] if a.shape[-1] > 1 else []
    return made


def _pairs(dtype: torch.dtype) -> Sequence[Args]:
    if dtype.is_complex:
        return _complex(dtype)
    shapes = ((1, 1), (2, 20, 20), (2, 5, 5))
    return [(strong(dtype, *s), ordinary(dtype, *s[:-1], 3)) for s in shapes]


BOTH_KINDS = (*REAL, *COMPLEX_TYPES)
GENERAL = (
    Row("complex factors", _complex_factors, _complex, COMPLEX_TYPES),
    Row("complex reflections", _complex_reflections, _complex, COMPLEX_TYPES),
    Row("complex vectors rebuild", _rebuilt, _complex, COMPLEX_TYPES),
    Row("eigenvectors of any", _from_eigenvectors, _pairs, BOTH_KINDS),
    Row("ldl", _symmetric_factors, _pairs, BOTH_KINDS),
)
"""Of routines that GPUs leave to the host."""

HERMITIAN = (Row("complex cholesky", _of_hermitian, _complex, COMPLEX_TYPES),)
ROWS: tuple[Row, ...] = (*CHOLESKY, *LU, *QR, *OF_COMPLEX, *HERMITIAN, *GENERAL)
