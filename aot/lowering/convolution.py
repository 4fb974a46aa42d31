"""Convolutions of one to three dimensions, and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd, prod

from aot.ir.scalar import Node, cast, const, reduce_
from aot.ir.templates.conv import Conv
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor, identity_view
from aot.lowering.matmul import plus, rounded
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.lowering.views import moved
from aot.symbolic import (
    Expr,
    FloorDiv,
    Modulo,
    as_expr,
    ceil_div,
    exact_quotient,
    is_int,
    unravel,
)

Shape = tuple[Expr, ...]
Ints = tuple[int, ...]


@dataclass(frozen=True)
class Geometry:
    """How the kernel moves over x; one number for each spatial dimension.

    `groups`: as many as a size says, where it is no number. `last`: x has its channels innermost in
    eager's memory.
    """

    stride: Ints
    padding: Ints
    dilation: Ints
    groups: int | Expr
    last: bool = False


@REGISTRY.row("aten.convolution.default")
def convolution(
    call: Call,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int | Expr,
) -> Tensor:
    """Operator convolution: x (n, c, *spatial) or (c, *spatial), weight as its module holds it."""
    spatial = weight.rank - 2
    eager = call.builder.graph.types[call.op.args[0].name]
    geometry = Geometry(
        _spread(stride, spatial),
        _spread(padding, spatial),
        _spread(dilation, spatial),
        int(groups) if is_int(as_expr(groups)) else groups,
        last=eager.strides[-1 - spatial] == 1,
    )
    lone = x.rank == spatial + 1
    if lone:
        x = moved(x, (as_expr(1), *x.shape), lambda at: at[1:])
    if transposed:
        out = _transposed(x, weight, bias, geometry, _spread(output_padding, spatial))
    else:
        out = _forward(x, weight, bias, geometry)
    if lone:
        return moved(out, out.shape[1:], lambda at: (as_expr(0), *at))
    return out


def _spread(values: Sequence[int], spatial: int) -> Ints:
    """One number for each spatial dimension; a single one stands for all."""
    given = [_number(v) for v in values]
    return tuple(given * spatial) if len(given) == 1 else tuple(given)


def _number(value: int | Expr) -> int:
    if not isinstance(value, int) and not value.is_Integer:
        raise CannotLower("its stride, padding or dilation depends on an input's size")
    return int(value)


def _forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry, phases: int = 1
) -> Tensor:
    """A convolution by the template; the bias is a nest that fuses into it.

    `phases`: Its outputs are so many of a transposed one.
    """
    shape = (x.shape[0], weight.shape[0], *_sizes(x, weight, geometry))
    dtype = x.dtype.compute
    builder = x.builder
    if is_int(weight.shape[1], 0):
        out = builder.pointwise(shape, dtype, lambda at: const(0, dtype))
    elif not isinstance(geometry.groups, int):
        out = _of_open_groups(x, weight, geometry, shape)
    else:
        call = partial(
            Conv,
            x=identity_view(x),
            w=identity_view(weight),
            stride=geometry.stride,
            padding=geometry.padding,
            dilation=geometry.dilation,
            groups=geometry.groups,
            phases=phases if phases > 1 else None,
            last=True if geometry.last else None,
        )
        out = builder.template(call, shape, dtype)
    if bias is None:
        return rounded(out, x.dtype)
    ones = (as_expr(1),) * len(geometry.stride)
    column = moved(bias, (bias.shape[0], *ones), lambda at: at[:1])
    return plus(out, column, x.dtype)


def _of_open_groups(x: Tensor, weight: Tensor, geometry: Geometry, shape: Shape) -> Tensor:
    """A convolution in as many groups as a size says, as one nest.

    A filter for each image (`groups=x.shape[0]`) is one, and what a model makes of each channel of
    any number of them.
    """
    builder, dtype, groups = x.builder, x.dtype.compute, as_expr(geometry.groups)
    inputs, outputs = weight.shape[1], _of_a_group(weight.shape[0], groups)

    def product(at: Shape, along: Shape) -> Node:
        image, group, own, *places = at
        channel, *taps = along
        mask: Node | None = None
        index: list[Expr] = [image, group * inputs + channel]
        steps = zip(geometry.stride, geometry.padding, geometry.dilation, strict=True)
        for k, (stride, padding, dilation) in enumerate(steps):
            index.append(places[k] * stride + taps[k] * dilation - padding)
            if padding:
                place = builder.index_node(index[-1])
                inside = e.and_(e.ge(place, 0), e.lt(place, builder.index_node(x.shape[2 + k])))
                mask = inside if mask is None else e.and_(mask, inside)
        factor = weight.load((group * outputs + own, *along))
        return reduce_("sum", e.mul(cast(x.load(index, mask), dtype), cast(factor, dtype)))

    apart = (shape[0], groups, outputs, *shape[2:])
    found = builder.reduction(apart, weight.shape[1:], [(dtype, product)])[0]
    return moved(
        found,
        shape,
        lambda at: (at[0], FloorDiv(at[1], outputs), Modulo(at[1], outputs), *at[2:]),
    )


def _sizes(x: Tensor, weight: Tensor, geometry: Geometry) -> Shape:
    ranges = x.builder.ranges
    sizes = []
    steps = zip(geometry.stride, geometry.padding, geometry.dilation, strict=True)
    for k, (s, p, d) in enumerate(steps):
        covered = d * (weight.shape[2 + k] - 1) + 1
        sizes.append(ranges.simplify(FloorDiv(x.shape[2 + k] + 2 * p - covered, as_expr(s)) + 1))
    return tuple(sizes)


@dataclass(frozen=True)
class _Phases:
    """One spatial dimension of a transposed convolution, taken apart by its stride.

    Output `o` gets x[i] * w[t] where i * stride + t * dilation = o + padding. Of o + padding =
    q * stride + phase, each phase meets every stride-th place of the kernel: a convolution that
    moves step by step, with `taps` of its own. All phases read the same x, so they are outputs of
    one convolution; none multiplies the zeros that spreading x by the stride would insert.

    What divides stride and dilation leaves only its multiples o + padding with products at all:
    they are those of a transposed convolution whose stride and dilation are divided by it.

    Attributes:
        step: The greatest common divisor of stride and dilation.
        stride, dilation: Divided by it; without a stride the taps keep their dilation, else its
            gaps are taps of zeros.
        kernel: The weight's extent.
        taps: Those of a phase.
        padding: Of the forward convolution, on both sides.
        shift: From an output to o + padding, less the places before the first that it computes.
    """

    step: int
    stride: int
    dilation: int
    kernel: int
    taps: int
    padding: int
    shift: int

    @property
    def spread(self) -> int:
        """Between the taps of a phase, in x."""
        return self.dilation if self.stride == 1 else 1

    def place(self, phase: Expr, tap: Expr) -> Expr:
        """Where a phase's tap, the last first, is among the places that the kernel covers."""
        return phase + (self.taps - 1 - tap) * (self.stride if self.stride > 1 else self.dilation)


def _phases(kernel: int, stride: int, padding: int, dilation: int, extra: int) -> _Phases:
    """`extra`: of the output, beyond what the kernel covers."""
    step = gcd(stride, dilation)
    stride, dilation = stride // step, dilation // step
    covered = dilation * (kernel - 1) + 1
    taps = kernel if stride == 1 else -(-covered // stride)
    reach = (covered - 1) if stride == 1 else taps - 1
    before, behind = padding // step, (extra - padding) // step
    around = max(reach - before // stride, (covered - 1 + behind) // stride, 0)
    shift = padding - (reach - around) * stride * step
    return _Phases(step, stride, dilation, kernel, taps, around, shift)


def _transposed(
    x: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry, extra: Ints
) -> Tensor:
    """A transposed convolution: a plain one whose outputs are all phases, and these side by side.

    weight[g * ci, co, *kernel]; the plain one's output channels are (group, *phases, co).
    """
    given = (geometry.stride, geometry.padding, geometry.dilation, extra)
    numbers = zip(weight.shape[2:], *given, strict=True)
    dims = [_phases(_number(k), s, p, d, more) for k, s, p, d, more in numbers]
    outputs, groups = weight.shape[1], geometry.groups
    count = prod(d.stride for d in dims)
    alone = bias  # what outputs without products are
    if bias is not None and count > 1:
        bias = moved(
            bias,
            (outputs * (groups * count),),
            lambda at: (FloorDiv(at[0], outputs * count) * outputs + Modulo(at[0], outputs),),
        )
    around, apart = zip(*((d.padding, d.spread) for d in dims), strict=True)
    forward = Geometry((1,) * len(dims), around, apart, groups, geometry.last)
    out = _forward(x, _by_phase(weight, dims, groups), bias, forward, count)
    sizes = []
    for k, (d, p, more) in enumerate(zip(dims, geometry.padding, extra, strict=True)):
        covered = d.step * d.dilation * (d.kernel - 1) + 1
        sizes.append((x.shape[2 + k] - 1) * d.step * d.stride + covered - 2 * p + more)
    if count == 1 and not any(d.shift for d in dims) and tuple(sizes) == out.shape[2:]:
        return out

    def index(at: Shape) -> Shape:
        group, channel = _group_of(at[1], outputs, groups)
        shifted = [
            FloorDiv(i + d.shift, as_expr(d.step)) for i, d in zip(at[2:], dims, strict=True)
        ]
        places = [FloorDiv(q, as_expr(d.stride)) for q, d in zip(shifted, dims, strict=True)]
        phase = as_expr(0)
        for q, d in zip(shifted, dims, strict=True):
            phase = phase * d.stride + Modulo(q, as_expr(d.stride))
        return (at[0], (group * count + phase) * outputs + channel, *places)

    shape = (x.shape[0], outputs * groups, *sizes)
    if all(d.step == 1 for d in dims):
        return moved(out, shape, index)

    def body(at: Shape) -> Node:
        there: Node | None = None
        for d, i in zip(dims, at[2:], strict=True):
            if d.step > 1:
                own = e.eq(x.builder.index_node(Modulo(i + d.shift, as_expr(d.step))), 0)
                there = own if there is None else e.and_(there, own)
        assert there is not None
        value = cast(out.load(index(at), there), x.dtype)
        return (
            value if alone is None else e.select(there, value, cast(alone.load([at[1]]), x.dtype))
        )

    return x.builder.pointwise(shape, x.dtype, body)


def _group_of(channel: Expr, per_group: Expr, groups: int | Expr) -> tuple[Expr, Expr]:
    if groups == 1:
        return as_expr(0), channel
    return FloorDiv(channel, per_group), Modulo(channel, per_group)


def _of_a_group(channels: Expr, groups: int | Expr) -> Expr:
    """How many of all groups' channels are one group's: eager asks that they are a multiple."""
    if isinstance(groups, int):
        return ceil_div(channels, groups)
    whole = exact_quotient(channels, groups)
    return FloorDiv(channels, groups) if whole is None else whole


def _by_phase(weight: Tensor, dims: Sequence[_Phases], groups: int | Expr) -> Tensor:
    """weight[g * ci, co, *kernel] as [g * phases * co, ci, *taps]; zero where there is no tap."""
    builder = weight.builder
    inputs, outputs = _of_a_group(weight.shape[0], groups), weight.shape[1]
    strides = [d.stride for d in dims]
    count = prod(strides)

    def body(at: Shape) -> Node:
        group, rest = _group_of(at[0], outputs * count, groups)
        phase, channel = (
            (as_expr(0), rest) if count == 1 else (FloorDiv(rest, outputs), Modulo(rest, outputs))
        )
        phases = unravel(phase, [as_expr(s) for s in strides])
        index: list[Expr] = [group * inputs + at[1], channel]
        mask: Node | None = None
        for d, own, tap in zip(dims, phases, at[2:], strict=True):
            place = d.place(own, tap)
            index.append(FloorDiv(place, as_expr(d.dilation)))
            covered = d.dilation * (d.kernel - 1) + 1
            if d.stride > 1 and d.taps * d.stride > covered:
                inside = e.lt(builder.index_node(place), covered)
                mask = inside if mask is None else e.and_(mask, inside)
            if d.stride > 1 and d.dilation > 1:
                gap = builder.index_node(Modulo(place, as_expr(d.dilation)))
                mask = e.eq(gap, 0) if mask is None else e.and_(mask, e.eq(gap, 0))
        return cast(weight.load(index, mask), weight.dtype)

    shape = (outputs * (groups * count), inputs, *(as_expr(d.taps) for d in dims))
    return builder.pointwise(shape, weight.dtype, body)
