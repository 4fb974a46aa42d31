"""Weights rewritten into the layouts of the CPU matrix templates.

Every layout is a row of panels, 16 output columns wide, zero beyond the last column, the same for
all ISA levels. All functions are pure and deterministic; arrays come back C-contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

PANEL = 16
"""Columns of a panel (`kPanel` in aot/tmpl/simd.h)."""

Array = np.ndarray[Any, Any]

# Transposing runs from cache when the source rows of a piece fit: 16 rows x 512 x 8 bytes.
_PIECE = 512
# Elements of bfloat16 in a line of cache.
_LINE = 32


def packed_rows(k: int, dtype: np.dtype[Any]) -> int:
    """Rows of a packed panel for `k` values of k: bfloat16 rounds up to whole pairs."""
    return even(k) if dtype.name == "bfloat16" else k


def even(count: int) -> int:
    """The next even number, itself included."""
    return count + count % 2


def row_elements(k: int, dtype: np.dtype[Any]) -> int:
    """Elements of a row of `pack_rows`, whose machines' tiles load whole lines of bfloat16."""
    return -(-k // _LINE) * _LINE if dtype.name == "bfloat16" else k


def packed_channels(channels: int, dtype: np.dtype[Any]) -> int:
    """Input channels of a packed convolution weight: no pair of bfloat16 straddles two taps."""
    return packed_rows(channels, dtype)


def packed_matmul_shape(k: int, n: int, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """The shape of a packed K x N matrix: (ceil(N/16), K, 16).

    bfloat16: (ceil(N/16), ceil(K/2), 16, 2), pairs of k side by side, which is what the machines'
    bfloat16 dot products read and what widens to float32 with one shift or mask.
    """
    panels = -(-n // PANEL)
    if dtype.name == "bfloat16":
        return (panels, packed_rows(k, dtype) // 2, PANEL, 2)
    return (panels, k, PANEL)


def pack_matmul_weight(matrix: Array) -> Array:
    """Packs a K x N matrix (any strides: pass `weight.T` for a torch Linear weight).

    Returns an array of `packed_matmul_shape`; values are copied unchanged.

    Raises:
        ValueError: `matrix` is not of two dimensions.
    """
    if matrix.ndim != 2:
        raise ValueError(f"a matmul weight has 2 dimensions, got shape {matrix.shape}")
    k, n = matrix.shape
    rows = packed_rows(k, matrix.dtype)
    out = np.empty((-(-n // PANEL), rows, PANEL), matrix.dtype)
    # Copies go through unsigned integers of the same size: NumPy's fast paths do not know bfloat16.
    bits = np.dtype(f"u{matrix.dtype.itemsize}")
    src, dst = matrix.view(bits), out.view(bits)
    if matrix.dtype.name == "bfloat16":
        if k % 2 == 0 and src.strides[0] == src.itemsize:
            # Pairs of k lie together already, as in every Linear weight: they move as one number,
            # in less than half of the time.
            _fill_panels(src.T.view(np.uint32).T, dst.view(np.uint32).reshape(-1, k // 2, PANEL))
            return out.reshape(packed_matmul_shape(k, n, matrix.dtype))
        pairs = dst.reshape(len(dst), rows // 2, PANEL, 2)
        _fill_panels(src[0::2], pairs[:, : (k + 1) // 2, :, 0])
        _fill_panels(src[1::2], pairs[:, : k // 2, :, 1])
        if k % 2:
            pairs[:, -1, :, 1] = 0
        return out.reshape(packed_matmul_shape(k, n, matrix.dtype))
    _fill_panels(src, dst)
    return out


def _fill_panels(src: Array, dst: Array) -> None:
    """dst[p, k, j] = src[k, 16 p + j], zero beyond the columns of `src`."""
    k, n = src.shape
    full = n // PANEL
    for start in range(0, k, _PIECE):
        piece = src[start : start + _PIECE]
        body = piece[:, : full * PANEL]
        shape, strides = (full, piece.shape[0], PANEL), body.strides
        view = np.lib.stride_tricks.as_strided(
            body, shape, (PANEL * strides[1], strides[0], strides[1]), writeable=False
        )
        dst[:full, start : start + _PIECE] = view
    if n % PANEL:
        dst[full, :, : n % PANEL] = src[:, full * PANEL :]
        dst[full, :, n % PANEL :] = 0


def pack_conv_weight(weight: Array, groups: int) -> Array:
    """Packs a convolution weight (OC, IC/groups, *kernel), any number of kernel dimensions.

    Every group is a matrix of K = prod(kernel) * IC/groups rows, k = (position, ic), and
    N = OC/groups columns, packed by `pack_matmul_weight`. Returns
    (groups, *packed_matmul_shape(K, N)). Beyond the channels, up to `packed_channels`, are zeros.

    Raises:
        ValueError: `groups` is less than 1, or does not divide OC.
    """
    oc = weight.shape[0]
    if groups < 1 or oc % groups:
        raise ValueError(f"{oc} output channels do not divide into {groups} groups")
    per = oc // groups
    last = np.moveaxis(weight, 1, -1)
    missing = packed_channels(weight.shape[1], weight.dtype) - weight.shape[1]
    if missing:
        zeros = np.zeros((*last.shape[:-1], missing), weight.dtype)
        last = np.concatenate([last, zeros], axis=-1)
    by_position = last.reshape(oc, -1)  # (OC, position * ic)
    return np.stack(
        [pack_matmul_weight(by_position[g * per : (g + 1) * per].T) for g in range(groups)]
    )


def pack_depthwise_weight(weight: Array) -> Array:
    """Packs a depthwise weight (C * multiplier, 1, *kernel) as (prod(kernel), C * multiplier).

    Channels are contiguous, so that a vector of channels has a vector of weights per position.

    Raises:
        ValueError: The weight has no kernel dimension, or not one input channel per group.
    """
    if weight.ndim < 3 or weight.shape[1] != 1:
        raise ValueError(f"a depthwise weight has shape (C, 1, *kernel), got {weight.shape}")
    return np.ascontiguousarray(weight.reshape(weight.shape[0], -1).T)


def pack_rows(weight: Array) -> Array:
    """A pointwise weight (OC, IC, 1, …) as rows of `row_elements`, zero beyond its channels."""
    outputs, inputs = weight.shape[:2]
    out = np.zeros((outputs, row_elements(inputs, weight.dtype)), weight.dtype)
    out[:, :inputs] = weight.reshape(outputs, inputs)
    return out


def pack_planes_weight(weight: Array, groups: int) -> Array:
    """Packs a convolution weight (OC, IC/groups, *kernel) as (groups, K, OC/groups).

    K runs over channels, then positions: a weight has those of its group's other outputs beside it.

    Raises:
        ValueError: `groups` is less than 1, or does not divide OC.
    """
    oc = weight.shape[0]
    if groups < 1 or oc % groups:
        raise ValueError(f"{oc} output channels do not divide into {groups} groups")
    grouped = weight.reshape(groups, oc // groups, -1)
    return np.ascontiguousarray(grouped.transpose(0, 2, 1))


def pack_winograd_weight(
    weight: Array, down: int, across: int, stride_down: int = 1, stride_across: int = 1
) -> Array:
    """Transforms and packs a weight (OC, IC, 3, 3) for tiles of `down` by `across` outputs.

    The matrices are G w G', G being that of `FILTERS` of either dimension, row by row: each is
    packed as a matmul's, so that the shape is (rows down * rows across, ceil(OC/16), IC, 16).
    Transformed in float64 and rounded once.

    Raises:
        ValueError: The kernel is not 3 by 3.
    """
    if weight.shape[2:] != (3, 3):
        raise ValueError(f"Winograd's weight has a kernel of 3 by 3, got shape {weight.shape}")
    taps = [[weight[:, :, i, j].astype(np.float64) for j in range(3)] for i in range(3)]
    made = []
    for row in FILTERS[down][stride_down].rows:
        # In the order of the nest that does the same, so that bits are equal.
        columns = [_weighted([line[j] for line in taps], row) for j in range(3)]
        for column in FILTERS[across][stride_across].rows:
            made.append(pack_matmul_weight(_weighted(columns, column).astype(weight.dtype).T))
    return np.stack(made)


def _weighted(parts: Sequence[Array], factors: Sequence[float]) -> Array:
    total = np.zeros_like(parts[0])
    for part, factor in zip(parts, factors, strict=True):
        total += factor * part
    return total


@dataclass(frozen=True)
class TapFilter:
    """What three taps of one dimension become, the twin of a `WinogradLine`.

    `rows`: G, a row a transformed tap; `products`: which of them each of a tile's products takes.
    """

    rows: tuple[tuple[float, float, float], ...]
    products: tuple[int, ...]


def _filter(points: Sequence[float]) -> TapFilter:
    """Toom and Cook's way with these points and infinity."""
    rows = []
    for point in points:
        scale = prod(point - other for other in points if other != point)
        rows.append((1 / scale, point / scale, point * point / scale))
    return TapFilter((*rows, (0.0, 0.0, 1.0)), tuple(range(len(points) + 1)))


def _filter_of_halves(points: Sequence[float]) -> TapFilter:
    """Of stride 2: even inputs meet the outer taps, odd ones the middle tap.

    The former by Toom and Cook's way with these points and infinity; the latter are products of
    their own.
    """
    rows = []
    for point in points:
        scale = prod(point - other for other in points if other != point)
        rows.append((1 / scale, 0.0, point / scale))
    count = len(points)
    return TapFilter(
        (*rows, (0.0, 0.0, 1.0), (0.0, 1.0, 0.0)), (*range(count + 1), *[count + 1] * count)
    )


_PLAIN = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))
_HALVES = ((1.0, 0.0, 0.0), (1.0, 0.0, 1.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0))
FILTERS = {
    2: {1: TapFilter(_PLAIN, (0, 1, 2, 3)), 2: TapFilter(_HALVES, (0, 1, 2, 3, 3))},
    4: {
        1: _filter((0.0, 0.625, -0.625, 1.5, -1.5)),
        2: _filter_of_halves((0.5, -0.5, 1.25, -1.25)),
    },
}
"""By the outputs of a tile's line and the stride: F(2, 3) and F(4, 3), of either stride."""


RECIPES: dict[str, Callable[..., Array]] = {
    "pack_matmul": pack_matmul_weight,
    "pack_conv": pack_conv_weight,
    "pack_depthwise": pack_depthwise_weight,
    "pack_planes": pack_planes_weight,
    "pack_rows": pack_rows,
    "pack_winograd": pack_winograd_weight,
}
"""Packing functions by the names that derived weights use."""
