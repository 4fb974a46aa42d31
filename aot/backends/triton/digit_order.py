"""Instructions (PTX) that put a program's numbers into the order of one digit of 8 bits.

Triton has neither an exchange between threads by computed places nor counters that a warp shares,
and a sort by comparisons takes ten times as long. The numbers are exchanged through memory that the
instructions declare for themselves, so that it is all the same which thread holds which of them.

Of each warp's numbers, which follow one another in the tile, as many as it has lanes are looked at
together: those with one digit find each other by votes for its bits, and the first of them counts
them in the warp's counters, one for each digit. Sums of these say where a digit's numbers begin.
(Adinets, Merrill, Onesweep: A Faster Least Significant Digit Radix Sort for GPUs, 2022.)
"""

from __future__ import annotations

from collections.abc import Iterator

from aot.backends.triton.tiling import WARP
from aot.ir.templates.digits import DIGIT_BITS, DIGITS

WARPS = 16
"""Of a program; it has a thread for each digit."""

_WORD = 4

_LINE = WARP * _WORD
"""Bytes of a warp's neighbours in memory."""

_ROW = DIGITS * _WORD
"""Bytes of a counter for each digit."""

_DIGIT_WARPS = DIGITS // WARP
"""Warps whose threads have a digit each: the first ones."""


def digit_order(each: int, bits: int) -> str:
    """Sorts numbers of 32 bits by their digits, `each` of a thread.

    The digit stands above the number's position in the tile, of `bits` bits.
    """
    lines = [*_declared(each), *_gathered(each, bits), *_ranked(each, bits), *_summed()]
    return "{\n" + "\n".join([*lines, *_placed(each, bits)]) + "\n}"


def digit_numbers(each: int, bits: int) -> str:
    """Counts digits, `each` of a thread: each at the tile's position with its number.

    Operands are those of `digit_order`. A digit of 256 is of no number; what positions behind the
    digits get is any.
    """
    lines = [
        f".shared .align 16 .b32 aot_counts[{DIGITS + 1}];",
        ".reg .b32 thread, counts, a; .reg .pred p;",
        "mov.u32 thread, %tid.x; mov.u32 counts, aot_counts; bar.sync 0;",
        f"setp.lt.u32 p, thread, {DIGITS + 1}; mad.lo.u32 a, thread, {_WORD}, counts;",
        "@p st.shared.b32 [a], 0; bar.sync 0;",
    ]
    for k in range(each):
        lines.append(f"shr.u32 a, ${each + k}, {bits}; mad.lo.u32 a, a, {_WORD}, counts;")
        lines.append("red.shared.add.u32 [a], 1;")
    lines.append("bar.sync 0;")
    for k in range(each):
        lines.append(f"and.b32 a, ${each + k}, {(1 << bits) - 1}; min.u32 a, a, {DIGITS};")
        lines.append(f"mad.lo.u32 a, a, {_WORD}, counts; ld.shared.b32 ${k}, [a];")
    return "{\n" + "\n".join(lines) + "\n}"


def register_types(each: int) -> str:
    """What `digit_order` is called with: results, then operands."""
    return ",".join(["=r"] * each + ["r"] * each)


def _declared(each: int) -> Iterator[str]:
    """Memory and registers; `warp_counts`: of the own warp; `digit_counts`: of the own digit."""
    yield f".shared .align 16 .b32 aot_held[{each * WARP * WARPS}];"
    yield f".shared .align 16 .b32 aot_counts[{WARPS * DIGITS}];"
    yield f".shared .align 16 .b32 aot_sums[{_DIGIT_WARPS}];"
    yield ".reg .b32 thread, lane, warp, earlier, held, counts, sums, own;"
    yield ".reg .b32 warp_counts, digit_counts, total, sum, a, b, same;"
    yield f".reg .b32 value<{each}>, place<{each}>, number<{each}>, first<{each}>, counter<{each}>;"
    yield ".reg .pred p, has_digit;"
    yield "mov.u32 thread, %tid.x; mov.u32 lane, %laneid; mov.u32 earlier, %lanemask_lt;"
    yield "mov.u32 held, aot_held; mov.u32 counts, aot_counts; mov.u32 sums, aot_sums;"
    yield f"shr.u32 warp, thread, {WARP.bit_length() - 1}; setp.lt.u32 has_digit, thread, {DIGITS};"
    yield f"mad.lo.u32 warp_counts, warp, {_ROW}, counts;"
    yield f"mad.lo.u32 digit_counts, thread, {_WORD}, counts;"
    yield f"mad.lo.u32 own, warp, {each * _LINE}, held; mad.lo.u32 own, lane, {_WORD}, own;"


def _gathered(each: int, bits: int) -> Iterator[str]:
    """The numbers of the thread's own places in the tile; the warp's counters are 0."""
    yield f"bar.sync 0; mad.lo.u32 a, lane, {_WORD}, warp_counts;"
    for k in range(DIGITS // WARP):
        yield f"st.shared.b32 [a+{k * _LINE}], 0;"
    for k in range(each):
        yield f"{_address(each + k, bits)} st.shared.b32 [a], ${each + k};"
    yield "bar.sync 0;"
    for k in range(each):
        yield f"ld.shared.b32 value{k}, [own+{k * _LINE}];"


def _address(operand: int, bits: int) -> str:
    """Puts into `a` where the number at an operand's position in the tile is held."""
    return f"and.b32 a, ${operand}, {(1 << bits) - 1}; mad.lo.u32 a, a, {_WORD}, held;"


def _ranked(each: int, bits: int) -> Iterator[str]:
    """How many numbers of the warp with the same digit come before each: `place`.

    Atomic operations of one warp are done in its order: no two of its lanes at once share a place.
    """
    for k in range(each):
        yield f"mov.u32 same, -1; shr.u32 b, value{k}, {bits};"
        for bit in range(DIGIT_BITS):
            yield f"and.b32 a, b, {1 << bit}; setp.ne.u32 p, a, 0;"
            yield "vote.sync.ballot.b32 a, p, -1; @!p not.b32 a, a; and.b32 same, same, a;"
        yield f"mad.lo.u32 counter{k}, b, {_WORD}, warp_counts; and.b32 a, same, earlier;"
        yield f"popc.b32 place{k}, a; popc.b32 number{k}, same;"
        yield f"brev.b32 a, same; clz.b32 first{k}, a;"
    for k in range(each):
        yield f"setp.eq.u32 p, place{k}, 0; @p atom.shared.add.u32 a, [counter{k}], number{k};"
        yield f"shfl.sync.idx.b32 a, a, first{k}, 31, -1; add.u32 place{k}, place{k}, a;"
    yield "bar.sync 0;"


def _summed() -> Iterator[str]:
    """Makes counters of warps where the numbers of a warp with a digit begin."""
    yield "mov.u32 total, 0; mov.u32 a, 0;"
    for warp in range(WARPS):
        at = f"[digit_counts+{warp * _ROW}]"
        yield f"@has_digit ld.shared.b32 a, {at}; @has_digit st.shared.b32 {at}, total;"
        yield "add.u32 total, total, a;"
    yield "mov.u32 sum, total;"
    distance = 1
    while distance < WARP:
        yield f"shfl.sync.up.b32 a|p, sum, {distance}, 0, -1; @p add.u32 sum, sum, a;"
        distance *= 2
    yield f"mad.lo.u32 a, warp, {_WORD}, sums; setp.eq.and.u32 p, lane, {WARP - 1}, has_digit;"
    yield "@p st.shared.b32 [a], sum; bar.sync 0; sub.u32 sum, sum, total;"
    for warp in range(_DIGIT_WARPS - 1):
        yield f"ld.shared.b32 a, [sums+{warp * _WORD}]; setp.gt.u32 p, warp, {warp};"
        yield "@p add.u32 sum, sum, a;"
    for warp in range(WARPS):
        at = f"[digit_counts+{warp * _ROW}]"
        yield f"@has_digit ld.shared.b32 a, {at}; add.u32 a, a, sum;"
        yield f"@has_digit st.shared.b32 {at}, a;"
    yield "bar.sync 0;"


def _placed(each: int, bits: int) -> Iterator[str]:
    """Exchanges the numbers by their places."""
    for k in range(each):
        yield f"ld.shared.b32 a, [counter{k}]; add.u32 a, a, place{k};"
        yield f"mad.lo.u32 a, a, {_WORD}, held; st.shared.b32 [a], value{k};"
    yield "bar.sync 0;"
    for k in range(each):
        yield f"{_address(each + k, bits)} ld.shared.b32 ${k}, [a];"
