"""Scaled dot-product attention, as one template call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from aot.ir.nests import View
from aot.ir.scalar import Node, cast
from aot.ir.templates.attention import Attention
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.creation import filled
from aot.lowering.matmul import rounded
from aot.lowering.promotion import size_node
from aot.lowering.registry import Call, CannotLower, SeveralResults
from aot.lowering.reshape import reshape_index
from aot.lowering.rows import REGISTRY
from aot.lowering.views import reshaped
from aot.symbolic import Expr, as_expr, product

Shape = tuple[Expr, ...]


@dataclass(frozen=True)
class Scores:
    """What happens to the products of queries and keys before the softmax."""

    mask: Tensor | None
    causal: bool
    scale: float | None


@REGISTRY.row("aten.scaled_dot_product_attention.default")
def attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *settings: float | bool,
    scale: float | None = None,
    **more: float | bool,
) -> Tensor:
    """Operator scaled_dot_product_attention; `settings` are dropout_p and is_causal."""
    dropout, causal = _settings(settings, more)
    _no_dropout(dropout)
    if product((*query.shape[:-1], *key.shape[:-1], *value.shape)) == 0:
        return filled(call, 0)  # eager gives it the query's batch, unbroadcast
    return _attention(query, key, value, Scores(mask, causal, scale))


def _settings(
    settings: Sequence[float | bool], named: dict[str, float | bool]
) -> tuple[float, bool]:
    given = dict(zip(("dropout_p", "is_causal"), settings, strict=False))
    given.update(named)
    return float(given.get("dropout_p", 0.0)), bool(given.get("is_causal", False))


def _no_dropout(probability: float) -> None:
    if probability != 0.0:
        raise CannotLower("it drops weights at random, which is not for inference")


@REGISTRY.row("aten._scaled_dot_product_attention_math.default")
def attention_math(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *settings: float | bool | None,
    scale: float | None = None,
    **more: float | bool,
) -> SeveralResults:
    """The variant that also offers the weights; they are not to be had here."""
    _only_first(call)
    dropout, causal = _settings([s for s in settings if s is not None], more)
    _no_dropout(dropout)
    return _padded(call, _attention(query, key, value, Scores(mask, causal, scale)))


@REGISTRY.row(
    "aten._scaled_dot_product_flash_attention.default",
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
)
def flash_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *settings: float | bool,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
    **more: float | bool,
) -> SeveralResults:
    """The variants that also offer the logarithm of the softmax's sums; not to be had here."""
    _only_first(call)
    dropout, causal = _settings(settings[:2], more)
    _no_dropout(dropout)
    return _padded(call, _attention(query, key, value, Scores(attn_mask, causal, scale)))


@REGISTRY.row("aten._scaled_dot_product_efficient_attention.default")
def efficient_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    *settings: float | bool,
    scale: float | None = None,
    **more: float | bool,
) -> SeveralResults:
    """As flash attention; `settings` begin with compute_log_sumexp."""
    _only_first(call)
    dropout, causal = _settings(settings[1:], more)
    _no_dropout(dropout)
    return _padded(call, _attention(query, key, value, Scores(attn_bias, causal, scale)))


def _only_first(call: Call) -> None:
    if any(name is not None for name in call.op.outputs[1:]):
        raise CannotLower("its attention weights or sums are used, not only its result")


def _padded(call: Call, out: Tensor) -> SeveralResults:
    return (out, *(None for _ in call.op.outputs[1:]))


def _attention(query: Tensor, key: Tensor, value: Tensor, scores: Scores) -> Tensor:
    """softmax(scale * query key' + mask) value over (..., heads, length, size)."""
    batch = _broadcast([t.shape[:-3] for t in (query, key, value)])
    kv_heads = max((_heads(t) for t in (key, value)), key=lambda h: int(h != 1))
    heads = kv_heads if _heads(query) == 1 else _heads(query)
    lead = (product(batch),)
    shape = (*lead, heads, query.shape[-2], value.shape[-1])
    scaled, factor = _scaled(query, scores.scale)
    seen = (heads, query.shape[-2], key.shape[-2])
    call = partial(
        Attention,
        q=_four(scaled, batch, heads),
        k=_four(key, batch, kv_heads),
        v=_four(value, batch, kv_heads),
        mask=None if scores.mask is None else _mask(scores.mask, batch, seen),
        scale=float(factor),
        causal=scores.causal,
    )
    out = query.builder.template(call, shape, query.dtype.compute)
    result = rounded(out, query.dtype)
    wanted = (*batch, heads, *shape[2:])[-max(t.rank for t in (query, key, value)) :]
    return result if wanted == shape else reshaped(result, wanted)


def _scaled(query: Tensor, scale: float | None) -> tuple[Tensor, float]:
    """The queries, scaled already where the head's size is dynamic, and the factor that is left."""
    size = query.shape[-1]
    if scale is not None:
        return query, scale
    if size.is_Integer:
        # Products of vectors without elements are 0, however they are scaled.
        return query, 1.0 / math.sqrt(max(int(size), 1))
    dtype = query.dtype.compute

    def point(index: Shape) -> Node:
        root = e.rsqrt(size_node(query.builder, size, dtype))
        return cast(e.mul(cast(query.load(index), dtype), root), query.dtype)

    return query.builder.pointwise(query.shape, query.dtype, point), 1.0


def _heads(x: Tensor) -> Expr:
    return x.shape[-3] if x.rank > 2 else as_expr(1)


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    """The common shape, right-aligned."""
    longest = max(len(s) for s in shapes)
    one = as_expr(1)
    padded = [(one,) * (longest - len(s)) + s for s in shapes]
    return tuple(
        next((size for size in sizes if size != 1), one) for sizes in zip(*padded, strict=True)
    )


def _four(x: Tensor, batch: Shape, heads: Expr) -> View:
    """View of x as (batch, heads, length, size), broadcast."""
    return _view(x, batch, (heads, *x.shape[-2:]))


def _mask(mask: Tensor, batch: Shape, rest: Shape) -> View:
    """The mask broadcast to (batch, heads, queries, keys)."""
    return _view(mask, batch, rest)


def _view(x: Tensor, batch: Shape, rest: Shape) -> View:
    """View of x, right-aligned and broadcast to (*batch, *rest), with the batch as one axis."""
    builder = x.builder
    shape = (product(batch), *rest)
    split = reshape_index(builder.ranges, batch, shape[:1])

    def index(at: Shape) -> Shape:
        full = (*split(at[:1]), *at[1:])
        own = full[len(full) - x.rank :]
        return tuple(builder.zero if size == 1 else i for i, size in zip(own, x.shape, strict=True))

    return builder.view(x, shape, index)
