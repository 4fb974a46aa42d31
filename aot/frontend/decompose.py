"""Which composite operators torch takes apart for us, and which we lower whole."""

from __future__ import annotations

from typing import Any

import torch

from aot.frontend.composites import EXPORTED
from aot.lowering.families import rows

TAKEN_APART = ("dist", "tril_indices", "triu_indices")
"""Operators that torch's default table keeps whole, although torch knows simpler ones for them."""


def decomposition_table() -> dict[Any, Any]:
    """Default table of torch without the operators that have a lowering, which stay whole.

    A decomposition loses what a lowering uses: attention becomes two products with a softmax
    between, resizing a gather of every pixel, silu five operators in two types.

    A fresh one, for `ExportedProgram.run_decompositions`.
    """
    lowered = rows()
    table: dict[Any, Any] = torch.export.default_decompositions()
    kept = {overload: how for overload, how in table.items() if str(overload) not in lowered}
    more = [getattr(torch.ops.aten, name).default for name in TAKEN_APART]
    return {**kept, **torch._decomp.get_decompositions(more), **OURS}


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
    none = torch.zeros((), dtype=a.dtype, device=a.device)
    if rtol is None:
        default = torch.finfo(a.dtype).eps * max(a.shape[-2:])
        rtol = torch.full((), default, dtype=a.dtype, device=a.device)
        rtol = rtol if atol is None else torch.where(atol > 0, none, rtol)
    atol = none if atol is None else atol
    if hermitian:
        values, u = torch.linalg.eigh(a)
        sizes, v = values.abs(), u
        most = sizes.amax(-1, keepdim=True)
    else:
        u, values, vt = torch.linalg.svd(a, full_matrices=False)
        sizes, v, most = values, vt.mT, values[..., :1]
    counts = sizes > torch.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * most)
    inverse = torch.where(counts, values.reciprocal(), none)
    return torch.matmul(v * inverse.unsqueeze(-2), u.mT)


OURS = {torch.ops.aten.linalg_pinv.atol_rtol_tensor: _pinv, **EXPORTED}
"""Operators that torch does not take apart, made of those that have a lowering."""
