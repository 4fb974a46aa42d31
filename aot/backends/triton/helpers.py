"""Device functions that kernels call; a kernel's text carries those that it uses."""

from __future__ import annotations

import re
from fractions import Fraction

from aot.backends.triton.helpers_loops import LOOPS


def _bessel_tail(order: int) -> str:
    """The asymptotic series of exp(-x) I(x) sqrt(2 pi x) in t = 1/x, enough from x = 60 on."""
    text, factor, factors = "", Fraction(1), []
    for k in range(1, 11):
        factor *= Fraction((2 * k - 1) ** 2 - 4 * order**2, 8 * k)
        factors.append(factor)
    for factor in reversed(factors):
        text = f"t * ({float(factor)!r} + {text})" if text else f"t * ({float(factor)!r})"
    return f"1.0 + {text}"


def _horner(name: str, variable: str, coefficients: tuple[float, ...]) -> str:
    """Statements that evaluate a polynomial, its highest coefficient first."""
    first, *rest = coefficients
    lines = [
        f"    {name} = {first!r}",
        *(f"    {name} = {name} * {variable} + {c!r}" for c in rest),
    ]
    return "\n".join(lines)


_ERF_NEAR = (
    -5.976577522233129e-4,
    4.990409594029188e-3,
    -2.6764752343297005e-2,
    0.11281765252351761,
    -0.37612488865852356,
    0.12837915122509003,
)
"""erf(x) / x - 1 as a polynomial in x * x: least greatest relative error up to 0.925."""

_ERF_FAR = (
    -1.6479702026117593e-05,
    4.684743471443653e-4,
    -5.266210995614529e-3,
    3.430521860718727e-2,
    -0.15329506993293762,
    -0.9163129329681396,
    -1.6282997131347656,
)
"""log2(1 - erf(x)) / x as a polynomial in x, from there on to 4; negative everywhere beyond."""

_FUNCTIONS = {
    "floor_div": """
def floor_div(a, b):
    q = a // b
    return tl.where((q * b != a) & ((a < 0) != (b < 0)), q - 1, q)
""",
    "floor_mod": """
def floor_mod(a, b):
    r = a % b
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
""",
    "safe_floor_div": """
def safe_floor_div(a, b):
    d = tl.where(b == 0, tl.full([], 1, b.dtype), b)
    return tl.where(b == 0, tl.full([], 0, a.dtype), floor_div(a, d))
""",
    "safe_floor_mod": """
def safe_floor_mod(a, b):
    d = tl.where(b == 0, tl.full([], 1, b.dtype), b)
    return tl.where(b == 0, tl.full([], 0, a.dtype), floor_mod(a, d))
""",
    "safe_trunc_div": """
def safe_trunc_div(a, b):
    d = tl.where(b == 0, tl.full([], 1, b.dtype), b)
    return tl.where(b == 0, tl.full([], 0, a.dtype), a // d)
""",
    "safe_trunc_mod": """
def safe_trunc_mod(a, b):
    d = tl.where(b == 0, tl.full([], 1, b.dtype), b)
    return tl.where(b == 0, tl.full([], 0, a.dtype), a % d)
""",
    "integer_power": """
def integer_power(a, b):
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
    unit = tl.where(a == one, one, tl.where(a == zero - 1, sign, zero))
    return tl.where(b < 0, unit, result)
""",
    # Of blocks, or of a number where nothing varies over the tile.
    "greatest_of": """
def greatest_of(values):
    return tl.max(values + tl.zeros([1], values.dtype))
""",
    "any_true": """
def any_true(mask):
    return greatest_of(mask.to(tl.int32)) != 0
""",
    "integer_gcd": """
def integer_gcd(a, b):
    x, y = tl.abs(a) + (b ^ b), tl.abs(b) + (a ^ a)
    while any_true(x != 0):
        rest = safe_trunc_mod(y, x)
        y = tl.where(x != 0, x, y)
        x = rest
    return y
""",
    "max_nan": """
def max_nan(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
""",
    "min_nan": """
def min_nan(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
""",
    "times": """
def times(a, b):
    return a * b
""",
    "plus": """
def plus(a, b):
    return a + b
""",
    "log_plus": """
def log_plus(a, b):
    top, low = max_nan(a, b), min_nan(a, b)
    equal = tl.full([], 0.6931471805599453, a.dtype)
    return top + tl.where(top == low, equal, tl.log(1.0 + tl.exp(low - top)))
""",
    "either": """
def either(a, b):
    return a | b
""",
    "both": """
def both(a, b):
    return a & b
""",
    "arg_max": """
def arg_max(a, i, b, j):
    first = (a > b) | ((a == b) & (i < j))
    first = first | ((a != a) & ((b == b) | (i < j)))
    first = first & ((b == b) | ((a != a) & (i < j)))
    return tl.where(first, a, b), tl.where(first, i, j)
""",
    "arg_min": """
def arg_min(a, i, b, j):
    first = (a < b) | ((a == b) & (i < j))
    first = first | ((a != a) & ((b == b) | (i < j)))
    first = first & ((b == b) | ((a != a) & (i < j)))
    return tl.where(first, a, b), tl.where(first, i, j)
""",
    "float32_key": """
def float32_key(x):
    bits = tl.where(x == 0, 0.0, x).to(tl.int32, bitcast=True)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return tl.where(x != x, 0x7FFFFFFF, bits)
""",
    "float64_key": """
def float64_key(x):
    bits = tl.where(x == 0, 0.0, x).to(tl.int64, bitcast=True)
    bits = bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)
    return tl.where(x != x, 0x7FFFFFFFFFFFFFFF, bits)
""",
    "sign_of": """
def sign_of(x):
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)
""",
    # Both polynomials are evaluated: libdevice selects each coefficient, which costs more.
    "erf_float32": f"""
def erf_float32(x):
    t = tl.abs(x)
    s = x * x
{_horner("near", "s", _ERF_NEAR)}
    near = near * x + x
{_horner("far", "t", _ERF_FAR)}
    far = libdevice.copysign(1.0 - tl.exp2(far * t), x)
    return tl.where(t > 0.925, far, near)
""",
    "i0_scaled": """
def i0_scaled(x):
    a = tl.abs(x)
    near = libdevice.cyl_bessel_i0(tl.minimum(a, 60.0)) * libdevice.exp(-a)
    t = 1.0 / tl.maximum(a, 60.0)
    return tl.where(a > 60.0, tl.sqrt(t * 0.15915494309189535) * (I0_TAIL), near)
""".replace("I0_TAIL", _bessel_tail(0)),
    "i1_scaled": """
def i1_scaled(x):
    a = tl.abs(x)
    near = libdevice.cyl_bessel_i1(tl.minimum(a, 60.0)) * libdevice.exp(-a)
    t = 1.0 / tl.maximum(a, 60.0)
    scaled = tl.where(a > 60.0, tl.sqrt(t * 0.15915494309189535) * (I1_TAIL), near)
    return tl.where(x < 0, -scaled, scaled)
""".replace("I1_TAIL", _bessel_tail(1)),
    "digamma": """
def digamma(x):
    flip = x <= 0
    y = tl.where(flip, 1.0 - x, x)
    below = tl.zeros_like(y)
    for _ in tl.static_range(10):
        low = y < 10.0
        below += tl.where(low, 1.0 / y, 0.0)
        y = tl.where(low, y + 1.0, y)
    t = 1.0 / (y * y)
    series = t * (1.0 / 12 - t * (1.0 / 120 - t * (1.0 / 252 - t * (1.0 / 240 - t * (
        1.0 / 132 - t * (691.0 / 32760 - t / 12))))))
    value = libdevice.log(y) - 0.5 / y - series - below
    part = x - libdevice.trunc(x)
    mirrored = value - 3.141592653589793 / libdevice.tan(3.141592653589793 * part)
    value = tl.where(flip, mirrored, value)
    value = tl.where((x < 0) & (part == 0), float("nan"), value)
    return tl.where(x == 0, -libdevice.copysign(tl.full([], float("inf"), x.dtype), x), value)
""",
    **LOOPS,
}


def definitions(text: str) -> str:
    """The helpers that `text` calls, and those that they call, as source."""
    used: dict[str, str] = {}
    pending = [text]
    while pending:
        current = pending.pop()
        for name, body in _FUNCTIONS.items():
            if name not in used and re.search(rf"\b{name}\b", current):
                used[name] = body
                pending.append(body)
    return "".join(f"@triton.jit{used[name]}\n\n" for name in _FUNCTIONS if name in used)
