"""Views: one nest with one load each; a pass inlines them, so they cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aot.lowering.axes import (
    clamp_position,
    insert,
    remove,
    replace,
    wrap_dim,
    wrap_dims,
    wrap_position,
)
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.registry import Call, CannotLower
from aot.lowering.reshape import reshape_index
from aot.lowering.rows import REGISTRY
from aot.symbolic import (
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    Modulo,
    as_expr,
    product,
    unravel,
)

IndexMap = Callable[[tuple[Expr, ...]], Sequence[Expr]]


def moved(x: Tensor, shape: Sequence[Expr], index: IndexMap) -> Tensor:
    """`x` seen with another shape: `index` maps a position of the result to one of x."""
    return x.builder.pointwise(shape, x.dtype, lambda at: x.load(tuple(index(at))))


def permuted(x: Tensor, order: Sequence[int]) -> Tensor:
    """x with its dimensions in another order."""
    shape = [x.shape[k] for k in order]
    inverse = [order.index(k) for k in range(x.rank)]
    return moved(x, shape, lambda at: [at[k] for k in inverse])


def reshaped(x: Tensor, shape: Sequence[Expr]) -> Tensor:
    """x's elements, in row-major order, with another shape."""
    return moved(x, shape, reshape_index(x.builder.ranges, x.shape, shape))


def sliced(x: Tensor, dim: int, start: Expr, size: Expr, step: int = 1) -> Tensor:
    """`size` elements of x along `dim`: start, start + step and so on."""
    shape = replace(x.shape, dim, size)
    return moved(x, shape, lambda at: replace(at, dim, start + at[dim] * step))


@REGISTRY.row(
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten._reshape_alias.default",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.view_as.default",
    "aten.view_copy.default",
)
def view(call: Call, x: Tensor, *_: Any) -> Tensor:
    """Another shape of the same elements."""
    return reshaped(x, call.result_type().shape)


@REGISTRY.row("aten.permute.default", "aten.permute_copy.default")
def permute(call: Call, x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Dimensions in another order."""
    return permuted(x, [wrap_dim(d, x.rank) for d in dims])


@REGISTRY.row("aten.unbind_copy.int")
def unbind_copy(call: Call, x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices of x along `dim`."""
    axis = wrap_dim(dim, x.rank)
    shape = remove(x.shape, axis)

    def slice_at(position: int) -> Tensor:
        return moved(x, shape, lambda at: insert(at, axis, as_expr(position)))

    return tuple(slice_at(k) for k in range(len(call.op.outputs)))


@REGISTRY.row("aten.narrow_copy.default")
def narrow_copy(call: Call, x: Tensor, dim: int, start: Expr | int, length: Expr | int) -> Tensor:
    """`length` elements of x along `dim` from `start` on."""
    axis = wrap_dim(dim, x.rank)
    first = wrap_position(call.builder, start, x.shape[axis])
    return sliced(x, axis, first, as_expr(length))


@REGISTRY.row("aten.transpose.int", "aten.swapaxes.default", "aten.swapdims.default")
def transpose(call: Call, x: Tensor, a: int, b: int) -> Tensor:
    """Two dimensions swapped."""
    order = list(range(x.rank))
    if x.rank:
        p, q = wrap_dim(a, x.rank), wrap_dim(b, x.rank)
        order[p], order[q] = order[q], order[p]
    return permuted(x, order)


@REGISTRY.row("aten.t.default", "aten.numpy_T.default", "aten.mT.default")
def t(call: Call, x: Tensor) -> Tensor:
    """A matrix transposed; vectors stay (mT: the last two dimensions)."""
    order = list(range(x.rank))
    if call.op.target == "aten.mT.default":
        return permuted(x, [*order[:-2], order[-1], order[-2]])
    return permuted(x, order[::-1])


@REGISTRY.row("aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.int")
def movedim(call: Call, x: Tensor, source: Any, destination: Any) -> Tensor:
    """Dimensions `source` moved to the positions `destination`."""
    from_ = [source] if isinstance(source, int) else list(source)
    to = [destination] if isinstance(destination, int) else list(destination)
    placed = {wrap_dim(d, x.rank): wrap_dim(s, x.rank) for s, d in zip(from_, to, strict=True)}
    rest = iter(k for k in range(x.rank) if k not in placed.values())
    return permuted(x, [placed[k] if k in placed else next(rest) for k in range(x.rank)])


@REGISTRY.row("aten.expand.default", "aten.broadcast_to.default", "aten.expand_as.default")
def expand(call: Call, x: Tensor, *_: Any, **__: Any) -> Tensor:
    """x repeated along dimensions of size 1, and new leading ones."""
    shape = call.result_type().shape
    return call.builder.pointwise(shape, x.dtype, x.load_broadcast)


@REGISTRY.row("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims")
def squeeze(call: Call, x: Tensor, dims: int | tuple[int, ...] | None = None) -> Tensor:
    """Without the (given) dimensions of size 1."""
    listed = () if dims == () else wrap_dims(dims, x.rank)
    gone = [k for k in listed if x.shape[k] == 1]
    kept = [k for k in range(x.rank) if k not in gone]
    zero = call.builder.zero

    def index(at: tuple[Expr, ...]) -> list[Expr]:
        return [zero if k in gone else at[kept.index(k)] for k in range(x.rank)]

    return moved(x, [x.shape[k] for k in kept], index)


@REGISTRY.row("aten.unsqueeze.default")
def unsqueeze(call: Call, x: Tensor, dim: int) -> Tensor:
    """With a dimension of size 1 at `dim`."""
    axis = dim % (x.rank + 1)
    return moved(x, insert(x.shape, axis, as_expr(1)), lambda at: remove(at, axis))


@REGISTRY.row("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(
    call: Call, x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """x[start:end:step] along `dim`."""
    axis = wrap_dim(dim, x.rank)
    first = clamp_position(call.builder, 0 if start is None else start, x.shape[axis])
    return sliced(x, axis, first, call.result_type().shape[axis], int(step))


@REGISTRY.row("aten.narrow.default")
def narrow_(call: Call, x: Tensor, dim: int, start: Any, length: Any) -> Tensor:
    """`length` elements from `start` along `dim`."""
    axis = wrap_dim(dim, x.rank)
    first = wrap_position(call.builder, start, x.shape[axis])
    return sliced(x, axis, first, as_expr(length))


@REGISTRY.row("aten.select.int", "aten.select_copy.int")
def select(call: Call, x: Tensor, dim: int, position: Any) -> Tensor:
    """x at one position of `dim`."""
    axis = wrap_dim(dim, x.rank)
    at_ = wrap_position(call.builder, position, x.shape[axis])
    return moved(x, remove(x.shape, axis), lambda at: insert(at, axis, at_))


def _pieces(x: Tensor, axis: int, sizes: Sequence[Expr]) -> tuple[Tensor, ...]:
    pieces, start = [], as_expr(0)
    for size in sizes:
        pieces.append(sliced(x, axis, start, size))
        start = start + size
    return tuple(pieces)


@REGISTRY.row(
    "aten.split.Tensor",
    "aten.split.sizes",
    "aten.split_with_sizes.default",
    "aten.split_with_sizes_copy.default",
    "aten.chunk.default",
    "aten.tensor_split.sections",
    "aten.unsafe_split.Tensor",
    "aten.unsafe_chunk.default",
)
def split(call: Call, x: Tensor, sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """x cut along `dim`; the results' types say where.

    Raises:
        CannotLower: A piece is unused, and only the number of pieces is given.
    """
    axis = wrap_dim(dim, x.rank)
    if isinstance(sizes, tuple):
        return _pieces(x, axis, [as_expr(s) for s in sizes])
    count = len(call.op.outputs)
    types = call.builder.graph.types
    known = [types[n].shape[axis] if n is not None else None for n in call.op.outputs]
    if call.op.target in ("aten.split.Tensor", "aten.unsafe_split.Tensor"):
        usual = as_expr(sizes)
        lengths = [usual] * (count - 1) + [x.shape[axis] - usual * (count - 1)]
        return _pieces(x, axis, lengths)
    if any(k is None for k in known):
        raise CannotLower("splits into a number of pieces of which some are unused")
    return _pieces(x, axis, [k for k in known if k is not None])


@REGISTRY.row("aten.unbind.int")
def unbind(call: Call, x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """x at each position of `dim`."""
    axis = wrap_dim(dim, x.rank)
    shape = remove(x.shape, axis)

    def piece(k: int) -> Tensor:
        return moved(x, shape, lambda at: insert(at, axis, as_expr(k)))

    return tuple(piece(k) for k in range(len(call.op.outputs)))


_FLIPPED: Mapping[str, tuple[int, ...]] = {
    "aten.fliplr.default": (1,),
    "aten.flipud.default": (0,),
}


@REGISTRY.row("aten.flip.default", "aten.fliplr.default", "aten.flipud.default")
def flip(call: Call, x: Tensor, dims: tuple[int, ...] = ()) -> Tensor:
    """x backwards along `dims`; or along the one that the operator's name says."""
    dims = _FLIPPED.get(call.op.target, dims)
    turned = {wrap_dim(d, x.rank) for d in dims}

    def index(at: tuple[Expr, ...]) -> list[Expr]:
        return [x.shape[k] - 1 - i if k in turned else i for k, i in enumerate(at)]

    return moved(x, x.shape, index)


@REGISTRY.row("aten.roll.default")
def roll(call: Call, x: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    """x moved round by `shifts` along `dims` (along the flat tensor without dims)."""
    by = list(shifts) if isinstance(shifts, tuple) else [shifts]
    along = [dims] if isinstance(dims, int) else list(dims)
    if not along:
        flat = reshaped(x, [_numel(x)])
        return reshaped(_rolled(flat, {0: as_expr(by[0])}), x.shape)
    total: dict[int, Expr] = {}
    for shift, d in zip(by, along, strict=True):
        axis = wrap_dim(d, x.rank)
        total[axis] = total.get(axis, as_expr(0)) + shift
    return _rolled(x, total)


def _numel(x: Tensor) -> Expr:
    total = as_expr(1)
    for size in x.shape:
        total = total * size
    return total


def turned(i: Expr, back: Expr, size: Expr) -> Expr:
    """(i - back) modulo size, for -size <= i - back < 2 * size, without negative dividends.

    C divides towards zero, and `Modulo` drops the multiples of its divisor that would keep a
    dividend positive; with a dynamic size the turns are counted instead.
    """
    position = i - back
    if size.is_Integer and back.is_Integer:
        return Modulo(position + size * -(-int(back) // int(size)), size)
    zero, one = as_expr(0), as_expr(1)
    below = Minimum(one, Maximum(zero, -position))
    above = Minimum(one, Maximum(zero, position - size + 1))
    return position + size * below - size * above


def _rolled(x: Tensor, shifts: dict[int, Expr]) -> Tensor:
    """Each position reads `shift` before itself, round the end."""
    ranges = x.builder.ranges

    def source(k: int, i: Expr) -> Expr:
        size, shift = x.shape[k], shifts[k]
        if size == 0:
            return i
        if ranges.nonnegative(-shift):
            return Modulo(i - shift, size)
        if not ranges.nonnegative(shift):
            raise CannotLower(f"roll by {shift}, whose sign is not known")
        return turned(i, Modulo(shift, size), size)

    def index(at: tuple[Expr, ...]) -> Sequence[Expr]:
        rolled = [source(k, i) if k in shifts else i for k, i in enumerate(at)]
        return simplified(x.builder, at, x.shape, rolled)

    return moved(x, x.shape, index)


@REGISTRY.row("aten.diagonal.default", "aten.diagonal_copy.default")
def diagonal(call: Call, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A diagonal of two dimensions, as a new last one."""
    a, b = wrap_dim(dim1, x.rank), wrap_dim(dim2, x.rank)

    def index(at: tuple[Expr, ...]) -> list[Expr]:
        rest = iter(at[:-1])
        own = {a: at[-1] + max(-offset, 0), b: at[-1] + max(offset, 0)}
        return [own[k] if k in own else next(rest) for k in range(x.rank)]

    return moved(x, call.result_type().shape, index)


@REGISTRY.row("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(
    call: Call, x: Tensor, size: tuple[Any, ...], stride: tuple[Any, ...], offset: Any = None
) -> Tensor:
    """Elements at given strides of a tensor's memory, which has no gaps.

    Raises:
        CannotLower: The tensor's memory has gaps, or its elements share some.
    """
    shape, place = call.result_type().shape, strided_index(call, x, stride, offset)
    return moved(x, shape, lambda at: simplified(call.builder, at, shape, place(at)))


def strided_index(call: Call, x: Tensor, stride: Sequence[Any], offset: Any) -> IndexMap:
    """Which element of x, the call's first argument, lies at given strides of its memory.

    Raises:
        CannotLower: The tensor's memory has gaps, or its elements share some.
    """
    eager = call.builder.graph.types[call.op.args[0].name]
    order = _memory_order(x.shape, eager.strides)
    if order is None:
        what = call.op.target.split(".")[1]
        raise CannotLower(f"{what} of a tensor whose memory has gaps")
    extents = [x.shape[k] for k in order]
    start = as_expr(0) if offset is None else as_expr(offset)

    def index(at: tuple[Expr, ...]) -> Sequence[Expr]:
        position = sum((i * step for i, step in zip(at, stride, strict=True)), start)
        found = dict(zip(order, unravel(position, extents), strict=True))
        return [found[k] for k in range(x.rank)]

    return index


def _memory_order(shape: Sequence[Expr], strides: Sequence[Expr]) -> list[int] | None:
    """The dimensions from the outermost in memory to the innermost; None where there are gaps."""
    ones = [k for k, size in enumerate(shape) if size == 1]  # whose stride means nothing
    left = [k for k in reversed(range(len(shape))) if k not in ones]
    inner: list[int] = []
    while left:
        reached = product([shape[k] for k in inner])
        found = next((k for k in left if strides[k] == reached), None)
        if found is None:
            return None
        left.remove(found)
        inner.append(found)
    return [*ones, *reversed(inner)]


def simplified(
    builder: GraphBuilder, at: Sequence[Expr], shape: Sequence[Expr], index: Sequence[Expr]
) -> tuple[Expr, ...]:
    """`index` simplified with what is known of the loop variables `at` of a nest over `shape`."""
    extents = {i: size for i, size in zip(at, shape, strict=True) if i.is_Symbol}
    ranges = builder.ranges.with_extents(extents)
    return tuple(ranges.simplify(i) for i in index)


@REGISTRY.row("aten.unfold.default")
def unfold(call: Call, x: Tensor, dim: int, size: Any, step: int) -> Tensor:
    """Windows of `size` along `dim`, `step` apart; positions within a window come last."""
    axis = wrap_dim(dim, x.rank)
    shape = call.result_type().shape
    if x.rank == 0:
        return moved(x, shape, lambda at: ())
    return moved(x, shape, lambda at: replace(at[:-1], axis, at[axis] * step + at[-1]))


@REGISTRY.row("aten.pixel_shuffle.default")
def pixel_shuffle(call: Call, x: Tensor, factor: int) -> Tensor:
    """(…, c * f * f, h, w) to (…, c, h * f, w * f)."""
    f = as_expr(factor)

    def index(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        c, h, w = at[-3:]
        channel = c * f * f + Modulo(h, f) * f + Modulo(w, f)
        return (*at[:-3], channel, FloorDiv(h, f), FloorDiv(w, f))

    return moved(x, call.result_type().shape, index)


@REGISTRY.row("aten.pixel_unshuffle.default")
def pixel_unshuffle(call: Call, x: Tensor, factor: int) -> Tensor:
    """(…, c, h * f, w * f) to (…, c * f * f, h, w)."""
    f = as_expr(factor)

    def index(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        c, h, w = at[-3:]
        row = h * f + Modulo(FloorDiv(c, f), f)
        return (*at[:-3], FloorDiv(c, f * f), row, w * f + Modulo(c, f))

    return moved(x, call.result_type().shape, index)


@REGISTRY.row("aten.channel_shuffle.default", "aten.native_channel_shuffle.default")
def channel_shuffle(call: Call, x: Tensor, groups: int) -> Tensor:
    """Channels (dimension 1) read across `groups` instead of within them."""
    g = as_expr(groups)
    each = FloorDiv(x.shape[1], g)
    return moved(
        x, x.shape, lambda at: replace(at, 1, Modulo(at[1], g) * each + FloorDiv(at[1], g))
    )


@REGISTRY.row("aten.repeat.default", "aten.tile.default")
def repeat(call: Call, x: Tensor, repeats: tuple[Any, ...]) -> Tensor:
    """x repeated whole along each dimension."""
    shape = call.result_type().shape
    zero = call.builder.zero

    def index(at: tuple[Expr, ...]) -> list[Expr]:
        own = at[len(at) - x.rank :]
        pairs = zip(own, x.shape, strict=True)
        return [zero if size == 1 else Modulo(i, size) for i, size in pairs]

    return moved(x, shape, lambda at: simplified(call.builder, at, shape, index(at)))


@REGISTRY.row("aten.repeat_interleave.self_int")
def repeat_interleave(
    call: Call, x: Tensor, repeats: int, dim: int | None = None, **_: Any
) -> Tensor:
    """Each element repeated `repeats` times along `dim` (of the flat tensor without dim)."""
    flat = x if dim is not None else reshaped(x, [_numel(x)])
    axis = 0 if dim is None else wrap_dim(dim, x.rank)
    shape = call.result_type().shape
    return moved(flat, shape, lambda at: replace(at, axis, FloorDiv(at[axis], as_expr(repeats))))
