"""Which composite operators torch takes apart for us, and which we lower whole."""

from __future__ import annotations

from typing import Any

import torch

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
    return {**kept, **torch._decomp.get_decompositions(more)}
