"""Quotients and roots without a branch, for matrices whose steps follow one another.

What divides exactly goes another way for numbers near the ends of the range. That way is a call,
and around a call instructions keep their order: those of one step then wait for the last of the
step before. Here a power of two brings numbers into the middle of the range.
"""

import triton
import triton.language as tl

from aot.backends.triton.device.linalg import powers_near


@triton.jit
def rough_inverse(x):
    """1 / x to 20 bits, or infinities and zeros."""
    if x.dtype == tl.float64:
        found = tl.inline_asm_elementwise(
            "rcp.approx.ftz.f64 $0, $1;", "=d,d", [x], tl.float64, is_pure=True, pack=1
        )
    else:
        found = tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1
        )
    return found


@triton.jit
def rough_inverse_root(x):
    """1 / the square root of x to 20 bits, or infinities and zeros."""
    if x.dtype == tl.float64:
        found = tl.inline_asm_elementwise(
            "rsqrt.approx.ftz.f64 $0, $1;", "=d,d", [x], tl.float64, is_pure=True, pack=1
        )
    else:
        found = tl.inline_asm_elementwise(
            "rsqrt.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1
        )
    return found


@triton.jit
def near_inverse(x):
    """1 / x, wrong by one in the last place at most, of numbers whose inverses are in range."""
    rough = rough_inverse(x)
    one = tl.full(x.shape, 1.0, x.dtype)
    off = tl.fma(-x, rough, one)
    if x.dtype == tl.float64:
        better = tl.fma(rough, tl.fma(off, off, off), rough)
        better = tl.fma(better, tl.fma(-x, better, one), better)
    else:
        better = tl.fma(rough, off, rough)
    # Of infinities and zeros the first try is right.
    return tl.where(better == better, better, rough)


@triton.jit
def near_root(x):
    """(the square root of x, its inverse): wrong by 0.51 and 1.5 in the last place at most.

    Of numbers from 0 on, and of infinity.
    """
    one = tl.full(x.shape, 1.0, x.dtype)
    small = x < (2.0**-500 if x.dtype == tl.float64 else 2.0**-60)
    x = tl.where(small, x * (2.0**600 if x.dtype == tl.float64 else 2.0**100), x)
    rough = rough_inverse_root(x)
    root = x * rough
    half = rough * 0.5
    for _ in tl.static_range(2 if x.dtype == tl.float64 else 1):
        off = tl.fma(-half, root, one * 0.5)
        root = tl.fma(root, off, root)
        half = tl.fma(half, off, half)
    root = tl.fma(tl.fma(-root, root, x), half, root)
    inverse = half + half
    inverse = tl.fma(inverse, tl.fma(-root, inverse, one), inverse)
    finite = root == root
    root = tl.where(finite, root, x)
    inverse = tl.where(finite, inverse, rough)
    less = 2.0**-300 if x.dtype == tl.float64 else 2.0**-50
    more = 2.0**300 if x.dtype == tl.float64 else 2.0**50
    return tl.where(small, root * less, root), tl.where(small, inverse * more, inverse)


@triton.jit
def direction(a, b, square, known):
    """(a, b) / the square root of a^2 + b^2, which is `square`; (1, 0) where it is not `known`.

    It is of length 1 whatever the root was off by: columns would become longer, or shorter. Few
    operations wait for each other; `square` is from the middle of the range.
    """
    square = tl.where(known, square, 1)
    rough = rough_inverse_root(square)
    if square.dtype == tl.float64:
        one = tl.full(square.shape, 1.0, square.dtype)
        off = tl.fma(-square * rough, rough, one)
        back = tl.fma(rough * off, tl.fma(off, one * 0.375, one * 0.5), rough)
        c, s = tl.where(known, a * back, 1), tl.where(known, b * back, 0)
    else:
        c, s = tl.where(known, a * rough, 1), tl.where(known, b * rough, 0)
        off = 0.5 - 0.5 * (c * c + s * s)
        c, s = c + c * off, s + s * off
    return c, s


@triton.jit
def near_quotient(a, b):
    """a / b: rounded once where neither a, b nor the quotient is near an end of the range."""
    _, scale = powers_near(tl.abs(b))
    a = a * scale
    b = b * scale
    inverse = near_inverse(b)
    first = a * inverse
    better = tl.fma(tl.fma(-first, b, a), inverse, first)
    return tl.where(better == better, better, first)


@triton.jit
def near_complex_quotient(a, a_im, b, b_im):
    """(a + i a_im) / (b + i b_im), of numbers whose squares may be too large or too small."""
    _, scale = powers_near(tl.maximum(tl.abs(b), tl.abs(b_im)))
    c = b * scale
    d = b_im * scale
    over = near_inverse(c * c + d * d)
    return (a * c + a_im * d) * over * scale, (a_im * c - a * d) * over * scale


@triton.jit
def near_size(a, a_im):
    """The absolute value of a + i a_im, whose square may be too large or too small."""
    power, back = powers_near(tl.maximum(tl.abs(a), tl.abs(a_im)))
    c = a * back
    d = a_im * back
    root, _ = near_root(c * c + d * d)
    return root * power
