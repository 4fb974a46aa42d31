"""Counts and order of elements by one digit of 8 bits: steps of a radix sort."""

import triton
import triton.language as tl


@triton.jit
def digit_counts(
    args,
    digit,
    finish,
    program,
    part,
    elements,
    PART: tl.constexpr,
    BITS: tl.constexpr,
    COUNTS: tl.constexpr,
    TYPES: tl.constexpr,
    EACH: tl.constexpr,
):
    """Counts each digit in a part of PART = 2^BITS elements of a row of `elements`.

    digit(args, m, n): the digits at row m and columns n; those beyond the end are any.
    finish(args, m, v, part, count): stores what the counts of digits v become; there are 256.
    COUNTS, TYPES, EACH: of `numbers_of_digits`.
    """
    m = program + tl.arange(0, 1)[:, None]
    inside = tl.max_contiguous(tl.arange(0, PART)[None, :], [1, 1])  # as in `digit_places`
    value = digit(args, m, part * PART + inside)
    value = tl.where(part * PART + inside < elements, value, 256)
    packed = tl.reshape((value << BITS) | inside, [PART])
    found = numbers_of_digits(packed, BITS, COUNTS, TYPES, EACH)
    finish(args, m, inside, part, found[None, :])


@triton.jit
def numbers_of_digits(
    packed, BITS: tl.constexpr, COUNTS: tl.constexpr, TYPES: tl.constexpr, EACH: tl.constexpr
):
    """How many numbers have each digit, at the place of the digit; what is behind 255 is any.

    A digit of up to 256 stands above a number's position, of BITS bits.
    COUNTS: instructions that do it, EACH numbers of a thread; TYPES: of their registers.
    """
    return tl.inline_asm_elementwise(
        COUNTS, TYPES, [packed], packed.dtype, is_pure=False, pack=EACH
    )


@triton.jit
def digit_places(
    args,
    digit,
    ends,
    finish,
    program,
    part,
    elements,
    PART: tl.constexpr,
    BITS: tl.constexpr,
    ORDER: tl.constexpr,
    TYPES: tl.constexpr,
    EACH: tl.constexpr,
):
    """Finds the places of a part of PART = 2^BITS elements of a row of `elements`.

    digit(args, m, n): the digits at row m and columns n; those beyond the end are any.
    ends(args, m, v, part): how many elements come, in the order of digits, then parts, before those
    of the part with digits v, and up to the last of them.
    finish(args, m, n, place): stores what places become that the elements n get.
    ORDER, TYPES, EACH: of `in_order_of_digits`.
    Elements are moved in the order of their digits: neighbours go to neighbouring places.
    """
    m = program + tl.arange(0, 1)[:, None]
    # Threads that load neighbours would exchange all places with those that store to neighbours.
    inside = tl.max_contiguous(tl.arange(0, PART)[None, :], [1, 1])
    value = digit(args, m, part * PART + inside)
    # What is beyond the end comes last of all.
    value = tl.where(part * PART + inside < elements, value, 255)
    start, end = ends(args, m, tl.arange(0, 256)[None, :], part)
    start, end = tl.reshape(start, [256]), tl.reshape(end, [256])
    count = (end - start).to(tl.int32)
    # What a place in the tile is added to: a place in the row.
    first = start - (tl.cumsum(count, 0) - count)
    packed = tl.reshape((value << BITS) | inside, [PART])
    packed = in_order_of_digits(packed, ORDER, TYPES, EACH)
    place = tl.gather(first, packed >> BITS, 0) + tl.arange(0, PART)
    finish(args, m, part * PART + (packed & (PART - 1))[None, :], place[None, :])


@triton.jit
def in_order_of_digits(packed, ORDER: tl.constexpr, TYPES: tl.constexpr, EACH: tl.constexpr):
    """Sorts numbers by what is above the positions in their last bits, which are all different.

    ORDER: instructions that do it, EACH numbers of a thread; TYPES: of their registers.
    """
    return tl.inline_asm_elementwise(ORDER, TYPES, [packed], packed.dtype, is_pure=False, pack=EACH)
