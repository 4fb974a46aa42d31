"""Device functions that kernels call; a kernel's text carries those that it uses."""

from __future__ import annotations

import re

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
    base = a
    left = tl.maximum(b, 0)
    result = tl.full([], 1, a.dtype) + (a ^ a)
    for _ in tl.static_range(6):
        result = tl.where((left & 1) != 0, result * base, result)
        base = base * base
        left = left >> 1
    sign = tl.where((b & 1) != 0, a, a * a)
    unit = tl.where((a == 1) | (a == -1), sign, a ^ a)
    return tl.where(b < 0, unit, result)
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
