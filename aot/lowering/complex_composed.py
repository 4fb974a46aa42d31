"""Operators on complex tensors that are composed of simpler ones, of real or of complex values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from aot.ir.dtypes import BOOL, COMPLEX128, FLOAT64, DType
from aot.ir.tensors import TensorType, ValueRef
from aot.lowering.complex_parts import (
    COMPOSED,
    FORMULA,
    ComplexCall,
    ComplexParts,
    GraphValue,
    Part,
    by_formula,
    part_type,
    plain,
    stored,
)
from aot.symbolic import Expr, integer, row_major_strides

F = TypeVar("F", bound=Callable[..., GraphValue])


def _row(*overloads: str) -> Callable[[F], F]:
    def register(compose: F) -> F:
        COMPOSED.update({f"aten.{overload}": compose for overload in overloads})
        return compose

    return register


@_row("view_as_real.default", "view_as_real_copy.default")
def view_as_real(call: ComplexCall, x: ComplexParts) -> GraphValue:
    """The parts in a new last dimension."""
    return call.real("aten.stack.default", (x.re, x.im), -1)


@_row("view_as_complex.default", "view_as_complex_copy.default")
def view_as_complex(call: ComplexCall, x: ValueRef) -> GraphValue:
    """The last dimension's two elements as parts."""
    return call.emitter.separated(x, call.name, call.result)


@_row("view.dtype")
def view_dtype(call: ComplexCall, x: GraphValue, dtype: DType) -> GraphValue:
    """The parts, one after the other as they lie in memory, as those of another type."""
    held, made = call.type_of(x), stored(call.result)
    if isinstance(x, ComplexParts):
        pairs, flat = (*held.shape, integer(2)), (*held.shape[:-1], held.shape[-1] * 2)
        x = call.real("aten.stack.default", (x.re, x.im), -1, type_=dense(held, pairs))
        x = call.real("aten.view.default", x, flat, type_=dense(held, flat))
    if call.result.dtype.is_complex:
        flat = (*made.shape[:-2], made.shape[-2] * 2)
        x = call.real(call.target, x, made.dtype, type_=dense(made, flat))
        x = call.real("aten.view.default", x, made.shape, type_=dense(made, made.shape))
        return call.emitter.separated(x, call.name, call.result)
    return call.real(call.target, x, made.dtype, type_=dense(made, made.shape))


def dense(like: TensorType, shape: Sequence[Expr]) -> TensorType:
    """That type in another shape, row by row."""
    return TensorType(like.dtype, tuple(shape), row_major_strides(shape))


@_row("real.default")
def real(call: ComplexCall, x: ComplexParts) -> GraphValue:
    """The real part."""
    return x.re


@_row("imag.default")
def imag(call: ComplexCall, x: ComplexParts) -> GraphValue:
    """The imaginary part."""
    return x.im


@_row("complex.default")
def complex_(call: ComplexCall, re: ValueRef, im: ValueRef) -> GraphValue:
    """Two real tensors as parts, each broadcast to the common shape."""
    shape = call.result.shape
    return ComplexParts(*(call.real("aten.expand.default", part, shape) for part in (re, im)))


@_row("_conj.default", "conj.default", "conj_physical.default", "_conj_physical.default")
def conj(call: ComplexCall, x: ComplexParts) -> GraphValue:
    """The imaginary part negated."""
    return ComplexParts(x.re, call.real("aten.neg.default", x.im))


@_row("_conj_copy.default")
def conj_copy(call: ComplexCall, x: ComplexParts) -> GraphValue:
    """As `conj`."""
    return conj(call, x)


@_row("_to_copy.default", "to.dtype", "to.dtype_layout", "type_as.default", "_cast.default")
def to(call: ComplexCall, x: GraphValue, *_: Any, **__: Any) -> GraphValue:
    """In another type: a real tensor has no imaginary part, and becoming real drops it.

    Bool is whether a part is not 0.
    """
    wanted = part_type(call.result)

    def cast(part: ValueRef) -> ValueRef:
        return call.real("aten._to_copy.default", part, type_=wanted, dtype=wanted.dtype)

    if isinstance(x, ValueRef):
        return ComplexParts(cast(x), call.zeros(wanted))
    if call.result.dtype.is_complex:
        return ComplexParts(cast(x.re), cast(x.im))
    return truth(call, x) if call.result.dtype == BOOL else cast(x.re)


def truth(call: ComplexCall, x: ComplexParts) -> ValueRef:
    """Whether an element is not 0."""
    type_ = replace(call.type_of(x), dtype=BOOL)
    parts = (call.real("aten.ne.Scalar", p, 0, type_=type_) for p in (x.re, x.im))
    return call.real("aten.logical_or.default", *parts, type_=type_)


def _through_truth(call: ComplexCall, x: ComplexParts, *args: Any, **kwargs: Any) -> GraphValue:
    """Operators that ask of every element whether it is 0."""
    return call.real(call.target, truth(call, x), *args, type_=call.result, **kwargs)


_row(
    *(f"any.{overload}" for overload in ("default", "dim", "dims")),
    *(f"all.{overload}" for overload in ("default", "dim", "dims")),
    *("count_nonzero.default", "count_nonzero.dim_IntList", "logical_not.default"),
)(_through_truth)


def _ours(name: str) -> Callable[[F], F]:
    """As `_row`, for an operator that the reader of programs makes."""

    def register(compose: F) -> F:
        COMPOSED[f"aot.{name}.default"] = compose
        return compose

    return register


_ours("true_places")(_through_truth)
_ours("true_count")(_through_truth)


@_ours("select_true")
def select_true(call: ComplexCall, x: ComplexParts, mask: GraphValue) -> GraphValue:
    """The elements of each part where the mask is true."""
    chosen = truth(call, mask) if isinstance(mask, ComplexParts) else mask
    return ComplexParts(*(call.real(call.target, part, chosen) for part in (x.re, x.im)))


@_row("logical_and.default", "logical_or.default", "logical_xor.default")
def logical(call: ComplexCall, a: GraphValue, b: GraphValue) -> GraphValue:
    """Logic on whether elements are not 0."""
    operands = (truth(call, x) if isinstance(x, ComplexParts) else x for x in (a, b))
    return call.real(call.target, *operands, type_=call.result)


@_row(
    *("ones.default", "ones_like.default", "new_ones.default", "eye.default", "eye.m"),
    *("arange.default", "arange.start", "arange.start_step"),
)
def without_imaginary(call: ComplexCall, *args: Any, **kwargs: Any) -> GraphValue:
    """Operators that make tensors whose imaginary part is 0."""
    first = [a.re if isinstance(a, ComplexParts) else plain(a) for a in args]
    given = {name: plain(a) for name, a in kwargs.items()}
    made = call.real(call.target, *first, **given)
    if not call.result.dtype.is_complex:
        return made
    return ComplexParts(made, call.zeros(part_type(call.result)))


@_row("addmm.default", "baddbmm.default", "addmv.default")
def added_product(
    call: ComplexCall,
    added: GraphValue,
    a: GraphValue,
    b: GraphValue,
    *,
    beta: Any = 1,
    alpha: Any = 1,
) -> GraphValue:
    """Gives beta * added + alpha * (a times b); `added` is not read when beta is 0."""
    target = {
        "aten.addmm.default": "aten.mm.default",
        "aten.baddbmm.default": "aten.bmm.default",
        "aten.addmv.default": "aten.mv.default",
    }[call.target]
    product = call.call(target, a, b)
    if alpha != 1:
        product = call.call("aten.mul.Tensor", product, alpha)
    return product if beta == 0 else call.call("aten.add.Tensor", product, added, alpha=beta)


@_row("addbmm.default")
def added_products(
    call: ComplexCall,
    added: GraphValue,
    a: GraphValue,
    b: GraphValue,
    *,
    beta: Any = 1,
    alpha: Any = 1,
) -> GraphValue:
    """Gives beta * added + alpha * the sum of the products of all pairs."""
    whole = (call.type_of(a).shape[0], *call.result.shape)
    each = replace(call.result, shape=whole, strides=row_major_strides(whole))
    product = call.call("aten.bmm.default", a, b, type_=each)
    product = call.call("aten.sum.dim_IntList", product, (0,))
    if alpha != 1:
        product = call.call("aten.mul.Tensor", product, alpha)
    return product if beta == 0 else call.call("aten.add.Tensor", product, added, alpha=beta)


@_row("float_power.Tensor_Tensor", "float_power.Tensor_Scalar", "float_power.Scalar")
def float_power(call: ComplexCall, *operands: Any) -> GraphValue:
    """The power, in complex128."""
    wide = [
        x
        if not isinstance(x, (ComplexParts, ValueRef))
        else call.call("aten._to_copy.default", x, type_=replace(call.type_of(x), dtype=COMPLEX128))
        for x in operands
    ]
    return call.call(call.target.replace("float_power", "pow"), *wide)


@_row("ldexp.Tensor")
def ldexp(call: ComplexCall, x: GraphValue, exponent: GraphValue) -> GraphValue:
    """Gives x * 2 ** exponent."""
    power = call.call("aten.pow.Scalar", 2, exponent, type_=_kept(call, exponent))
    return call.call("aten.mul.Tensor", x, power)


def _kept(call: ComplexCall, x: GraphValue) -> TensorType:
    """The type of a function of x: integers become real numbers of the result's precision."""
    dtype = call.result.dtype if isinstance(x, ComplexParts) else part_type(call.result).dtype
    return replace(call.type_of(x), dtype=dtype)


@_row("logsumexp.default")
def logsumexp(call: ComplexCall, x: ComplexParts, dims: Any, keepdim: Any = False) -> GraphValue:
    """The logarithm of the sum of exponentials, none of which overflows."""
    axes = dims if isinstance(dims, tuple) else (dims,)
    inside = call.type_of(x)
    held = _reduced(inside, axes)
    zero = call.zeros(held)
    most = call.real("aten.amax.default", x.re, axes, 1, type_=held)
    known = call.real("aten.isfinite.default", most, type_=replace(held, dtype=BOOL))
    shift = call.real("aten.where.self", known, most, zero, type_=held)
    less = ComplexParts(call.real("aten.sub.Tensor", x.re, shift, type_=inside), x.im)
    powers = call.call("aten.exp.default", less, type_=replace(inside, dtype=call.result.dtype))
    made = call.call("aten.log.default", call.call("aten.sum.dim_IntList", powers, axes, keepdim))
    assert isinstance(made, ComplexParts)
    back = call.real("aten.view.default", shift, call.result.shape)
    return ComplexParts(call.real("aten.add.Tensor", made.re, back), made.im)


def _reduced(type_: TensorType, axes: tuple[int, ...]) -> TensorType:
    rank = len(type_.shape)
    gone = {a % max(rank, 1) for a in axes} if axes else set(range(rank))
    shape = tuple(integer(1) if k in gone else s for k, s in enumerate(type_.shape))
    return replace(type_, shape=shape, strides=row_major_strides(shape))


@_row("log_softmax.int", "softmax.int")
def softmax_of_real_parts(
    call: ComplexCall, x: ComplexParts, dim: int, dtype: DType | None = None
) -> GraphValue:
    """Of complex numbers that become real ones first: eager knows no other."""
    part = replace(call.type_of(x), dtype=part_type(call.result).dtype)
    real = call.real("aten._to_copy.default", x.re, type_=part, dtype=part.dtype)
    return call.real(call.target, real, dim, type_=call.result)


@_row("vdot.default")
def vdot(call: ComplexCall, a: ComplexParts, b: ComplexParts) -> GraphValue:
    """The sum of products of two vectors, the first conjugated."""
    turned = ComplexParts(a.re, call.real("aten.neg.default", a.im, type_=call.type_of(a)))
    return call.call("aten.dot.default", turned, b)


@_row("addcmul.default", "addcdiv.default")
def added_elementwise(
    call: ComplexCall, x: GraphValue, a: GraphValue, b: GraphValue, *, value: Any = 1
) -> GraphValue:
    """Gives x + value * (a times or divided by b)."""
    operator = "mul" if call.target == "aten.addcmul.default" else "div"
    made = call.call(f"aten.{operator}.Tensor", a, b)
    return call.call("aten.add.Tensor", x, made, alpha=value)


_SUMS = {
    "aten.prod.default": "aten.sum.default",
    "aten.prod.dim_int": "aten.sum.dim_IntList",
    "aten.cumprod.default": "aten.cumsum.default",
}
"""Products of numbers -> what their arguments add up by."""


@_row("prod.default", "prod.dim_int", "cumprod.default")
def prod(call: ComplexCall, x: GraphValue, *args: Any, **_: Any) -> GraphValue:
    """The product of the magnitudes, turned by the sum of the arguments; computed in float64.

    A sum of arguments loses digits as it grows, which those of float32 cannot spare.
    """

    def typed(type_: TensorType, dtype: DType) -> TensorType:
        return replace(type_, dtype=dtype)

    inside, result = call.type_of(x), call.result
    wide = call.call("aten._to_copy.default", x, type_=typed(inside, COMPLEX128))
    sizes, turns = (
        call.call(f"aten.{name}.default", wide, type_=typed(inside, FLOAT64))
        for name in ("abs", "angle")
    )
    given = [a for a in args if not isinstance(a, DType)]
    size = call.real(call.target, sizes, *given, type_=typed(result, FLOAT64))
    turn = call.real(_SUMS[call.target], turns, *given, type_=typed(result, FLOAT64))
    made = call.call("aten.polar.default", size, turn, type_=typed(result, COMPLEX128))
    return call.call("aten._to_copy.default", made)


def _magnitudes(call: ComplexCall, x: ComplexParts) -> GraphValue:
    return call.call("aten.abs.default", x, type_=call.type_of(x))


@_row("linalg_vector_norm.default", "norm.Scalar", "norm.ScalarOpt_dim")
def vector_norm(call: ComplexCall, x: ComplexParts, *args: Any, **kwargs: Any) -> GraphValue:
    """The norm of the magnitudes."""
    given = {name: plain(a) for name, a in kwargs.items()}
    given.pop("dtype", None)
    positional = [a for a in args if not isinstance(a, DType)]
    return call.real(call.target, _magnitudes(call, x), *positional, type_=call.result, **given)


def _variances(call: ComplexCall, x: ComplexParts, *args: Any, **kwargs: Any) -> ValueRef:
    """The sum of the variances of both parts: the mean squared distance from the mean."""
    target = call.target.replace("std", "var")
    parts = (call.real(target, p, *args, type_=call.result, **kwargs) for p in (x.re, x.im))
    return call.real("aten.add.Tensor", *parts, type_=call.result)


@_row("scatter.reduce", "scatter.value_reduce")
def scatter_reduce(
    call: ComplexCall, x: ComplexParts, dim: int, indices: ValueRef, added: Any, *, reduce: str
) -> GraphValue:
    """Sums are those of each part; products have no formula, and are refused there."""
    if reduce != "add":
        (found,) = by_formula(call)
        assert found is not None
        return found

    def on(which: Part) -> ValueRef:
        args = (call.part(x, which), dim, indices, call.part(added, which))
        return call.real(call.target, *args, reduce=reduce)

    return ComplexParts(on("re"), on("im"))


@_row("var.default", "var.dim", "var.correction")
def var(call: ComplexCall, x: ComplexParts, *args: Any, **kwargs: Any) -> GraphValue:
    """The variance."""
    return _variances(call, x, *args, **kwargs)


@_row("std.default", "std.dim", "std.correction")
def std(call: ComplexCall, x: ComplexParts, *args: Any, **kwargs: Any) -> GraphValue:
    """The square root of the variance."""
    return call.real("aten.sqrt.default", _variances(call, x, *args, **kwargs), type_=call.result)


@_row("_fft_c2c.default", "_fft_r2c.default")
def transform(call: ComplexCall, x: GraphValue, *args: Any) -> GraphValue:
    """A Fourier transform gives both parts in one piece of memory."""
    given = (x.re, x.im) if isinstance(x, ComplexParts) else x
    target, type_ = FORMULA + call.target, stored(call.result)
    whole = call.emitter.emit(target, (given, *args), f"{call.name}.whole", type_)
    return replace(call.emitter.separated(whole, call.name, call.result), whole=whole)
