"""Keys: integers in the order of numbers, with NaN greatest and -0 equal to 0."""

import triton
import triton.language as tl


@triton.jit
def float32_key(x):
    """The key of a float32 number."""
    bits = tl.where(x == 0, 0.0, x).to(tl.int32, bitcast=True)
    # Negative numbers have their magnitude the other way round.
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return tl.where(x != x, 0x7FFFFFFF, bits)


@triton.jit
def float64_key(x):
    """The key of a float64 number."""
    bits = tl.where(x == 0, 0.0, x).to(tl.int64, bitcast=True)
    # Negative numbers have their magnitude the other way round.
    bits = bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)
    return tl.where(x != x, 0x7FFFFFFFFFFFFFFF, bits)
