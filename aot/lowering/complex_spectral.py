"""Eigenvalues and singular values of complex matrices; eigenvalues of any, and L D L^T, of both."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.dtypes import INT32
from aot.ir.scalar import Node, cast
from aot.ir.templates.general_linalg import GENERAL_ROUTINES
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.complex_factors import completed
from aot.lowering.complex_linalg import (
    Pair,
    adjoint,
    general,
    outcomes,
    pair,
    transposed,
)
from aot.lowering.library import Matrices, Records, Shape, call_routine
from aot.lowering.linalg import refuse_checks, zeros
from aot.lowering.registry import Call, SeveralResults
from aot.lowering.rows import REGISTRY
from aot.lowering.spectral import is_wide

# ---- singular values ----


@REGISTRY.row("complex.aten._linalg_svd.default")
def svd(
    call: Call,
    a: Pair,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> SeveralResults:
    """(U, singular values in descending order, V^H); `driver` chooses among algorithms of GPUs."""
    wide, nothing = is_wide(a[0]), zeros(a[0])
    if not compute_uv or len(call.op.outputs) == 3:  # a complex one that is read is two
        empty = (nothing, nothing)
        return outcomes(call, empty, _singular_values(a, wide), empty)
    found = general("complex_svd", transposed(a) if wide else a)
    tall, square = transposed(pair(found, "ut")), pair(found, "vh")
    if full_matrices:
        tall = completed(tall)
    values = found.part("values")
    if wide:
        return outcomes(call, transposed(square), values, transposed(tall))
    return outcomes(call, tall, values, square)


def _singular_values(a: Pair, wide: bool) -> Tensor:
    return general("complex_svdvals", transposed(a) if wide else a).part("values")


# ---- eigenvalues of Hermitian matrices ----


@REGISTRY.row("complex.aten._linalg_eigh.default")
def eigh(call: Call, a: Pair, UPLO: str = "L", compute_v: bool = True) -> SeveralResults:
    """(eigenvalues in ascending order, eigenvectors as columns) of one triangle."""
    given = adjoint(a) if UPLO.upper() == "U" else a
    if not compute_v or len(call.op.outputs) == 2:
        nothing = zeros(a[0])
        return outcomes(call, _values(given), (nothing, nothing))
    found = general("complex_eigh", given)
    return outcomes(call, found.part("values"), pair(found, "vectors"))


def _values(a: Pair) -> Tensor:
    return general("complex_eigvalsh", a).part("values")


# ---- eigenvalues of any matrices ----


def _eigen(routine: str, a: Pair | Tensor) -> Records:
    if isinstance(a, tuple):
        return general(f"complex_{routine}", a)
    return call_routine(GENERAL_ROUTINES[routine], Matrices(a))


@REGISTRY.row("complex.aten.linalg_eig.default")
def eig(call: Call, a: Pair | Tensor) -> SeveralResults:
    """(eigenvalues, eigenvectors as columns of length 1)."""
    if call.op.outputs[-1] is None:
        nothing = zeros(a[0] if isinstance(a, tuple) else a)
        return outcomes(call, pair(_eigen("eigvals", a), "values"), (nothing, nothing))
    found = _eigen("eig", a)
    return outcomes(call, pair(found, "values"), pair(found, "vectors"))


@REGISTRY.row("complex.aten.linalg_eigvals.default", "complex.aten._linalg_eigvals.default")
def eigvals(call: Call, a: Pair | Tensor) -> SeveralResults:
    """Eigenvalues."""
    return pair(_eigen("eigvals", a), "values")


# ---- powers ----


@REGISTRY.row("aot.squared.default")
def squared(call: Call, x: Tensor, times: Tensor) -> Tensor:
    """x, squared as often as `times` (batch, 1, 1) says: 24 times at most."""
    found = call_routine(GENERAL_ROUTINES["squared"], Matrices(x), Matrices(times))
    return found.part("product")


@REGISTRY.row("complex.aot.squared.default")
def complex_squared(call: Call, x: Pair, times: Tensor) -> SeveralResults:
    """The same of complex matrices."""
    return pair(general("complex_squared", x, (times, times)), "product")


@REGISTRY.row("aot.exponential.default")
def exponential(call: Call, x: Tensor, times: Tensor) -> Tensor:
    """The exponential of a matrix near 0, squared as often as `times` (batch, 1, 1) says."""
    found = call_routine(GENERAL_ROUTINES["exponential"], Matrices(x), Matrices(times))
    return found.part("product")


@REGISTRY.row("complex.aot.exponential.default")
def complex_exponential(call: Call, x: Pair, times: Tensor) -> SeveralResults:
    """The same of complex matrices."""
    return pair(general("complex_exponential", x, (times, times)), "product")


# ---- L D L^T ----


def _options(hermitian: bool) -> Sequence[str]:
    return ["hermitian"] if hermitian else []


@REGISTRY.row("aten.linalg_ldl_factor_ex.default")
def ldl_factor_ex(
    call: Call, a: Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> SeveralResults:
    """(L and D, pivots, info) of the lower triangle."""
    refuse_checks(check_errors)
    found = call_routine(GENERAL_ROUTINES["ldl"], Matrices(a))
    return found.part("ld"), found.part("pivots", INT32), found.part("info", INT32)


@REGISTRY.row("complex.aten.linalg_ldl_factor_ex.default")
def complex_ldl_factor_ex(
    call: Call, a: Pair, *, hermitian: bool = False, check_errors: bool = False
) -> SeveralResults:
    """The same of symmetric or Hermitian matrices."""
    refuse_checks(check_errors)
    found = general("complex_ldl", a, options=_options(hermitian))
    return outcomes(call, pair(found, "ld"), found.part("pivots", INT32), found.part("info", INT32))


def _with_pivots(ld: Tensor, pivots: Tensor) -> Tensor:
    """The pivots as one row more below the factors."""
    n, builder = ld.shape[-1], ld.builder

    def body(at: Shape) -> Node:
        above = e.lt(builder.index_node(at[-2]), builder.index_node(n))
        below = cast(pivots.load((*at[:-2], at[-1])), ld.dtype)
        return e.select(above, ld.load(at, above), below)

    return builder.pointwise((*ld.shape[:-2], n + 1, n), ld.dtype, body)


@REGISTRY.row("aten.linalg_ldl_solve.default")
def ldl_solve(
    call: Call, ld: Tensor, pivots: Tensor, b: Tensor, *, hermitian: bool = False
) -> Tensor:
    """X of A X = B from factors of A."""
    given = Matrices(_with_pivots(ld, pivots))
    return call_routine(GENERAL_ROUTINES["ldl_solve"], given, Matrices(b)).part("x")


@REGISTRY.row("complex.aten.linalg_ldl_solve.default")
def complex_ldl_solve(
    call: Call, ld: Pair, pivots: Tensor, b: Pair, *, hermitian: bool = False
) -> SeveralResults:
    """The same of symmetric or Hermitian matrices."""
    given = _with_pivots(ld[0], pivots), _with_pivots(ld[1], pivots)
    return pair(general("complex_ldl_solve", given, b, _options(hermitian)), "x")
