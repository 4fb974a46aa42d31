"""Division, powers and divisors of integers; what would trap or is undefined has a result."""

import triton
import triton.language as tl


@triton.jit
def floor_div(a, b):
    """a / b rounded down; Triton's rounds towards zero."""
    q = a // b
    return tl.where((q * b != a) & ((a < 0) != (b < 0)), q - 1, q)


@triton.jit
def floor_mod(a, b):
    """The rest of `floor_div`: its sign is that of b."""
    r = a % b
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


@triton.jit
def safe_floor_div(a, b):
    """As `floor_div`, and 0 where b is 0."""
    d = tl.where(b == 0, tl.full([], 1, b.dtype), b)
    return tl.where(b == 0, tl.full([], 0, a.dtype), floor_div(a, d))


@triton.jit
def safe_floor_mod(a, b):
    """As `floor_mod`, and 0 where b is 0."""
    d = tl.where(b == 0, tl.full([], 1, b.dtype), b)
    return tl.where(b == 0, tl.full([], 0, a.dtype), floor_mod(a, d))


@triton.jit
def safe_trunc_div(a, b):
    """a / b rounded towards zero, and 0 where b is 0."""
    d = tl.where(b == 0, tl.full([], 1, b.dtype), b)
    return tl.where(b == 0, tl.full([], 0, a.dtype), a // d)


@triton.jit
def safe_trunc_mod(a, b):
    """The rest of `safe_trunc_div`."""
    d = tl.where(b == 0, tl.full([], 1, b.dtype), b)
    return tl.where(b == 0, tl.full([], 0, a.dtype), a % d)


@triton.jit
def integer_power(a, b):
    """a to the power of b, which wraps; of a negative b what is left of it in whole numbers."""
    # Of the shape and type of both.
    zero = (a ^ a) + (b ^ b)
    one = zero + 1
    base = a + zero
    left = b + zero
    result = one
    for _ in tl.static_range(64):
        result = tl.where((left & 1) != 0, result * base, result)
        base = base * base
        left = left >> 1
    sign = tl.where((b & 1) != 0, a + zero, one)
    # The inverse: of 1 and -1 a whole number, of all others 0.
    unit = tl.where(a == one, one, tl.where(a == zero - 1, sign, zero))
    return tl.where(b < 0, unit, result)


@triton.jit
def greatest_of(values):
    """The greatest of a block, or of a number where nothing varies over the tile."""
    return tl.max(values + tl.zeros([1], values.dtype))


@triton.jit
def any_true(mask):
    """True when some lane of a block is; of a number, when it is itself."""
    return greatest_of(mask.to(tl.int32)) != 0


@triton.jit
def integer_gcd(a, b):
    """The greatest common divisor (Euclid); lanes that have theirs wait for the others."""
    x, y = tl.abs(a) + (b ^ b), tl.abs(b) + (a ^ a)
    while any_true(x != 0):
        rest = safe_trunc_mod(y, x)
        y = tl.where(x != 0, x, y)
        x = rest
    return y


@triton.jit
def parity(a, b):
    """The bits that one of the two has."""
    return a ^ b
