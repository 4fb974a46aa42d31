"""Operators that put tensors side by side: cat, stack, padding, and writes into slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aot.ir.nests import View
from aot.ir.scalar import Node, cast, const, where
from aot.ir.templates.concat import FEW_PARTS, Concat, chosen_part
from aot.lowering import exprs as e
from aot.lowering.axes import clamp_position, remove, replace, wrap_dim, wrap_position
from aot.lowering.builder import Tensor
from aot.lowering.masks import between, conjunction, known_ranges
from aot.lowering.promotion import number
from aot.lowering.registry import Call, CannotLower
from aot.lowering.reshape import reshape_index
from aot.lowering.rows import REGISTRY
from aot.lowering.views import moved, reshaped, turned
from aot.symbolic import Expr, FloorDiv, Maximum, Minimum, Modulo, as_expr, is_int, product


@REGISTRY.row("aten.cat.default", "aten.concat.default", "aten.concatenate.default")
def cat(call: Call, tensors: tuple[Tensor, ...], dim: int = 0) -> Tensor:
    """Tensors one after the other along `dim`; eager skips 1-d empty ones."""
    result, builder = call.result_type(), call.builder
    rank = len(result.shape)
    parts = [t for t in tensors if t.rank == rank and not (rank > 1 and t.shape == (0,))]
    parts = [t for t in parts if t.shape[wrap_dim(dim, rank)] != 0] or parts[:1]
    axis = wrap_dim(dim, rank)
    if len(parts) > FEW_PARTS:
        return _many(call, parts, axis)
    widths = [part.shape[axis] for part in parts]

    def point(index: tuple[Expr, ...]) -> Node:
        def element(number: int, own: Expr, mask: Node | None) -> Node:
            return cast(parts[number].load(replace(index, axis, own), mask), result.dtype)

        ranges = known_ranges(builder, index, result.shape)
        return chosen_part(index[axis], ranges, widths, element)

    return builder.pointwise(result.shape, result.dtype, point)


def _many(call: Call, parts: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors side by side along `axis`, or along a new one there, as a template call.

    What is before the axis are rows of a matrix, the rest are columns.
    """
    result, builder = call.result_type(), call.builder

    def part(x: Tensor) -> View:
        if x.dtype != result.dtype:
            source = x
            x = builder.pointwise(
                x.shape, result.dtype, lambda at: cast(source.load(at), result.dtype)
            )
        shape = _matrix(x.shape, axis)
        return builder.view(x, shape, reshape_index(builder.ranges, x.shape, shape))

    made = partial(Concat, parts=tuple(part(x) for x in parts))
    flat = builder.template(made, _matrix(result.shape, axis), result.dtype)
    return reshaped(flat, result.shape)


def _matrix(shape: Sequence[Expr], axis: int) -> tuple[Expr, Expr]:
    return product(shape[:axis]), product(shape[axis:])


@REGISTRY.row("aten.stack.default")
def stack(call: Call, tensors: tuple[Tensor, ...], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension."""
    result, builder = call.result_type(), call.builder
    axis = dim % len(result.shape)
    if len(tensors) > FEW_PARTS:
        return _many(call, tensors, axis)

    def point(index: tuple[Expr, ...]) -> Node:
        own = remove(index, axis)
        if len(tensors) == 1:
            return cast(tensors[0].load(own), result.dtype)
        place = builder.index_node(index[axis])
        chosen: Node | None = None
        for k, part in reversed(list(enumerate(tensors))):
            here = e.eq(place, k)
            value = cast(part.load(own, here), result.dtype)
            chosen = value if chosen is None else where(here, value, chosen)
        return chosen if chosen is not None else const(0, result.dtype)

    return builder.pointwise(result.shape, result.dtype, point)


def _pad_pairs(rank: int, pad: Sequence[Any]) -> list[tuple[Expr, Expr]]:
    """(before, after) per dimension from the flat list that starts at the last dimension."""
    pairs = [(as_expr(0), as_expr(0))] * rank
    for k in range(len(pad) // 2):
        pairs[rank - 1 - k] = (as_expr(pad[2 * k]), as_expr(pad[2 * k + 1]))
    return pairs


@REGISTRY.row("aten.constant_pad_nd.default")
def constant_pad(call: Call, x: Tensor, pad: tuple[Any, ...], value: Any = 0) -> Tensor:
    """x within a border of `value`; negative widths cut off."""
    result, builder = call.result_type(), call.builder
    pairs = _pad_pairs(x.rank, pad)

    def point(index: tuple[Expr, ...]) -> Node:
        ranges = known_ranges(builder, index, result.shape)
        own = [i - before for i, (before, _) in zip(index, pairs, strict=True)]
        conditions: list[Node] = []
        for i, size in zip(own, x.shape, strict=True):
            conditions.extend(between(builder, ranges, i, 0, size))
        mask = conjunction(conditions)
        loaded = x.load(own, mask)
        if mask is None or (value == 0 and math.copysign(1.0, value) > 0):
            return loaded
        return where(mask, loaded, number(value, x.dtype))

    return builder.pointwise(result.shape, result.dtype, point)


PaddingSource = Callable[[Expr, Expr, Expr, Expr], Expr]
"""(position in the result, width before, width after, size) -> position in the padded tensor."""


def _reflected(i: Expr, before: Expr, _: Expr, size: Expr) -> Expr:
    from_start = i - before
    return Minimum(Maximum(from_start, -from_start), 2 * (size - 1) - from_start)


def _replicated(i: Expr, before: Expr, _: Expr, size: Expr) -> Expr:
    return Minimum(Maximum(i - before, as_expr(0)), size - 1)


def _circular(i: Expr, before: Expr, after: Expr, size: Expr) -> Expr:
    """Negative widths are cut off first; what they leave of the tensor goes on round.

    Raises:
        CannotLower: The widths are known to cut off the whole dimension.
    """
    zero = as_expr(0)
    if is_int(Maximum(before, after, zero), 0):
        return i - before
    first, past = Maximum(-before, zero), size - Maximum(-after, zero)
    left = past - first
    # Eager returns memory that it never wrote.
    if left.is_Integer and left <= 0:
        raise CannotLower("circular padding of a dimension that is cut off whole")
    return first + turned(i, Maximum(before, zero), left)


def _padded(call: Call, x: Tensor, pad: Sequence[Any], source: PaddingSource) -> Tensor:
    pairs = _pad_pairs(x.rank, pad)
    shape = call.result_type().shape

    def index(at: tuple[Expr, ...]) -> list[Expr]:
        ranges = known_ranges(call.builder, at, shape)
        return [
            i if pair == (0, 0) else ranges.simplify(source(i, *pair, size))
            for i, pair, size in zip(at, pairs, x.shape, strict=True)
        ]

    return moved(x, shape, index)


@REGISTRY.row(*(f"aten.reflection_pad{n}d.default" for n in (1, 2, 3)))
def reflection_pad(call: Call, x: Tensor, padding: tuple[Any, ...]) -> Tensor:
    """x mirrored at its edges."""
    return _padded(call, x, padding, _reflected)


@REGISTRY.row(*(f"aten.replication_pad{n}d.default" for n in (1, 2, 3)))
def replication_pad(call: Call, x: Tensor, padding: tuple[Any, ...]) -> Tensor:
    """x with its edges repeated."""
    return _padded(call, x, padding, _replicated)


@REGISTRY.row("aten._pad_circular.default")
def circular_pad(call: Call, x: Tensor, pad: tuple[Any, ...]) -> Tensor:
    """x continued round."""
    return _padded(call, x, pad, _circular)


@REGISTRY.row("aten.pad.default")
def pad_(
    call: Call, x: Tensor, pad: tuple[Any, ...], mode: str = "constant", value: Any = None
) -> Tensor:
    """x within a border, made as `mode` says.

    Raises:
        CannotLower: `mode` is none of constant, reflect, replicate and circular.
    """
    if mode == "constant":
        return constant_pad(call, x, pad, 0 if value is None else value)
    sources = {"reflect": _reflected, "replicate": _replicated, "circular": _circular}
    if mode not in sources:
        raise CannotLower(f"padding mode {mode!r}")
    return _padded(call, x, pad, sources[mode])


@REGISTRY.row("aten.slice_scatter.default")
def slice_scatter(
    call: Call,
    x: Tensor,
    src: Tensor,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Tensor:
    """x with x[start:end:step] along `dim` replaced by src."""
    axis, builder = wrap_dim(dim, x.rank), call.builder
    first = clamp_position(builder, 0 if start is None else start, x.shape[axis])

    def point(index: tuple[Expr, ...]) -> Node:
        ranges = known_ranges(builder, index, x.shape)
        distance = index[axis] - first
        own = replace(index, axis, distance if step == 1 else FloorDiv(distance, as_expr(step)))
        conditions = between(builder, ranges, distance, 0, src.shape[axis] * step)
        if step != 1:
            offset = Modulo(distance, as_expr(step))
            conditions.append(e.eq(builder.index_node(offset), 0))
        mask = conjunction(conditions)
        value = cast(src.load(own, mask), x.dtype)
        return value if mask is None else where(mask, value, x.load(index))

    return builder.pointwise(x.shape, x.dtype, point)


@REGISTRY.row("aten.select_scatter.default")
def select_scatter(call: Call, x: Tensor, src: Tensor, dim: int, position: Any) -> Tensor:
    """x with one position of `dim` replaced by src."""
    axis, builder = wrap_dim(dim, x.rank), call.builder
    place = wrap_position(builder, position, x.shape[axis])

    def point(index: tuple[Expr, ...]) -> Node:
        ranges = known_ranges(builder, index, x.shape)
        here = conjunction(between(builder, ranges, index[axis] - place, 0, 1))
        value = cast(src.load(remove(index, axis), here), x.dtype)
        return value if here is None else where(here, value, x.load(index))

    return builder.pointwise(x.shape, x.dtype, point)


@REGISTRY.row("aten.diagonal_scatter.default")
def diagonal_scatter(
    call: Call, x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """x with a diagonal of two dimensions replaced by src, whose last dimension runs along it."""
    builder, a, b = call.builder, wrap_dim(dim1, x.rank), wrap_dim(dim2, x.rank)
    first, second = max(-offset, 0), max(offset, 0)

    def point(index: tuple[Expr, ...]) -> Node:
        row, column = (builder.index_node(i) for i in (index[a] - first, index[b] - second))
        here = e.and_(e.eq(row, column), e.ge(row, 0))
        rest = [i for k, i in enumerate(index) if k not in (a, b)]
        value = cast(src.load((*rest, index[a] - first), here), x.dtype)
        return where(here, value, x.load(index))

    return builder.pointwise(x.shape, x.dtype, point)


@REGISTRY.row("aten.copy.default")
def copy(call: Call, x: Tensor, src: Tensor, *_: Any, **__: Any) -> Tensor:
    """src in x's shape and type."""
    return call.builder.pointwise(
        x.shape, x.dtype, lambda index: cast(src.load_broadcast(index), x.dtype)
    )
