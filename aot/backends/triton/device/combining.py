"""How two become one in reductions and scans; each is associative."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


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
def log_pairs(top, scale, other, other_scale):
    """log(scale exp(top)) as two numbers, joined with another: no logarithm before the last one."""
    less = tl.exp(-tl.abs(top - other))
    # Of two equal infinities the difference is no number.
    less = tl.where(top == other, tl.full([], 1.0, top.dtype), less)
    own, others = tl.where(top < other, less, 1.0), tl.where(top < other, 1.0, less)
    return max_nan(top, other), scale * own + other_scale * others


@triton.jit
def log_running(values):
    """The logarithms of the running sums of exp(values) along the rows."""
    ones = tl.full([], 1.0, values.dtype) + tl.zeros_like(values)
    top, scale = tl.associative_scan((values, ones), 1, log_pairs)
    return top + tl.log(scale)


@triton.jit
def log_total(values):
    """The logarithm of the sum of exp(values) of each row."""
    top = tl.reduce(values, 1, max_nan)
    # Of two equal infinities the difference is no number.
    known = tl.abs(top) < float("inf")
    shift = tl.where(known | (top != top), top, 0.0)
    return shift + tl.log(tl.sum(tl.exp(values - shift[:, None]), 1))


@triton.jit
def online_exp(top, total, values, axis: tl.constexpr):
    """The greatest so far and the sum of exp(x - greatest) of all x so far, with values more.

    Values have a dimension more, `axis`: what it holds belongs to one lane.
    """
    best = max_nan(top, tl.reduce(values, axis, max_nan))
    # Of two equal infinities the difference is no number; exp(-inf) is what these stand for.
    shift = tl.where(best == float("-inf"), 0.0, best)
    more = tl.sum(libdevice.fast_expf(values - tl.expand_dims(shift, axis)), axis)
    return best, total * libdevice.fast_expf(top - shift) + more


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


@triton.jit
def later_max(a, i, b, j):
    """As arg_max, of positions j that come after i."""
    after = ((b <= a) == 0) & (a == a)
    return tl.where(after, b, a), tl.where(after, j, i)


@triton.jit
def later_min(a, i, b, j):
    """As arg_min, of positions j that come after i."""
    after = ((b >= a) == 0) & (a == a)
    return tl.where(after, b, a), tl.where(after, j, i)


@triton.jit
def first_max(values, places, LAST: tl.constexpr):
    """Where the greatest of each row is first; NaN is greatest.

    Two reductions of one number each take less than one of pairs. LAST: behind all places.
    """
    best = tl.reduce(values, 1, max_nan)[:, None]
    return tl.min(tl.where((values == best) | (values != values), places, LAST), 1)


@triton.jit
def first_min(values, places, LAST: tl.constexpr):
    """Where the least of each row is first; NaN is least. See first_max."""
    best = tl.reduce(values, 1, min_nan)[:, None]
    return tl.min(tl.where((values == best) | (values != values), places, LAST), 1)
