"""Which composite operators torch takes apart for us, and which we lower whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from aot.frontend.complex_operators import COMPLEX
from aot.frontend.composites import EXPORTED
from aot.frontend.gradients import GRADIENTS
from aot.frontend.losses import multilabel_margin_loss, multilabel_margin_loss_forward
from aot.frontend.quantized import library_operators
from aot.frontend.spaces import LOGSPACES
from aot.frontend.windows import WINDOWS
from aot.ir.templates.real_forms import SQUARINGS, TERMS
from aot.lowering.families import rows

TAKEN_APART = ("dist", "tril_indices", "triu_indices")
"""Operators that torch's default table keeps whole, although torch knows simpler ones for them."""

LOSSES = ("nll_loss_forward", "nll_loss2d_forward")
"""Operators that torch takes apart, whose sums are to be those of a wider type."""


def decomposition_table() -> dict[Any, Any]:
    """Default table of torch without the operators that have a lowering, which stay whole.

    A decomposition loses what a lowering uses: attention becomes two products with a softmax
    between, resizing a gather of every pixel, silu five operators in two types.

    A fresh one, for `ExportedProgram.run_decompositions`.
    """
    table: dict[Any, Any] = torch.export.default_decompositions()
    kept = {overload: how for overload, how in table.items() if not is_lowered(overload)}
    return {**kept, **own_decompositions()}


def is_lowered(overload: Any) -> bool:
    """Whether an operator has a lowering."""
    return str(overload) in rows()


def own_decompositions() -> dict[Any, Any]:
    """What the table has besides torch's default, or in place of it."""
    more = torch._decomp.get_decompositions(_defaults(TAKEN_APART))
    losses = torch._decomp.get_decompositions(_defaults(LOSSES))
    wide = {operator: _summed_exactly(own) for operator, own in losses.items()}
    return {**more, **wide, **OURS, **_chunked(), **library_operators()}


def lowered_overloads() -> Iterator[Any]:
    """The operators that have a lowering, of those that this torch has."""
    for name in rows():
        space, _, rest = name.partition(".")
        packet, _, overload = rest.partition(".")
        found = getattr(getattr(getattr(torch.ops, space), packet, None), overload, None)
        if found is not None:
            yield found


def _defaults(names: Sequence[str]) -> list[Any]:
    return [getattr(torch.ops.aten, name).default for name in names]


def _pinv(
    a: torch.Tensor,
    *,
    atol: torch.Tensor | None = None,
    rtol: torch.Tensor | None = None,
    hermitian: bool = False,
) -> torch.Tensor:
    """The pseudoinverse; singular values up to the greater of both tolerances count as 0."""
    if 0 in a.shape:
        return a.new_zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]))
    part = a.dtype.to_real()  # of singular values, and what they are compared with
    none = torch.zeros((), dtype=part, device=a.device)
    if rtol is None:
        default = torch.finfo(a.dtype).eps * max(a.shape[-2:])
        rtol = torch.full((), default, dtype=part, device=a.device)
        rtol = rtol if atol is None else torch.where(atol > 0, none, rtol)
    atol = none if atol is None else atol
    if hermitian:
        values, u = torch.linalg.eigh(a)
        sizes, v = values.abs(), u
        most = sizes.amax(-1, keepdim=True)
    else:
        u, values, vt = torch.linalg.svd(a, full_matrices=False)
        sizes, v, most = values, vt.mH, values[..., :1]
    counts = sizes > torch.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * most)
    inverse = torch.where(counts, values.reciprocal(), none)
    return torch.matmul(v * inverse.unsqueeze(-2), u.mH)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention that drops weights at random; other attention is lowered whole."""
    if not dropout_p:
        return NotImplemented
    if enable_gqa:
        copies = query.shape[-3] // key.shape[-3]
        key, value = (t.repeat_interleave(copies, -3) for t in (key, value))
    scores = torch.matmul(query, key.mT) * (query.shape[-1] ** -0.5 if scale is None else scale)
    mask = attn_mask
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    weights = torch.ops.aten._safe_softmax(scores, -1)
    return torch.matmul(torch.dropout(weights, dropout_p, train=True), value)


def _resized(x: torch.Tensor, size: list[int], *, memory_format: Any = None) -> torch.Tensor:
    """The elements in another shape; those that are not there are any numbers."""
    wanted, flat = math.prod(size), x.reshape(-1)
    if wanted > flat.shape[0]:
        flat = torch.cat([flat, flat.new_zeros(wanted - flat.shape[0])])
    return flat[:wanted].reshape(size).clone()


_NEAR = {torch.float32: 2.6, torch.complex64: 2.6}
"""Norms for which so many terms are exact; 0.75 for types of twice as many bits."""

_DOUBLINGS = SQUARINGS


_untyped: Any = torch
"""torch, for functions of it that have no types."""

_SMALL = 32
"""Sizes up to which some device has a routine for the whole of an exponential."""

_LARGE = 64
"""Sizes beyond which a product is worth more than a call of a routine."""


def _squared(x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
    """x, squared as often as `times` (batch, 1, 1) says."""
    for k in range(_DOUBLINGS):
        x = torch.where(times > k, torch.matmul(x, x), x)
    return x


def _near_exponential(x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
    """The exponential of x by `TERMS` terms of the series, squared as often as `times` says."""
    one = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device).expand_as(x)
    powers = [one, x, torch.matmul(x, x)]
    powers += [torch.matmul(powers[2], x), torch.matmul(powers[2], powers[2])]
    found = torch.zeros_like(x)
    for first in range(TERMS - 4, -1, -4):
        terms = [p / math.factorial(first + k) for k, p in enumerate(powers[:4])]
        if first == TERMS - 4:
            terms.append(powers[4] / math.factorial(TERMS))
        found = sum(terms, torch.matmul(found, powers[4]))
    rows: Any = x.shape[-1]
    if x.requires_grad or not isinstance(rows, int) or rows <= _LARGE:
        return _squared(found, times)
    squared: torch.Tensor = torch.ops.aot.squared.default(found, times)
    return squared


_library = _untyped.library.Library("aot", "FRAGMENT")
_library.define("exponential(Tensor x, Tensor times) -> Tensor")
_library.impl("exponential", _near_exponential, "CompositeExplicitAutograd")
_untyped.library.register_fake(
    "aot::exponential", lambda x, times: x.new_empty(x.shape), lib=_library
)
_library.define("squared(Tensor x, Tensor times) -> Tensor")
_library.impl("squared", _squared, "CompositeExplicitAutograd")
_untyped.library.register_fake("aot::squared", lambda x, times: x.new_empty(x.shape), lib=_library)


def _matrix_exp(a: torch.Tensor) -> torch.Tensor:
    """The exponential: a polynomial of a matrix near 0, squared as often as it takes to get there.

    Of a matrix halved so often that its norm is at most `_NEAR`, `TERMS` terms of the series are
    exact. Every squaring doubles the error, so there are as few as can be. All matrices of a batch
    are squared as often as its greatest may need, and each keeps what is its own; large ones are
    squared by a routine, each as often as it needs.
    """
    if a.shape[-1] == 0 or a.numel() == 0:
        return a.clone()
    if a.dtype in (torch.bfloat16, torch.float16):
        return _matrix_exp(a.float()).to(a.dtype)
    near = _NEAR.get(a.dtype, 0.75)
    size = a.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    halvings = torch.ceil(torch.log2(size / near)).clamp(0, _DOUBLINGS)
    x = a * torch.exp2(-halvings)
    rows: Any = a.shape[-1]
    if a.requires_grad or not isinstance(rows, int) or rows > _SMALL:
        found = _near_exponential(x, halvings)
    else:
        found = torch.ops.aot.exponential.default(x, halvings)
    return torch.where(size.isfinite() & (size <= near * 2.0**_DOUBLINGS), found, math.nan)


def _cross_entropies(
    x: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: torch.Tensor | None,
    weight: torch.Tensor | None,
    ignore_index: int,
    batch_chunk_size: int,
    acc_policy: str,
    acc_dtype: torch.dtype,
    reduction: str = "none",
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """The losses of a classifier's last layer, without chunks: kernels need no room for them."""
    bias = None if linear_bias is None else linear_bias.to(acc_dtype)
    logits = torch.nn.functional.linear(x.to(acc_dtype), linear_weight.to(acc_dtype), bias)
    made = torch.nn.functional.cross_entropy(
        logits,
        target,
        None if weight is None else weight.to(acc_dtype),
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
    return made.to(x.dtype)


def _cross_entropy(
    x: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: torch.Tensor | None,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    batch_chunk_size: int,
    acc_policy: str,
    acc_dtype: torch.dtype,
    allow_retain_graph: bool,
    *gradients: bool,
) -> tuple[torch.Tensor, ...]:
    """As `_cross_entropies` reduced, and three gradients that nobody reads."""
    losses = _cross_entropies(
        x,
        linear_weight,
        target,
        linear_bias,
        weight,
        ignore_index,
        batch_chunk_size,
        acc_policy,
        acc_dtype,
        reduction,
        label_smoothing,
    )
    shapes = (x.shape, linear_weight.shape, linear_weight.shape[:-1])
    none = ((0, 0), (0, 0), (0,))
    made = zip(shapes, none, gradients, strict=True)
    return losses, *(x.new_zeros(shape if wanted else without) for shape, without, wanted in made)


_CHUNKED = {
    "_linear_cross_entropy_batch_chunked": _cross_entropy,
    "_linear_cross_entropy_batch_chunked_no_reduction": _cross_entropies,
}
"""Custom operators of newer versions of torch, by name."""


def _summed_exactly(own: Callable[..., Any]) -> Callable[..., Any]:
    """Losses of likelihoods whose sum has the accumulator's range: in halves it soon overflows."""

    def losses(
        x: torch.Tensor, target: torch.Tensor, weight: Any, reduction: int, ignore_index: int
    ) -> Any:
        if not reduction or x.dtype not in (torch.float16, torch.bfloat16):
            return own(x, target, weight, reduction, ignore_index)
        wide = None if weight is None else weight.float()
        loss, total = own(x.float(), target, wide, reduction, ignore_index)
        return loss.to(x.dtype), total.to(x.dtype)

    return losses


OURS = {
    torch.ops.aten.linalg_pinv.atol_rtol_tensor: _pinv,
    torch.ops.aten.linalg_matrix_exp.default: _matrix_exp,
    torch.ops.aten.resize.default: _resized,
    torch.ops.aten.scaled_dot_product_attention.default: _attention,
    torch.ops.aten.multilabel_margin_loss.default: multilabel_margin_loss,
    torch.ops.aten.multilabel_margin_loss_forward.default: multilabel_margin_loss_forward,
    torch.ops.aten._is_all_true.default: torch.all,
    torch.ops.aten._is_any_true.default: torch.any,
    **COMPLEX,
    **EXPORTED,
    **GRADIENTS,
    **LOGSPACES,
    **WINDOWS,
}
"""Operators that torch does not take apart, made of those that have a lowering."""


def _chunked() -> dict[Any, Any]:
    """Those of `_CHUNKED` that are there: torch declares them when a model first uses one."""
    space = torch.ops.torch_nn
    return {getattr(space, n).default: ours for n, ours in _CHUNKED.items() if hasattr(space, n)}
