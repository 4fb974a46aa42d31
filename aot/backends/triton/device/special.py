"""Functions of real numbers that libdevice lacks, or has slower."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from aot.backends.triton.device.integers import any_true


@triton.jit
def sign_of(x):
    """1, 0 or -1, as a number of the same type."""
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def erf_float32(x):
    """The error function in float32: to two units in the last place."""
    t = tl.abs(x)
    s = x * x
    # erf(x) / x - 1 as a polynomial in x * x: least greatest relative error up to 0.925.
    near = -0.0005976577522233129
    near = near * s + 0.004990409594029188
    near = near * s + -0.026764752343297005
    near = near * s + 0.11281765252351761
    near = near * s + -0.37612488865852356
    near = near * s + 0.12837915122509003
    near = near * x + x
    # log2(1 - erf(x)) / x as a polynomial in x, from there on to 4; negative everywhere beyond.
    far = -1.6479702026117593e-05
    far = far * t + 0.0004684743471443653
    far = far * t + -0.005266210995614529
    far = far * t + 0.03430521860718727
    far = far * t + -0.15329506993293762
    far = far * t + -0.9163129329681396
    far = far * t + -1.6282997131347656
    far = libdevice.copysign(1.0 - tl.exp2(far * t), x)
    # Both are evaluated: libdevice selects each coefficient, which costs more.
    return tl.where(t > 0.925, far, near)


@triton.jit
def erf_plus_one(x):
    """1 + erf(x) in float32: to one unit in the last place of 1."""
    t = tl.abs(x)
    # log2(1 - erf(x)) / x as a polynomial in x, of least greatest error of 1 - erf(x): near zero,
    # where erf(x) alone wants more, the one hides it. Beyond 4 it only falls.
    far = -4.5358559873420745e-05
    far = far * t + 0.00044550723396241665
    far = far * t + -0.0014894399791955948
    far = far * t + -0.0007746326737105846
    far = far * t + 0.02825368382036686
    far = far * t + -0.14848162233829498
    far = far * t + -0.9184163808822632
    far = far * t + -1.6279085874557495
    less = libdevice.exp2(far * t)
    return tl.where(x > 0, 2.0 - less, less)


@triton.jit
def i0_scaled(x):
    """exp(-|x|) I0(x), from 60 on by its asymptotic series in t = 1/|x|, over sqrt(2 pi |x|)."""
    a = tl.abs(x)
    near = libdevice.cyl_bessel_i0(tl.minimum(a, 60.0)) * libdevice.exp(-a)
    t = 1.0 / tl.maximum(a, 60.0)
    scale = tl.sqrt(t * 0.15915494309189535)
    # The product over k of ((2 k - 1)^2 - 4 * 0^2) / (8 k), for k = 10 down to 1.
    tail = t * 110.01714026924674
    tail = t * (24.380529699556064 + tail)
    tail = t * (6.074042001273483 + tail)
    tail = t * (1.7277275025844574 + tail)
    tail = t * (0.5725014209747314 + tail)
    tail = t * (0.22710800170898438 + tail)
    tail = t * (0.112152099609375 + tail)
    tail = t * (0.0732421875 + tail)
    tail = t * (0.0703125 + tail)
    tail = t * (0.125 + tail)
    return tl.where(a > 60.0, scale * (1.0 + tail), near)


@triton.jit
def i1_scaled(x):
    """exp(-|x|) I1(x), from 60 on by its asymptotic series in t = 1/|x|, over sqrt(2 pi |x|)."""
    a = tl.abs(x)
    near = libdevice.cyl_bessel_i1(tl.minimum(a, 60.0)) * libdevice.exp(-a)
    t = 1.0 / tl.maximum(a, 60.0)
    scale = tl.sqrt(t * 0.15915494309189535)
    # The product over k of ((2 k - 1)^2 - 4 * 1^2) / (8 k), for k = 10 down to 1.
    tail = t * (-121.59789187653587)
    tail = t * (-27.248827311268542 + tail)
    tail = t * (-6.883914268109947 + tail)
    tail = t * (-1.993531733751297 + tail)
    tail = t * (-0.6765925884246826 + tail)
    tail = t * (-0.2775764465332031 + tail)
    tail = t * (-0.144195556640625 + tail)
    tail = t * (-0.1025390625 + tail)
    tail = t * (-0.1171875 + tail)
    tail = t * (-0.375 + tail)
    scaled = tl.where(a > 60.0, scale * (1.0 + tail), near)
    return tl.where(x < 0, -scaled, scaled)


@triton.jit
def digamma_right(y):
    """As `digamma`, of y > 0."""
    # psi(y) = psi(y + n) - 1 / y - ... - 1 / (y + n - 1), until the asymptotic series is exact.
    if y.dtype == tl.float32:
        # Pairs of the four terms, from both ends: one division.
        low = tl.minimum(y, 4.0)
        pair = low * (low + 3.0)
        below = (2.0 * low + 3.0) * (2.0 * pair + 2.0) / (pair * (pair + 2.0))
        below = tl.where(y < 4.0, below, 0.0)
        y = tl.where(y < 4.0, y + 4.0, y)
    else:
        below = tl.zeros_like(y)
        for _ in tl.static_range(10):
            low = y < 10.0
            below += tl.where(low, 1.0 / y, 0.0)
            y = tl.where(low, y + 1.0, y)
    inverse = 1.0 / y
    t = inverse * inverse
    series = t * (691.0 / 32760 - t / 12)
    series = t * (1.0 / 132 - series)
    series = t * (1.0 / 240 - series)
    series = t * (1.0 / 252 - series)
    series = t * (1.0 / 120 - series)
    series = t * (1.0 / 12 - series)
    return libdevice.log(y) - 0.5 * inverse - series - below


@triton.jit
def digamma(x):
    """The logarithmic derivative of the gamma function; NaN at negative integers, infinite at 0."""
    # psi(x) = psi(1 - x) - pi / tan(pi x) for what is not positive.
    flip = x <= 0
    value = digamma_right(tl.where(flip, 1.0 - x, x))
    if any_true(flip):
        part = x - libdevice.rint(x)  # exact: near a pole its distance is all that counts
        slope = libdevice.cospi(part) / libdevice.sinpi(part)
        value = tl.where(flip, value - 3.141592653589793 * slope, value)
        value = tl.where((x < 0) & (part == 0), float("nan"), value)
        value = tl.where(x == 0, -libdevice.copysign(tl.full([], float("inf"), x.dtype), x), value)
    return value
