"""Convolutions of one to three dimensions, and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from aot.ir.scalar import Node, cast, const
from aot.ir.templates.conv import Conv
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor, identity_view
from aot.lowering.matmul import plus, rounded
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.lowering.views import moved
from aot.symbolic import Expr, FloorDiv, Modulo, as_expr, ceil_div, is_int

Shape = tuple[Expr, ...]
Ints = tuple[int, ...]


@dataclass(frozen=True)
class Geometry:
    """How the kernel moves over x; one number for each spatial dimension."""

    stride: Ints
    padding: Ints
    dilation: Ints
    groups: int


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
    groups: int,
) -> Tensor:
    """Operator convolution: x (n, c, *spatial) or (c, *spatial), weight as its module holds it."""
    spatial = weight.rank - 2
    geometry = Geometry(
        _spread(stride, spatial), _spread(padding, spatial), _spread(dilation, spatial), groups
    )
    lone = x.rank == spatial + 1
    if lone:
        x = moved(x, (as_expr(1), *x.shape), lambda at: at[1:])
    if transposed:
        extra = _spread(output_padding, spatial)
        x, weight, geometry = _as_forward(x, weight, geometry, extra)
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


def _forward(x: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """A convolution by the template; the bias is a nest that fuses into it."""
    shape = (x.shape[0], weight.shape[0], *_sizes(x, weight, geometry))
    dtype = x.dtype.compute
    builder = x.builder
    if is_int(weight.shape[1], 0):
        out = builder.pointwise(shape, dtype, lambda at: const(0, dtype))
    else:
        call = partial(
            Conv,
            x=identity_view(x),
            w=identity_view(weight),
            stride=geometry.stride,
            padding=geometry.padding,
            dilation=geometry.dilation,
            groups=geometry.groups,
        )
        out = builder.template(call, shape, dtype)
    if bias is None:
        return rounded(out, x.dtype)
    ones = (as_expr(1),) * len(geometry.stride)
    column = moved(bias, (bias.shape[0], *ones), lambda at: at[:1])
    return plus(out, column, x.dtype)


def _sizes(x: Tensor, weight: Tensor, geometry: Geometry) -> Shape:
    ranges = x.builder.ranges
    sizes = []
    steps = zip(geometry.stride, geometry.padding, geometry.dilation, strict=True)
    for k, (s, p, d) in enumerate(steps):
        covered = d * (weight.shape[2 + k] - 1) + 1
        sizes.append(ranges.simplify(FloorDiv(x.shape[2 + k] + 2 * p - covered, as_expr(s)) + 1))
    return tuple(sizes)


def _as_forward(
    x: Tensor, weight: Tensor, geometry: Geometry, extra: Ints
) -> tuple[Tensor, Tensor, Geometry]:
    """A transposed convolution as a plain one: x spread by the stride, the kernel turned round.

    Returns the spread x with its border, the kernel, and how it moves: step by step, unpadded.
    """
    kernel = [_number(size) for size in weight.shape[2:]]
    turned = _turned(weight, geometry.groups)
    before, sizes = [], []
    steps = zip(geometry.stride, geometry.padding, geometry.dilation, strict=True)
    for k, (s, p, d) in enumerate(steps):
        border = d * (kernel[k] - 1) - p
        before.append(border)
        sizes.append((x.shape[2 + k] - 1) * s + 1 + 2 * border + extra[k])
    spatial = len(geometry.stride)
    forward = replace(geometry, stride=(1,) * spatial, padding=(0,) * spatial)
    return _spread_out(x, geometry.stride, before, sizes), turned, forward


def _turned(weight: Tensor, groups: int) -> Tensor:
    """weight[g * ci, co, *kernel] as [g * co, ci, *kernel] with the kernel reversed."""
    inputs, outputs = ceil_div(weight.shape[0], groups), weight.shape[1]
    kernel = weight.shape[2:]

    def index(at: Shape) -> Shape:
        flipped = [size - 1 - i for i, size in zip(at[2:], kernel, strict=True)]
        if groups == 1:
            return (at[1], at[0], *flipped)
        group, out = FloorDiv(at[0], outputs), Modulo(at[0], outputs)
        return (group * inputs + at[1], out, *flipped)

    return moved(weight, (outputs * groups, inputs, *kernel), index)


def _spread_out(
    x: Tensor, stride: Sequence[int], before: Sequence[int], sizes: Sequence[Expr]
) -> Tensor:
    """Spreads x: stride - 1 zeros between neighbours, `before` zeros ahead (negative: cut off)."""
    builder = x.builder
    if all(s == 1 for s in stride) and not any(before) and tuple(sizes) == x.shape[2:]:
        return x

    def body(at: Shape) -> Node:
        index: list[Expr] = list(at[:2])
        mask: Node | None = None
        for k, (s, b) in enumerate(zip(stride, before, strict=True)):
            node = builder.index_node(at[2 + k] - b)
            size = builder.index_node(x.shape[2 + k] * s)
            inside = e.and_(e.ge(node, 0), e.lt(node, size))
            if s == 1:
                index.append(at[2 + k] - b)
            else:  # whole steps are added before the division: kernels divide no negative numbers
                steps = max(-(-b // s), 0)
                shifted = at[2 + k] - b + steps * s
                inside = e.and_(inside, e.eq(builder.index_node(Modulo(shifted, as_expr(s))), 0))
                index.append(FloorDiv(shifted, as_expr(s)) - steps)
            mask = inside if mask is None else e.and_(mask, inside)
        return cast(x.load(index, mask), x.dtype)

    return builder.pointwise((*x.shape[:2], *sizes), x.dtype, body)
