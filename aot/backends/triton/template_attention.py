"""Attention in one pass over the keys, with a fused epilogue: `device/attention.py`.

Under a causal mask a program takes a long and a short block of queries where there are many, so
that all programs take equally long. Of a call in parts of the keys, a program walks one part, and
stores what the softmax has come to there: sums, maximum and total of each row (see
passes/split_attention.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from aot.backends.text import exact_float
from aot.backends.triton.attention_tile import (
    AttentionSize,
    AttentionTile,
    attention_tile,
    column_pieces,
    in_pairs,
)
from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, TileDim, Value, make_context
from aot.backends.triton.dot import finish_tile, precision
from aot.backends.triton.gluon import stores_vectors, takes_epilogue
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks
from aot.backends.triton.kernel import GLUON, TRITON, EmittedKernel, line_grid, program_id
from aot.backends.triton.row_tiling import ALIGNED_BYTES
from aot.backends.triton.template_matmul import ALIGNED
from aot.backends.triton.text import index_text
from aot.errors import InternalError
from aot.ir.dtypes import BOOL, FLOAT32, DType
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis, Store, View
from aot.ir.scalar import load
from aot.ir.templates.attention import Attention
from aot.symbolic import (
    Expr,
    FloorDiv,
    Minimum,
    affine_coefficients,
    ceil_div,
    coefficient_of,
    exact_quotient,
    integer,
    is_int,
    power_above,
    product,
    substitute,
    var,
)

_CACHE_BYTES = 24 * 1024 * 1024
"""Keys and values that programs which run at the same time may hold in the cache."""

_LOG2E = math.log2(math.e)
_DEPTH, _MEMBER = var("depth"), var("member")
_KV_HEAD, _KEY = var("kv_head"), var("key")

_LANES = 8
"""Columns after which those repeat that one thread has of a product of tensor cores."""

_REGISTERS = {2: 240, 3: 160}
"""Of a thread that multiplies, by the groups that do: a warp that copies needs 24."""


@dataclass(frozen=True)
class _Attention:
    """One attention kernel, taken apart.

    `group`: query heads that share a head of keys and values. `members`: the axis of those that a
    tile's rows hold side by side; None when a tile has queries of one head. `paired`: programs take
    a long and a short tile each. `parts`: the axis of the parts of the keys, of `part_keys` keys
    each, whole blocks; None when a program walks all of them.
    """

    kernel: TemplateKernel
    call: Attention
    context: KernelContext
    tile: AttentionTile
    paired: bool
    dtype: DType
    group: Expr
    members: Axis | None
    depth: Axis
    keys: Expr
    parts: Axis | None
    part_keys: Expr

    @property
    def axes(self) -> tuple[Axis, Axis, Axis, Axis]:
        """Batch, heads and queries of the result, and the columns of a value."""
        *_, batch, heads, queries, column = self.call.output.axes
        return batch, heads, queries, Axis(column.symbol, self.call.v.axes[3].extent)

    @property
    def stored(self) -> Axis:
        """The columns that are stored: values may have zeros behind them."""
        return self.axes[3] if self.parts is not None else self.call.output.axes[-1]

    @property
    def depth_pieces(self) -> tuple[int, int]:
        """Columns of queries and keys in the blocks that they are multiplied in."""
        return column_pieces(int(self.depth.extent), self.dtype)

    @property
    def value_pieces(self) -> tuple[int, int]:
        """Columns of values in the blocks that they are multiplied in."""
        return column_pieces(int(self.axes[3].extent), self.dtype)

    @property
    def lanes(self) -> int:
        """Columns that the sums of a row are kept in until the end; 0 for one number a row.

        Where warps hold whole rows, threads then exchange no sums inside the loop.
        """
        whole = self.dtype.itemsize == 2 and self.tile.rows >= 16 * self.tile.warps
        return _LANES if whole else 0

    @property
    def adds_mask(self) -> bool:
        """True for a mask of numbers, which are added to the scores."""
        mask = self.call.mask
        return mask is not None and self.context.buffers[mask.buffer].dtype != BOOL

    @property
    def reads_mask_ahead(self) -> bool:
        """True for a mask that all queries share: a small load, which nothing pipelines."""
        if self.call.mask is None:
            return False
        queries = self.axes[2].symbol
        return all(queries not in e.free_symbols for e in self.mask_index(self.call.mask))

    @property
    def edge(self) -> int:
        """Keys of a step after the whole blocks; 0 if there is none."""
        block = self.tile.keys
        if self.call.causal or not self.keys.is_Integer:
            return block
        rest = int(self.keys) % block
        return min(block, max(16, power_above(rest))) if rest else 0

    def mask_index(self, mask: View) -> tuple[Expr, ...]:
        """The index of the mask's element for the tile's rows and the present keys."""
        batch, heads, queries, _ = self.axes
        return self.index(mask, (batch.symbol, heads.symbol, queries.symbol, _KEY))

    @property
    def rows(self) -> TileDim:
        """The rows of a tile: queries, of several heads where those are packed."""
        lead = (self.members,) if self.members is not None else ()
        width = "m.shape[0]" if self.tile.groups else ""
        return TileDim("m", (*lead, self.axes[2]), self.tile.rows, 0, width=width)

    @property
    def heads(self) -> Expr:
        """Heads that have tiles of their own."""
        return self.call.k.axes[1].extent if self.members else self.query_heads

    @property
    def query_heads(self) -> Expr:
        """Heads of the queries."""
        return self.axes[1].extent

    def text(self, expr: Expr) -> str:
        """A size in the kernel's text."""
        return index_text(expr, self.context.names)

    def index(self, view: View, targets: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """An operand's index, with these expressions for the axes of its view."""
        mapping = {a.symbol: t for a, t in zip(view.axes, targets, strict=True)}
        return tuple(substitute(e, mapping) for e in view.index)


def emit_attention(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of an attention template and its epilogue."""
    t = _take_apart(kernel, graph, hints, gpu)
    tiles = ceil_div(t.rows.points, t.tile.rows)
    if t.paired:
        tiles = ceil_div(tiles, integer(2))
    parts = (t.parts.extent,) if t.parts is not None else ()
    grid = line_grid(product((t.axes[0].extent, t.heads, *parts, tiles)))
    options = {"num_warps": t.tile.warps, "num_stages": t.tile.stages}
    hooks = Hooks(t.context, GLUON if t.tile.groups else TRITON)
    with hooks.function("locate", "program") as body:
        _locate(body, t, hints)
    _write_q(hooks, t)
    with hooks.function("finish", "pair", "part", "m", "n", "acc", "top", "total") as body:
        _open_heads(body, t)
        _take_rows(body, t)
        body.take_dim(_columns("n", t.stored, t.value_pieces))
        if t.parts is None:
            finish_tile(body, t.kernel, "acc", frozenset(("m", "n")))
        else:
            body.name_axis(t.parts.symbol, "part", None)
            _store_part(body, t)
    given = {"program": program_id(t.context)}
    if t.tile.groups:
        _write_places(hooks, t)
        given |= _group_sizes(t)
        return hooks.emit(kernel, "attention_by_groups", given, grid, options, early=False)
    _write_loads(hooks, t)
    given |= {**_sizes(t), **_flags(t, gpu)}
    given |= {
        name: "None" for name in ("load_mask", "load_first_mask", "sees") if name not in hooks
    }
    return hooks.emit(kernel, "attention", given, grid, options, early=False)


def _sizes(t: _Attention) -> dict[str, str]:
    """What the device function is told of sizes and blocks."""
    return {
        "queries": t.text(t.axes[2].extent),
        "keys": t.text(t.keys),
        "part_keys": t.text(t.part_keys),
        "ROWS": str(t.tile.rows),
        **{"DEPTH": str(t.depth_pieces[0]), "MORE_DEPTH": str(t.depth_pieces[1])},
        **{"VALUE": str(t.value_pieces[0]), "MORE_VALUE": str(t.value_pieces[1])},
        "KEYS": str(t.tile.keys),
        "WHOLE": str(not (t.keys.is_Integer and int(t.keys) < t.tile.keys)),
        "EDGE": str(t.edge),
        "LANES": str(t.lanes),
    }


def _group_sizes(t: _Attention) -> dict[str, str]:
    """What the device function of groups of warps is told."""
    tile = t.tile
    return {
        "keys": t.text(t.keys),
        "SCALE": repr(exact_float(float(t.call.scale) * _LOG2E, FLOAT32)),
        "CAUSAL": str(t.call.causal),
        "PAIRED": str(t.paired),
        **{"GROUPS": str(tile.groups), "ROWS": str(tile.rows // tile.groups)},
        **{"DEPTH": str(t.depth_pieces[0]), "MORE_DEPTH": str(t.depth_pieces[1])},
        **{"VALUE": str(t.value_pieces[0]), "MORE_VALUE": str(t.value_pieces[1])},
        **{"KEYS": str(tile.keys), "STAGES": str(tile.stages)},
        "REGISTERS": str(_REGISTERS[tile.groups]),
        "WIDE": str(stores_vectors(t.kernel, t.context)),
    }


def _flags(t: _Attention, gpu: Gpu) -> dict[str, str]:
    """What the device function is told of the computation."""
    scale = float(t.call.scale) * _LOG2E
    # Scores that a mask is added to carry their scale before.
    late = scale > 0.0 and not t.adds_mask
    return {
        "SCALE": repr(exact_float(float(t.call.scale) if t.adds_mask else scale, FLOAT32)),
        "LATE": str(late),
        "ADDED": str(t.adds_mask),
        "CAUSAL": str(t.call.causal),
        "PACKED": str(t.members is not None),
        "PAIRED": str(t.paired),
        "PARTS": str(t.parts is not None),
        "PRECISION": precision(t.dtype, split=gpu.splits_floats),
    }


def _store_part(body: Body, t: _Attention) -> None:
    """Stores what the softmax has come to: sums, and behind them the rows' maximum and total."""
    view, (*_, column) = t.call.output, t.axes
    rows, tile = frozenset(("m",)), frozenset(("m", "n"))
    sums, top = Value("acc", FLOAT32, tile), Value("top", FLOAT32, rows)
    places = {column.symbol: sums, column.extent: top}
    places[column.extent + 1] = Value("total", FLOAT32, rows)
    for place, value in places.items():
        index = [substitute(e, {column.symbol: place}) for e in view.index]
        body.define_buffer(view.buffer, value)
        body.store(Store(view.buffer, tuple(index), load(view.buffer, FLOAT32, index)))


def _take_apart(kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> _Attention:
    call = template_call(kernel, Attention)
    q, k = call.q, call.k
    depth, width, keys = q.axes[3].extent, call.v.axes[3].extent, k.axes[2].extent
    if not is_int(depth) or not is_int(width):
        raise InternalError(f"{call.name}: the size of an attention head is dynamic")
    context = make_context(kernel, graph, gpu)
    group = context.ranges.simplify(FloorDiv(q.axes[1].extent, k.axes[1].extent))
    dtype = graph.buffers[q.buffer].dtype
    parts = call.output.axes[0] if call.parts is not None else None
    walked = _part_keys(call, parts)
    # Programs of a part are as many, and have as much to do, as if there were more heads.
    size = AttentionSize(
        hints.volume((*q.axes[:2], *((parts,) if parts is not None else ()))),
        hints.value(q.axes[2].extent),
        hints.value(walked),
        max(int(depth), int(width)),
        dtype,
        call.causal,
        _can_copy(kernel, context, gpu),
        _mask_bytes(call, context),
        _is_loose(call, context),
    )
    tile = attention_tile(size, gpu)
    members = None
    extents = {_DEPTH: depth, _KEY: keys}
    if tile.packed and not is_int(group, 1):
        members = Axis(_MEMBER, group)
        extents[_MEMBER] = group
    ranges = context.ranges.with_extents({**context.ranges.extents, **extents})
    context = replace(context, ranges=ranges)
    paired = parts is None and in_pairs(size, tile, gpu)
    axis = Axis(_DEPTH, depth)
    walked = product((ceil_div(walked, tile.keys), integer(tile.keys)))
    return _Attention(
        kernel, call, context, tile, paired, dtype, group, members, axis, keys, parts, walked
    )


def _mask_bytes(call: Attention, context: KernelContext) -> int:
    """`AttentionSize.masked` of a call: not of a mask that all queries share, a small load."""
    mask = call.mask
    if mask is None or mask.axes[2].symbol not in {s for e in mask.index for s in e.free_symbols}:
        return 0
    return context.buffers[mask.buffer].dtype.itemsize


def _is_loose(call: Attention, context: KernelContext) -> bool:
    """`AttentionSize.loose` of a call's mask."""
    mask = call.mask
    if mask is None:
        return False
    step = coefficient_of(context.offset(mask.buffer, mask.index), mask.axes[2].symbol)
    size = context.buffers[mask.buffer].dtype.itemsize
    return step is None or not is_int(step) or int(step) * size % ALIGNED_BYTES != 0


def _can_copy(kernel: TemplateKernel, context: KernelContext, gpu: Gpu) -> bool:
    """`AttentionSize.copied` of a call."""
    call = template_call(kernel, Attention)
    plain = call.mask is None and call.parts is None and float(call.scale) > 0.0
    able = gpu.async_dots and gpu.copies_blocks
    # A descriptor of no rows is none.
    able = able and context.ranges.nonnegative(call.k.axes[2].extent - 1)
    plain = plain and not kernel.prologue and takes_epilogue(kernel)
    return able and plain and all(_placed(kernel, v, context) for v in (call.k, call.v))


def _part_keys(call: Attention, parts: Axis | None) -> Expr:
    """Keys that one program walks at most."""
    keys = call.k.axes[2].extent
    if parts is None:
        return keys
    if call.causal:  # no query sees those behind
        keys = Minimum(keys, call.q.axes[2].extent)
    return ceil_div(keys, parts.extent)


def _locate(body: Body, t: _Attention, hints: Hints) -> None:
    """Which tile, or two of them, of which head and which part of the keys a program computes."""
    line = body.writer.line
    tiles = ceil_div(t.rows.points, t.tile.rows)
    count = t.text(tiles)
    if t.paired:
        # As many keys for everyone.
        halves = t.text(ceil_div(tiles, integer(2)))
        line(f"short = program % ({halves})")
        line(f"return program // ({halves}), 0, ({count}) - 1 - short, short")
    elif t.parts is not None:
        # Neighbours are tiles that read the same keys.
        parts, each = t.text(t.parts.extent), t.text(product((tiles, t.parts.extent)))
        line(f"tile = program % ({count})")
        line(f"return program // ({each}), program // ({count}) % {parts}, tile, tile")
    elif t.call.causal:
        _order_causal(body, t, hints, count)
        line("return pair, 0, tile, tile")
    else:
        line(f"tile = program % ({count})")
        line(f"return program // ({count}), 0, tile, tile")


def _columns(name: str, axis: Axis, pieces: tuple[int, int]) -> TileDim:
    whole, more = pieces
    return TileDim(name, (axis,), more or whole, 1, width=f"{name}.shape[1]" if more else "")


def _open_heads(body: Body, t: _Attention) -> None:
    """Names the batch, and the heads of keys and values."""
    line = body.writer.line
    line(f"b = pair // ({t.text(t.heads)})")
    line(f"h = pair % ({t.text(t.heads)})")
    body.name_axis(t.axes[0].symbol, "b", None)
    shared = t.members is not None or is_int(t.group, 1)
    body.name_axis(_KV_HEAD, "h" if shared else f"(h // ({t.text(t.group)}))", None)


def _take_rows(body: Body, t: _Attention) -> None:
    """The rows of a tile, and the heads of their queries."""
    heads = t.axes[1].symbol
    body.take_dim(t.rows)
    if t.members is None:
        body.name_axis(heads, "h", None)
        return
    member, _ = body.index(_MEMBER, {})
    body.writer.line(f"head = h * ({t.text(t.group)}) + {member}")
    body.name_axis(heads, "head", "m")


def _order_causal(body: Body, t: _Attention, hints: Hints, tiles: str) -> None:
    """The longest tiles come first, over as many heads as the second-level cache has room for."""
    line = body.writer.line
    batch, _, _, columns = t.axes
    pairs = t.text(product((batch.extent, t.heads)))
    size = (int(t.depth.extent) + int(columns.extent)) * t.dtype.itemsize
    section = max(1, _CACHE_BYTES // max(1, size * hints.value(t.keys)))
    if section >= hints.value(product((batch.extent, t.heads))):
        line(f"tile = ({tiles}) - 1 - program // ({pairs})")
        line(f"pair = program % ({pairs})")
        return
    line(f"section = program // ({section} * ({tiles}))")
    line(f"place = program % ({section} * ({tiles}))")
    line(f"width = tl.minimum(({pairs}) - section * {section}, {section})")
    line(f"tile = ({tiles}) - 1 - place // width")
    line(f"pair = section * {section} + place % width")


def _write_q(hooks: Hooks, t: _Attention) -> None:
    """Writes the function that reads a block of queries."""
    with hooks.function("load_q", "pair", "m", "c") as body:
        _open_heads(body, t)
        _take_rows(body, t)
        body.take_dim(_columns("c", t.depth, t.depth_pieces))
        place = (t.axes[1].symbol, t.axes[2].symbol, _DEPTH)
        _return_block(body, t, t.call.q, place, ("m", "c"))


def _write_loads(hooks: Hooks, t: _Attention) -> None:
    """Writes the functions that read blocks, and what says which keys rows see at the edge."""
    operands = (
        ("load_k", t.call.k, _columns("c", t.depth, t.depth_pieces)),
        ("load_v", t.call.v, _columns("n", t.axes[3], t.value_pieces)),
    )
    for name, view, columns in operands:
        column, (axis,) = columns.name, columns.axes
        with hooks.function(name, "pair", "k", column, "EDGE: tl.constexpr") as body:
            _open_heads(body, t)
            body.take_dim(columns)
            for _ in _branches(body, t, 0):
                _return_block(body, t, view, (_KV_HEAD, _KEY, axis.symbol), ("k", column))
    if t.call.mask is not None:
        with hooks.function("load_mask", "pair", "m", "k", "EDGE: tl.constexpr") as body:
            _open_heads(body, t)
            _take_rows(body, t)
            for _ in _branches(body, t, 1):
                _return_mask(body, t, t.call.mask)
    if t.call.mask is not None and t.reads_mask_ahead:
        with hooks.function("load_first_mask", "pair", "m", "k") as body:
            _open_heads(body, t)
            _take_rows(body, t)
            body.take_dim(TileDim("k", (Axis(_KEY, t.keys),), t.tile.keys, 1))
            _return_mask(body, t, t.call.mask)
    keys = TileDim("k", (Axis(_KEY, t.keys),), max(1, t.edge), 1)
    if t.edge and (t.call.causal or not keys.is_exact):
        with hooks.function("sees", "m", "k") as body:
            body.take_dim(t.rows)
            body.take_dim(keys)
            query, _ = body.index(t.axes[2].symbol, {})
            conditions = [*body.masks(("k",)), *([f"({query} >= k)"] if t.call.causal else [])]
            body.writer.line(f"return {' & '.join(conditions)}")


def _write_places(hooks: Hooks, t: _Attention) -> None:
    """Writes the functions that say where a head's keys and values are."""
    for name, view in (("k", t.call.k), ("v", t.call.v)):
        placed = _placed(t.kernel, view, t.context)
        if placed is None:
            raise InternalError(f"{t.call.name}: descriptors cannot copy {view.buffer}")
        start, step = placed
        heads = {view.axes[0].symbol: t.axes[0].symbol, view.axes[1].symbol: _KV_HEAD}
        with hooks.function(f"place_{name}", "pair") as body:
            _open_heads(body, t)
            place, _ = body.index(substitute(start, heads), {})
            pointer, columns = t.context.pointers[view.buffer], t.text(view.axes[3].extent)
            body.writer.line(f"return {pointer} + ({place}), {columns}, {t.text(step)}")


def _placed(kernel: TemplateKernel, view: View, context: KernelContext) -> tuple[Expr, Expr] | None:
    """(elements before a head's, from row to row) of what descriptors can copy, else None."""
    *_, row, column = (axis.symbol for axis in view.axes)
    solved = affine_coefficients(context.offset(view.buffer, view.index), (row, column))
    if view.buffer in kernel.local or context.wide or solved is None:
        return None
    (step, along), start = solved
    each = integer(ALIGNED // context.buffers[view.buffer].dtype.itemsize)
    aligned = all(e == 0 or exact_quotient(e, each) is not None for e in (step, start))
    return (start, step) if along == 1 and aligned else None


def _branches(body: Body, t: _Attention, position: int) -> Iterator[None]:
    """The branches of a function that reads keys: at the edge, and in whole blocks."""
    whole = integer(t.tile.keys)
    cases = (("if EDGE", t.keys, max(1, t.edge)), ("else", whole, t.tile.keys))
    for head, extent, size in cases:
        with body.loop(head):
            body.take_dim(TileDim("k", (Axis(_KEY, extent),), size, position))
            yield


def _return_block(
    body: Body, t: _Attention, view: View, place: tuple[Expr, Expr, Expr], dims: tuple[str, str]
) -> None:
    block = body.read_hoisted(view.buffer, t.index(view, (t.axes[0].symbol, *place)))
    body.writer.line(f"return {body.padded(block, frozenset(dims))}")


def _return_mask(body: Body, t: _Attention, mask: View) -> None:
    body.writer.line(f"return {body.read(mask.buffer, t.mask_index(mask)).text}")
