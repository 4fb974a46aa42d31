"""Reductions over some or all dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aot.ir.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType
from aot.ir.scalar import Node, binary, cast, const, make, reduce_
from aot.lowering import exprs as e
from aot.lowering.axes import wrap_dims
from aot.lowering.binary import constant_power
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.pointwise import narrow
from aot.lowering.promotion import size_node
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, as_expr, is_int, product

ElementAt = Callable[[Tensor], Node]
ElementBody = Callable[[ElementAt], Node]


@dataclass(frozen=True)
class Domain:
    """Which dimensions of a shape are reduced, and whether they stay with size 1."""

    shape: tuple[Expr, ...]
    dims: tuple[int, ...]
    keepdim: bool

    @property
    def result(self) -> tuple[Expr, ...]:
        """The shape that is left."""
        if self.keepdim:
            return tuple(as_expr(1) if k in self.dims else s for k, s in enumerate(self.shape))
        return tuple(s for k, s in enumerate(self.shape) if k not in self.dims)

    @property
    def reduced(self) -> tuple[Expr, ...]:
        """The sizes of the reduced dimensions; one of size 1 when there are none."""
        return tuple(self.shape[k] for k in self.dims) or (as_expr(1),)

    @property
    def count(self) -> Expr:
        """How many elements are reduced to one."""
        return product(self.reduced)

    def position(self, index: Sequence[Expr], rindex: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where in the full shape a point of the nest reads."""
        inner = iter(rindex)
        outer = iter(i for k, i in enumerate(index) if not (self.keepdim and k in self.dims))
        return tuple(next(inner if k in self.dims else outer) for k in range(len(self.shape)))

    def kept(self, index: Sequence[Expr]) -> tuple[Expr, ...]:
        """The position in a tensor of shape `result` for a point of the full shape."""
        zero = as_expr(0)
        if self.keepdim:
            return tuple(zero if k in self.dims else i for k, i in enumerate(index))
        return tuple(i for k, i in enumerate(index) if k not in self.dims)


def domain(x: Tensor, dims: Any, keepdim: bool = False) -> Domain:
    """The domain that an operator's `dim` and `keepdim` arguments mean."""
    return Domain(x.shape, wrap_dims(dims, x.rank), keepdim)


def reduced(
    builder: GraphBuilder, over: Domain, outputs: Sequence[tuple[DType, ElementBody]]
) -> tuple[Tensor, ...]:
    """One nest: each body gets a function that reads a tensor at the current point.

    Tensors may have the full shape, and are read at the point of the reduction, or the result's
    shape. Where the two are equal, only dimensions of size 1 are reduced: either reading is right.
    """

    def bind(body: ElementBody) -> Callable[[tuple[Expr, ...], tuple[Expr, ...]], Node]:
        def at_point(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
            full = over.position(index, rindex)

            def read(tensor: Tensor) -> Node:
                return tensor.load(index if tensor.shape == over.result else full)

            return body(read)

        return at_point

    bound = [(dtype, bind(body)) for dtype, body in outputs]
    return builder.reduction(over.result, over.reduced, bound)


def reduce_one(call: Call, over: Domain, body: ElementBody) -> Tensor:
    """As `reduced`, for one output of the operator's result type."""
    dtype = call.result_type().dtype
    return reduced(call.builder, over, [(dtype, lambda read: narrow(body(read), dtype))])[0]


def _plain(kind: str, x: Tensor, dtype: DType) -> ElementBody:
    """The reduction of x's elements in `dtype`'s arithmetic type."""
    return lambda read: reduce_(kind, cast(read(x), dtype.compute))


@REGISTRY.row("aten.hash_tensor.default")
def hash_tensor(
    call: Call, x: Tensor, dim: Any = None, *, keepdim: bool = False, mode: int = 0
) -> Tensor:
    """The parity of each bit of the elements in 64 bits: floats in float64."""
    if mode:
        raise CannotLower(f"mode {mode}: torch documents 0 alone")

    def bits(value: Node) -> Node:
        if value.dtype.is_float:
            return make("bitcast", INT64, cast(value, FLOAT64))
        return cast(value, INT64)

    return reduce_one(call, domain(x, dim, keepdim), lambda read: reduce_("xor", bits(read(x))))


@REGISTRY.row("aten.sum.default", "aten.sum.dim_IntList")
def sum_(
    call: Call, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum; integers and bool add up in int64."""
    return reduce_one(call, domain(x, dim, keepdim), _plain("sum", x, call.result_type().dtype))


@REGISTRY.row("aten.prod.default", "aten.prod.dim_int")
def prod(
    call: Call, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The product; integers and bool multiply in int64."""
    return reduce_one(call, domain(x, dim, keepdim), _plain("prod", x, call.result_type().dtype))


@REGISTRY.row("aten.nansum.default")
def nansum(
    call: Call, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum of what is not NaN."""
    compute = call.result_type().dtype.compute

    def body(read: ElementAt) -> Node:
        value = cast(read(x), compute)
        kept = e.select(e.isnan(value), 0.0, value) if compute.is_float else value
        return reduce_("sum", kept)

    return reduce_one(call, domain(x, dim, keepdim), body)


def mean_body(builder: GraphBuilder, over: Domain, x: Tensor, compute: DType) -> ElementBody:
    """The arithmetic mean in `compute`."""

    def body(read: ElementAt) -> Node:
        total = reduce_("sum", cast(read(x), compute))
        return e.div(total, size_node(builder, over.count, compute))

    return body


@REGISTRY.row("aten.mean.default", "aten.mean.dim")
def mean(
    call: Call, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The arithmetic mean."""
    over = domain(x, dim, keepdim)
    return reduce_one(
        call, over, mean_body(call.builder, over, x, call.result_type().dtype.compute)
    )


def _extreme(kind: str, x: Tensor) -> ElementBody:
    if x.dtype == BOOL:
        return lambda read: reduce_("any" if kind == "max" else "all", read(x))
    return _plain(kind, x, x.dtype)


@REGISTRY.row("aten.amax.default", "aten.max.default")
def amax(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The greatest element; NaN if there is one."""
    return reduce_one(call, domain(x, dim, keepdim), _extreme("max", x))


@REGISTRY.row("aten.amin.default", "aten.min.default")
def amin(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The least element; NaN if there is one."""
    return reduce_one(call, domain(x, dim, keepdim), _extreme("min", x))


@REGISTRY.row("aten.aminmax.default")
def aminmax(call: Call, x: Tensor, *, dim: Any = None, keepdim: bool = False) -> tuple[Tensor, ...]:
    """(least, greatest)."""
    bodies = [(x.dtype, _narrowed(_extreme(kind, x), x.dtype)) for kind in ("min", "max")]
    return reduced(call.builder, domain(x, dim, keepdim), bodies)


def _narrowed(body: ElementBody, dtype: DType) -> ElementBody:
    return lambda read: narrow(body(read), dtype)


def _position(kind: str, x: Tensor) -> ElementBody:
    compute = INT32 if x.dtype == BOOL else x.dtype.compute
    return lambda read: reduce_(kind, cast(read(x), compute))


@REGISTRY.row("aten.argmax.default")
def argmax(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Where the greatest element is: the first of equals, NaN before all."""
    return reduce_one(call, domain(x, dim, keepdim), _position("argmax", x))


@REGISTRY.row("aten.argmin.default")
def argmin(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Where the least element is: the first of equals, NaN before all."""
    return reduce_one(call, domain(x, dim, keepdim), _position("argmin", x))


def _with_position(call: Call, x: Tensor, dim: int, keepdim: bool, kind: str) -> tuple[Tensor, ...]:
    outputs = [
        (x.dtype, _narrowed(_extreme(kind, x), x.dtype)),
        (INT64, _position("arg" + kind, x)),
    ]
    return reduced(call.builder, domain(x, dim, keepdim), outputs)


@REGISTRY.row("aten.max.dim")
def max_dim(call: Call, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, ...]:
    """(greatest elements, where they are)."""
    return _with_position(call, x, dim, keepdim, "max")


@REGISTRY.row("aten.min.dim")
def min_dim(call: Call, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, ...]:
    """(least elements, where they are)."""
    return _with_position(call, x, dim, keepdim, "min")


def _logical(call: Call, x: Tensor, dim: Any, keepdim: bool, kind: str) -> Tensor:
    return reduce_one(call, domain(x, dim, keepdim), lambda read: reduce_(kind, e.truth(read(x))))


@REGISTRY.row("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether some element is not 0."""
    return _logical(call, x, dim, keepdim, "any")


@REGISTRY.row("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether no element is 0."""
    return _logical(call, x, dim, keepdim, "all")


@REGISTRY.row("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def count_nonzero(call: Call, x: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not 0."""
    return reduce_one(
        call, domain(x, dim), lambda read: reduce_("sum", cast(e.truth(read(x)), INT64))
    )


@dataclass(frozen=True)
class Moments:
    """Mean and centred sum of squares over a domain, in the arithmetic type."""

    over: Domain
    mean: Tensor

    def variance(self, builder: GraphBuilder, x: Tensor, correction: float) -> ElementBody:
        """sum((x - mean)²) / max(count - correction, 0), in the mean's type."""
        compute = self.mean.dtype

        def body(read: ElementAt) -> Node:
            centred = e.sub(cast(read(x), compute), read(self.mean))
            total = reduce_("sum", e.mul(centred, centred))
            count = size_node(builder, self.over.count, compute)
            if correction == 0:
                return e.div(total, count)
            return e.div(total, e.maximum(e.sub(count, float(correction)), 0.0))

        return body


def moments(builder: GraphBuilder, x: Tensor, over: Domain) -> Moments:
    """The nest of the mean; the variance's body reads it."""
    compute = x.dtype.compute
    mean_ = reduced(builder, over, [(compute, mean_body(builder, over, x, compute))])[0]
    return Moments(over, mean_)


def _correction(correction: Any, unbiased: bool) -> float:
    return float(correction) if correction is not None else float(unbiased)


def _dims_and_bias(args: tuple[Any, ...], dim: Any, unbiased: bool) -> tuple[Any, bool]:
    """`var.default(x, unbiased)` and `var.dim(x, dim, unbiased)` share their lowering."""
    if args and isinstance(args[0], bool):
        return None, args[0]
    if args:
        dim = args[0]
    return dim, args[1] if len(args) > 1 else unbiased


def _variance(
    call: Call, x: Tensor, over: Domain, correction: float, finish: Callable[[Node], Node]
) -> tuple[Moments, Tensor]:
    found = moments(call.builder, x, over)
    body = found.variance(call.builder, x, correction)
    outputs = [(x.dtype, lambda read: narrow(finish(body(read)), x.dtype))]
    return found, reduced(call.builder, over, outputs)[0]


def _variance_rows(name: str, finish: Callable[[Node], Node]) -> None:
    targets = ("default", "dim", "correction")

    def single(
        call: Call,
        x: Tensor,
        *args: Any,
        dim: Any = None,
        unbiased: bool = True,
        correction: Any = None,
        keepdim: bool = False,
    ) -> Tensor:
        dims, biased = _dims_and_bias(args, dim, unbiased)
        keep = bool(args[2]) if len(args) > 2 else keepdim
        over = domain(x, dims, keep)
        return _variance(call, x, over, _correction(correction, biased), finish)[1]

    def both(
        call: Call,
        x: Tensor,
        *args: Any,
        dim: Any = None,
        unbiased: bool = True,
        correction: Any = None,
        keepdim: bool = False,
    ) -> tuple[Tensor, ...]:
        dims, biased = _dims_and_bias(args, dim, unbiased)
        keep = bool(args[2]) if len(args) > 2 else keepdim
        over = domain(x, dims, keep)
        found, result = _variance(call, x, over, _correction(correction, biased), finish)
        mean_ = call.builder.pointwise(
            over.result, x.dtype, lambda index: cast(found.mean.load(index), x.dtype)
        )
        return result, mean_

    REGISTRY.row(*(f"aten.{name}.{t}" for t in targets))(single)
    REGISTRY.row(*(f"aten.{name}_mean.{t}" for t in targets))(both)


_variance_rows("var", lambda v: v)
_variance_rows("std", e.sqrt)


def norm_of(value: Node, order: float) -> Node:
    """The vector norm of that order of a float value over the nest's reduction."""
    if order == 2.0:
        return e.sqrt(reduce_("sum", e.mul(value, value)))
    size = e.absolute(value)
    if math.isinf(order):
        return reduce_("max" if order > 0 else "min", size)
    if order == 0.0:
        return reduce_("sum", cast(e.ne(value, 0.0), value.dtype))
    if order == 1.0:
        return reduce_("sum", size)
    power = constant_power(size, order)
    total = reduce_("sum", e.power(size, order) if power is None else power)
    return binary("pow", total, const(1.0 / order, value.dtype))


def norm_body(x: Tensor, order: float, compute: DType) -> ElementBody:
    """The vector norm of that order of x's elements."""
    return lambda read: norm_of(cast(read(x), compute), order)


@REGISTRY.row("aten.linalg_vector_norm.default")
def linalg_vector_norm(
    call: Call,
    x: Tensor,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """The vector norm of order `ord` (2, 1, 0, inf, -inf, or any other number)."""
    return _norm(call, x, domain(x, dim, keepdim), float(ord))


def _norm(call: Call, x: Tensor, over: Domain, order: float) -> Tensor:
    """The norm of each part; of a lone element the magnitude, which no power loses, as eager's."""
    if order and all(is_int(extent, 1) for extent in over.reduced):
        order = 1.0
    return reduce_one(call, over, norm_body(x, order, call.result_type().dtype.compute))


@REGISTRY.row(
    "aten.norm.Scalar",
    "aten.norm.ScalarOpt_dim",
    "aten.norm.ScalarOpt_dim_dtype",
    "aten.norm.ScalarOpt_dtype",
)
def norm(
    call: Call, x: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, **_: Any
) -> Tensor:
    """The vector norm of order p."""
    return _norm(call, x, domain(x, dim, keepdim), 2.0 if p is None else float(p))


@REGISTRY.row("aten.logsumexp.default")
def logsumexp(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))), the greatest element taken out first unless it is infinite."""
    over = domain(x, dim, keepdim)
    compute = x.dtype.compute if x.dtype.is_float else FLOAT32

    def peak(read: ElementAt) -> Node:
        greatest = reduce_("max", cast(read(x), compute))
        return e.select(e.eq(e.absolute(greatest), math.inf), 0.0, greatest)

    top = reduced(call.builder, over, [(compute, peak)])[0]

    def body(read: ElementAt) -> Node:
        shift = read(top)
        total = reduce_("sum", e.exp(e.sub(cast(read(x), compute), shift)))
        return e.add(e.log(total), shift)

    return reduce_one(call, over, body)
