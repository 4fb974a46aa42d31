"""Epilogues: a template's stage as a function object over finished tiles of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.operands import template_type
from aot.backends.cpp.stage import Bounds, StageEmitter
from aot.backends.cpp.text import index_text
from aot.backends.cpp.values import Body, pointer_type
from aot.backends.cpp.width import choose_width
from aot.errors import InternalError
from aot.ir.dtypes import BFLOAT16, DType
from aot.ir.kernels import Stage, TemplateKernel
from aot.ir.nests import Axis, Buffer, LoopNest, Store
from aot.ir.rewrite import simplify_indices, substitute_axes, with_roots
from aot.ir.scalar import (
    Access,
    Node,
    load,
    mask_of,
    postorder,
    rebuild,
    substitute_index,
    with_args,
)
from aot.ir.templates.base import TemplateCall
from aot.symbolic import (
    Expr,
    Symbol,
    affine_coefficients,
    ceil_div,
    divisors,
    integer,
    is_int,
    substitute,
    var,
)

ROW, COLUMN, LEADING = var("tile_row"), var("tile_column"), var("tile_ld")
TILE = "tile"
_PANEL = 16
# Rows of an epilogue that share what is each column's own (aot/kernel/prelude.h).
_ROWS_AT_ONCE = "aot::kRowsAtOnce"


@dataclass(frozen=True)
class Cut:
    """The axis that vectors run along, cut at multiples of a size: symbol = size * outer + inner.

    What divides by the size is then the same for a whole run of the inner loop.
    """

    symbol: Symbol
    size: int
    outer: Axis
    inner: Axis

    @property
    def place(self) -> Expr:
        """What stands for the symbol."""
        return self.outer.symbol * self.size + self.inner.symbol

    def bounds(self, start: str, end: str) -> dict[Axis, Bounds]:
        """Of both loops, for the range of the whole axis."""
        size, outer = self.size, "outer"
        first, last = (f"{at} - {outer} * {size}" for at in (start, end))
        inner = (f"aot::imax({first}, 0)", f"aot::imin({last}, {size})")
        return {
            self.outer: Bounds(f"{start} / {size}", f"({end} + {size - 1}) / {size}", (1,)),
            self.inner: Bounds(*inner, (1,)),
        }


@dataclass(frozen=True)
class TileSpace:
    """How a template's tiles lie in its output.

    `rows`, `columns`: axes over ROW and COLUMN with the extents of the whole result. `axes`: each
    of the template's output axes as an expression over ROW, COLUMN and outer symbols. `aligned`:
    every tile begins at a multiple of 16 columns. `turned`: rows are contiguous in tiles, and
    vectors run along them. `cut`: of what vectors run along.
    """

    rows: Axis
    columns: Axis
    axes: Mapping[Symbol, Expr]
    aligned: bool
    turned: bool = False
    cut: Cut | None = None

    @property
    def loops(self) -> tuple[Axis, ...]:
        """The loops over a tile, what is contiguous innermost."""
        outer, inner = (self.columns, self.rows) if self.turned else (self.rows, self.columns)
        return (outer, inner) if self.cut is None else (outer, self.cut.outer, self.cut.inner)

    @property
    def strides(self) -> tuple[Expr, Expr]:
        """Of rows and columns in a tile."""
        return (integer(1), LEADING) if self.turned else (LEADING, integer(1))


def tile_space(
    rows: Expr, columns: Expr, axes: Mapping[Symbol, Expr], *, aligned: bool = True
) -> TileSpace:
    """A tile space of that many rows and columns."""
    return TileSpace(Axis(ROW, rows), Axis(COLUMN, columns), axes, aligned)


def tile_context(context: KernelContext, space: TileSpace, dtype: DType) -> KernelContext:
    """The kernel's context with names for the tile and its coordinates.

    `dtype`: of the tile's elements, in which the template computes.
    """
    size = (space.rows.extent, space.columns.extent)
    tile = Buffer(TILE, dtype, size, space.strides, "temp")
    names = {ROW: "row", COLUMN: "column", LEADING: "ld"}
    extents = {ROW: size[0], COLUMN: size[1]}
    if space.cut is not None:
        for axis, name in ((space.cut.outer, "outer"), (space.cut.inner, "inner")):
            names[axis.symbol], extents[axis.symbol] = name, axis.extent
    return replace(
        context,
        buffers={**context.buffers, TILE: tile},
        names={**context.names, **names},
        pointers={**context.pointers, TILE: "tile_origin"},
        ranges=context.ranges.with_extents({**context.ranges.extents, **extents}),
    )


def epilogue_nests(
    kernel: TemplateKernel, space: TileSpace, context: KernelContext
) -> list[LoopNest]:
    """The nests to run on each tile, over (ROW, COLUMN), reading the template's result from it."""
    call = kernel.template
    output = call.output
    result = load(TILE, context.buffers[output.buffer].dtype, (ROW, COLUMN))
    target = tuple(context.ranges.simplify(substitute(e, space.axes)) for e in output.index)
    nests: list[LoopNest] = []
    if output.buffer not in kernel.local:
        store = Store(output.buffer, target, result)
        nests.append(LoopNest(f"{call.name}_store", space.loops, (), (store,), call.origin))
    for stage in kernel.stages:
        for nest in stage.nests:
            nests.append(_on_tile(nest, call, space, context, target, result))
    return nests if space.cut is None else [in_cut(nest, space, context) for nest in nests]


def in_cut(nest: LoopNest, space: TileSpace, context: KernelContext) -> LoopNest:
    """A nest over a tile in the loops of a space that is cut."""
    assert space.cut is not None
    cut = substitute_axes(nest, {space.cut.symbol: space.cut.place}, space.loops, ())
    return simplify_indices(cut, context.ranges)


def on_part(nest: LoopNest, output: str, space: TileSpace, context: KernelContext) -> LoopNest:
    """A nest that reads a part of each row of a result, over that part of a tile."""

    def from_tile(node: Node, args: tuple[Node, ...]) -> Node:
        fresh = with_args(node, args)
        if not isinstance(fresh.attr, Access) or fresh.attr.buffer != output:
            return fresh
        return load(TILE, fresh.dtype, fresh.attr.index, None, mask_of(fresh))

    moved = substitute_axes(nest, space.axes, space.loops, ())
    here = with_roots(moved, rebuild(moved.roots, from_tile))
    return simplify_indices(here, context.ranges)


def cut_of(nests: Sequence[LoopNest], space: TileSpace) -> Cut | None:
    """Where to cut what vectors run along, so that stores need not divide it; None: nowhere."""
    whole = space.loops[-1]
    indices = [e for nest in nests for store in nest.stores for e in store.index]
    divided = {d for index in indices for d in divisors(index, whole.symbol)}
    if not divided or not all(is_int(d) for d in divided):
        return None
    size = min(int(d) for d in divided)
    by_panels = space.aligned and not space.turned and size % _PANEL == 0
    if by_panels or size == 1 or any(int(d) % size for d in divided):
        return None
    return cut_at(space, size)


def cut_at(space: TileSpace, size: int) -> Cut:
    """The axis that vectors run along, cut at multiples of `size`."""
    whole = space.loops[-1]
    outer = Axis(var("tile_outer"), ceil_div(whole.extent, size))
    return Cut(whole.symbol, size, outer, Axis(var("tile_inner"), integer(size)))


def _on_tile(
    nest: LoopNest,
    call: TemplateCall,
    space: TileSpace,
    context: KernelContext,
    target: Sequence[Expr],
    result: Node,
) -> LoopNest:
    mapping = {
        own.symbol: space.axes[out.symbol]
        for own, out in zip(nest.axes, call.output.axes, strict=True)
    }
    simplify = context.ranges.simplify
    roots = substitute_index(nest.roots, mapping)

    def from_tile(node: Node, args: tuple[Node, ...]) -> Node:
        attr = node.attr
        if not isinstance(attr, Access) or attr.buffer != call.output.buffer:
            return with_args(node, args)
        if attr.binds or any(simplify(a - b) != 0 for a, b in zip(attr.index, target, strict=True)):
            raise InternalError(f"{nest.name} reads {attr.buffer} away from its own tile")
        return result

    rebuilt = iter(rebuild(roots, from_tile))
    stores = []
    for store in nest.stores:
        value = next(rebuilt)
        binds = tuple((symbol, next(rebuilt)) for symbol, _ in store.binds)
        index = tuple(simplify(substitute(e, mapping)) for e in store.index)
        stores.append(replace(store, index=index, value=value, binds=binds))
    return LoopNest(nest.name, space.loops, (), tuple(stores), nest.origin)


_FAR = 8
"""Stores along a cut row that lie further apart are not along it."""


def along_rows(
    nests: Sequence[LoopNest],
    context: KernelContext,
    cut: Cut | None = None,
    most: int | None = None,
) -> bool:
    """Whether all stores of an epilogue are contiguous along ROW, and none along COLUMN.

    Along a row that is `cut`, neighbours may lie a few elements apart, at most `most`.
    """
    row = ROW if cut is None else cut.inner.symbol
    most = most or (1 if cut is None else _FAR)

    def step(store: Store, symbol: Symbol) -> Expr:
        index = [substitute(e, {symbol: symbol + 1}) for e in store.index]
        here = context.offset(store.buffer, store.index)
        return context.ranges.simplify(context.offset(store.buffer, index) - here)

    def near(store: Store) -> bool:
        found = step(store, row)
        return bool(found.is_Integer) and 1 <= int(found) <= most

    return all(
        store.buffer not in context.locals_ and near(store) and step(store, COLUMN) != 1
        for nest in nests
        for store in nest.stores
    )


def results_of(
    nests: Sequence[LoopNest], context: KernelContext, along: Symbol, batch: Symbol | None = None
) -> dict[str, str]:
    """Where the first store with neighbours along ROW or COLUMN goes, as templates' fields.

    They are `out`, and the bytes between what lies along the other, `out_row`, and along this one,
    `out_column`; with `batch` those from one of its matrices to the next, `out_next`.
    """
    for store in (store for nest in nests for store in nest.stores):
        if store.buffer in context.locals_:
            continue
        offset = context.ranges.simplify(context.offset(store.buffer, store.index))
        found = affine_coefficients(offset, (COLUMN if along == ROW else ROW, along))
        if found is None or found[0][1] != 1:
            continue
        (row, _), start = found
        size = context.buffers[store.buffer].dtype.itemsize
        place = f"{context.pointers[store.buffer]} + ({index_text(start, context.names)})"
        row_text = index_text(row * size, context.names)
        fields = {"out": place, "out_row": row_text, "out_column": str(size)}
        apart = None if batch is None else affine_coefficients(start, (batch,))
        if apart is not None:
            fields["out_next"] = index_text(apart[0][0] * size, context.names)
        return fields
    return {}


def turned_results(
    nests: Sequence[LoopNest], context: KernelContext, image: Symbol
) -> dict[str, str]:
    """`results_of` along ROW of a turned tile of one of several images, the first one's place.

    `out_image`: bytes between images. Nothing where they are not evenly apart.
    """
    store = _only_store(nests, context, ROW)
    if store is None:
        return {}
    offset = context.ranges.simplify(context.offset(store.buffer, store.index))
    found = affine_coefficients(offset, (image, COLUMN, ROW))
    if found is None or found[0][2] != 1:
        return {}
    (apart, column, _), start = found
    size = context.buffers[store.buffer].dtype.itemsize
    return {
        "out": f"{context.pointers[store.buffer]} + ({index_text(start, context.names)})",
        "out_image": index_text(apart * size, context.names),
        "out_row": index_text(column * size, context.names),
    }


def is_plain(
    nests: Sequence[LoopNest], context: KernelContext, compute: DType, along: Symbol
) -> bool:
    """Whether the epilogue is one store of the results as they are, to where `results_of` says."""
    return stored_as(nests, context, compute, along) == compute


def stored_as(
    nests: Sequence[LoopNest], context: KernelContext, compute: DType, along: Symbol
) -> DType | None:
    """The type that an epilogue only stores the results as, to where `results_of` says.

    None: it does something else.
    """
    store = _only_store(nests, context, along)
    same = store is not None and _uncast(store.value) == load(TILE, compute, (ROW, COLUMN))
    return store.value.dtype if store is not None and same else None


def added_to_columns(
    nests: Sequence[LoopNest], context: KernelContext, dtype: DType, along: Symbol = COLUMN
) -> str | None:
    """What an epilogue adds to results before it rounds and stores them, if that is all it does.

    A pointer to elements of `dtype`, one for each column, neighbours. None: it does
    something else. `along`: as `results_of` takes it.
    """
    store = _only_store(nests, context, along)
    compute = context.buffers[TILE].dtype
    if store is None or store.value.dtype != dtype or dtype == compute:
        return None
    total, tile = _uncast(store.value), load(TILE, compute, (ROW, COLUMN))
    if total.op != "add" or total.dtype != compute or tile not in total.args:
        return None
    own = _uncast(total.args[1 if total.args[0] == tile else 0])
    at = own.attr
    if not isinstance(at, Access) or own.op != "load" or own.dtype != dtype or own.args:
        return None
    place = context.ranges.simplify(context.offset(at.buffer, at.index))
    found = affine_coefficients(place, (ROW, COLUMN))
    if found is None or found[0] != (0, 1):
        return None
    return f"{context.pointers[at.buffer]} + ({index_text(found[1], context.names)})"


def ending_flags(nests: Sequence[LoopNest], context: KernelContext) -> list[str]:
    """Lines of a product's configuration that say what of its epilogue kernels may do instead."""
    added = added_to_columns(nests, context, BFLOAT16) is not None
    stored = stored_as(nests, context, context.buffers[TILE].dtype, COLUMN)
    flags = {"PLAIN": stored == context.buffers[TILE].dtype}
    flags |= {"ROUNDED": stored == BFLOAT16 or added, "ADDS": added}
    return [f"  static constexpr bool {name} = true;" for name, said in flags.items() if said]


def added_field(
    nests: Sequence[LoopNest], context: KernelContext, along: Symbol = COLUMN
) -> dict[str, str]:
    """The field of a product's arguments that says where `added_to_columns` lies, if there is."""
    added = added_to_columns(nests, context, BFLOAT16, along)
    kind = template_type(BFLOAT16)
    return {} if added is None else {"addend": f"reinterpret_cast<const {kind}*>({added})"}


def _only_store(nests: Sequence[LoopNest], context: KernelContext, along: Symbol) -> Store | None:
    """The store of an epilogue that has one, of all elements and to where `results_of` says."""
    stores = [store for nest in nests for store in nest.stores]
    if len(stores) != 1 or stores[0].mode != "set" or not results_of(nests, context, along):
        return None
    (store,) = stores
    stored = context.buffers[store.buffer].dtype
    return store if store.value.dtype == stored and not store.base else None


def _uncast(value: Node) -> Node:
    """What is cast last; the value itself where nothing is."""
    return value.args[0] if value.op == "cast" else value


MATRIX_HEAD = (
    "const auto {name} = [=](int64_t, int64_t m0, int64_t m1, int64_t n0, int64_t n1, "
    "const {element}* tile, int64_t ld)"
)
"""The function object that matmul and convolution call with a finished tile."""


def emit_epilogue(
    body: Body,
    nests: Sequence[LoopNest],
    space: TileSpace,
    dtype: DType,
    head: str = MATRIX_HEAD,
    lines: Sequence[str] = (),
    *,
    all_columns: bool = False,
) -> None:
    """Writes a function object that runs the nests on one tile, as `epilogue`.

    The body's context must be `tile_context`'s. `dtype`: of the tile's elements.
    `head`: the function object's head, which names m0, m1, n0, n1, tile and ld; `lines` come first
    inside and may define some of them. `all_columns`: every tile has all columns, from 0 on.
    """
    axes = space.loops
    vector = None if is_int(axes[-1].extent, 1) else axes[-1]
    stage = Stage(axes, (), axes, vector, tuple(nests))
    width = replace(choose_width(stage, body.context, 0), unroll=1, wide="L0")
    size = int(space.columns.extent) if is_int(space.columns.extent) else 1
    by_panels = space.aligned and not space.turned and space.cut is None
    sizes = (size, _PANEL) if by_panels else (1,)
    bounds = {
        space.rows: Bounds("m0", "m1", (1,)),
        space.columns: Bounds("n0", "n1", sizes),
    }
    if all_columns:
        del bounds[space.columns]
    elif space.cut is not None:
        bounds.update(space.cut.bounds(*(("m0", "m1") if space.turned else ("n0", "n1"))))
    alignment = _PANEL if by_panels and width.most <= _PANEL else 1 << 30
    with body.scope(head.format(name="epilogue", element=pointer_type(dtype)), "};"):
        for line in (*lines, *width.declarations()):
            body.writer.line(line)
        const = "" if any(s.buffer == TILE for n in nests for s in n.stores) else "const "
        element = f"{const}{pointer_type(dtype)}"
        corner = "n0 * ld - m0" if space.turned else "m0 * ld - n0"
        body.writer.line(f"{element}* const tile_origin = tile - {corner};")
        if space.turned or space.cut is not None or not _differs_by_column(nests, space):
            StageEmitter(body, stage, width, bounds, alignment).emit()
            return
        bounds[space.rows] = Bounds("first", "last", (1,))
        with body.scope(f"for (int64_t first = m0; first < m1; first += {_ROWS_AT_ONCE})"):
            body.writer.line("const int64_t last = aot::last_at_once(first, m1);")
            StageEmitter(body, stage, width, bounds, alignment, within=space.rows).emit()


def _differs_by_column(nests: Sequence[LoopNest], space: TileSpace) -> bool:
    """Whether what an epilogue reads is a column's own, the same in all rows, and never a row's.

    Then some rows of a vector of columns follow each other, and that is read once for them.
    """
    reads = [n for nest in nests for n in postorder(nest.roots) if n.op == "load"]
    own = [
        {s for e in n.attr.index for s in e.free_symbols}
        for n in reads
        if isinstance(n.attr, Access)
    ]
    row, column = space.rows.symbol, space.columns.symbol
    return any(column in s and row not in s for s in own) and not any(
        row in s and column not in s for s in own
    )
