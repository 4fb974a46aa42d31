"""Dense linear algebra of complex matrices by real ones of twice the size.

X + iY acts on pairs of parts as [[X, -Y], [Y, X]]: products, inverses and solutions are those of
these matrices, singular values and eigenvalues theirs, each twice. What is not unique, or no
function of such a matrix (vectors, factors, determinants' arguments), is refused.
"""

from __future__ import annotations

from aot.ir.dtypes import INT32
from aot.ir.scalar import Node, const
from aot.ir.templates.linalg import ROUTINES
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.library import Matrices, Shape, call_routine
from aot.lowering.linalg import mirrored, solve_ex
from aot.lowering.registry import Call, CannotLower, SeveralResults
from aot.lowering.rows import REGISTRY
from aot.lowering.views import moved
from aot.symbolic import Modulo, as_expr

Pair = tuple[Tensor, Tensor]


def _doubled(z: Pair) -> Tensor:
    """[[X, -Y], [Y, X]]."""
    (re, im), (m, n) = z, z[0].shape[-2:]
    builder = re.builder

    def body(at: Shape) -> Node:
        place = (*at[:-2], Modulo(at[-2], m), Modulo(at[-1], n))
        below = e.ge(builder.index_node(at[-2]), builder.index_node(m))
        right = e.ge(builder.index_node(at[-1]), builder.index_node(n))
        other = im.load(place)
        other = e.select(right, e.neg(other), other)
        return e.select(e.eq(below, right), re.load(place), other)

    return builder.pointwise((*re.shape[:-2], 2 * m, 2 * n), re.dtype, body)


def _stacked(z: Pair) -> Tensor:
    """[X; Y]."""
    (re, im), (m, n) = z, z[0].shape[-2:]

    def body(at: Shape) -> Node:
        place = (*at[:-2], Modulo(at[-2], m), at[-1])
        below = e.ge(re.builder.index_node(at[-2]), re.builder.index_node(m))
        return e.select(below, im.load(place), re.load(place))

    return re.builder.pointwise((*re.shape[:-2], 2 * m, n), re.dtype, body)


def _parts(x: Tensor) -> Pair:
    """The parts that lie one below the other."""
    half, columns = x.shape[-2] // 2, x.shape[-1]
    shape = (*x.shape[:-2], half, columns)
    return (
        moved(x, shape, lambda at: at),
        moved(x, shape, lambda at: (*at[:-2], at[-2] + half, at[-1])),
    )


def _each(values: Tensor) -> Tensor:
    """Every other one of values that are there twice."""
    shape = (*values.shape[:-1], values.shape[-1] // 2)
    return moved(values, shape, lambda at: (*at[:-1], 2 * at[-1]))


def _results(call: Call, count: int, what: str) -> None:
    """Refuses calls of which more is read than `count` results; a complex one that is read is two.

    Raises:
        CannotLower: Something is.
    """
    if len(call.op.outputs) > count:
        raise CannotLower(f"{what} of complex matrices: take real ones of twice the size")


@REGISTRY.row("complex.aten.linalg_inv_ex.default")
def inverse(call: Call, a: Pair, *, check_errors: bool = False) -> SeveralResults:
    """(inverse, info), info other than 0 where there is none."""
    if check_errors:
        raise CannotLower("check_errors=True: call the operator without _ex, which raises as well")
    found = call_routine(ROUTINES["inverse"], Matrices(_doubled(a)))
    if call.op.outputs[0] is None:
        return None, found.part("info", INT32)
    doubled = found.part("inverse")
    n = a[0].shape[-1]
    left = moved(doubled, (*doubled.shape[:-1], n), lambda at: at)
    return (*_parts(left), found.part("info", INT32))


@REGISTRY.row("complex.aten._linalg_solve_ex.default")
def solve(
    call: Call, a: Pair, b: Pair, *, left: bool = True, check_errors: bool = False
) -> SeveralResults:
    """(X of A X = B or X A = B, nothing for LU and pivots, info)."""
    *read, pivots, info_name = call.op.outputs
    if read[-1] is not None or pivots is not None:
        raise CannotLower("factors of complex matrices: take real ones of twice the size")
    (re, im), rank = b, b[0].rank
    is_vector = rank == 1 or (rank == a[0].rank - 1 and re.shape == a[0].shape[:-1])
    if is_vector:
        shape = (*re.shape, as_expr(1))
        re, im = (moved(x, shape, lambda at: at[:-1]) for x in (re, im))
    if not left:
        a, (re, im) = (mirrored(a[0]), mirrored(a[1])), (mirrored(re), mirrored(im))
    x, *_, info = solve_ex(call, _doubled(a), _stacked((re, im)), check_errors=check_errors)
    assert x is not None and info is not None
    parts: SeveralResults = _parts(x)
    if is_vector:
        parts = tuple(moved(p, p.shape[:-1], lambda at: (*at, as_expr(0))) for p in _parts(x))
    elif not left:
        parts = tuple(map(mirrored, _parts(x)))
    return (*(parts if len(read) > 2 else (None,)), None, None, info if info_name else None)


@REGISTRY.row("complex.aten._linalg_svd.default")
def singular_values(
    call: Call,
    a: Pair,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> SeveralResults:
    """(nothing, singular values in descending order, nothing)."""
    _results(call, 3, "singular vectors")
    m, n = a[0].shape[-2:]
    wide = not a[0].builder.ranges.nonnegative(m - n)
    if wide and not a[0].builder.ranges.nonnegative(n - m):
        raise CannotLower("which of a matrix's sizes is the lesser is not known: make one static")
    found = call_routine(ROUTINES["svdvals"], Matrices(_doubled(a), turned=wide))
    return None, _each(found.part("values")), None


@REGISTRY.row("complex.aten._linalg_eigh.default")
def eigenvalues(call: Call, a: Pair, UPLO: str = "L", compute_v: bool = True) -> SeveralResults:
    """(eigenvalues in ascending order of Hermitian matrices, nothing)."""
    _results(call, 2, "eigenvectors")
    found = call_routine(ROUTINES["eigvalsh"], Matrices(_doubled(_hermitian(a, UPLO.upper()))))
    return _each(found.part("values")), None


def _hermitian(a: Pair, triangle: str) -> Pair:
    """The whole of matrices of which one triangle counts, the diagonal's real part with it."""
    re, im = a
    builder = re.builder

    def known(x: Tensor, at: Shape) -> Node:
        row, column = (builder.index_node(i) for i in at[-2:])
        given = e.ge(row, column) if triangle == "L" else e.le(row, column)
        return e.select(given, x.load(at), x.load((*at[:-2], at[-1], at[-2])))

    def imaginary(at: Shape) -> Node:
        row, column = (builder.index_node(i) for i in at[-2:])
        given = e.gt(row, column) if triangle == "L" else e.lt(row, column)
        value = known(im, at)
        signed = e.select(given, value, e.neg(value))
        return e.select(e.eq(row, column), const(0.0, im.dtype), signed)

    return (
        builder.pointwise(re.shape, re.dtype, lambda at: known(re, at)),
        builder.pointwise(im.shape, im.dtype, imaginary),
    )
