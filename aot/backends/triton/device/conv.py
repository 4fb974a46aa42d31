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
    others,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHANNELS: tl.constexpr,
    STRIP: tl.constexpr,
    STEP: tl.constexpr,
    TAPS: tl.constexpr,
    UNROLLED: tl.constexpr,
    SUMS: tl.constexpr,
):
    """Computes ROWS strips of STRIP positions by COLUMNS channels, from CHANNELS of the own group.

    What a tap sees is loaded once for all places of a strip, which lie STEP apart along an axis of
    TAPS taps; `others` counts those along other axes. window(args, m, n): what is known of strips m
    and channels n before the walk over taps. load_x(args, m, n, seen, place, other, c): what lies
    so many places behind a strip's first tap, of channel c of the group. load_w(args, m, n, seen,
    tap, other, c): weights. finish(args, m, n, place, acc): stores what the sums become.
    """
    m = program // across * ROWS + tl.arange(0, ROWS)[:, None]
    n = program % across * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    seen = window(args, m, n)
    acc = (tl.zeros([ROWS, COLUMNS], SUMS),) * STRIP
    if UNROLLED:
        for other in tl.static_range(others):
            acc = strip_added(args, load_x, load_w, m, n, seen, other, acc, CHANNELS, STEP, TAPS)
    else:
        for other in range(others):
            acc = strip_added(args, load_x, load_w, m, n, seen, other, acc, CHANNELS, STEP, TAPS)
    for place in tl.static_range(STRIP):
        finish(args, m, n, place, acc[place])


@triton.jit
def strip_added(
    args,
    load_x,
    load_w,
    m,
    n,
    seen,
    other,
    acc,
    CHANNELS: tl.constexpr,
    STEP: tl.constexpr,
    TAPS: tl.constexpr,
):
    """The sums of `conv_direct` and what one line of taps adds."""
    for c in tl.static_range(CHANNELS):
        line = ()
        for tap in tl.static_range(TAPS):
            w = load_w(args, m, n, seen, tap, other, c).to(acc[0].dtype)
            line = line + (w,)  # noqa: RUF005
        for place in tl.static_range((len(acc) - 1) * STEP + TAPS):
            x = load_x(args, m, n, seen, place, other, c).to(acc[0].dtype)
            sums = ()
            for k in tl.static_range(len(acc)):
                if place - k * STEP >= 0 and place - k * STEP < TAPS:
                    sums = sums + (acc[k] + x * line[place - k * STEP],)  # noqa: RUF005
                else:
                    sums = sums + (acc[k],)  # noqa: RUF005
            acc = sums
    return acc


@triton.jit
def conv_narrow(
    args,
    window,
    load_x,
    load_w,
    finish,
    program,
    group,
    across,
    taps,
    channels,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    UNROLLED: tl.constexpr,
    TAPS: tl.constexpr,
):
    """Computes OUTPUTS channels of ROWS output positions from all `channels` of a group.

    What a tap sees is loaded once for all of them, whose sums lie in registers; every thread has
    the same weights at a time. `across` programs share the rows. window(args, group, m): what is
    known of positions m before the walk. load_x(args, m, seen, tap, c): what a tap sees of channel
    c, by that. load_w(args, group, tap, c, n): the weight of output n, a number. finish(args,
    group, m, n, acc): stores what the sums of n become. CHANNELS: of a step, which is written out.
    UNROLLED: all taps are; otherwise TAPS at a time, of which `taps` is a multiple.
    """
    m = program // across * ROWS + tl.arange(0, ROWS)[:, None]
    first = program % across * OUTPUTS
    seen = window(args, group, m)
    acc = (tl.zeros([ROWS, 1], tl.float32),) * OUTPUTS
    if channels == CHANNELS:
        acc = narrow_taps(
            args, load_x, load_w, group, m, first, seen, taps, 0, acc, CHANNELS, UNROLLED, TAPS
        )
    else:
        # What all taps see of a step's channels stays in the nearest cache.
        for start in range(0, channels, CHANNELS):
            acc = narrow_taps(
                args,
                load_x,
                load_w,
                group,
                m,
                first,
                seen,
                taps,
                start,
                acc,
                CHANNELS,
                UNROLLED,
                TAPS,
            )
    for n in tl.static_range(OUTPUTS):
        finish(args, group, m, first + n, acc[n])


@triton.jit
def narrow_taps(
    args,
    load_x,
    load_w,
    group,
    m,
    first,
    seen,
    taps,
    start,
    acc,
    CHANNELS: tl.constexpr,
    UNROLLED: tl.constexpr,
    TAPS: tl.constexpr,
):
    """`acc` with what CHANNELS channels from `start` on add at all taps."""
    if UNROLLED:
        for tap in tl.static_range(taps):
            acc = narrow_step(
                args, load_x, load_w, group, m, first, seen, tap, start, acc, CHANNELS
            )
    else:
        for block in range(0, taps, TAPS):
            for k in tl.static_range(TAPS):
                acc = narrow_step(
                    args, load_x, load_w, group, m, first, seen, block + k, start, acc, CHANNELS
                )
    return acc


@triton.jit
def narrow_step(
    args, load_x, load_w, group, m, first, seen, tap, start, acc, CHANNELS: tl.constexpr
):
    """The same at one tap of `conv_narrow`."""
    for step in tl.static_range(CHANNELS):
        c = start + step
        x = load_x(args, m, seen, tap, c).to(tl.float32)
        sums = ()
        for n in tl.static_range(len(acc)):
            w = load_w(args, group, tap, c, first + n).to(tl.float32)
            sums = sums + (acc[n] + x * w,)  # noqa: RUF005
        acc = sums
    return acc
