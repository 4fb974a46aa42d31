"""Exponentials of small matrices: a program holds all powers of its matrices."""

import triton
import triton.language as tl

from aot.backends.triton.device.linalg import keep_part, matrix_tile


@triton.jit
def tile_product(a, a_im, b, b_im, COMPLEX: tl.constexpr):
    """Products of matrices (batch, rows, columns), exact to rounding, and their imaginary parts."""
    re = tl.dot(a, b, input_precision="ieee", out_dtype=a.dtype)
    if not COMPLEX:
        return re, re
    re -= tl.dot(a_im, b_im, input_precision="ieee", out_dtype=a.dtype)
    im = tl.dot(a, b_im, input_precision="ieee", out_dtype=a.dtype)
    im += tl.dot(a_im, b, input_precision="ieee", out_dtype=a.dtype)
    return re, im


@triton.jit
def small_exponential(
    args,
    load_a,
    load_b,
    finish,
    program,
    right,
    record,
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MATRICES: tl.constexpr,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    RIGHT: tl.constexpr,
    load_a_im=None,
    load_b_im=None,
    COMPLEX: tl.constexpr = False,
):
    """16 terms of the exponential's series, squared as often as b says; see `small_cholesky`.

    load_a_im, load_b_im: of imaginary parts, where the matrices are COMPLEX.
    """
    m = program * MATRICES + tl.arange(0, MATRICES)
    times = matrix_tile(args, load_b, m, 0, 1, 1, 1, 1)
    x = matrix_tile(args, load_a, m, 0, COLUMNS, COLUMNS, HIGH, WIDE)
    xi = x
    if COMPLEX:
        xi = matrix_tile(args, load_a_im, m, 0, COLUMNS, COLUMNS, HIGH, WIDE)
    i = tl.arange(0, HIGH)[None, :, None]
    j = tl.arange(0, WIDE)[None, None, :]
    one = tl.where(i == j, 1.0, 0.0).to(KIND)
    x2, x2i = tile_product(x, xi, x, xi, COMPLEX)
    x3, x3i = tile_product(x2, x2i, x, xi, COMPLEX)
    x4, x4i = tile_product(x2, x2i, x2, x2i, COMPLEX)
    # Coefficients are 1 / k!, four terms at a time from the last on; dividing takes far longer.
    y = (
        one * (1 / 479001600)
        + x * (1 / 6227020800)
        + x2 * (1 / 87178291200)
        + x3 * (1 / 1307674368000)
    )
    y += x4 * (1 / 20922789888000)
    yi = y
    if COMPLEX:
        yi = (
            xi * (1 / 6227020800)
            + x2i * (1 / 87178291200)
            + x3i * (1 / 1307674368000)
            + x4i * (1 / 20922789888000)
        )
    y, yi = tile_product(y, yi, x4, x4i, COMPLEX)
    y += one * (1 / 40320) + x * (1 / 362880) + x2 * (1 / 3628800) + x3 * (1 / 39916800)
    if COMPLEX:
        yi += xi * (1 / 362880) + x2i * (1 / 3628800) + x3i * (1 / 39916800)
    y, yi = tile_product(y, yi, x4, x4i, COMPLEX)
    y += one * (1 / 24) + x * (1 / 120) + x2 * (1 / 720) + x3 * (1 / 5040)
    if COMPLEX:
        yi += xi * (1 / 120) + x2i * (1 / 720) + x3i * (1 / 5040)
    y, yi = tile_product(y, yi, x4, x4i, COMPLEX)
    y += one + x + x2 * (1 / 2) + x3 * (1 / 6)
    if COMPLEX:
        yi += xi + x2i * (1 / 2) + x3i * (1 / 6)
    most = tl.max(tl.max(tl.max(tl.where(times == times, times, 0), 2), 1), 0).to(tl.int32)
    for k in range(most):
        z, zi = tile_product(y, yi, y, yi, COMPLEX)
        y = tl.where(k < times, z, y)
        yi = tl.where(k < times, zi, yi)
    inside = (i < COLUMNS) & (j < COLUMNS)
    keep_part(args, finish, m, i * COLUMNS + j, inside, record, y, 0)
    if COMPLEX:
        place = COLUMNS * COLUMNS + i * COLUMNS + j
        keep_part(args, finish, m, place, inside, record, yi, 1)
