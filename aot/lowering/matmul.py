"""Matrix products: one template call each; what surrounds it are nests, its epilogue later."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from aot.ir.dtypes import BFLOAT16, DType
from aot.ir.nests import View
from aot.ir.scalar import Node, cast, const, reduce_
from aot.ir.templates.matmul import Matmul
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.promotion import Scalar, number
from aot.lowering.registry import Call
from aot.lowering.reshape import reshape_index
from aot.lowering.rows import REGISTRY
from aot.lowering.views import reshaped
from aot.symbolic import Expr, as_expr, is_int, product

Shape = tuple[Expr, ...]


def accumulated(a: View, b: View, source: Tensor, shape: Sequence[Expr]) -> Tensor:
    """The product of (*batch, m, k) and (*batch, k, n), in the type that `source` computes in.

    Half types stay float32 here: what follows rounds them, once.
    """
    dtype = source.dtype.compute
    if is_int(a.axes[-1].extent, 0):
        return source.builder.pointwise(shape, dtype, lambda at: const(0, dtype))
    return source.builder.template(partial(Matmul, a=a, b=b), shape, dtype)


def rounded(x: Tensor, dtype: DType) -> Tensor:
    """Gives x in `dtype`; x itself when it has that type."""
    if x.dtype == dtype:
        return x
    return x.builder.pointwise(x.shape, dtype, lambda at: cast(x.load(at), dtype))


def plus(x: Tensor, other: Tensor, dtype: DType, alpha: Scalar = 1, beta: Scalar = 1) -> Tensor:
    """Gives alpha * x + beta * other, with `other` broadcast, in `dtype`; computed in x's type.

    As in eager, `other` is not read when beta is 0.
    """

    def body(at: Shape) -> Node:
        value = x.load(at)
        if alpha != 1:
            value = e.mul(value, number(alpha, x.dtype))
        if beta != 0:
            added = cast(other.load_broadcast(at), x.dtype)
            scaled = added if beta == 1 else e.mul(added, number(beta, x.dtype))
            value = e.add(value, scaled)
        return cast(value, dtype)

    return x.builder.pointwise(x.shape, dtype, body)


def _flattened(x: Tensor) -> tuple[View, Expr]:
    """x[..., k] as a matrix (m, k), and m."""
    rows, k = product(x.shape[:-1]), x.shape[-1]
    shape = (rows, k)
    return x.builder.view(x, shape, reshape_index(x.builder.ranges, x.shape, shape)), rows


def transposed(weight: Tensor) -> View:
    """weight[n, k] as (k, n)."""
    n, k = weight.shape
    return weight.builder.view(weight, (k, n), lambda at: (at[1], at[0]))


def rows_times(x: Tensor, weight: Tensor) -> Tensor:
    """x[..., k] as rows (m, k), times weight[n, k] transposed, in the type that x computes in."""
    a, rows = _flattened(x)
    return accumulated(a, transposed(weight), x, (rows, weight.shape[0]))


@REGISTRY.row("aten.linear.default")
def linear(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x[..., k] times weight[n, k] transposed, plus bias[n]; a weight[k] gives x[...]."""
    if weight.rank == 1:
        vector = _matrix_vector(x, weight)
        return rounded(vector, x.dtype) if bias is None else plus(vector, bias, x.dtype)
    if x.rank == 1:
        x = reshaped(x, (as_expr(1), x.shape[0]))
    out = rows_times(x, weight)
    result = rounded(out, x.dtype) if bias is None else plus(out, bias, x.dtype)
    shape = call.result_type().shape
    return result if len(shape) == 2 else reshaped(result, shape)


@REGISTRY.row("aten.mm.default", "aten.bmm.default")
def mm(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """(m, k) times (k, n), or a batch of them."""
    return rounded(products(a, b, call.result_type().shape), a.dtype)


def products(a: Tensor, b: Tensor, shape: Sequence[Expr]) -> Tensor:
    """(*batch, m, k) times (*batch, k, n), of that shape, in the type that products add up in."""
    batch = tuple(shape[:-2])
    if a.dtype.is_float8:  # which bfloat16 holds
        a, b = rounded(a, BFLOAT16), rounded(b, BFLOAT16)
    return accumulated(_batched(a, batch), _batched(b, batch), a, shape)


def _batched(x: Tensor, batch: Shape) -> View:
    """View of x with its batch dimensions broadcast to `batch`."""
    builder = x.builder
    shape = (*batch, *x.shape[-2:])

    def index(at: Shape) -> Shape:
        own = at[len(at) - x.rank :]
        return tuple(
            builder.zero if k < x.rank - 2 and size == 1 else i
            for k, (i, size) in enumerate(zip(own, x.shape, strict=True))
        )

    return builder.view(x, shape, index)


@REGISTRY.row("aten.addmm.default", "aten.baddbmm.default")
def addmm(
    call: Call, added: Tensor, a: Tensor, b: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """Gives beta * added + alpha * (a times b)."""
    return plus(products(a, b, call.result_type().shape), added, a.dtype, alpha, beta)


@REGISTRY.row("aten.addbmm.default")
def addbmm(
    call: Call, added: Tensor, a: Tensor, b: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """Gives beta * added + alpha * (the sum over the batch of a times b): one long product."""
    batch, m, k = a.shape
    n = b.shape[2]
    long = product((batch, k))
    ranges = a.builder.ranges
    split = reshape_index(ranges, (batch, k), (long,))
    left = a.builder.view(a, (m, long), lambda at: _middle(split((at[1],)), at[0]))
    right = b.builder.view(b, (long, n), lambda at: (*split((at[0],)), at[1]))
    return plus(accumulated(left, right, a, (m, n)), added, a.dtype, alpha, beta)


def _middle(outer: Shape, inner: Expr) -> Shape:
    return (outer[0], inner, outer[1])


@REGISTRY.row("aten.addmv.default")
def addmv(
    call: Call, added: Tensor, a: Tensor, b: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """Gives beta * added + alpha * (matrix a times vector b)."""
    return plus(_matrix_vector(a, b), added, a.dtype, alpha, beta)


@REGISTRY.row("aten.matmul.default")
def matmul(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """Products of vectors, matrices and batches of matrices, as torch.matmul."""
    if a.rank == 1 and b.rank == 1:
        return rounded(_matrix_vector(a, b), a.dtype)
    if b.rank == 1:
        return rounded(_matrix_vector(a, b), a.dtype)
    if a.rank == 1:
        wide = reshaped(a, (as_expr(1), a.shape[0]))
        shape = (*b.shape[:-2], as_expr(1), b.shape[-1])
        return reshaped(rounded(products(wide, b, shape), a.dtype), (*b.shape[:-2], b.shape[-1]))
    shape = _matmul_shape(a, b)
    if b.rank > 2 or a.rank == 2:
        return rounded(products(a, b, shape), a.dtype)
    left, rows = _flattened(a)
    right = b.builder.view(b, b.shape, lambda at: at)
    out = accumulated(left, right, a, (rows, b.shape[1]))
    return reshaped(rounded(out, a.dtype), shape)


def _matmul_shape(a: Tensor, b: Tensor) -> Shape:
    longer = max(a.rank, b.rank) - 2
    one = as_expr(1)
    left = (one,) * (longer - (a.rank - 2)) + a.shape[:-2]
    right = (one,) * (longer - (b.rank - 2)) + b.shape[:-2]
    batch = tuple(q if p == 1 else p for p, q in zip(left, right, strict=True))
    return (*batch, a.shape[-2], b.shape[-1])


@REGISTRY.row("aten.mv.default")
def mv(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """Matrix a times vector b."""
    return rounded(_matrix_vector(a, b), a.dtype)


def _matrix_vector(a: Tensor, b: Tensor) -> Tensor:
    """a[..., k] times b[k] as sums over rows: a vector leaves a matrix product nothing to reuse."""
    dtype = a.dtype.compute

    def body(at: Shape, r: Shape) -> Node:
        return reduce_("sum", e.mul(cast(a.load((*at, *r)), dtype), cast(b.load(r), dtype)))

    return a.builder.reduction(a.shape[:-1], b.shape, [(dtype, body)])[0]


@REGISTRY.row("aten.dot.default", "aten.vdot.default")
def dot(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """The sum of products of two vectors."""
    return rounded(_matrix_vector(a, b), a.dtype)
