"""Running results along the rows of a matrix.

A program takes a block of rows and walks its columns in blocks; each block is scanned as a tree,
from the results of the one before. Of long rows a program may walk a part alone. Where memory runs
along many rows, their threads have no need of trees.
"""

import triton
import triton.language as tl


@triton.jit
def scan_rows(
    args,
    load,
    running,
    total,
    finish,
    program,
    end,
    combine,
    KIND: tl.constexpr,
    NEUTRAL: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    LOOPED: tl.constexpr,
):
    """Scans ROWS rows of `end` columns, COLUMNS at a time.

    load(args, m, n): the elements at rows m and columns n; those beyond the end are any.
    running(args, values): their running results along the rows; total(args, values): the last ones.
    finish(args, m, n, scanned): stores what running results become.
    combine(a, b): one result of two of the type KIND; NEUTRAL changes none.
    LOOPED: there may be more than COLUMNS columns.
    """
    m = program * ROWS + tl.arange(0, ROWS)[:, None]
    if LOOPED:
        carry = tl.full([ROWS, 1], NEUTRAL, KIND)
        for start in range(0, end, COLUMNS):
            n = start + tl.arange(0, COLUMNS)[None, :]
            values = load(args, m, n).to(KIND)
            scanned = running(args, values)
            finish(args, m, n, combine(carry, scanned))
            # Not from the scan's last column: this way neither waits for the other.
            carry = combine(carry, total(args, values)[:, None])
    else:
        n = tl.arange(0, COLUMNS)[None, :]
        values = load(args, m, n).to(KIND)
        finish(args, m, n, running(args, values))


@triton.jit
def scan_down(
    args,
    load,
    running,
    total,
    finish,
    program,
    end,
    combine,
    KIND: tl.constexpr,
    NEUTRAL: tl.constexpr,
    ROWS: tl.constexpr,
    TURN: tl.constexpr,
):
    """As `scan_rows` where memory runs along rows: a thread has whole ones, an element at a time.

    TURN elements are loaded before they are used; they are scanned by themselves, from what was
    before them, so that sums are as exact as those of blocks.
    """
    m = program * ROWS + tl.arange(0, ROWS)[:, None]
    carry = tl.full([ROWS, 1], NEUTRAL, KIND)
    for start in range(0, end, TURN):
        values = ()
        for k in tl.static_range(TURN):
            n = start + k + tl.arange(0, 1)[None, :]
            values = values + (load(args, m, n).to(KIND),)  # noqa: RUF005  (Triton has no stars)
        scanned = tl.full([ROWS, 1], NEUTRAL, KIND)
        for k in tl.static_range(TURN):
            scanned = combine(scanned, values[k])
            finish(args, m, start + k + tl.arange(0, 1)[None, :], combine(carry, scanned))
        carry = combine(carry, scanned)


@triton.jit
def scan_part(
    args,
    load,
    running,
    total,
    before,
    finish,
    program,
    part,
    combine,
    KIND: tl.constexpr,
    NEUTRAL: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PART: tl.constexpr,
):
    """As `scan_rows`, of a part of PART columns of ROWS rows.

    before(args, m, part): the results at the end of the part before; of the first one any.
    """
    m = program * ROWS + tl.arange(0, ROWS)[:, None]
    neutral = tl.full([ROWS, 1], NEUTRAL, KIND)
    carry = tl.where(part > 0, before(args, m, part).to(KIND), neutral)
    for start in range(0, PART, COLUMNS):
        n = part * PART + start + tl.arange(0, COLUMNS)[None, :]
        values = load(args, m, n).to(KIND)
        scanned = running(args, values)
        finish(args, m, n, combine(carry, scanned))
        carry = combine(carry, total(args, values)[:, None])
