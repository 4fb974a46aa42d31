"""The modules that hold lowerings; importing them fills the registry."""

from __future__ import annotations

from collections.abc import Mapping

from aot.lowering import (  # noqa: F401  each fills the registry
    activations,
    attention,
    binary,
    bit_views,
    compaction,
    complex_factors,
    complex_formulas,
    complex_linalg,
    complex_spectral,
    convolution,
    creation,
    distances,
    fourier_operators,
    fractional_pooling,
    gamma,
    grid_sampling,
    grouped,
    histograms,
    indexing,
    joining,
    linalg,
    masked_writes,
    matmul,
    normalization,
    order_statistics,
    orthogonal,
    polynomials,
    pooling,
    quantized,
    random_numbers,
    recurrent,
    reductions,
    rowwise,
    scaled,
    scattering,
    segments,
    special,
    spectral,
    unary,
    uniques,
    upsampling,
    views,
)
from aot.lowering.registry import Row
from aot.lowering.rows import REGISTRY


def rows() -> Mapping[str, Row]:
    """Operator overload -> its lowering, of all families."""
    return REGISTRY.rows
