"""Dense linear algebra of complex matrices by real ones of twice the size.

X + iY acts on pairs of parts as [[X, -Y], [Y, X]]: products, inverses and solutions are those of
these matrices, singular values and eigenvalues theirs, each twice. What is not unique, or no
function of such a matrix (vectors, factors), has routines of its own (`complex_factors.py`,
`complex_spectral.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.dtypes import INT32
from aot.ir.scalar import Node
from aot.ir.templates.general_linalg import GENERAL_ROUTINES
from aot.ir.templates.linalg import ROUTINES
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.library import Matrices, Records, Shape, call_routine
from aot.lowering.linalg import mirrored, solve_ex
from aot.lowering.registry import Call, CannotLower, SeveralResults
from aot.lowering.rows import REGISTRY
from aot.lowering.views import moved
from aot.symbolic import Modulo, as_expr

Pair = tuple[Tensor, Tensor]


def doubled(z: Pair) -> Tensor:
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


def stacked(z: Pair) -> Tensor:
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


def each_twice(values: Tensor) -> Tensor:
    """Every other one of values, which are there twice."""
    shape = (*values.shape[:-1], values.shape[-1] // 2)
    return moved(values, shape, lambda at: (*at[:-1], 2 * at[-1]))


def transposed(z: Pair) -> Pair:
    """The transposed matrices."""
    return mirrored(z[0]), mirrored(z[1])


def conjugated(z: Pair) -> Pair:
    """The same with the other sign of the imaginary parts."""
    re, im = z
    return re, im.builder.pointwise(im.shape, im.dtype, lambda at: e.neg(im.load(at)))


def adjoint(z: Pair) -> Pair:
    """The transposed matrices, conjugated."""
    return transposed(conjugated(z))


def general(name: str, a: Pair, b: Pair | None = None, options: Sequence[str] = ()) -> Records:
    """A call of a routine of complex matrices."""
    other = None if b is None else Matrices(stacked(b))
    return call_routine(GENERAL_ROUTINES[name], Matrices(stacked(a)), other, options)


def pair(found: Records, name: str) -> Pair:
    """Both parts of a complex part of records."""
    return found.part(f"{name}.re"), found.part(f"{name}.im")


def outcomes(call: Call, *results: Pair | Tensor) -> SeveralResults:
    """Results parallel to the operator's outputs, of which one that nobody reads has one place."""
    made: list[Tensor | None] = []
    for result in results:
        if call.op.outputs[len(made)] is None:
            made.append(None)
        elif isinstance(result, tuple):
            made += result
        else:
            made.append(result)
    return tuple(made)


@REGISTRY.row("complex.aten.linalg_inv_ex.default")
def inverse(call: Call, a: Pair, *, check_errors: bool = False) -> SeveralResults:
    """(inverse, info), info other than 0 where there is none."""
    if check_errors:
        raise CannotLower("check_errors=True: call the operator without _ex, which raises as well")
    found = call_routine(ROUTINES["inverse"], Matrices(doubled(a)))
    if call.op.outputs[0] is None:
        return None, found.part("info", INT32)
    whole = found.part("inverse")
    left = moved(whole, (*whole.shape[:-1], a[0].shape[-1]), lambda at: at)
    return (*_parts(left), found.part("info", INT32))


@REGISTRY.row("complex.aten._linalg_solve_ex.default")
def solve(
    call: Call, a: Pair, b: Pair, *, left: bool = True, check_errors: bool = False
) -> SeveralResults:
    """(X of A X = B or X A = B, LU, pivots, info)."""
    (re, im), rank, given = b, b[0].rank, a if left else transposed(a)
    is_vector = rank == 1 or (rank == a[0].rank - 1 and re.shape == a[0].shape[:-1])
    if is_vector:
        shape = (*re.shape, as_expr(1))
        re, im = (moved(x, shape, lambda at: at[:-1]) for x in (re, im))
    if not left:
        a, (re, im) = (mirrored(a[0]), mirrored(a[1])), (mirrored(re), mirrored(im))
    x, *_, info = solve_ex(call, doubled(a), stacked((re, im)), check_errors=check_errors)
    assert x is not None and info is not None
    re, im = _parts(x)
    if is_vector:
        re, im = (moved(p, p.shape[:-1], lambda at: (*at, as_expr(0))) for p in (re, im))
    elif not left:
        re, im = mirrored(re), mirrored(im)
    *_, lu_name, pivots_name, _ = call.op.outputs
    if lu_name is None and pivots_name is None:
        return outcomes(call, (re, im), info, info, info)
    factors = general("complex_lu", given)
    pivots = factors.part("pivots", INT32)
    return outcomes(call, (re, im), pair(factors, "lu"), pivots, info)
