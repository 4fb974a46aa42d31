"""Places of true elements: a step of stream compaction."""

import triton
import triton.language as tl


@triton.jit
def true_places(
    args,
    load,
    before,
    finish,
    part,
    length,
    rows,
    COLUMNS: tl.constexpr,
    RANK: tl.constexpr,
):
    """Finds the true elements of a part of `length` elements, COLUMNS at a time.

    load(args, n): whether the elements of numbers n are true; beyond the end none is.
    before(args, part): how many there are in the parts before.
    finish(args, m, n, number): stores what the element of that number becomes in columns m of
    row n; there are `rows` rows. A row has up to RANK columns.
    """
    m = tl.arange(0, RANK)[:, None]
    found = tl.zeros([1, 1], tl.int32) + before(args, part)
    for start in range(0, length, COLUMNS):
        number = part * length + start + tl.arange(0, COLUMNS)[None, :]
        true = load(args, number)
        one = true.to(tl.int32)
        row = found + tl.cumsum(one, 1) - 1
        finish(args, m, tl.where(true, row, rows), number)
        found += tl.sum(one, 1)[:, None]
