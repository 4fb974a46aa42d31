"""Positions in sorted order along the rows of a matrix.

Elements are integers in the same order, their keys. The key above and the position below make a
64-bit number, which makes the order stable.
"""

import triton
import triton.language as tl


@triton.jit
def keys_with_positions(args, key, m, e, elements, MASKED: tl.constexpr):
    """Numbers in the order of keys, then positions; what lies beyond the row comes last."""
    packed = (key(args, m, e).to(tl.int64) << 32) | e.to(tl.int64)
    if MASKED:
        packed = tl.where(e < elements, packed, tl.full([], 0x7FFFFFFFFFFFFFFF, tl.int64))
    return packed


@triton.jit
def positions_of(packed):
    """The positions of `keys_with_positions`."""
    return packed & tl.full([], 0xFFFFFFFF, tl.int64)


@triton.jit
def sort_rows(
    args,
    key,
    finish,
    program,
    elements,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    KEPT: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Sorts ROWS rows of up to COLUMNS elements by a bitonic network, and keeps the first KEPT.

    key(args, m, e): keys of the elements e of rows m. finish(args, m, n, place): stores what the
    positions of the elements that come n-th become. MASKED: `elements` are fewer than COLUMNS.
    (Batcher, Sorting networks and their applications, AFIPS 1968.)
    """
    m = program * ROWS + tl.arange(0, ROWS)[:, None]
    e = tl.arange(0, COLUMNS)[None, :]
    packed = keys_with_positions(args, key, m, e, elements, MASKED)
    packed = ~tl.topk(~packed, KEPT) if KEPT < COLUMNS else tl.sort(packed)
    finish(args, m, tl.arange(0, KEPT)[None, :], positions_of(packed))


@triton.jit
def first_of_chunk(
    args,
    key,
    key_again,
    m,
    start,
    elements,
    CHUNK: tl.constexpr,
    GROUP: tl.constexpr,
    KEPT: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Complements of the first KEPT of CHUNK elements, in falling order.

    They are all in KEPT groups of neighbours: those whose own first elements come first. So the
    network sorts the groups' first elements, then the elements of those groups, read again.
    """
    e = start + tl.arange(0, CHUNK)[None, :]
    keys = key(args, m, e)
    if MASKED:
        keys = tl.where(e < elements, keys, 0x7FFFFFFF)
    leaders = tl.min(tl.reshape(keys, [1, CHUNK // GROUP, GROUP]), 2)
    groups = tl.arange(0, CHUNK // GROUP)[None, :]
    packed = (leaders.to(tl.int64) << 32) | groups.to(tl.int64)
    kept = positions_of(~tl.topk(~packed, KEPT)).to(tl.int32)
    again = kept[:, :, None] * GROUP + tl.arange(0, GROUP)[None, None, :]
    e = start + tl.reshape(again, [1, KEPT * GROUP])
    return tl.topk(~keys_with_positions(args, key_again, m, e, elements, MASKED), KEPT)


@triton.jit
def sort_first(
    args,
    key,
    key_again,
    finish,
    program,
    elements,
    CHUNK: tl.constexpr,
    GROUP: tl.constexpr,
    KEPT: tl.constexpr,
    MASKED: tl.constexpr,
):
    """As `sort_rows`, of one long row: CHUNK elements at a time, keeping the best KEPT so far.

    key_again(args, m, e): as `key`, of KEPT groups of GROUP elements.
    """
    m = program + tl.arange(0, 1)[:, None]
    # Complements: the last ones are the first.
    best = tl.full([1, KEPT], -0x8000000000000000, tl.int64)
    for start in range(0, elements, CHUNK):
        part = first_of_chunk(args, key, key_again, m, start, elements, CHUNK, GROUP, KEPT, MASKED)
        best = tl.topk(tl.reshape(tl.join(best, part), [1, 2 * KEPT]), KEPT)
    finish(args, m, tl.arange(0, KEPT)[None, :], positions_of(~best))


@triton.jit
def rank_by_counting(
    args,
    key,
    other_key,
    finish,
    program,
    batch,
    elements,
    COUNTED: tl.constexpr,
    AGAINST: tl.constexpr,
    FLAT: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Finds the places of COUNTED elements: how many come before each, AGAINST at a time.

    m: elements of row `batch`, or, where FLAT, of all rows one after the other.
    key(args, batch, m): their keys. other_key(args, batch, m, o): keys of the elements o of their
    rows. finish(args, batch, m, own, rank): stores what the positions `own` become at these places.
    MASKED: the last `elements` are fewer than AGAINST.
    """
    m = program * COUNTED + tl.arange(0, COUNTED)[:, None]
    own = m % elements if FLAT else m
    mine = key(args, batch, m)
    before = tl.zeros([COUNTED], tl.int32)
    for start in range(0, elements, AGAINST):
        o = start + tl.arange(0, AGAINST)[None, :]
        theirs = other_key(args, batch, m, o)
        first = (theirs < mine) | ((theirs == mine) & (o < own))
        if MASKED:
            first = first & (o < elements)
        before += tl.sum(first.to(tl.int32), 1)
    finish(args, batch, m, own, before[:, None])
