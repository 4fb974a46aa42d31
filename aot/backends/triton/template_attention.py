"""Attention in one pass over the keys, with a fused epilogue.

A program keeps a block of queries and walks blocks of keys: the softmax is computed online, from a
running maximum and sum of each row (Dao et al., FlashAttention, NeurIPS 2022; Dao,
FlashAttention-2, ICLR 2024). Under a causal mask a program takes a long and a short block where
there are many, so that all programs take equally long. Exponentials are powers of two of scores
that carry the factor log2(e); under a mask that is added, their differences carry it: the mask's
lowest number must not become an infinity, since a row of such numbers is the mean of all values.

Of a call in parts of the keys, a program walks one part, and stores what the softmax has come to
there: sums, maximum and total of each row (see passes/split_attention.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from aot.backends.triton.attention_tile import (
    AttentionSize,
    AttentionTile,
    attention_tile,
    in_pairs,
)
from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, TileDim, Value, make_context
from aot.backends.triton.dot import finish_tile, precision
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid, program_id
from aot.backends.triton.text import Writer, index_text, literal
from aot.backends.triton.tiling import power_above
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
    Symbol,
    ceil_div,
    integer,
    is_int,
    product,
    substitute,
    var,
)

_CACHE_BYTES = 24 * 1024 * 1024
"""Keys and values that programs which run at the same time may hold in the cache."""

_LOG2E = math.log2(math.e)
_LOG2E_TEXT = literal(_LOG2E, FLOAT32)
_DEPTH, _MEMBER = var("depth"), var("member")
_KEY_ROW, _KEY = var("key_row"), var("key")

_LANES = 8
"""Columns after which those repeat that one thread has of a product of tensor cores."""


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

    def mask_index(self, mask: View) -> tuple[Expr, ...]:
        """The index of the mask's element for the tile's rows and the present keys."""
        batch, heads, queries, _ = self.axes
        return self.index(mask, (batch.symbol, heads.symbol, queries.symbol, _KEY))

    @property
    def rows(self) -> TileDim:
        """The rows of a tile: queries, of several heads where those are packed."""
        lead = (self.members,) if self.members is not None else ()
        return TileDim("m", (*lead, self.axes[2]), self.tile.rows, 0)

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
    body = Body(t.context, Writer(), 2)
    tiles = ceil_div(t.rows.points, t.tile.rows)
    body.writer.line(f"program = {program_id(t.context)}")
    if t.paired:
        tiles = ceil_div(tiles, integer(2))
        _open_pair(body, t)
        with body.loop("for turn in range(0, turns)"):
            body.writer.line("tile = tl.where(turn == 0, long, short)")
            _write_tile(body, t)
    else:
        _open_program(body, t, hints)
        _write_tile(body, t)
    parts = (t.parts.extent,) if t.parts is not None else ()
    programs = product((t.axes[0].extent, t.heads, *parts, tiles))
    options = {"num_warps": t.tile.warps, "num_stages": t.tile.stages}
    return finish(kernel, body, line_grid(programs), options, early=False)


def _write_tile(body: Body, t: _Attention) -> None:
    """Writes the computation of the tile `tile` of the head `pair`."""
    _open_block(body, t)
    line, rows = body.writer.line, t.tile.rows
    value = power_above(max(16, int(t.axes[3].extent)))
    line(f"q = {_read(body, t, 'q', t.axes[2].symbol, _DEPTH, ('m', 'c'))}")
    line(f"top = tl.full([{rows}], float('-inf'), tl.float32)")
    line(f"total = tl.zeros([{rows}{f', {t.lanes}' if t.lanes else ''}], tl.float32)")
    line(f"acc = tl.zeros([{rows}, {value}], tl.float32)")
    _walk_keys(body, t)
    if t.lanes:
        line("total = tl.sum(total, 1)")
    if t.parts is not None:
        _store_part(body, t)
        return
    line("weight = tl.where(total == 0.0, 0.0, 1.0 / total)")
    line("acc = acc * weight[:, None]")
    finish_tile(body, t.kernel, "acc", frozenset(("m", "n")))


def _store_part(body: Body, t: _Attention) -> None:
    """Stores what the softmax has come to: sums, and behind them the rows' maximum and total."""
    if not t.adds_mask:
        body.writer.line(f"top = top * {literal(math.log(2.0), FLOAT32)}")
    view, (*_, column) = t.call.output, t.axes
    rows, tile = frozenset(("m",)), frozenset(("m", "n"))
    sums, top = Value("acc", FLOAT32, tile), Value("top[:, None]", FLOAT32, rows)
    places = {column.symbol: sums, column.extent: top}
    places[column.extent + 1] = Value("total[:, None]", FLOAT32, rows)
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
    )
    tile = attention_tile(size, gpu)
    members = None
    extents = {_DEPTH: depth, _KEY_ROW: keys, _KEY: keys}
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


def _part_keys(call: Attention, parts: Axis | None) -> Expr:
    """Keys that one program walks at most."""
    keys = call.k.axes[2].extent
    if parts is None:
        return keys
    if call.causal:  # no query sees those behind
        keys = Minimum(keys, call.q.axes[2].extent)
    return ceil_div(keys, parts.extent)


def _open_program(body: Body, t: _Attention, hints: Hints) -> None:
    """Writes which tile of which head, and which part of the keys, this program computes."""
    line = body.writer.line
    tiles = ceil_div(t.rows.points, t.tile.rows)
    each = tiles
    if t.parts is not None:
        # Neighbours are tiles that read the same keys.
        each = product((tiles, t.parts.extent))
        line(f"part = program // ({t.text(tiles)}) % {t.text(t.parts.extent)}")
        body.name_axis(t.parts.symbol, "part", None)
    elif t.call.causal:
        _order_causal(body, t, hints, t.text(tiles))
        return
    line(f"tile = program % ({t.text(tiles)})")
    line(f"pair = program // ({t.text(each)})")


def _open_pair(body: Body, t: _Attention) -> None:
    """Writes which two tiles of which head this program computes: as many keys for everyone."""
    line = body.writer.line
    tiles = ceil_div(t.rows.points, t.tile.rows)
    halves = t.text(ceil_div(tiles, integer(2)))
    line(f"short = program % ({halves})")
    line(f"pair = program // ({halves})")
    line(f"long = ({t.text(tiles)}) - 1 - short")
    # The tile in the middle is both.
    line("turns = tl.minimum(long - short + 1, 2)")


def _open_block(body: Body, t: _Attention) -> None:
    """Writes the indices of a tile."""
    line = body.writer.line
    batch, heads, _, columns = t.axes
    line(f"b = pair // ({t.text(t.heads)})")
    line(f"h = pair % ({t.text(t.heads)})")
    body.name_axis(batch.symbol, "b", None)
    body.open_dim(t.rows, f"tile * {t.tile.rows}")
    body.open_dim(TileDim("c", (t.depth,), power_above(max(16, int(t.depth.extent))), 1), "0")
    body.open_dim(TileDim("n", (columns,), power_above(max(16, int(columns.extent))), 1), "0")
    if t.members is None:
        body.name_axis(heads.symbol, "h", None)
        return
    member, _ = body.index(_MEMBER, {})
    line(f"head = h * ({t.text(t.group)}) + {member}")
    body.name_axis(heads.symbol, "head", "m")


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


def _walk_keys(body: Body, t: _Attention) -> None:
    """Two loops: over blocks that every row sees whole, and over those that need a mask."""
    block = t.tile.keys
    start, end = _write_limits(body, t)
    edge = block
    if t.keys.is_Integer and not t.call.causal:
        edge = max(16, power_above(int(t.keys) % block))
        if int(t.keys) < block:
            edge = min(edge, block)
    if not (t.keys.is_Integer and int(t.keys) < block):
        mask = t.call.mask
        if mask is not None and t.reads_mask_ahead:
            body.open_dim(TileDim("kd", (Axis(_KEY, t.keys),), block, 1), start)
            body.writer.line(f"seen = {_read_mask(body, t, mask)}")
        with _block(body, t, "whole", start, block, exact=True):
            _step(body, t, block, edge=False)
    if t.call.causal or not t.keys.is_Integer or int(t.keys) % block:
        with _block(body, t, end, "whole", edge, exact=False):
            _step(body, t, edge, edge=True)


def _write_limits(body: Body, t: _Attention) -> tuple[str, str]:
    """Writes where the whole blocks end; the first key and the end of the keys that a tile sees.

    All parts but the last one with keys are whole blocks, so that what is left over is as long as
    without parts.
    """
    block, line = t.tile.keys, body.writer.line
    start, end = "0", t.text(t.keys)
    line(f"whole = ({end}) // {block} * {block}")
    if t.parts is not None:
        each, start = t.text(t.part_keys), "begin"
        line(f"begin = part * ({each})")
        line(f"end = tl.minimum({end}, begin + ({each}))")
        line("whole = tl.minimum(whole, end)")
        end = "end"
    if t.call.causal:
        first, last = "0", f"({t.text(t.axes[2].extent)}) - 1"
        if t.members is None:
            first, last = f"tile * {t.tile.rows}", f"(tile + 1) * {t.tile.rows} - 1"
        line(f"whole = tl.minimum(whole, ({first} + 1) // {block} * {block})")
        line(f"end = tl.minimum({end}, {last} + 1)")
        end = "end"
    if t.parts is not None:
        line("whole = tl.maximum(whole, begin)")
    return start, end


@contextmanager
def _block(
    body: Body, t: _Attention, end: str, start: str, size: int, *, exact: bool
) -> Iterator[None]:
    """A loop over blocks of keys, with the keys as rows ("kr") and as columns ("kc")."""
    suffix = "" if exact else "e"
    extent = integer(size) if exact else t.keys
    with body.loop(f"for start in range({start}, {end}, {size})"):
        body.open_dim(TileDim(f"kr{suffix}", (Axis(_KEY_ROW, extent),), size, 0), "start")
        body.open_dim(TileDim(f"kc{suffix}", (Axis(_KEY, extent),), size, 1), "start")
        yield


def _factor(t: _Attention) -> str:
    """What exponentials multiply the scores by; "" where the scores carry their scale already."""
    scale = float(t.call.scale) * _LOG2E
    return f" * {literal(scale, FLOAT32)}" if scale > 0.0 and not t.adds_mask else ""


def _step(body: Body, t: _Attention, size: int, *, edge: bool) -> None:
    """`size` keys: scores, their exponentials, and what the values add to the result."""
    line = body.writer.line
    rows, columns = ("kre", "kce") if edge else ("kr", "kc")
    keys = _read(body, t, "k", _KEY_ROW, _DEPTH, (rows, "c"))
    line(f"score = tl.dot(q, tl.trans({keys}), input_precision={precision(t.dtype)})")
    factor = _factor(t)
    if not factor:
        scale = float(t.call.scale) * (1.0 if t.adds_mask else _LOG2E)
        line(f"score = score * {literal(scale, FLOAT32)}")
    _apply_mask(body, t, edge=edge)
    conditions = body.masks((columns,)) if edge else []
    if edge and t.call.causal:
        query, _ = body.index(t.axes[2].symbol, {})
        conditions.append(f"({query} >= {columns})")
    if conditions:
        line(f"score = tl.where({' & '.join(conditions)}, score, float('-inf'))")
    line(f"best = tl.maximum(top, tl.max(score, 1){factor})")
    # While everything was -inf, any finite shift leaves the exponentials 0.
    line("shift = tl.where(best == float('-inf'), 0.0, best)")
    line(f"power = {_power(t, f'score{factor} - shift[:, None]')}")
    line(f"change = {_power(t, 'top - shift')}")
    if t.lanes:
        shape = f"[{t.tile.rows}, {size // t.lanes}, {t.lanes}]"
        line(f"parts = tl.sum(tl.reshape(power, {shape}), 1)")
        line("total = total * change[:, None] + parts")
    else:
        line("total = total * change + tl.sum(power, 1)")
    line("acc = acc * change[:, None]")
    value = t.axes[3].symbol
    line(f"v = {_read(body, t, 'v', _KEY_ROW, value, (rows, 'n'))}")
    line(f"acc = tl.dot(power.to(v.dtype), v, acc, input_precision={precision(t.dtype)})")
    line("top = best")


def _power(t: _Attention, difference: str) -> str:
    """e to the power of a difference of scores, which carries log2(e) unless a mask is added."""
    return f"tl.exp2(({difference}) * {_LOG2E_TEXT})" if t.adds_mask else f"tl.exp2({difference})"


def _apply_mask(body: Body, t: _Attention, *, edge: bool) -> None:
    """Masks the scores of a block, and reads what the next block needs of a mask of keys alone."""
    mask = t.call.mask
    if mask is None:
        return
    line = body.writer.line
    ahead = t.reads_mask_ahead and not edge
    seen = "seen" if ahead else _read_mask(body, t, mask)
    if t.adds_mask:
        line(f"score = score + {seen}.to(tl.float32)")
    else:
        line(f"score = tl.where({seen}, score, float('-inf'))")
    if ahead:
        block = t.tile.keys
        start = f"tl.minimum(start + {block}, whole - {block})"
        body.open_dim(TileDim("kd", (Axis(_KEY, integer(block)),), block, 1), start)
        line(f"seen = {_read_mask(body, t, mask)}")


def _read_mask(body: Body, t: _Attention, mask: View) -> str:
    """The mask of the present keys as an expression."""
    return body.read(mask.buffer, t.mask_index(mask)).text


def _read(
    body: Body, t: _Attention, role: str, row: Symbol, column: Symbol, dims: tuple[str, str]
) -> str:
    """A block of queries, keys or values as an expression."""
    batch, heads, *_ = t.axes
    head: Expr = heads.symbol
    if role != "q":
        head = var("kv_head")
        shared = t.members is not None or is_int(t.group, 1)
        body.name_axis(head, "h" if shared else f"(h // ({t.text(t.group)}))", None)
    view = dict(t.call.operands)[role]
    index = t.index(view, (batch.symbol, head, row, column))
    block: Value = body.read_hoisted(view.buffer, index)
    return body.padded(block, frozenset(dims))
