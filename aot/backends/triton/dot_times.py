"""What tiles of products take on an H200, a multiprocessor at a time: the numbers of `dot_tiling`.

They rank tiles; nothing depends on their absolute truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

LINE = 128
"""Bytes of a line of the second-level cache."""


@dataclass(frozen=True)
class DotTimes:
    """What a multiprocessor takes, in microseconds, for operands of a type.

    Attributes:
        turn: Of a turn of the depth loop, whatever it multiplies; `deeper`: for each of its depth.
        rate: Multiply-adds in a microsecond.
        turning: Of an element of a block of the second operand whose depth is not contiguous, for
            each column of the block.
        block: Of a block; `result`: of each of its results, and `stored`: what memory takes for it,
            which nothing hides.
        shared: Of an element that is written to shared memory, or that a warp reads there: where
            that takes longer than the multiplications. 0: it does not.
        dear: Of a result of which a transcendental function is computed, by four warps.
        narrow: Columns that tensor cores would multiply while they wait for shared memory, of
            narrow blocks; of others a fourth.
        lines: Lines of operands that come from the second-level cache in a microsecond.
        outside: Of a line of a block that lies outside of a matrix: descriptors write zeros by
            themselves, and slower than memory.
        arrival: Until a block has arrived that was asked for.
        start: Until programs have made their descriptors.
    """

    turn: float
    deeper: float
    rate: float
    turning: float
    block: float
    result: float
    shared: float = 0.0
    dear: float = 0.0
    narrow: int = 0
    lines: float = math.inf
    outside: float = 0.0
    arrival: float = 0.0
    start: float = 0.0
    stored: float = 0.0


LOW_TIMES = {
    single: DotTimes(0.02, 0.0, 0.45e6, 0.0, 0.05, 1.8e-4, lines=lines, arrival=2.2)
    for single, lines in ((False, 390), (True, 245))
}
"""Of float32 by programs of two warps, with both operands in registers: nothing is turned in shared
memory. True: read element by element (205 of 24 x 2712 by 2712 x 95: 134 us by 32 x 64; 128 x 2741
by 2741 x 6408, whose rows end within vectors: 170, 98 by 64 x 64 and descriptors). A turn takes 1.1
us however few programs a multiprocessor has: 55 x 8192 by 8192 x 7102 took 292 us by 222 of them,
154 in parts of the depth; 40 x 2048 by 2048 x 9752 101 by 306, 74 in parts."""

TIMES = {
    2: DotTimes(0.016, 0.0, 2.56e6, 0.0, 0.67, 6.6e-5, lines=590, outside=1 / 590, arrival=1.2),
    4: DotTimes(0.23, 0.004, 0.245e6, 5e-6, 0.05, 1.8e-4),
    8: DotTimes(0.15, 0.0117, 0.289e6, 0.0, 0.5, 6e-5, shared=3.6e-5, dear=2.5e-3, stored=2e-4),
}
"""By the operands' bytes. Of float64 warps read shared memory by single elements, each all of its
rows and columns, which blocks below 64 x 64 wait for; larger ones took 1.06 to 1.28 of its time.
What its turns wait for is hidden by other blocks: 512 x 8192 by 8192 x 2048 took 403 us with two on
a multiprocessor, 363 with four halves of them and their sums. Dear functions of float64 want the
units that multiply: 512 x 512 by 512 x 5680 and SiLU took 89 us by 64 x 64 and by two groups of 128
x 64 80, 19795 x 2048 by 2048 x 336 and GELU 708 and by three groups 593.
Of float32 as products of halves of its digits: fitted to 16 tiles of 16 products on an H200, off by
a fifth. The digits are taken apart in registers, and one part goes back to shared memory: turned
around, with conflicts of its banks, where the depth is not contiguous."""

PLAIN_CROSSED = {16: 1.3, 32: 1.05, 64: 1.05, LINE: 1.0}
CROSSED = {16: 2.05, 32: 1.7, 64: 1.5, LINE: 1.0}
"""Time of a row of a block, a line long, by what the distance of rows is a multiple of: all but
each eighth, fourth or second row lies in two lines. 5696 x 5128 by 5128 x 1024 halves took 147 us
on an H200 where both operands had rows of 16 mod 128 bytes, 113 where only the first one had, 104
in whole lines. `PLAIN_CROSSED`: read by plain loads."""

COPY_TIMES = DotTimes(
    *(0.02, 0.0, 2.8e6, 0.0, 0.66, 3.2e-5),
    dear=2.6e-4,
    narrow=32,
    lines=890,
    outside=0.0046,
    arrival=1.2,
    start=3,
)
DOUBLE_GROUP_TIMES = {
    groups: DotTimes(0.0, 0.0, 0.225e6, 0.0, 0.3, 0.0, dear=4e-4, start=5, stored=stored)
    for groups, stored in ((2, 3e-4), (3, 1.9e-4))
}
"""Of float64 by so many groups of warps: 3512 x 5684 by 5684 x 784 took 590 us on an H200, 687 as
Triton multiplies, eager 615; 4096 x 4096 by 4096 x 4096 2245 to 2390 us by how operands lie (61 to
57 TFLOP/s), eager 2290 to 2820. While one of three groups stores, two multiply: 11988 x 248 by 248
x 8192 took 1005 us by three, 1072 and 1104 by two."""
GROUP_TIMES = replace(COPY_TIMES, turn=0.03, block=0.26, result=6.7e-5, dear=2.1e-4)
"""Of halves that descriptors copy, and by groups of warps, fitted to 16 tiles of 29 products on an
H200: what is chosen takes 1.02 of the fastest tile's time. What lies outside of a matrix takes
longer than what is in it: 26256 x 8192 by 8192 x 128 by blocks of 128 x 256 took 288 us, of 128 x
128 143."""

THREE_GROUP_TIMES = replace(GROUP_TIMES, dear=1.4e-4)
"""Of three groups: while one computes what is dear, two multiply. 5503 x 8192 by 8192 x 1024 and
SiLU took 138 us by 192 x 128, by 128 x 192 144."""

ROUNDED_GROUP_TIMES = replace(GROUP_TIMES, rate=GROUP_TIMES.rate / 2, result=1.3e-4, stored=9e-5)
"""Of float32 that is rounded to TF32, of which convolutions are computed so."""
