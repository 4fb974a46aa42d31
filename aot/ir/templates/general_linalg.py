"""Dense linear algebra of complex matrices, and determinants and eigenvalues of any: the contracts.

An operand of a complex routine has all real parts above all imaginary ones, so that it has twice as
many rows; these may come apart, as operands of their own (`a_im`, `b_im`). A part of a record that
is complex is two, called `x.re` and `x.im`. Conventions are LAPACK's: eig is geev, lstsq gelsy, ldl
sytrf (hetrf where Hermitian) of the lower triangle, ldl_solve sytrs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from aot.ir.templates import real_forms
from aot.ir.templates.base import Array
from aot.ir.templates.library import Form, LibraryRoutine, RecordParts, Sizes
from aot.ir.templates.linalg import LINALG, cholesky, inverse, least, lu, solve, triangular
from aot.symbolic import Expr, FloorDiv, integer

Options = frozenset[str]
Shape = tuple[Expr, ...]
PartsOf = Callable[[Sizes], RecordParts]


def halved(rows: Expr) -> Expr:
    """Rows of a complex matrix, of those of an operand."""
    return FloorDiv(rows.expand(), integer(2))


def _both(name: str, shape: Shape) -> RecordParts:
    return {f"{name}.re": shape, f"{name}.im": shape}


# ---- what records hold ----


def _cholesky_parts(s: Sizes) -> RecordParts:
    return {**_both("factor", (s.n, s.n)), "info": ()}


def _lu_parts(s: Sizes) -> RecordParts:
    m = halved(s.m)
    return {**_both("lu", (m, s.n)), "pivots": (least(m, s.n),), "order": (m,), "info": ()}


def _solve_parts(s: Sizes) -> RecordParts:
    return {**_both("x", (s.n, s.r)), "info": ()}


def _inverse_parts(s: Sizes) -> RecordParts:
    return {**_both("inverse", (s.n, s.n)), "info": ()}


def _determinant_parts(s: Sizes) -> RecordParts:
    return {"det": (), "sign": (), "logdet": ()}


def _complex_determinant_parts(s: Sizes) -> RecordParts:
    return {**_both("det", ()), **_both("sign", ()), "logdet": ()}


def _qr_parts(s: Sizes) -> RecordParts:
    m = halved(s.m)
    return {**_both("reflections", (m, s.n)), **_both("tau", (least(m, s.n),))}


def _reflections_parts(s: Sizes) -> RecordParts:
    return _both("product", (halved(s.m) - 1, s.r))


def _values_parts(s: Sizes) -> RecordParts:
    return {"values": (s.n,)}


def _eigh_parts(s: Sizes) -> RecordParts:
    return {**_values_parts(s), **_both("vectors", (s.n, s.n))}


def _svd_parts(s: Sizes) -> RecordParts:
    return {**_values_parts(s), **_both("ut", (s.n, halved(s.m))), **_both("vh", (s.n, s.n))}


def _eig_parts(s: Sizes) -> RecordParts:
    return {**_eigvals_parts(s), **_both("vectors", (s.n, s.n))}


def _eigvals_parts(s: Sizes) -> RecordParts:
    return _both("values", (s.n,))


def _lstsq_parts(s: Sizes) -> RecordParts:
    return {"x": (s.n, s.r), "rank": ()}


def _complex_lstsq_parts(s: Sizes) -> RecordParts:
    return {**_both("x", (s.n, s.r)), "rank": ()}


def _square_parts(s: Sizes) -> RecordParts:
    return {"product": (s.n, s.n)}


def _complex_square_parts(s: Sizes) -> RecordParts:
    return _both("product", (s.n, s.n))


def _ldl_parts(s: Sizes) -> RecordParts:
    return {"ld": (s.n, s.n), "pivots": (s.n,), "info": ()}


def _complex_ldl_parts(s: Sizes) -> RecordParts:
    return {**_both("ld", (s.n, s.n)), "pivots": (s.n,), "info": ()}


def _x_parts(s: Sizes) -> RecordParts:
    return {"x": (s.n, s.r)}


def _complex_x_parts(s: Sizes) -> RecordParts:
    return _both("x", (s.n, s.r))


# ---- what they mean ----


def _joined(a: Array) -> Array:
    half = len(a) // 2
    return np.asarray(a[:half] + 1j * a[half:])


def _parted(*values: Array) -> list[Array]:
    return [part for x in values for part in (np.real(x), np.imag(x))]


Meaning = Callable[[Array, Array, Options], Sequence[Array]]


def _of_complex(compute: Meaning, roles: tuple[str, ...]) -> Meaning:
    """The same of complex operands and results as they lie here."""

    def computed(a: Array, b: Array, options: Options) -> Sequence[Array]:
        found = compute(_joined(a), _joined(b) if "b" in roles else b, options)
        return [y for x in found for y in (_parted(x) if np.iscomplexobj(x) else [x])]

    return computed


def _solution(a: Array, b: Array, options: Options) -> Sequence[Array]:
    *_, info, x = solve(a, b, options)
    return x, info


def _determinant(a: Array, b: Array, options: Options) -> Sequence[Array]:
    factors, pivots, *_ = lu(a, b, options)
    pivot, signs = np.diag(factors), np.prod(np.where(pivots == np.arange(len(a)) + 1, 1, -1))
    sizes = np.abs(pivot)
    with np.errstate(divide="ignore"):
        logs = np.log(sizes).sum()
    sign = signs * np.prod(np.where(sizes == 0, 0, pivot / np.where(sizes == 0, 1, sizes)))
    return np.asarray(signs * np.prod(pivot)), np.asarray(sign), np.asarray(logs)


def _qr(a: Array, _: Array, options: Options) -> Sequence[Array]:
    r = _joined(a)
    count = min(r.shape)
    tau = np.zeros(count, complex)
    for k in range(count):
        first, below = r[k, k], r[k + 1 :, k].copy()
        if not below.any() and first.imag == 0:
            continue
        beta = -np.copysign(np.linalg.norm(r[k:, k]), first.real)
        tau[k] = (beta - first) / beta
        v = np.concatenate([[1.0], below / (first - beta)])
        r[k:, k:] -= np.conj(tau[k]) * np.outer(v, v.conj() @ r[k:, k:])
        r[k, k], r[k + 1 :, k] = beta, v[1:]
    return _parted(r, tau)


def _reflections(a: Array, b: Array, options: Options) -> Sequence[Array]:
    given, x = _joined(a), _joined(b)
    tau, given, back = given[-1], given[:-1], "back" in options
    count = min(given.shape)
    for k in range(count) if back else range(count - 1, -1, -1):
        v = np.concatenate([[1.0], given[k + 1 :, k]])
        x[k:] -= (np.conj(tau[k]) if back else tau[k]) * np.outer(v, v.conj() @ x[k:])
    return _parted(x)


def _eigh(a: Array, _: Array, options: Options) -> Sequence[Array]:
    values, vectors = np.linalg.eigh(_joined(a))
    return [values, *_parted(vectors)]


def _eigvalsh(a: Array, b: Array, options: Options) -> Sequence[Array]:
    return _eigh(a, b, options)[:1]


def _svd(a: Array, _: Array, options: Options) -> Sequence[Array]:
    u, values, vh = np.linalg.svd(_joined(a), full_matrices=False)
    return [values, *_parted(u.T, vh)]


def _svdvals(a: Array, b: Array, options: Options) -> Sequence[Array]:
    return _svd(a, b, options)[:1]


def _real_eig(a: Array, _: Array, options: Options) -> Sequence[Array]:
    return _parted(*np.linalg.eig(a))


def _eig(a: Array, b: Array, options: Options) -> Sequence[Array]:
    return _real_eig(_joined(a), b, options)


def _real_eigvals(a: Array, b: Array, options: Options) -> Sequence[Array]:
    return _real_eig(a, b, options)[:2]


def _eigvals(a: Array, b: Array, options: Options) -> Sequence[Array]:
    return _eig(a, b, options)[:2]


def _lstsq(a: Array, b: Array, options: Options) -> Sequence[Array]:
    rounding = np.finfo(a.dtype).eps * max(a.shape)
    x, _, rank, _ = np.linalg.lstsq(a, b, rcond=rounding)
    return x, np.asarray(rank)


def _complex_lstsq(a: Array, b: Array, options: Options) -> Sequence[Array]:
    x, rank = _lstsq(_joined(a), _joined(b), options)
    return [*_parted(x), rank]


def _squared(a: Array, b: Array, options: Options) -> Sequence[Array]:
    for _ in range(int(np.nan_to_num(b[0, 0].real))):
        a = a @ a
    return (a,)


def _complex_squared(a: Array, b: Array, options: Options) -> Sequence[Array]:
    return _parted(*_squared(_joined(a), b, options))


def _exponential(a: Array, b: Array, options: Options) -> Sequence[Array]:
    term = total = np.eye(len(a), dtype=a.dtype)
    for k in range(1, real_forms.TERMS + 1):
        term = term @ a / k
        total = total + term
    return _squared(total, b, options)


def _turned(a: Array, options: Options) -> Array:
    return np.conj(a) if "hermitian" in options else a


def _rough(a: Array) -> Array:
    return np.asarray(np.abs(np.real(a)) + np.abs(np.imag(a)))


def _choose(a: Array, k: int) -> tuple[int, int]:
    """Bunch and Kaufman's: which row comes last in a step of how many rows; no row: -1."""
    share, own = (1 + np.sqrt(17)) / 8, _rough(a[k, k])
    below = _rough(a[k + 1 :, k])
    most = k + 1 + int(np.argmax(below)) if len(below) else k
    column = below.max(initial=0)
    if max(own, column) == 0 or np.isnan(own):
        return -1, 1
    row = max(_rough(a[most, k:most]).max(initial=0), _rough(a[most + 1 :, most]).max(initial=0))
    if own >= share * column or own >= share * column * (column / row):
        return k, 1
    return (most, 1) if _rough(a[most, most]) >= share * row else (most, 2)


def _factored(given: Array, options: Options) -> tuple[Array, Array, Array]:
    """The factors, with zeros above the diagonal, pivots and info."""
    lower = np.tril(given)
    whole = lower + _turned(np.tril(given, -1).T, options)
    if "hermitian" in options:
        np.fill_diagonal(whole, np.real(np.diag(whole)))
    n, info, k = len(given), 0, 0
    pivots, factor = np.zeros(n), np.zeros_like(whole)
    while k < n:
        chosen, rows = _choose(whole, k)
        pivots[k : k + rows] = chosen + 1 if rows == 1 else -(chosen + 1)
        end, block = k + rows, slice(k, k + rows)
        if chosen < 0:
            pivots[k], info = k + 1, info or k + 1
            factor[k:, k] = whole[k:, k]
        else:
            swapped = [chosen, end - 1], [end - 1, chosen]
            whole[swapped[0]] = whole[swapped[1]]
            whole[:, swapped[0]] = whole[:, swapped[1]]
            d = whole[block, block].copy()
            part = whole[end:, block] @ np.linalg.inv(d)
            whole[end:, end:] -= part @ whole[block, end:]
            factor[end:, block], factor[block, block] = part, np.tril(d)
        k = end
    return factor, pivots, np.array(info)


def _ldl(a: Array, _: Array, options: Options) -> Sequence[Array]:
    return _factored(a, options)


def _complex_ldl(a: Array, _: Array, options: Options) -> Sequence[Array]:
    ld, pivots, info = _factored(_joined(a), options)
    return [*_parted(ld), pivots, info]


def _solved(factors: Array, pivots: Array, b: Array, options: Options) -> Array:
    n, x = len(factors), b.copy()
    steps, k = [], 0
    while k < n:
        rows = 1 if pivots[k] > 0 else 2
        steps.append((k, rows, abs(int(pivots[k])) - 1))
        k += rows
    for k, rows, chosen in steps:
        end, block = k + rows, slice(k, k + rows)
        x[[end - 1, chosen]] = x[[chosen, end - 1]]
        x[end:] -= factors[end:, block] @ x[block]
        d = np.tril(factors[block, block])
        d = d + _turned(np.tril(d, -1).T, options)
        x[block] = np.linalg.solve(d, x[block])
    for k, rows, chosen in reversed(steps):
        end, block = k + rows, slice(k, k + rows)
        x[block] -= _turned(factors[end:, block], options).T @ x[end:]
        x[[end - 1, chosen]] = x[[chosen, end - 1]]
    return x


def _ldl_solve(a: Array, b: Array, options: Options) -> Sequence[Array]:
    return (_solved(a[:-1], a[-1], b, options),)


def _complex_ldl_solve(a: Array, b: Array, options: Options) -> Sequence[Array]:
    given = _joined(a)
    return _parted(_solved(given[:-1], given[-1].real, _joined(b), options))


# ---- what they cost ----


def _flops(times: int, s: Sizes) -> Expr:
    return times * s.m * s.n * s.n


def _flops_of_sides(times: int, s: Sizes) -> Expr:
    return times * s.m * s.n * s.r


_BACK, _HERMITIAN = frozenset({"back"}), frozenset({"hermitian"})
_PRODUCT = frozenset({"product"})
_SIDES = ("a", "b")
_PARTED, _PARTED_SIDES = ("a", "a_im"), ("a", "b", "a_im", "b_im")


_row = partial(LibraryRoutine, LINALG)
_row_on_sides = partial(_row, flops=partial(_flops_of_sides, 8), roles=_SIDES)


def _complex_row(
    name: str,
    parts: PartsOf,
    compute: Meaning,
    times: int,
    instead: Form | None = None,
    roles: tuple[str, ...] = _PARTED,
    options: frozenset[str] = frozenset(),
) -> LibraryRoutine:
    meaning, flops = _of_complex(compute, roles), partial(_flops, times)
    return _row(f"complex_{name}", parts, meaning, flops, roles, options=options, instead=instead)


def _factors() -> Sequence[LibraryRoutine]:
    return (
        _complex_row("cholesky", _cholesky_parts, cholesky, 1, instead=real_forms.cholesky),
        _complex_row("lu", _lu_parts, lu, 2),
        _complex_row("inverse", _inverse_parts, inverse, 6, instead=real_forms.inverse),
        _complex_row("solve", _solve_parts, _solution, 3, real_forms.solve, _PARTED_SIDES),
        _complex_row("determinant", _complex_determinant_parts, _determinant, 2, options=_PRODUCT),
        _row(
            "complex_triangular",
            _complex_x_parts,
            _of_complex(triangular, _PARTED_SIDES),
            partial(_flops_of_sides, 4),
            roles=_PARTED_SIDES,
            options=frozenset({"upper", "unit"}),
            instead=real_forms.triangular,
        ),
        _row(
            "determinant",
            _determinant_parts,
            _determinant,
            partial(_flops, 1),
            options=_PRODUCT,
            instead=real_forms.determinant,
        ),
        _row("complex_qr", _qr_parts, _qr, partial(_flops, 4)),
        _row_on_sides("complex_reflections", _reflections_parts, _reflections, options=_BACK),
    )


def _spectra() -> Sequence[LibraryRoutine]:
    return (
        _row("complex_eigh", _eigh_parts, _eigh, partial(_flops, 24)),
        _row(
            "complex_eigvalsh",
            _values_parts,
            _eigvalsh,
            partial(_flops, 6),
            instead=real_forms.hermitian_values,
        ),
        _row("complex_svd", _svd_parts, _svd, partial(_flops, 48)),
        _row(
            "complex_svdvals",
            _values_parts,
            _svdvals,
            partial(_flops, 12),
            instead=real_forms.singular_values,
        ),
        _row("eig", _eig_parts, _real_eig, partial(_flops, 25)),
        _row("eigvals", _eigvals_parts, _real_eigvals, partial(_flops, 10)),
        _row("complex_eig", _eig_parts, _eig, partial(_flops, 50)),
        _row("complex_eigvals", _eigvals_parts, _eigvals, partial(_flops, 20)),
    )


def _systems_and_powers() -> Sequence[LibraryRoutine]:
    return (
        _row(
            "lstsq",
            _lstsq_parts,
            _lstsq,
            partial(_flops, 3),
            roles=_SIDES,
            instead=real_forms.least_squares,
        ),
        _row(
            "complex_lstsq",
            _complex_lstsq_parts,
            _complex_lstsq,
            partial(_flops, 6),
            roles=_SIDES,
        ),
        _row(
            "squared",
            _square_parts,
            _squared,
            partial(_flops, 2 * 8),
            roles=_SIDES,
            instead=real_forms.squared,
        ),
        _row(
            "complex_squared",
            _complex_square_parts,
            _complex_squared,
            partial(_flops, 4 * 8),
            roles=_SIDES,
            instead=real_forms.squared,
        ),
        _row(
            "exponential",
            _square_parts,
            _exponential,
            partial(_flops, 2 * 10),
            roles=_SIDES,
            instead=real_forms.exponential,
        ),
        _row(
            "complex_exponential",
            _complex_square_parts,
            _of_complex(_exponential, _PARTED_SIDES),
            partial(_flops, 4 * 10),
            roles=_PARTED_SIDES,
            instead=real_forms.exponential,
        ),
        _row("ldl", _ldl_parts, _ldl, partial(_flops, 1), options=_HERMITIAN),
        _row(
            "complex_ldl", _complex_ldl_parts, _complex_ldl, partial(_flops, 2), options=_HERMITIAN
        ),
        _row_on_sides("ldl_solve", _x_parts, _ldl_solve, options=_HERMITIAN),
        _row_on_sides(
            "complex_ldl_solve", _complex_x_parts, _complex_ldl_solve, options=_HERMITIAN
        ),
    )


GENERAL_ROUTINES: Mapping[str, LibraryRoutine] = {
    row.name: row for row in (*_factors(), *_spectra(), *_systems_and_powers())
}
"""By their names."""
