"""Dense linear algebra by factorizations: Cholesky, LU with pivots, and triangular systems."""

from __future__ import annotations

from collections.abc import Callable

from aot.ir.dtypes import INT32, INT64, DType
from aot.ir.scalar import Node, cast, const, reduce_, unary
from aot.ir.templates.general_linalg import GENERAL_ROUTINES
from aot.ir.templates.linalg import ROUTINES, least
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.library import Matrices, Records, Shape, broadcast, call_routine
from aot.lowering.registry import Call, CannotLower, SeveralResults
from aot.lowering.rows import REGISTRY
from aot.lowering.views import moved
from aot.symbolic import Expr, as_expr


def refuse_checks(check_errors: bool) -> None:
    """Of the variants that return what went wrong.

    Raises:
        CannotLower: They shall raise it, too.
    """
    if check_errors:
        raise CannotLower("check_errors=True: call the operator without _ex, which raises as well")


def wants_pivots(pivot: bool) -> None:
    """Of a factorization.

    Raises:
        CannotLower: It shall have none.
    """
    if not pivot:
        raise CannotLower("eager has no factorization without pivots on CPUs either")


def mirrored(x: Tensor) -> Tensor:
    """The transposed matrices."""
    shape = (*x.shape[:-2], x.shape[-1], x.shape[-2])
    return moved(x, shape, lambda at: (*at[:-2], at[-1], at[-2]))


def identity(like: Tensor, batch: Shape, rows: Expr, columns: Expr) -> Tensor:
    """Identity matrices of `like`'s type, cut or continued by zeros."""
    builder, dtype = like.builder, like.dtype

    def body(at: Shape) -> Node:
        row, column = (builder.index_node(i) for i in at[-2:])
        return cast(e.eq(row, column), dtype)

    return builder.pointwise((*batch, rows, columns), dtype, body)


_EMPTY: Shape = (as_expr(0),)


def zeros(like: Tensor, shape: Shape = _EMPTY) -> Tensor:
    """Zeros of `like`'s type; by default what eager gives in place of factors: nothing."""
    return like.builder.pointwise(shape, like.dtype, lambda at: const(0.0, like.dtype))


def triangle(x: Tensor, shape: Shape, keep: Callable[[Node, Node], Node], unit: bool) -> Tensor:
    """Elements of x where keep(row, column) holds, else zeros; ones on the diagonal where unit."""
    builder = x.builder

    def body(at: Shape) -> Node:
        row, column = (builder.index_node(i) for i in at[-2:])
        kept = keep(row, column)
        value = e.select(kept, x.load(at, kept), const(0.0, x.dtype))
        return e.select(e.eq(row, column), const(1.0, x.dtype), value) if unit else value

    return builder.pointwise((*x.shape[:-2], *shape), x.dtype, body)


# ---- Cholesky ----


def _factor(a: Tensor, upper: bool) -> Records:
    return call_routine(ROUTINES["cholesky"], Matrices(a, turned=upper))


@REGISTRY.row("aten.linalg_cholesky_ex.default")
def cholesky_ex(
    call: Call, a: Tensor, *, upper: bool = False, check_errors: bool = False
) -> tuple[Tensor, Tensor]:
    """(factor, info): the lower factor of a's lower triangle, or the upper one of the upper."""
    refuse_checks(check_errors)
    found = _factor(a, upper)
    factor = found.part("factor")
    return mirrored(factor) if upper else factor, found.part("info", INT32)


@REGISTRY.row("aten.cholesky.default")
def cholesky(call: Call, a: Tensor, upper: bool = False) -> Tensor:
    """The deprecated operator, which says nothing of failures but by raising inside.

    Raises:
        CannotLower: Always.
    """
    raise CannotLower("torch.cholesky is deprecated: call torch.linalg.cholesky")


@REGISTRY.row("aten.cholesky_solve.default")
def cholesky_solve(call: Call, b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    """X of A X = b from a factor of A."""
    lower = Matrices(factor, turned=upper)
    x = _triangular(lower, Matrices(b), upper=False)
    return _triangular(lower.mt, Matrices(x), upper=True)


@REGISTRY.row("aten.cholesky_inverse.default")
def cholesky_inverse(call: Call, factor: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A from a factor of A."""
    start = identity(factor, factor.shape[:-2], *factor.shape[-2:])
    return cholesky_solve(call, start, factor, upper)


# ---- triangular systems ----


def _triangular(t: Matrices, b: Matrices, *, upper: bool, unit: bool = False) -> Tensor:
    """X of T X = B; of T that triangle is read."""
    options = [name for name, wanted in (("upper", upper), ("unit", unit)) if wanted]
    return call_routine(ROUTINES["triangular"], t, b, options).part("x")


@REGISTRY.row("aten.linalg_solve_triangular.default")
def solve_triangular(
    call: Call, t: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X of T X = B, or of X T = B, which is T^T X^T = B^T."""
    if left:
        return _triangular(Matrices(t), Matrices(b), upper=upper, unit=unitriangular)
    turned = _triangular(Matrices(t).mt, Matrices(b).mt, upper=not upper, unit=unitriangular)
    return mirrored(turned)


@REGISTRY.row("aten.triangular_solve.default")
def triangular_solve(
    call: Call,
    b: Tensor,
    t: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> SeveralResults:
    """(X of T X = b or T^T X = b, T)."""
    matrices = Matrices(t, turned=transpose)
    x = _triangular(matrices, Matrices(b), upper=upper != transpose, unit=unitriangular)
    shape = (*broadcast(t.shape[:-2], b.shape[:-2]), *t.shape[-2:])
    return x, t.builder.pointwise(shape, t.dtype, t.load_broadcast)


# ---- LU ----


@REGISTRY.row("aten.linalg_lu_factor_ex.default")
def lu_factor_ex(
    call: Call, a: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> SeveralResults:
    """(L without its diagonal and U, pivots, info)."""
    refuse_checks(check_errors)
    wants_pivots(pivot)
    found = call_routine(ROUTINES["lu"], Matrices(a))
    return found.part("lu"), found.part("pivots", INT32), found.part("info", INT32)


def unpacked(lu: Tensor, order: Tensor | None, wanted: bool = True) -> SeveralResults:
    """(P, L, U) of a factorization; `order`: the rows' numbers as the exchanges left them."""
    m, n = lu.shape[-2:]
    k = least(m, n)
    lower = triangle(lu, (m, k), e.gt, unit=True) if wanted else None
    upper = triangle(lu, (k, n), e.le, unit=False) if wanted else None
    if order is None:
        return None, lower, upper
    shape, dtype, builder = (*lu.shape[:-2], m, m), lu.dtype, lu.builder

    def exchanged(at: Shape) -> Node:
        here = builder.index_node(at[-2])
        return cast(e.eq(order.load((*at[:-2], at[-1])), here), dtype)

    return builder.pointwise(shape, dtype, exchanged), lower, upper


@REGISTRY.row("aten.linalg_lu.default")
def lu(call: Call, a: Tensor, *, pivot: bool = True) -> SeveralResults:
    """(P, L, U) with A = P L U."""
    wants_pivots(pivot)
    found = call_routine(ROUTINES["lu"], Matrices(a))
    return unpacked(found.part("lu"), found.part("order", INT64))


@REGISTRY.row("aten.lu_unpack.default")
def lu_unpack(
    call: Call, lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> SeveralResults:
    """(P, L, U) of a factorization; empty tensors for what is not wanted."""
    order = order_of(pivots, lu).part("order", INT64) if unpack_pivots else None
    found = unpacked(lu, order, unpack_data)
    nothing = zeros(lu)
    return tuple(nothing if x is None else x for x in found)


def order_of(pivots: Tensor, lu: Tensor) -> Records:
    """The order in which exchanges of rows leave them, and the way back."""
    rows, known, dtype = lu.shape[-2], pivots.shape[-1], lu.dtype

    def body(at: Shape) -> Node:
        here = lu.builder.index_node(at[-1])
        given = e.lt(here, lu.builder.index_node(known))
        pivot = cast(pivots.load((*at[:-2], at[-1]), given), INT64)
        return cast(e.select(given, pivot, e.add(here, 1)), dtype)

    shape = (*pivots.shape[:-1], as_expr(1), rows)
    return call_routine(ROUTINES["order"], Matrices(lu.builder.pointwise(shape, dtype, body)))


def taken(x: Tensor, rows: Tensor) -> Tensor:
    """Rows x[..., rows[i], :]; batches are broadcast."""
    size = x.shape[-2]

    def body(at: Shape) -> Node:
        row = x.builder.indirect(rows.load_broadcast(at[:-1]), size, wrap=False)
        return x.load_broadcast((*at[:-2], row, at[-1]))

    batch = broadcast(x.shape[:-2], rows.shape[:-1])
    return x.builder.pointwise((*batch, *x.shape[-2:]), x.dtype, body)


def _after_lu(lu: Tensor, order: Tensor, b: Tensor) -> Tensor:
    """X of A X = b from a factorization of A."""
    x = _triangular(Matrices(lu), Matrices(taken(b, order)), upper=False, unit=True)
    return _triangular(Matrices(lu), Matrices(x), upper=True)


@REGISTRY.row("aten.linalg_lu_solve.default")
def lu_solve(
    call: Call, lu: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X of A X = B, or X A = B, A^T X = B, X A^T = B, from a factorization of A."""
    order, factors = order_of(pivots, lu), Matrices(lu)
    x = b if left else mirrored(b)
    if adjoint == left:
        x = _triangular(factors.mt, Matrices(x), upper=False)
        x = _triangular(factors.mt, Matrices(x), upper=True, unit=True)
        x = taken(x, order.part("back", INT64))
    else:
        x = _after_lu(lu, order.part("order", INT64), x)
    return x if left else mirrored(x)


# ---- what follows from LU ----


@REGISTRY.row("aten._linalg_solve_ex.default")
def solve_ex(
    call: Call, a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> SeveralResults:
    """(X of A X = B or X A = B, LU, pivots, info); b may be a batch of vectors."""
    refuse_checks(check_errors)
    is_vector = b.rank == 1 or (b.rank == a.rank - 1 and b.shape == a.shape[:-1])
    if is_vector:
        b = moved(b, (*b.shape, as_expr(1)), lambda at: at[:-1])
    given, wanted = Matrices(a, turned=not left), Matrices(b, turned=not left)
    if broadcast(given.batch, wanted.batch) == given.batch:
        found = call_routine(ROUTINES["solve"], given, wanted)
        x = found.part("x")
    else:  # LU and the rest are of a's batch
        found = call_routine(ROUTINES["lu"], given)
        x = _after_lu(found.part("lu"), found.part("order", INT64), b if left else mirrored(b))
    if is_vector:
        x = moved(x, x.shape[:-1], lambda at: (*at, as_expr(0)))
    elif not left:
        x = mirrored(x)
    return x, found.part("lu"), found.part("pivots", INT32), found.part("info", INT32)


@REGISTRY.row("aten.linalg_inv_ex.default")
def inv_ex(call: Call, a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """(inverse, info)."""
    refuse_checks(check_errors)
    found = call_routine(ROUTINES["inverse"], Matrices(a))
    return found.part("inverse"), found.part("info", INT32)


def _over_pivots(
    found: Records, op: str, dtype: DType, body: Callable[[Node, Node], Node]
) -> Tensor:
    """A reduction over body(element of U's diagonal, whether its row was exchanged)."""
    factors, pivots = found.part("lu"), found.part("pivots", INT64)
    builder = factors.builder

    def element(at: Shape, r: Shape) -> Node:
        pivot = e.ne(pivots.load((*at, *r)), builder.index_node(r[0] + 1))
        return reduce_(op, body(factors.load((*at, *r, *r)), pivot))

    return builder.reduction(found.batch, (found.sizes.n,), [(dtype, element)])[0]


def _signed(value: Node, exchanged: Node) -> Node:
    return e.select(exchanged, e.neg(value), value)


@REGISTRY.row("aten._linalg_det.default")
def det(call: Call, a: Tensor) -> SeveralResults:
    """(determinant, LU, pivots)."""
    if call.op.outputs[1:] == (None, None):
        own = call_routine(GENERAL_ROUTINES["determinant"], Matrices(a), options=("product",))
        return own.part("det"), None, None
    found = call_routine(ROUTINES["lu"], Matrices(a))
    value = _over_pivots(found, "prod", a.dtype, _signed)
    return value, found.part("lu"), found.part("pivots", INT32)


@REGISTRY.row("aten._linalg_slogdet.default")
def slogdet(call: Call, a: Tensor) -> SeveralResults:
    """(sign, logarithm of the absolute value, LU, pivots) of the determinant."""
    if call.op.outputs[2:] == (None, None):
        own = call_routine(GENERAL_ROUTINES["determinant"], Matrices(a))
        return own.part("sign"), own.part("logdet"), None, None
    found = call_routine(ROUTINES["lu"], Matrices(a))

    def sign(value: Node, exchanged: Node) -> Node:
        return _signed(unary("sign", value), exchanged)

    def size(value: Node, exchanged: Node) -> Node:
        return e.log(e.absolute(value))

    signs = _over_pivots(found, "prod", a.dtype, sign)
    logs = _over_pivots(found, "sum", a.dtype, size)
    return signs, logs, found.part("lu"), found.part("pivots", INT32)
