"""The modules that hold lowerings; importing them fills the registry."""

from __future__ import annotations

from collections.abc import Mapping

from aot.lowering import (
    activations,
    attention,
    binary,
    convolution,
    creation,
    indexing,
    joining,
    matmul,
    normalization,
    pooling,
    recurrent,
    reductions,
    rowwise,
    scattering,
    unary,
    upsampling,
    views,
)
from aot.lowering.registry import Row
from aot.lowering.rows import REGISTRY

FAMILIES = (
    unary,
    binary,
    activations,
    reductions,
    normalization,
    views,
    joining,
    indexing,
    scattering,
    creation,
    matmul,
    convolution,
    attention,
    pooling,
    upsampling,
    recurrent,
    rowwise,
)
"""One module per family of operators."""


def rows() -> Mapping[str, Row]:
    """ATen overload -> its lowering, of all families."""
    return REGISTRY.rows
