"""Accuracy of the vector math functions over the whole range of their arguments.

Dense samples are compared with NumPy's 80-bit functions (64 bits of mantissa, far below an ulp of
float32 or float64); functions that NumPy lacks, and a thinner sample of the others, with mpmath.
"""

from __future__ import annotations

import functools
import subprocess
import zlib

import mpmath
import numpy as np
import pytest
from numpy.polynomial import Chebyshev, Hermite, Laguerre

from tests.backends.cpp.vec.build import LEVELS, build, call, levels, library_path
from tests.settings import seeded

SOURCE = "math.cc"
ULPS = 4.0
PREFIX = {np.float32: "f32", np.float64: "f64"}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0, 3.0, -3.0, 88.72284, 89.4]
SPECIAL += [1e-45, -1e-45, 1.1754942e-38, -103.97, -87.4, 709.79, -745.2, 5e-324, 1e308, -1.5]

DENSE = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sqrt": np.sqrt, "cbrt": np.cbrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip
DENSE_2 = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot}
EXACT_2 = {
    "fmod": np.fmod, "nextafter": np.nextafter, "minimum": np.minimum, "maximum": np.maximum,
    "fmin": np.fmin, "fmax": np.fmax, "copysign": np.copysign,
}  # fmt: skip


MPMATH = {
    "exp": mpmath.exp, "exp2": lambda x: mpmath.power(2, x), "expm1": mpmath.expm1,
    "log": mpmath.log, "log2": lambda x: mpmath.log(x, 2), "log10": mpmath.log10,
    "log1p": mpmath.log1p, "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan,
    "asin": mpmath.asin, "acos": mpmath.acos, "atan": mpmath.atan, "sinh": mpmath.sinh,
    "cosh": mpmath.cosh, "tanh": mpmath.tanh, "asinh": mpmath.asinh, "acosh": mpmath.acosh,
    "atanh": mpmath.atanh, "erf": mpmath.erf, "erfc": mpmath.erfc, "erfinv": mpmath.erfinv,
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))), "digamma": mpmath.digamma,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "i0": lambda x: mpmath.besseli(0, x), "i1": lambda x: mpmath.besseli(1, x),
    "i0e": lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
    "i1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
}  # fmt: skip
# Where mpmath is asked: the domain and where its own evaluation is affordable.
DOMAIN = {
    "log": (0, 1e38), "log2": (0, 1e38), "log10": (0, 1e38), "log1p": (-1, 1e38),
    "asin": (-1, 1), "acos": (-1, 1), "atanh": (-1, 1), "acosh": (1, 1e38), "erfinv": (-1, 1),
    "erf": (-1e4, 1e4), "erfc": (-1e4, 1e4), "lgamma": (-30, 1e6),
    "digamma": (0.01, 1e6), "rsqrt": (0, 1e38),
    "i0": (-700, 700), "i1": (-700, 700), "i0e": (-2000, 2000), "i1e": (-2000, 2000),
}  # fmt: skip


def samples(dtype, count, seed):
    """Bit patterns of every kind, ordinary magnitudes, and special values."""
    rng = np.random.default_rng(seeded(seed))
    unsigned = np.uint32 if dtype == np.float32 else np.uint64
    with np.errstate(over="ignore"):
        parts = [
            rng.integers(0, np.iinfo(unsigned).max, count, dtype=unsigned).view(dtype),
            rng.normal(size=count).astype(dtype),
            rng.uniform(-1, 1, count).astype(dtype),
            rng.uniform(-120, 120, count).astype(dtype),
            (1 + 1e-3 * rng.normal(size=count)).astype(dtype),
            (np.arange(count) * np.pi / 2).astype(dtype),
            np.array(SPECIAL).astype(dtype),
        ]
    values = np.concatenate(parts)
    return values[: len(values) - (len(values) % 16) + 5]  # the tail is masked


def ulp_errors(actual, exact):
    """Distance in units of the last place of the rounded exact value; inf where one is NaN only."""
    dtype = actual.dtype
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
        tiny = np.finfo(dtype).tiny
        unit = np.spacing(np.maximum(np.abs(rounded), tiny)).astype(np.longdouble)
        errors = np.abs(actual.astype(np.longdouble) - exact) / unit
    same = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
    errors[same] = 0
    errors[np.isnan(errors)] = np.inf
    return errors.astype(np.float64)


def check(actual, exact, inputs, limit=ULPS):
    errors = ulp_errors(actual, exact)
    worst = int(np.argmax(errors))
    assert errors[worst] <= limit, (
        f"{errors[worst]:.3g} ulp at {[repr(i[worst]) for i in inputs]}: "
        f"{actual[worst]!r}, not {exact[worst]!r}"
    )


@functools.cache
def dense_reference(name, dtype):
    x = samples(dtype, 20000, 1)
    with np.errstate(all="ignore"):
        return x, DENSE[name](x.astype(np.longdouble))


def seed_of(name):
    return zlib.crc32(name.encode())


@functools.cache
def mpmath_reference(name, dtype):
    lo, hi = DOMAIN.get(name, (-np.inf, np.inf))
    x = samples(dtype, 150, seed_of(name))
    with np.errstate(invalid="ignore"):
        x = x[(x > lo) & (x < hi) & (np.abs(x) > 1e-300) & np.isfinite(x)]
        x = x[(x > 0) | (x != np.floor(x))]  # mpmath raises at the poles of gamma
    with mpmath.workdps(60):
        values = [MPMATH[name](mpmath.mpf(float(v))) for v in x]
        # Two doubles carry what a longdouble holds.
        high = np.array([float(v) for v in values], np.longdouble)
        low = np.array(
            [float(v - mpmath.mpf(float(v))) if abs(v) < 1e300 else 0.0 for v in values],
            np.longdouble,
        )
    return x, high + low


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(DENSE))
def test_dense(level, dtype, name):
    x, exact = dense_reference(name, dtype)
    y = run(level, f"{PREFIX[dtype]}_{name}", x)
    check(y, exact, [x])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(MPMATH))
def test_mpmath(level, dtype, name):
    x, exact = mpmath_reference(name, dtype)
    y = run(level, f"{PREFIX[dtype]}_{name}", x)
    if dtype == np.float64 and name in {"lgamma", "digamma", "erfinv", "i0", "i1", "i0e", "i1e"}:
        # Computed in float64 without extra digits: near a zero only the absolute error is small.
        with np.errstate(over="ignore"):
            scale = np.spacing(np.maximum(np.abs(exact.astype(dtype)), 1.0))
            assert np.max(np.abs(y - exact) / scale) <= 40
    else:
        check(y, exact, [x])


@pytest.mark.parametrize("level", LEVELS[1:])
def test_float64_calls_no_library_for_its_logarithms_and_powers(level):
    """Lane by lane through libm they took two to four times as long as eager's vectors."""
    called = subprocess.run(
        ["nm", "-D", "--undefined-only", str(library_path(SOURCE, level))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    names = {name.split("@")[0] for name in called}
    ours = "exp2 log2 log10 pow hypot asinh acosh atanh"
    assert not names & set(ours.split())


@pytest.mark.parametrize("name", ["pow", "exp2", "log2", "log10", "atanh"])
def test_float64_powers_are_rounded_nearly_once(name):
    """Where they are made of logarithms in two doubles: libm's own errors are as great."""
    level = LEVELS[1]
    rng = np.random.default_rng(seeded(12))
    count = 20000
    inputs = {
        "pow": (np.exp(rng.uniform(-7, 7, count)), rng.normal(size=count) * 30),
        "exp2": (rng.uniform(-1020, 1020, count),),
        "atanh": (rng.uniform(-1, 1, count),),
    }.get(name, (np.exp(rng.uniform(-700, 700, count)),))
    with np.errstate(all="ignore"):
        exact = {**DENSE, **DENSE_2}[name](*(x.astype(np.longdouble) for x in inputs))
    check(run(level, f"f64_{name}", *inputs), exact, inputs, 1.0)


def run(level, name, *inputs):
    if level not in levels():
        pytest.skip(f"this machine has no {level}")
    out = np.empty_like(inputs[0])
    call(build(SOURCE, level), name, *inputs, out, len(out))
    return out


def pairs(dtype, seed=5, count=20000):
    rng = np.random.default_rng(seeded(seed))
    bits = samples(dtype, count // 4, seed), samples(dtype, count // 4, seed + 1)
    powers = np.abs(rng.normal(size=count) * 10), rng.normal(size=count) * 20
    near_one = 1 + rng.normal(size=count) * 1e-3, rng.normal(size=count) * 3e4
    whole = rng.integers(-20, 20, count), rng.integers(-20, 20, count)
    special = [a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL)]
    with np.errstate(all="ignore"):
        sides = [
            np.concatenate([np.asarray(s) for s in side]).astype(dtype)
            for side in zip(bits, powers, near_one, whole, special, strict=True)
        ]
    return sides


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(DENSE_2))
def test_dense_pairs(level, dtype, name):
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        exact = DENSE_2[name](x.astype(np.longdouble), y.astype(np.longdouble))
    check(run(level, f"{PREFIX[dtype]}_{name}", x, y), exact, [x, y])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(EXACT_2))
def test_exact_pairs(level, dtype, name):
    x, y = pairs(dtype)
    unsigned = np.uint32 if dtype == np.float32 else np.uint64
    quiet = unsigned(1) << unsigned(22 if dtype == np.float32 else 51)  # fmin(sNaN, x) is NaN in C
    x, y = [np.where(np.isnan(a), (a.view(unsigned) | quiet).view(dtype), a) for a in (x, y)]
    with np.errstate(all="ignore"):
        expected = EXACT_2[name](x, y)
    actual = run(level, f"{PREFIX[dtype]}_{name}", x, y)
    np.testing.assert_array_equal(actual, expected)
    if name in {"fmod", "nextafter", "copysign"}:
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(actual[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_python_remainder_and_floor_division(level, dtype):
    x, y = pairs(dtype, 9)
    with np.errstate(all="ignore"):
        r = np.fmod(x, y)
        fixed = np.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)
        q = (x - r) / y
        q = np.where((r != 0) & ((r < 0) != (y < 0)), q - 1, q)
        down = np.floor(q)
        down = np.where(q - down > 0.5, down + 1, down)
        down = np.where(q == 0, np.copysign(0, x / y), down)
        down = np.where(y == 0, x / y, down)
    prefix = PREFIX[dtype]
    np.testing.assert_array_equal(run(level, f"{prefix}_remainder", x, y), fixed)
    np.testing.assert_array_equal(run(level, f"{prefix}_div_floor", x, y), down)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh",
                                  "erf", "expm1", "log1p", "cbrt"])  # fmt: skip
def test_negative_zero_and_subnormals_stay(level, name):
    x = np.array([-0.0, 0.0, 1e-45, -1e-45, 1e-40, -1e-40], np.float32)
    y = run(level, f"f32_{name}", x)
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x))
    if name not in {"erf", "cbrt"}:
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["exp", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "tan",
                                  "rsqrt", "atan"])  # fmt: skip
def test_one_lane_is_bit_identical(level, name):
    x = samples(np.float32, 3000, 11)
    lanes = run(level, f"f32_{name}", x)
    for form in ("one", "scalar"):
        other = run(level, f"{form}_{name}", x)
        same = (lanes.view(np.uint32) == other.view(np.uint32)) | (
            np.isnan(lanes) & np.isnan(other)
        )
        assert same.all(), x[~same][:5]


@pytest.mark.parametrize("level", LEVELS)
def test_gamma_at_the_poles(level):
    x = np.array([0.0, -0.0, -1.0, -2.0, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(
        run(level, "f32_digamma", x), [-np.inf, np.inf, np.nan, np.nan, np.inf, np.nan]
    )
    np.testing.assert_array_equal(
        run(level, "f32_lgamma", x), [np.inf, np.inf, np.inf, np.inf, np.inf, np.nan]
    )


@pytest.mark.parametrize("level", LEVELS)
def test_error_function_limits(level):
    x = np.array([0.0, 1.0, -1.0, 1.5, np.nan], np.float32)
    np.testing.assert_array_equal(run(level, "f32_erfinv", x), [0, np.inf, -np.inf, np.nan, np.nan])
    ends = np.array([np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(run(level, "f32_erf", ends), [1, -1, np.nan])
    np.testing.assert_array_equal(run(level, "f32_erfc", ends), [0, 2, np.nan])
    np.testing.assert_array_equal(run(level, "f32_i0e", ends), [0, 0, np.nan])
    np.testing.assert_array_equal(run(level, "f32_i1", ends), [np.inf, -np.inf, np.nan])


@functools.cache
def incomplete_gamma(dtype):
    """Shapes and limits around each other, and P and Q there."""
    rng = np.random.default_rng(seeded(31))
    a = np.exp(rng.uniform(np.log(0.02), np.log(3e3), 60)).astype(dtype)
    x = (a * rng.uniform(0.4, 1.8, 60) + 0.05).astype(dtype)
    with mpmath.workdps(30):
        pairs = list(zip(a.tolist(), x.tolist(), strict=True))
        lower = [float(mpmath.gammainc(s, 0, t, regularized=True)) for s, t in pairs]
        upper = [float(mpmath.gammainc(s, t, mpmath.inf, regularized=True)) for s, t in pairs]
    return a, x, np.array(lower), np.array(upper)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_incomplete_gamma_functions(level, dtype):
    a, x, lower, upper = incomplete_gamma(dtype)
    # The side that is 1 minus the other has the other's absolute error.
    close = {"rtol": 2e-7, "atol": 2e-8} if dtype == np.float32 else {"rtol": 2e-12, "atol": 1e-14}
    np.testing.assert_allclose(run(level, f"{PREFIX[dtype]}_igamma", a, x), lower, **close)
    np.testing.assert_allclose(run(level, f"{PREFIX[dtype]}_igammac", a, x), upper, **close)
    outside = [np.array(v, dtype) for v in ([-1, 1, 0, np.nan], [1, -1, 1, 1])]
    assert np.isnan(run(level, f"{PREFIX[dtype]}_igamma", *outside)).all()


def second_kind(n):
    """Chebyshev's polynomial of the second kind: a derivative of the first kind's."""
    return Chebyshev.basis(n + 1).deriv() / (n + 1)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("chebyshev_t", Chebyshev.basis),
        ("chebyshev_w", lambda n: second_kind(n) + second_kind(n - 1)),
        ("hermite_h", Hermite.basis),
        ("laguerre_l", Laguerre.basis),
    ],
)
def test_polynomials_whose_degrees_differ_from_lane_to_lane(level, name, exact):
    x = np.tile(np.linspace(-1.5, 1.5, 7), 8)
    n = np.repeat(np.arange(1.0, 9.0), 7)
    expected = [exact(int(k))(v) for k, v in zip(n.tolist(), x.tolist(), strict=True)]
    np.testing.assert_allclose(run(level, f"f64_{name}", x, n), expected, rtol=1e-12, atol=1e-12)
    endless = run(level, f"f64_{name}", np.array([0.5, np.nan]), np.array([1e300, 0.0]))
    np.testing.assert_array_equal(endless, [np.nan, 1.0])
