"""Dense linear algebra of complex matrices: calls of their routines, inverses and solutions.

All of it has routines of its own; what a device lacks becomes real matrices where that will do
(`ir/templates/real_forms.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.dtypes import INT32
from aot.ir.scalar import Node
from aot.ir.templates.general_linalg import GENERAL_ROUTINES
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.library import Matrices, Records, Shape, call_routine
from aot.lowering.linalg import mirrored, refuse_checks
from aot.lowering.registry import Call, SeveralResults
from aot.lowering.rows import REGISTRY
from aot.lowering.views import moved
from aot.symbolic import Modulo, as_expr

Pair = tuple[Tensor, Tensor]


def stacked(z: Pair) -> Tensor:
    """[X; Y]."""
    (re, im), (m, n) = z, z[0].shape[-2:]

    def body(at: Shape) -> Node:
        place = (*at[:-2], Modulo(at[-2], m), at[-1])
        below = e.ge(re.builder.index_node(at[-2]), re.builder.index_node(m))
        return e.select(below, im.load(place), re.load(place))

    return re.builder.pointwise((*re.shape[:-2], 2 * m, n), re.dtype, body)


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
    routine = GENERAL_ROUTINES[name]
    if "a_im" not in routine.roles:
        other = None if b is None else Matrices(stacked(b))
        return call_routine(routine, Matrices(stacked(a)), other, options)
    (re, im), sides = map(Matrices, a), (None, None) if b is None else tuple(map(Matrices, b))
    return call_routine(routine, re, sides[0], options, imaginary=(im, sides[1]))


def pair(found: Records, name: str) -> Pair:
    """Both parts of a complex part of records."""
    return found.part(f"{name}.re"), found.part(f"{name}.im")


def outcomes(call: Call, *results: Pair | Tensor | None) -> SeveralResults:
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
    refuse_checks(check_errors)
    found = general("complex_inverse", a)
    return outcomes(call, pair(found, "inverse"), found.part("info", INT32))


@REGISTRY.row("complex.aten._linalg_solve_ex.default")
def solve(
    call: Call, a: Pair, b: Pair, *, left: bool = True, check_errors: bool = False
) -> SeveralResults:
    """(X of A X = B or X A = B, LU, pivots, info)."""
    refuse_checks(check_errors)
    (re, im), rank = b, b[0].rank
    is_vector = rank == 1 or (rank == a[0].rank - 1 and re.shape == a[0].shape[:-1])
    if is_vector:
        shape = (*re.shape, as_expr(1))
        re, im = (moved(x, shape, lambda at: at[:-1]) for x in (re, im))
    if not left:
        a, (re, im) = transposed(a), transposed((re, im))
    found = general("complex_solve", a, (re, im))
    re, im = pair(found, "x")
    if is_vector:
        re, im = (moved(p, p.shape[:-1], lambda at: (*at, as_expr(0))) for p in (re, im))
    elif not left:
        re, im = transposed((re, im))
    *_, lu_name, pivots_name, info_name = call.op.outputs
    own = found.batch == a[0].shape[:-2]  # LU and the rest are of a's batch
    if lu_name is None and pivots_name is None and (own or info_name is None):
        info = found.part("info", INT32)
        return outcomes(call, (re, im), info, info, info)
    factors = general("complex_lu", a)
    pivots, info = factors.part("pivots", INT32), factors.part("info", INT32)
    return outcomes(call, (re, im), pair(factors, "lu"), pivots, info)
