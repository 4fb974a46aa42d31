"""How far another order of its sums may move what a function gives.

The rounding error of a sum is bounded by a part of the magnitudes of its terms added up, however
small the terms leave the sum itself. So the reference is computed again with every sum off by that
part, up or down, and what follows the sum is computed from it: where that moves a result, other
kernels, instruction sets and libraries may. Functions without sums do not move at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from aot.frontend.weights import to_array
from tests.comparing import Array, roundings_of_sums

aten = torch.ops.aten

DRAWS = 4
"""How often the reference is computed again, each time with other signs."""

LINEAR = frozenset(
    {
        *(aten.sum, aten.nansum, aten.mean, aten.cumsum, aten.dot, aten.mv, aten.addmv),
        *(aten.mm, aten.bmm, aten.addmm, aten.baddbmm, aten.addbmm, aten.convolution),
        *(aten.avg_pool2d, aten.avg_pool3d, aten._adaptive_avg_pool2d, aten._adaptive_avg_pool3d),
        *(aten.scatter_add, aten.scatter_reduce, aten.index_add, aten.index_reduce, aten.put),
        *(aten.index_put, aten.segment_reduce, aten._embedding_bag_forward_only),
        *(aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d),
        *(aten.upsample_bicubic2d, aten._upsample_bilinear2d_aa, aten._upsample_bicubic2d_aa),
        *(aten._trilinear, aten.nll_loss_forward, aten.nll_loss2d_forward),
    }
)
"""Operators whose result for the magnitudes of their arguments is the sum of the magnitudes."""

COMPOSED = frozenset(
    {
        *(aten.var, aten.var_mean, aten.std, aten.std_mean, aten.logsumexp),
        *(aten.native_layer_norm, aten.native_group_norm, aten.native_batch_norm),
        *(aten._batch_norm_with_update_functional, aten._native_batch_norm_legit),
        *(aten._softmax, aten._log_softmax, aten._safe_softmax),
        *(
            aten._scaled_dot_product_flash_attention_for_cpu,
            aten._scaled_dot_product_attention_math,
        ),
        *(aten.linalg_vector_norm, aten._cdist_forward, aten._pdist_forward),
        *(aten.grid_sampler_2d, aten.grid_sampler_3d),
        *(aten.prod, aten.cumprod),
        *(aten._fft_r2c, aten._fft_c2r, aten._fft_c2c, aten.linalg_matrix_exp),
    }
)
"""Operators that sum and do more, and products of many. Their arguments are off by the part
instead: a sum, or a product, in another order is the exact one of terms that are off by as much."""


class _Reordered(TorchDispatchMode):
    """Puts every sum off by a part of the magnitudes that were summed, with random signs."""

    # Loops and branches run as they are.
    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Lets torch trace a loop as it does outside the mode.

        Where a mode forbids that, torch marks its own function that runs all loops as one never
        to be traced, and every later loop of the process ends with "Data-dependent branching".
        """
        return True

    def __init__(self, part: float, seed: int) -> None:
        super().__init__()
        self._part = part
        self._signs = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        arguments = (tuple(args), dict(kwargs or {}))
        packet = getattr(func, "overloadpacket", None)
        if packet in COMPOSED:
            arguments = pytree.tree_map(lambda x: self._off(x, x), arguments)
        result = func(*arguments[0], **arguments[1])
        if packet not in LINEAR:
            return result
        terms, named = pytree.tree_map(_magnitude, arguments)
        scalars = {k: abs(v) if k in ("alpha", "beta") else v for k, v in named.items()}
        return pytree.tree_map(self._off, result, func(*terms, **scalars))

    def _off(self, value: Any, magnitude: Any) -> Any:
        if not _is_float(value):
            return value
        draws = torch.randint(0, 2, value.shape, generator=self._signs)
        by = self._part * magnitude * (2 * draws - 1).to(value.dtype)
        # An infinity has no last bits, and the greatest numbers shall stay finite.
        moved = value + by
        return torch.where(moved.isfinite(), moved, value)


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _magnitude(value: Any) -> Any:
    return value.abs() if _is_float(value) else value


def slack(
    function: Callable[[], Sequence[torch.Tensor]], position: int, dtype: torch.dtype
) -> Array:
    """How far other orders of the sums of a type move one of the results, as `difference` takes it.

    Args:
        function: Computes all results in float64.
        position: Of the result.
        dtype: The type whose sums they are.
    """
    moved = reordered(function, roundings_of_sums(dtype))[position]
    return to_array(moved).astype(np.float64)


def reordered(function: Callable[[], Sequence[torch.Tensor]], part: float) -> list[torch.Tensor]:
    """How far results move, element by element, when sums are off by a part of their terms.

    Args:
        function: Computes the results, from tensors that it holds.
        part: Of the magnitudes of a sum's terms added up; some roundings of a type.
    """
    with torch.no_grad():
        exact = list(function())
    found = [torch.zeros_like(e.abs() if e.is_complex() else e) for e in exact]
    for draw in range(DRAWS):
        with _Reordered(part, draw), torch.no_grad():
            moved = list(function())
        for k, (other, own) in enumerate(zip(moved, exact, strict=True)):
            if _is_float(own) and other.shape == own.shape:
                by = (other - own).abs().nan_to_num(0.0, 0.0, 0.0)
                found[k] = torch.maximum(found[k], by)
    return found
