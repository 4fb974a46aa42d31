"""Attention.

Of few queries over many keys it may be computed in parts of the keys that are combined afterwards.
A step of a decoder has one query for each head and reads all keys: as many programs as there are
heads leave most of a device idle. So the keys are cut into parts with programs of their own, which
leave unnormalised sums and what rescales them; two small reductions then put the parts together
(flash-decoding: Dao, Haziza, Massa, Sizov, 2023). Keys and values are still read once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from aot.ir.dtypes import BOOL
from aot.ir.hints import Hints
from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.scalar import (
    Node,
    binary,
    cast,
    const,
    index_value,
    load,
    make,
    reduce_,
    unary,
    where,
)
from aot.ir.templates.base import (
    Array,
    LoopOp,
    SourceView,
    Split,
    Strides,
    Support,
    TemplateCall,
)
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.matmul import Matmul
from aot.symbolic import (
    Expr,
    FloorDiv,
    Ranges,
    Symbol,
    exact_quotient,
    integer,
    is_int,
    product,
    quotients,
    substitute,
    var,
)


@dataclass(frozen=True)
class Attention(TemplateCall):
    """q (b, h, sq, d), k (b, hkv, sk, d), v (b, hkv, sk, dv) -> output (b, h, sq, dv).

    softmax(scale * q @ k^T + mask) @ v; rows that see nothing give 0. Each key head serves h / hkv
    query heads in turn.

    Attributes:
        scale: Of the scores.
        causal: Whether a query sees no key behind its own position.
        mask: (b, h, sq, sk): float (added to the scaled scores) or bool (False: -inf).
        parts: The keys are cut into so many runs, where the kernel likes, some of them empty:
            output (parts, b, h, sq, dv + 2) has, for the keys of a part, the sum of the values,
            each times exp(score - maximum); behind it the maximum of the scores (-inf for none),
            and the sum of those factors.
    """

    kind: ClassVar[str] = "attention"
    broadcasts: ClassVar[frozenset[str]] = frozenset(("mask",))

    q: View
    k: View
    v: View
    scale: float
    causal: bool
    mask: View | None = None
    parts: int | None = None

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """The result, or what the parts give."""
        q, k, v = operands["q"], operands["k"], operands["v"]
        shared = q.shape[1] // max(k.shape[1], 1)
        k, v = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
        scores = np.matmul(q, np.swapaxes(k, -1, -2)) * self.scale
        mask = operands.get("mask")
        if mask is not None:
            scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
        if self.causal:
            seen = np.tril(np.ones(scores.shape[-2:], bool))
            scores = np.where(seen, scores, -np.inf)
        if self.parts is None:
            sums, _, total = _weighted(scores, v[..., : shape[-1]])
            return np.asarray(sums / np.where(total == 0.0, 1.0, total))
        size = -(-scores.shape[-1] // self.parts)
        runs = [slice(p * size, (p + 1) * size) for p in range(self.parts)]
        return np.stack(
            [np.concatenate(_weighted(scores[..., run], v[..., run, :]), axis=-1) for run in runs]
        )

    def flops(self) -> Expr:
        """Both products, each a multiplication and an addition a step."""
        *rows, depth = (axis.extent for axis in self.q.axes)
        keys, width = (axis.extent for axis in self.v.axes[-2:])
        return product((*rows, keys, depth + width, integer(2)))

    def better_as_nests(self, support: Support[Any], builder: NestBuilder) -> str:
        """Templates hold a head's row (d and dv elements) in registers: both must be known."""
        sizes = (self.q.axes[3].extent, self.output.axes[3].extent)
        return "" if all(s.is_Integer for s in sizes) else "the size of a head is dynamic"

    def misfit(self, role: str, support: Support[Any], strides: Strides, hints: Hints) -> str:
        """Queries, keys and values are read by vectors along d."""
        own = strides[role]
        if role == "mask" or own is None or getattr(self, role).axes[-1].extent == 1:
            return ""
        return "" if own[-1] == 1 else f"operand {role} is not contiguous along its vectors"

    def row_bytes(self, role: str, support: Support[Any], hints: Hints) -> int:
        """What the backend asks for, where each number is read for many scores."""
        if not isinstance(support, AttentionSupport):
            return 1
        return self._mask_bytes(support, hints) if role == "mask" else self._head_bytes(support)

    def _mask_bytes(self, support: AttentionSupport, hints: Hints) -> int:
        wish = support.mask_rows
        if self.mask is None or wish is None:
            return 1
        used = {s for e in self.mask.index for s in e.free_symbols}
        own = [a for a in self.mask.axes if a.symbol in used]
        # Where all queries share a row, it is a small load ahead of its use.
        if not all(a in own for a in self.mask.axes[-2:]):
            return 1
        scores = hints.volume((*self.q.axes[:3], self.k.axes[2]))
        worth = max(wish.least_scores, wish.least_uses * hints.volume(own))
        return wish.bytes if scores >= worth else 1

    def row_words(self, role: str, support: Support[Any], hints: Hints) -> int:
        """Rows of whole words are copied to shared memory ahead of their use as they are."""
        wanted = self.row_bytes(role, support, hints)
        if role != "mask" or not isinstance(support, AttentionSupport) or not support.mask_rows:
            return wanted
        return min(wanted, support.mask_rows.words)

    def _head_bytes(self, support: AttentionSupport, hints: Hints | None = None) -> int:
        """What rows of queries, keys and values start at, if that is worth a copy of all three.

        Where sizes are not known and there are no hints it is not.
        """
        wish = support.head_rows
        sizes = [a.extent for a in (*self.q.axes, *self.k.axes[1:3])]
        if wish is None or (hints is None and not all(is_int(e) for e in sizes)):
            return 1
        known = (int(e) if hints is None else hints.value(e) for e in sizes)
        batch, heads, queries, depth, shared, keys = known
        uses = min(keys, queries * heads // max(1, shared))
        work = batch * heads * queries * keys * depth
        return wish.bytes if uses >= wish.least_uses and work >= wish.least_work else 1

    # ---- as nests ----

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """Two products and a softmax between them, or all of it as nests."""
        dtype = builder.dtype(self.q.buffer)
        wanted = isinstance(support, AttentionSupport) and support.products
        heads = self._heads() if wanted and dtype == dtype.compute else None
        return self._as_nests(builder) if heads is None else self._as_products(builder, *heads)

    def _as_nests(self, builder: NestBuilder) -> list[LoopOp]:
        """Scores, their maxima, exponentials and sums, and the weighted sums of the values."""
        q, k, v, axes = self.q, self.k, self.v, self.output.axes
        b, h, s, d = (a.symbol for a in axes)
        keys, inner = Axis(var("t"), k.axes[2].extent), Axis(var("c"), q.axes[3].extent)
        dtype = builder.dtype(q.buffer).compute
        group = FloorDiv(q.axes[1].extent, k.axes[1].extent)
        head = FloorDiv(h, group) if not is_int(group, 1) else h
        rows, scored = axes[:3], (*axes[:3], keys)
        shape = tuple(a.extent for a in rows)
        scores = builder.temp(f"{self.name}_scores", dtype, (*shape, keys.extent))
        top = builder.temp(f"{self.name}_max", dtype, shape)
        exps = builder.temp(f"{self.name}_exp", dtype, (*shape, keys.extent))
        total = builder.temp(f"{self.name}_sum", dtype, shape)
        at_q = _at(q, (b, h, s, inner.symbol))
        at_k = _at(k, (b, head, keys.symbol, inner.symbol))
        dots = reduce_("sum", binary("mul", builder.load(q, at_q), builder.load(k, at_k)))
        value = binary("mul", dots, const(self.scale, dtype))
        value = self._masked(builder, value, (b, h, s, keys.symbol))
        row, point = (b, h, s), (b, h, s, keys.symbol)
        finite = load(top, dtype, row)
        safe = where(unary("isinf", finite), const(0.0, dtype), finite)
        exp = unary("exp", binary("sub", load(scores, dtype, point), safe))
        at_v = _at(v, (b, head, keys.symbol, d))
        mix = reduce_("sum", binary("mul", load(exps, dtype, point), builder.load(v, at_v)))
        weight = load(total, dtype, row)
        none = binary("eq", weight, const(0.0, dtype))
        result = where(none, const(0.0, dtype), binary("div", mix, weight))

        def nest(part: str, over: tuple[Axis, ...], red: tuple[Axis, ...], to: Store) -> LoopNest:
            return LoopNest(f"{self.name}_{part}", over, red, (to,), self.origin)

        biggest = reduce_("max", load(scores, dtype, point))
        return [
            nest("scores", scored, (inner,), Store(scores, point, value)),
            nest("max", rows, (keys,), Store(top, row, biggest)),
            nest("exp", scored, (), Store(exps, point, exp)),
            nest("sum", rows, (keys,), Store(total, row, reduce_("sum", load(exps, dtype, point)))),
            nest("out", axes, (keys,), self.stored(result, builder)),
        ]

    def _masked(self, builder: NestBuilder, value: Node, point: tuple[Symbol, ...]) -> Node:
        lowest = const(-math.inf, value.dtype)
        if self.causal:
            later = make("gt", BOOL, index_value(point[3]), index_value(point[2]))
            value = where(later, lowest, value)
        if self.mask is None:
            return value
        mask = builder.load(self.mask, _at(self.mask, point))
        if mask.dtype == BOOL:
            return where(mask, value, lowest)
        return binary("add", value, cast(mask, value.dtype))

    # ---- as products ----

    def _heads(self) -> tuple[tuple[Axis, ...], Expr, Expr] | None:
        """Axes of the heads, and which head of queries and of keys they mean; None: unknown."""
        whole, shared = self.q.axes[1], self.k.axes[1].extent
        if whole.extent == shared:
            return (whole,), whole.symbol, whole.symbol
        if not is_int(whole.extent) or not is_int(shared):
            return None
        size = int(whole.extent) // int(shared)
        group, member = Axis(var("hg"), shared), Axis(var("hm"), integer(size))
        return (group, member), group.symbol * size + member.symbol, group.symbol

    def _as_products(
        self, builder: NestBuilder, heads: tuple[Axis, ...], head: Expr, shared: Expr
    ) -> list[LoopOp]:
        """Scores as one product, the weighted sums of the values as another.

        Args:
            builder: Declares the buffers.
            heads: Axes of the heads of queries: one, or groups that share keys, and their members.
            head: A head of queries.
            shared: The head of keys and values that it sees.
        """
        origin, dtype = self.origin, builder.dtype(self.q.buffer)
        b, _, s, d = self.output.axes
        t, c = Axis(var("t"), self.k.axes[2].extent), Axis(var("c"), self.q.axes[3].extent)
        batch = (b, *heads)
        rows, scored, results = (*batch, s), (*batch, s, t), (*batch, s, d)
        row, point, place = (tuple(a.symbol for a in axes) for axes in (rows, scored, results))

        def temp(part: str, axes: tuple[Axis, ...]) -> str:
            return builder.temp(f"{self.name}_{part}", dtype, tuple(a.extent for a in axes))

        def seen(view: View, at: Expr, *last: Axis) -> View:
            own = (b.symbol, at, *(a.symbol for a in last))
            index = tuple(substitute(e, _at(view, own)) for e in view.index)
            return View(view.buffer, (*batch, *last), index)

        def nest(part: str, over: tuple[Axis, ...], red: tuple[Axis, ...], to: Store) -> LoopNest:
            return LoopNest(f"{self.name}_{part}", over, red, (to,), origin)

        dots, scores, exps = temp("dots", scored), temp("scores", scored), temp("exp", scored)
        top, total, mixed = temp("max", rows), temp("sum", rows), temp("mix", results)
        keys = seen(self.k, shared, t, c)
        keys = View(keys.buffer, (*batch, c, t), keys.index)
        value = binary("mul", load(dots, dtype, point), const(self.scale, dtype))
        value = self._masked(builder, value, (b.symbol, head, s.symbol, t.symbol))
        finite = load(top, dtype, row)
        safe = where(unary("isinf", finite), const(0.0, dtype), finite)
        exp = unary("exp", binary("sub", load(scores, dtype, point), safe))
        weight = load(total, dtype, row)
        none = binary("eq", weight, const(0.0, dtype))
        mix = binary("div", load(mixed, dtype, place), weight)
        result = cast(where(none, const(0.0, dtype), mix), builder.dtype(self.output.buffer))
        into = tuple(
            substitute(e, _at(self.output, (b.symbol, head, s.symbol, d.symbol)))
            for e in self.output.index
        )
        biggest = reduce_("max", load(scores, dtype, point))
        product_of = partial(Matmul, origin=origin)
        return [
            product_of(
                f"{self.name}_dots",
                View(dots, scored, point),
                a=seen(self.q, head, s, c),
                b=keys,
                triangle="output" if self.causal else None,
            ),
            nest("scores", scored, (), Store(scores, point, value)),
            nest("max", rows, (t,), Store(top, row, biggest)),
            nest("exp", scored, (), Store(exps, point, exp)),
            nest("sum", rows, (t,), Store(total, row, reduce_("sum", load(exps, dtype, point)))),
            product_of(
                f"{self.name}_mix",
                View(mixed, results, place),
                a=View(exps, scored, point),
                b=seen(self.v, shared, t, d),
                triangle="a" if self.causal else None,
            ),
            nest("out", results, (), Store(self.output.buffer, into, result)),
        ]

    # ---- shared heads ----

    def composed(
        self,
        source: SourceView,
        fits: Callable[[View], bool],
        ranges: Callable[..., Ranges],
    ) -> TemplateCall:
        """Keys and values that repeat each head for a group of query heads, once each."""
        keys, values = source(self.k), source(self.v)
        if keys is None or values is None:
            return self
        size = _group_size(keys)
        if size is None:
            return self
        shared = [_one_of_group(view, size, ranges) for view in (keys, values)]
        k, v = (view if view is not None and fits(view) else None for view in shared)
        return self if k is None or v is None else replace(self, k=k, v=v)

    # ---- in parts of the keys ----

    def split(
        self, builder: NestBuilder, support: Support[Any], units: int, hints: Hints
    ) -> Split | None:
        """The keys in parts, and two reductions that combine them; or with whole rows."""
        assert isinstance(support, AttentionSupport)
        parts = 1 if support.parts is None else self._wanted_parts(support.parts, units, hints)
        if support.parts is None or parts == 1:
            return self._with_whole_rows(builder, support, hints)
        tiles, keys = self._tiles(support.parts, hints), self._seen_keys(hints)
        reason = f"{tiles} tiles of queries would walk {keys} keys, and leave the device idle"
        return Split(self._in_parts(builder, parts), f"{parts} parts of the keys", reason)

    def _with_whole_rows(
        self, builder: NestBuilder, support: AttentionSupport, hints: Hints
    ) -> Split | None:
        """With zeros behind heads of an odd size, which a copy of all three operands adds.

        Rows then start where they are read by the widest loads, and nothing tests where they end.
        Queries and keys gain products of zeros; columns of values behind the result's are left.
        """
        wanted, size = self._head_bytes(support, hints), builder.dtype(self.q.buffer).itemsize
        each = max(1, wanted // size)
        depth, width = self.q.axes[3].extent, self.v.axes[3].extent
        if not is_int(depth) or not is_int(width):
            return None
        if each == 1 or int(depth) % each == 0 == int(width) % each:
            return None
        nests: list[LoopOp] = []

        def whole(role: str, view: View) -> View:
            if role == "mask":
                return view
            extent = integer(-(-int(view.axes[3].extent) // each) * each)
            name = f"{self.name}_{role}"
            nest, longer = builder.with_zeros(name, view, 3, extent, self.origin)
            nests.extend([] if nest is None else [nest])
            return longer

        call = self.with_views(whole)
        return Split(
            [*nests, call],
            f"heads of {depth} with zeros behind them",
            f"rows of {int(depth) * size} bytes start where they are read slowly",
        )

    def _wanted_parts(self, wish: KeyParts, units: int, hints: Hints) -> int:
        """How many parts the keys are cut into; 1: attention stays as it is.

        A number, also where sizes are dynamic: then memory for the parts is bounded, and the parts
        grow with the keys. With fewer keys than in the example some parts are empty.
        """
        keys = self._seen_keys(hints)
        room = units // max(1, self._tiles(wish, hints))
        if keys < wish.many_keys or room < wish.fewest:
            return 1
        most = min(room, -(-keys // wish.least_keys))
        size = -(-keys // (most * wish.block)) * wish.block
        return -(-keys // size)

    def _tiles(self, wish: KeyParts, hints: Hints) -> int:
        """Tiles of queries: the programs of the kernel when the keys are not cut."""
        *batch, queries, _ = self.output.axes
        heads = max(1, hints.volume(self.k.axes[:-2]))
        rows = hints.volume((*batch, queries)) // heads
        return heads * -(-rows // wish.query_tile)

    def _seen_keys(self, hints: Hints) -> int:
        """Keys that some query sees."""
        keys = hints.value(self.k.axes[-2].extent)
        queries = hints.value(self.output.axes[-2].extent)
        return min(keys, queries) if self.causal else keys

    def _in_parts(self, builder: NestBuilder, parts: int) -> list[LoopOp]:
        dtype = builder.dtype(self.q.buffer).compute
        rows, size = self.output.axes[:-1], self.v.axes[-1].extent
        part, column = Axis(var("part"), integer(parts)), Axis(var("column"), size + 2)
        axes = (part, *rows, column)
        sums = builder.temp(f"{self.name}_parts", dtype, tuple(a.extent for a in axes))
        there = View(sums, axes, tuple(a.symbol for a in axes))

        def of_part(at: Expr) -> Node:
            return load(sums, dtype, (part.symbol, *(a.symbol for a in rows), at))

        # The maximum depends on the row alone, but is computed at each column: over the same points
        # as the sums that use it, it is fused with them and never stored.
        results, point = self.output.axes, tuple(a.symbol for a in self.output.axes)
        top = builder.temp(f"{self.name}_top", dtype, tuple(a.extent for a in results))
        biggest = Store(top, point, reduce_("max", of_part(size)))
        out = self.stored(self._combined(of_part, load(top, dtype, point)), builder)
        return [
            replace(self, output=there, parts=parts),
            LoopNest(top, results, (part,), (biggest,), self.origin),
            LoopNest(f"{self.name}_combined", results, (part,), (out,), self.origin),
        ]

    def _combined(self, of_part: Callable[[Expr], Node], top: Node) -> Node:
        """The parts' sums divided by their weights, each scaled by exp(its maximum - the row's).

        A part that sees nothing has the maximum -inf and so the factor 0; a row that sees nothing
        is 0.
        """
        zero, size = const(0.0, top.dtype), self.v.axes[-1].extent
        shift = where(unary("isinf", top), zero, top)
        factor = unary("exp", binary("sub", of_part(size), shift))
        mix = reduce_("sum", binary("mul", factor, of_part(self.output.axes[-1].symbol)))
        weight = reduce_("sum", binary("mul", factor, of_part(size + 1)))
        return where(binary("eq", weight, zero), zero, binary("div", mix, weight))


@dataclass(frozen=True)
class KeyParts:
    """When a backend wants the keys cut into parts.

    Attributes:
        query_tile: Queries of one key head that a tile takes at once, where they are few.
        least_keys: Of a part.
        block: Parts are multiples of so many keys.
        fewest: Parts that there is to be room for beside each other, for each tile.
        many_keys: Keys from which parts pay.
    """

    query_tile: int
    least_keys: int
    block: int
    fewest: int
    many_keys: int


@dataclass(frozen=True)
class MaskRows:
    """Rows of masks that a backend reads much faster where they start at multiples of some bytes.

    Attributes:
        bytes: What it has copies' rows start at.
        words: Rows at multiples of so many bytes are not worth a copy.
        least_uses: Scores for each number of a mask from which a copy is worth its time, where
        least_scores: there are as many in all.
    """

    bytes: int
    words: int
    least_uses: int
    least_scores: int


@dataclass(frozen=True)
class HeadRows:
    """Rows of queries, keys and values that a backend reads much faster in whole `bytes`.

    Attributes:
        bytes: A power of two.
        least_uses: Products of each element from which a copy of it is worth its time, where
        least_work: there are as many in all.
    """

    bytes: int
    least_uses: int
    least_work: int


@dataclass(frozen=True)
class AttentionSupport(Support[Attention]):
    """A backend's template for attention.

    Attributes:
        parts: It can leave the sums of parts of the keys, and wants to.
        products: Calls of whole types that it does not take are better as two products than as
            nests.
        mask_rows: Where it wants masks' rows to start; None: anywhere.
        head_rows: Where it wants rows of the other operands to; None: anywhere.
    """

    parts: KeyParts | None = None
    products: bool = False
    mask_rows: MaskRows | None = None
    head_rows: HeadRows | None = None


def _weighted(scores: Array, v: Array) -> tuple[Array, Array, Array]:
    """Sums of values by exp(score - maximum); the maximum, and the sum of those factors."""
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(top), 0.0, top))
    return np.matmul(weights, v), top, weights.sum(axis=-1, keepdims=True)


def _at(view: View, index: tuple[Expr, ...]) -> dict[Symbol, Expr]:
    return dict(zip([a.symbol for a in view.axes], index, strict=True))


def _group_size(view: View) -> Expr | None:
    head = view.axes[1].symbol
    for expr in view.index:
        for part in quotients(expr):
            if part.args[0] == head:
                return part.args[1]
    return None


def _one_of_group(view: View, size: Expr, known: Callable[..., Ranges]) -> View | None:
    """The view over groups of `size` heads; None when the heads of a group differ."""
    head = view.axes[1]
    count = exact_quotient(head.extent, size)
    if count is None:
        return None
    group, member = Axis(var("hg"), count), Axis(var("hm"), size)
    mapping: dict[Symbol, Expr] = {head.symbol: group.symbol * size + member.symbol}
    axes = (view.axes[0], group, *view.axes[2:])
    ranges = known(*axes, member)
    index = tuple(ranges.simplify(substitute(e, mapping)) for e in view.index)
    if any(member.symbol in e.free_symbols for e in index):
        return None
    return View(view.buffer, axes, index)
