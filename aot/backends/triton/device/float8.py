"""float8 in memory: bytes, which become float32 and come of it as PyTorch converts them."""

import triton
import triton.language as tl


@triton.jit
def float8_value(
    raw, MANTISSA: tl.constexpr, BIAS: tl.constexpr, BEYOND: tl.constexpr, NAN: tl.constexpr
):
    """The numbers of codes. The product rebases the exponent, of subnormal numbers too.

    MANTISSA: its bits. BIAS: of the exponent. BEYOND: the code of what is greater than the greatest
    number. NAN: the code of NaN; 0x80: there is one zero, and no sign of NaN.
    """
    h = raw.to(tl.int32)
    code = h & 0x7F
    placed = code << (23 - MANTISSA)
    number = placed.to(tl.float32, bitcast=True) * (2.0 ** (127 - BIAS))
    out = number.to(tl.int32, bitcast=True)
    if BEYOND + 1 == NAN:
        out = tl.where(code == NAN, 0x7FC00000, out)
    elif NAN != 0x80:
        out = tl.where(code >= BEYOND, placed | 0x7F800000, out)
    out = out | ((h & 0x80) << 24)
    if NAN == 0x80:
        out = tl.where(h == 0x80, 0x7FC00000, out)
    return out.to(tl.float32, bitcast=True)


@triton.jit
def float8_code(
    value, MANTISSA: tl.constexpr, BIAS: tl.constexpr, BEYOND: tl.constexpr, NAN: tl.constexpr
):
    """The codes of numbers, rounded to the nearest, ties to the even code."""
    SHIFT: tl.constexpr = 23 - MANTISSA
    bits = value.to(tl.int32, bitcast=True)
    sign = (bits >> 24) & 0x80
    a = bits & 0x7FFFFFFF
    # A number whose last place is that of subnormal codes: adding it rounds to them.
    UNIT: tl.constexpr = (151 - BIAS - MANTISSA) << 23
    unit = (a * 0 + UNIT).to(tl.float32, bitcast=True)
    tiny = (a.to(tl.float32, bitcast=True) + unit).to(tl.int32, bitcast=True) - UNIT
    # Less the rebasing first: the sum of large numbers would not fit.
    normal = (a - ((127 - BIAS) << 23) + ((1 << (SHIFT - 1)) - 1) + ((a >> SHIFT) & 1)) >> SHIFT
    code = tl.minimum(tl.where(a < ((128 - BIAS) << 23), tiny, normal), BEYOND)
    code = tl.where(a > 0x7F800000, NAN, code)
    signed = code | sign
    if NAN == 0x80:
        signed = tl.where((code & 0x7F) == 0, code, signed)
    return signed.to(tl.uint8)


@triton.jit
def power8_value(raw):
    """The powers of two of codes of float8_e8m0fnu."""
    h = raw.to(tl.int32)
    out = tl.where(h == 0, 0x400000, tl.where(h == 0xFF, 0x7FC00000, h << 23))
    return out.to(tl.float32, bitcast=True)


@triton.jit
def power8_code(value):
    """The exponents of numbers, rounded by their mantissa."""
    bits = value.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    exponent = bits >> 23
    above = ((bits & 0x400000) != 0) & (((bits & 0x3FFFFF) != 0) | (exponent > 0))
    return tl.where(above & (exponent < 0xFF), exponent + 1, exponent).to(tl.uint8)
