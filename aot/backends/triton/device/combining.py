"""How two become one in reductions and scans; each is associative."""

import triton
import triton.language as tl


@triton.jit
def max_nan(a, b):
    """The greater one; NaN when one is."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def min_nan(a, b):
    """The lesser one; NaN when one is."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def times(a, b):
    """The product."""
    return a * b


@triton.jit
def plus(a, b):
    """The sum."""
    return a + b


@triton.jit
def log_plus(a, b):
    """log(exp(a) + exp(b))."""
    top, low = max_nan(a, b), min_nan(a, b)
    # log(2): of two infinities the difference is no number.
    equal = tl.full([], 0.6931471805599453, a.dtype)
    return top + tl.where(top == low, equal, tl.log(1.0 + tl.exp(low - top)))


@triton.jit
def either(a, b):
    """Or."""
    return a | b


@triton.jit
def both(a, b):
    """And."""
    return a & b


@triton.jit
def arg_max(a, i, b, j):
    """The greater value with its position; NaN is greatest, and of equals the first one counts."""
    first = (a > b) | ((a == b) & (i < j))
    first = first | ((a != a) & ((b == b) | (i < j)))
    first = first & ((b == b) | ((a != a) & (i < j)))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def arg_min(a, i, b, j):
    """The lesser value with its position; NaN is least, and of equals the first one counts."""
    first = (a < b) | ((a == b) & (i < j))
    first = first | ((a != a) & ((b == b) | (i < j)))
    first = first & ((b == b) | ((a != a) & (i < j)))
    return tl.where(first, a, b), tl.where(first, i, j)
