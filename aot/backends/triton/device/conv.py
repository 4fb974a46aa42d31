"""Convolutions: as matrix products, and directly where groups are tiny.

Nothing is unfolded in memory: a step reads the block of the input that its taps see.
"""

import triton
import triton.language as tl

from aot.backends.triton.device.matmul import block_added


@triton.jit
def conv_product(
    args,
    rows,
    columns,
    load_x,
    load_w,
    finish,
    program,
    group,
    across,
    end,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    X_ROUNDED: tl.constexpr,
    W_ROUNDED: tl.constexpr,
):
    """Computes ROWS output positions by COLUMNS channels of a group on tensor cores.

    rows(args, group, m): what is known of positions m before the walk over taps and channels.
    columns(args, group, n): the same of the group's channels n. load_x(args, m, x, start) and
    load_w(args, n, w, start): the blocks of a step, by these; steps go to `end` by STEP.
    finish(args, group, m, n, acc): stores what the block of the product becomes.
    program: number within the group. Neighbours share the rows, which are the larger operand. SUMS:
    the type of sums. X_ROUNDED, W_ROUNDED: those of `block_added`.
    """
    m = program // across * ROWS + tl.arange(0, ROWS)[:, None]
    n = program % across * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    x = rows(args, group, m)
    w = columns(args, group, n)
    acc = tl.zeros([ROWS, COLUMNS], SUMS)
    for start in range(0, end, STEP):
        left = load_x(args, m, x, start)
        right = load_w(args, n, w, start)
        acc = block_added(acc, left, right, PRECISION, X_ROUNDED, W_ROUNDED)
    finish(args, group, m, n, acc)


@triton.jit
def conv_direct(
    args,
    window,
    load_x,
    load_w,
    finish,
    program,
    across,
    taps,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHANNELS: tl.constexpr,
    UNROLLED: tl.constexpr,
    SUMS: tl.constexpr,
):
    """Computes ROWS output positions by COLUMNS channels, each from the CHANNELS of its own group.

    window(args, m, n): what is known of positions m and channels n before the walk over taps.
    load_x(args, m, n, seen, tap, c) and load_w(args, m, n, seen, tap, c): what a tap sees of the
    channel c of the group, by that. finish(args, m, n, acc): stores what the sums become.
    """
    m = program // across * ROWS + tl.arange(0, ROWS)[:, None]
    n = program % across * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    seen = window(args, m, n)
    acc = tl.zeros([ROWS, COLUMNS], SUMS)
    if UNROLLED:
        for tap in tl.static_range(taps):
            acc = conv_tap(args, load_x, load_w, m, n, seen, tap, acc, CHANNELS)
    else:
        for tap in range(taps):
            acc = conv_tap(args, load_x, load_w, m, n, seen, tap, acc, CHANNELS)
    finish(args, m, n, acc)


@triton.jit
def conv_tap(args, load_x, load_w, m, n, seen, tap, acc, CHANNELS: tl.constexpr):
    """`acc` with what a tap of `conv_direct` adds."""
    for c in tl.static_range(CHANNELS):
        x = load_x(args, m, n, seen, tap, c).to(acc.dtype)
        acc = acc + x * load_w(args, m, n, seen, tap, c).to(acc.dtype)
    return acc


@triton.jit
def conv_narrow(
    args,
    window,
    load_x,
    load_w,
    finish,
    program,
    across,
    taps,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    UNROLLED: tl.constexpr,
):
    """Computes OUTPUTS channels of ROWS output positions from all CHANNELS.

    What a tap sees is loaded once for all of them, whose sums lie in registers; every thread has
    the same weights at a time. `across` programs share the rows. window(args, m): what is known of
    positions m before the walk. load_x(args, m, seen, tap, c): what a tap sees of channel c, by
    that. load_w(args, tap, c, n): the weight of output n, a number. finish(args, m, n, acc): stores
    what the sums of n become.
    """
    m = program // across * ROWS + tl.arange(0, ROWS)[:, None]
    first = program % across * OUTPUTS
    seen = window(args, m)
    acc = (tl.zeros([ROWS, 1], tl.float32),) * OUTPUTS
    if UNROLLED:
        for tap in tl.static_range(taps):
            acc = narrow_tap(args, load_x, load_w, m, first, seen, tap, acc, CHANNELS)
    else:
        for tap in range(taps):
            acc = narrow_tap(args, load_x, load_w, m, first, seen, tap, acc, CHANNELS)
    for n in tl.static_range(OUTPUTS):
        finish(args, m, first + n, acc[n])


@triton.jit
def narrow_tap(args, load_x, load_w, m, first, seen, tap, acc, CHANNELS: tl.constexpr):
    """`acc` with what a tap of `conv_narrow` adds."""
    for c in tl.static_range(CHANNELS):
        x = load_x(args, m, seen, tap, c).to(tl.float32)
        sums = ()
        for n in tl.static_range(len(acc)):
            sums = sums + (acc[n] + x * load_w(args, tap, c, first + n).to(tl.float32),)  # noqa: RUF005
        acc = sums
    return acc
