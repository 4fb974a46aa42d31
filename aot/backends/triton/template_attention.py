"""Attention in one pass over the keys, with a fused epilogue.

A program keeps a block of queries and walks blocks of keys: the softmax is computed online, from a
running maximum and sum of each row (Dao et al., FlashAttention, NeurIPS 2022; Dao,
FlashAttention-2, ICLR 2024). Exponentials are powers of two of scores that carry the factor
log2(e).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from aot.backends.triton.attention_tile import AttentionSize, AttentionTile, attention_tile
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
from aot.ir.kernels import Kernel, KernelGraph
from aot.ir.loops import Axis, TemplateCall
from aot.symbolic import Expr, FloorDiv, Symbol, ceil_div, integer, is_int, product, substitute, var

_CACHE_BYTES = 24 * 1024 * 1024
"""Keys and values that programs which run at the same time may hold in the cache."""

_LOG2E = math.log2(math.e)
_DEPTH, _MEMBER = var("depth"), var("member")
_KEY_ROW, _KEY, _NEXT = var("key_row"), var("key"), var("next_key")


@dataclass(frozen=True)
class _Attention:
    """One attention kernel, taken apart.

    `group`: query heads that share a head of keys and values. `members`: the axis of those that a
    tile's rows hold side by side; None when a tile has queries of one head.
    """

    kernel: Kernel
    call: TemplateCall
    context: KernelContext
    tile: AttentionTile
    dtype: DType
    group: Expr
    members: Axis | None
    depth: Axis
    keys: Expr

    @property
    def carries(self) -> bool:
        """True when scores that were computed ahead are of use in the blocks at the edge too."""
        whole = self.keys.is_Integer and int(self.keys) % self.tile.keys == 0
        return bool(self.tile.ahead and self.call.attr("causal") and whole)

    @property
    def rows(self) -> TileDim:
        """The rows of a tile: queries, of several heads where those are packed."""
        lead = (self.members,) if self.members is not None else ()
        return TileDim("m", (*lead, self.call.output.axes[2]), self.tile.rows, 0)

    @property
    def heads(self) -> Expr:
        """Heads that have tiles of their own."""
        return self.call.operand("k").axes[1].extent if self.members else self.query_heads

    @property
    def query_heads(self) -> Expr:
        """Heads of the queries."""
        return self.call.output.axes[1].extent

    def text(self, expr: Expr) -> str:
        """A size in the kernel's text."""
        return index_text(expr, self.context.names)

    def index(self, role: str, targets: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The operand's index, with these expressions for the axes of its view."""
        view = self.call.operand(role)
        mapping = {a.symbol: t for a, t in zip(view.axes, targets, strict=True)}
        return tuple(substitute(e, mapping) for e in view.index)


def emit_attention(kernel: Kernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """The kernel of an attention template and its epilogue."""
    t = _take_apart(kernel, graph, hints, gpu)
    body = Body(t.context, Writer(), 2)
    line = body.writer.line
    _open_block(body, t, hints)
    rows, value = t.tile.rows, power_above(max(16, int(t.call.output.axes[3].extent)))
    line(f"q = {_read(body, t, 'q', t.call.output.axes[2].symbol, _DEPTH, ('m', 'c'))}")
    line(f"top = tl.full([{rows}], float('-inf'), tl.float32)")
    line(f"total = tl.zeros([{rows}], tl.float32)")
    line(f"acc = tl.zeros([{rows}, {value}], tl.float32)")
    _walk_keys(body, t)
    line("weight = tl.where(total == 0.0, 0.0, 1.0 / total)")
    line("acc = acc * weight[:, None]")
    finish_tile(body, kernel, "acc", frozenset(("m", "n")))
    tiles = ceil_div(t.rows.points, rows)
    programs = product((t.call.output.axes[0].extent, t.heads, tiles))
    options = {"num_warps": t.tile.warps, "num_stages": t.tile.stages}
    return finish(kernel, body, line_grid(programs), options)


def _take_apart(kernel: Kernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> _Attention:
    call = kernel.template
    if call is None:
        raise InternalError(f"{kernel.name} has no template")
    _, heads, queries, columns = call.output.axes
    q, k = call.operand("q"), call.operand("k")
    depth, keys = q.axes[3].extent, k.axes[2].extent
    if not is_int(depth) or not is_int(columns.extent):
        raise InternalError(f"{call.name}: the size of an attention head is dynamic")
    context = make_context(kernel, graph)
    group = context.ranges.simplify(FloorDiv(heads.extent, k.axes[1].extent))
    dtype = graph.buffers[q.buffer].dtype
    size = AttentionSize(
        hints.volume(call.output.axes[:2]),
        hints.value(queries.extent),
        hints.value(keys),
        max(int(depth), int(columns.extent)),
        dtype,
        call.attr("causal"),
    )
    tile = attention_tile(size, gpu)
    members = None
    extents = {_DEPTH: depth, _KEY_ROW: keys, _KEY: keys, _NEXT: keys}
    if tile.packed and not is_int(group, 1):
        members = Axis(_MEMBER, group)
        extents[_MEMBER] = group
    ranges = context.ranges.with_extents({**context.ranges.extents, **extents})
    context = replace(context, ranges=ranges)
    return _Attention(kernel, call, context, tile, dtype, group, members, Axis(_DEPTH, depth), keys)


def _open_block(body: Body, t: _Attention, hints: Hints) -> None:
    """Writes which rows of which head this program computes, and the indices of its tile."""
    line = body.writer.line
    batch, heads, _, columns = t.call.output.axes
    tiles = t.text(ceil_div(t.rows.points, t.tile.rows))
    line(f"program = {program_id(t.context)}")
    if t.call.attr("causal"):
        _order_causal(body, t, hints, tiles)
    else:
        line(f"tile = program % ({tiles})")
        line(f"pair = program // ({tiles})")
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
    batch, _, _, columns = t.call.output.axes
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
    block, line = t.tile.keys, body.writer.line
    line(f"whole = ({t.text(t.keys)}) // {block} * {block}")
    end = t.text(t.keys)
    edge = block
    if t.call.attr("causal"):
        first, last = ("0", f"({t.text(t.call.output.axes[2].extent)}) - 1")
        if t.members is None:
            first, last = f"tile * {t.tile.rows}", f"(tile + 1) * {t.tile.rows} - 1"
        line(f"whole = tl.minimum(whole, ({first} + 1) // {block} * {block})")
        line(f"end = tl.minimum({end}, {last} + 1)")
        end = "end"
    elif t.keys.is_Integer:
        rest = int(t.keys) % block
        edge = max(16, power_above(rest))
        if int(t.keys) < block:
            edge = min(edge, block)
    if not (t.keys.is_Integer and int(t.keys) < block):
        if t.tile.ahead:
            last = f"(end - 1) // {block} * {block}" if t.carries else f"whole - {block}"
            line(f"limit = tl.maximum({last}, 0)")
            _look_ahead(body, t, "score", "0", t.keys)
        with _block(body, t, "whole", "0", block, exact=True):
            _step(body, t, edge=False, ahead=t.tile.ahead)
    if t.call.attr("causal") or not t.keys.is_Integer or int(t.keys) % block:
        with _block(body, t, end, "whole", edge, exact=False):
            _step(body, t, edge=True, ahead=t.carries)


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


def _scores(body: Body, t: _Attention, key: Symbol, rows: str) -> str:
    """The products of the queries with a block of keys."""
    block = _read(body, t, "k", key, _DEPTH, (rows, "c"))
    return f"tl.dot(q, tl.trans({block}){precision(t.dtype)})"


def _look_ahead(body: Body, t: _Attention, score: str, start: str, extent: Expr) -> None:
    """Writes the products with the keys from `start` on, and reads a mask of keys alone."""
    body.open_dim(TileDim("kn", (Axis(_NEXT, extent),), t.tile.keys, 0), start)
    body.writer.line(f"{score} = {_scores(body, t, _NEXT, 'kn')}")
    if _masks_keys(t):
        body.open_dim(TileDim("kd", (Axis(_KEY, extent),), t.tile.keys, 1), start)
        body.writer.line(f"{score}_seen = {_read_mask(body, t)}")


def _shape_scores(body: Body, t: _Attention, score: str, seen: str = "") -> None:
    """Scales and masks products, where that cannot be left to the exponentials.

    `seen`: the mask, where it has been read.
    """
    if _factor(t):
        return
    scale = literal(float(t.call.attr("scale")) * _LOG2E, FLOAT32)
    body.writer.line(f"{score} = {score} * {scale}")
    if "mask" in dict(t.call.operands):
        body.writer.line(_mask(t, score, seen or _read_mask(body, t)))


def _factor(t: _Attention) -> str:
    """What exponentials multiply the scores by; "" where the scores carry their scale."""
    scale = float(t.call.attr("scale")) * _LOG2E
    late = "mask" not in dict(t.call.operands) and scale > 0.0
    return f" * {literal(scale, FLOAT32)}" if late else ""


def _step(body: Body, t: _Attention, *, edge: bool, ahead: bool) -> None:
    """One block of keys: scores, their exponentials, and what the values add to the result.

    `ahead`: the scores are there; the products of the next block run while the exponentials of
    this one are computed (Shah et al., FlashAttention-3, NeurIPS 2024). Masks come before both, so
    that no load stands between.
    """
    line = body.writer.line
    # Blocks at the edge may have another size: their scores are a variable of their own.
    score = "edge" if edge and not ahead else "score"
    rows, columns = ("kre", "kce") if edge else ("kr", "kc")
    if ahead:
        _shape_scores(body, t, score, "score_seen" if _masks_keys(t) else "")
        # The last turn computes its own scores again, which nobody reads.
        start = f"tl.minimum(start + {t.tile.keys}, limit)"
        _look_ahead(body, t, "following", start, integer(t.tile.keys))
    else:
        line(f"{score} = {_scores(body, t, _KEY_ROW, rows)}")
        _shape_scores(body, t, score)
    factor = _factor(t)
    conditions = body.masks((columns,)) if edge else []
    if edge and t.call.attr("causal"):
        query, _ = body.index(t.call.output.axes[2].symbol, {})
        conditions.append(f"({query} >= {columns})")
    if conditions:
        line(f"{score} = tl.where({' & '.join(conditions)}, {score}, float('-inf'))")
    line(f"best = tl.maximum(top, tl.max({score}, 1){factor})")
    # While everything was -inf, any finite shift leaves the exponentials 0.
    line("shift = tl.where(best == float('-inf'), 0.0, best)")
    line(f"power = tl.exp2({score}{factor} - shift[:, None])")
    line("change = tl.exp2(top - shift)")
    line("total = total * change + tl.sum(power, 1)")
    line("acc = acc * change[:, None]")
    value = t.call.output.axes[3].symbol
    line(f"v = {_read(body, t, 'v', _KEY_ROW, value, (rows, 'n'))}")
    line(f"acc = tl.dot(power.to(v.dtype), v, acc{precision(t.dtype)})")
    line("top = best")
    if ahead:
        line("score = following")
        if _masks_keys(t):
            line("score_seen = following_seen")


def _mask(t: _Attention, score: str, seen: str) -> str:
    """A statement that masks scores by a block of the mask."""
    if t.context.buffers[t.call.operand("mask").buffer].dtype == BOOL:
        return f"{score} = tl.where({seen}, {score}, float('-inf'))"
    return f"{score} = {score} + {seen}.to(tl.float32) * {literal(_LOG2E, FLOAT32)}"


def _read_mask(body: Body, t: _Attention) -> str:
    """The mask of the present keys as an expression."""
    return body.read(t.call.operand("mask").buffer, _mask_index(t)).text


def _mask_index(t: _Attention) -> tuple[Expr, ...]:
    batch, heads, queries, _ = t.call.output.axes
    return t.index("mask", (batch.symbol, heads.symbol, queries.symbol, _KEY))


def _masks_keys(t: _Attention) -> bool:
    """True for a mask that is the same for all queries: a small load, which nothing pipelines."""
    if "mask" not in dict(t.call.operands):
        return False
    queries = t.call.output.axes[2].symbol
    return all(queries not in e.free_symbols for e in _mask_index(t))


def _read(
    body: Body, t: _Attention, role: str, row: Symbol, column: Symbol, dims: tuple[str, str]
) -> str:
    """A block of queries, keys or values as an expression."""
    batch, heads, *_ = t.call.output.axes
    head: Expr = heads.symbol
    if role != "q":
        head = var("kv_head")
        shared = t.members is not None or is_int(t.group, 1)
        body.name_axis(head, "h" if shared else f"(h // ({t.text(t.group)}))", None)
    block: Value = body.read(
        t.call.operand(role).buffer, t.index(role, (batch.symbol, head, row, column))
    )
    return body.spread(block, frozenset(dims))
