"""Places of elements in the order of one digit: a step of a radix sort."""

import triton
import triton.language as tl


@triton.jit
def of_word(word, a, b, c, d):
    """One of four values by a number."""
    return tl.where(word < 2, tl.where(word == 0, a, b), tl.where(word == 2, c, d))


@triton.jit
def digit_places(
    args,
    digit,
    end,
    finish,
    program,
    part,
    PART: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Finds the places of a part of PART elements of a row, COLUMNS at a time.

    digit(args, m, n): the digits, of 4 bits, at row m and columns n; those beyond the end are any.
    end(args, m, n, value, part): how many elements come up to the end of the part before `part` in
    the order of digits, then parts, for digits `value`. finish(args, m, n, place): stores what
    places become.
    Four counters of 16 bits are one number: no part has more than 2^15 elements.
    """
    m = program + tl.arange(0, 1)[:, None]
    zero = tl.zeros([1, 1], tl.int64)
    a, b, c, d = zero, zero, zero, zero
    for start in range(0, PART, COLUMNS):
        n = part * PART + start + tl.arange(0, COLUMNS)[None, :]
        value = digit(args, m, n)
        word, low = value >> 2, ((value & 3) * 16).to(tl.int64)
        one = tl.full([], 1, tl.int64) << low
        in_a, in_b = tl.where(word == 0, one, 0), tl.where(word == 1, one, 0)
        in_c, in_d = tl.where(word == 2, one, 0), tl.where(word == 3, one, 0)
        to_a, to_b = tl.cumsum(in_a, 1), tl.cumsum(in_b, 1)
        to_c, to_d = tl.cumsum(in_c, 1), tl.cumsum(in_d, 1)
        seen = of_word(word, a + to_a, b + to_b, c + to_c, d + to_d) - one
        rank = ((seen >> low) & 0xFFFF).to(tl.int32)
        finish(args, m, n, end(args, m, n, value, part) + rank)
        a += tl.sum(in_a, 1)[:, None]
        b += tl.sum(in_b, 1)[:, None]
        c += tl.sum(in_c, 1)[:, None]
        d += tl.sum(in_d, 1)[:, None]
