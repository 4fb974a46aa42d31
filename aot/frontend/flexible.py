"""torch's flex_attention, whose scores and mask are functions of the model's own.

Each function is traced once of one score, and then of all of them. What only adds to a score is a
mask of attention as it is lowered else; any other function stands between two products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._higher_order_ops.utils import reenter_make_fx
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import (
    ProxyTorchDispatchMode,
    disable_proxy_modes_tracing,
    track_tensor_tree,
)
from torch.utils import _pytree as pytree

_untyped: Any = torch
"""torch, for functions of it that have no types."""

_aten: Any = torch.ops.aten
_untyped_make_fx: Any = reenter_make_fx

_AXES = 4
"""Batch, head, query and key, whose numbers the functions are given."""


@contextmanager
def attention_of_functions() -> Iterator[None]:
    """Inside of it, flex_attention is traced as what it computes."""
    own: Any = _untyped.ops.higher_order.flex_attention
    with patch.dict(own.python_key_table, {ProxyTorchDispatchMode: _traced}):
        yield


def _traced(
    mode: ProxyTorchDispatchMode,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: dict[str, Any],
    score_mod_other_buffers: Sequence[Any] = (),
    mask_mod_other_buffers: Sequence[Any] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    place = [query.new_zeros((), dtype=torch.int32) for _ in range(_AXES)]
    score = _graph(score_mod, query.new_zeros((), dtype=wide), *place, *score_mod_other_buffers)
    mask = _graph(block_mask[-1], *place, *mask_mod_other_buffers)
    with mode:
        axes = (*query.shape[:3], key.shape[2])
        numbers = [torch.arange(n, device=query.device) for n in axes]
        allowed = None
        if not _allows_all(mask):
            allowed = _of_all(mask, (), numbers, mask_mod_other_buffers)
        key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
        whole = None
        if _is_sum(score) and (wide == query.dtype or _is_score(score)):
            none = query.new_zeros(axes, dtype=wide)
            added = _of_all(score, (none,), numbers, score_mod_other_buffers)
            whole = _attention(mode, query, key, value, _mask(score, added, allowed), scale)
        heads: Any = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(heads, 1) for x in (key, value))
        scores = torch.matmul(query.to(wide), key.to(wide).mT) * scale
        scores = _of_all(score, (scores,), numbers, score_mod_other_buffers)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -math.inf)
        if whole is None:
            weights = _aten._safe_softmax.default(scores, -1).to(query.dtype)
            whole = torch.matmul(weights, value.to(query.dtype))
        # The operator's own are exponents of 2; its caller multiplies them by this again.
        return whole, scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)


def _graph(function: Callable[..., Tensor], *example: Any) -> GraphModule:
    """A function of one score, or of one place, as a graph."""
    graph: GraphModule = _untyped_make_fx(function)(*example)
    return graph


def _of_all(
    graph: GraphModule, scores: tuple[Tensor, ...], numbers: Sequence[Tensor], more: Sequence[Any]
) -> Tensor:
    """What a function of one score, or of none, gives at all places."""
    function: Callable[..., Tensor] = graph
    rest = (None,) * len(more)
    for axis in reversed(range(_AXES)):
        own = tuple(0 if k == axis else None for k in range(_AXES))
        function = torch.vmap(function, in_dims=((0,) * len(scores)) + own + rest)
    return function(*scores, *numbers, *more)


def _result(graph: GraphModule) -> Any:
    output = next(n for n in graph.graph.nodes if n.op == "output")
    return pytree.tree_leaves(output.args)[0]


def _score(graph: GraphModule) -> Node:
    score: Node = next(n for n in graph.graph.nodes if n.op == "placeholder")
    return score


def _is_score(graph: GraphModule) -> bool:
    """Whether the function leaves scores as they are."""
    return _result(graph) is _score(graph)


def _allows_all(graph: GraphModule) -> bool:
    """Whether the mask is that of a caller who gave none."""
    return getattr(_result(graph), "target", None) is _aten.new_ones.default


def _is_sum(graph: GraphModule) -> bool:
    """Whether the function adds to a score what does not depend on it, or takes some away."""
    score = _score(graph)
    reached: set[Any] = {score}
    for node in graph.graph.nodes:
        if not reached.isdisjoint(node.all_input_nodes):
            reached.add(node)

    def adds(node: Any) -> bool:
        if node is score:
            return True
        if not isinstance(node, Node) or node.kwargs or node.target not in _SUMS:
            return False
        condition, kept = node.args[:-2], [a for a in node.args[-2:] if a in reached]
        if len(kept) != 1 or not reached.isdisjoint(condition):
            return False
        if node.target is _aten.sub.Tensor and kept[0] is not node.args[0]:
            return False
        other = node.args[-1] if kept[0] is node.args[-2] else node.args[-2]
        return (not condition or _is_never(graph, other)) and adds(kept[0])

    return adds(_result(graph))


_SUMS = (_aten.add.Tensor, _aten.sub.Tensor, _aten.where.self, _aten.where.ScalarOther)
"""Operators that add to a score, or leave it out."""


def _is_never(graph: GraphModule, value: Any) -> bool:
    """Whether a value is that of scores that do not count."""
    while isinstance(value, Node) and value.op == "call_function":
        value = value.args[-1] if value.args else None
    if isinstance(value, Node) and value.op == "get_attr":
        held = getattr(graph, str(value.target))
        value = held.item() if isinstance(held, Tensor) and held.numel() == 1 else None
    return isinstance(value, float) and value == -math.inf


def _mask(score: GraphModule, added: Tensor, allowed: Tensor | None) -> Tensor | None:
    """The mask of attention to whose scores so much is added where they are allowed."""
    if _is_score(score):
        return allowed
    return added if allowed is None else added.masked_fill(~allowed, -math.inf)


def _attention(
    mode: ProxyTorchDispatchMode,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
) -> Tensor:
    """A call of the operator for attention, which a trace below it would take apart."""
    args = (query, key, value, mask, 0.0, False)
    given = {"scale": scale, "enable_gqa": True}
    operator = _aten.scaled_dot_product_attention.default
    tracer: Any = mode.tracer
    called = pytree.tree_map(tracer.unwrap_proxy, args)
    proxy = tracer.create_proxy("call_function", operator, called, given)
    with disable_proxy_modes_tracing():
        whole = query.new_empty((*query.shape[:-1], value.shape[-1]))
    made: Tensor = track_tensor_tree(whole, proxy, constant=None, tracer=tracer)
    return made
