"""Arithmetic, comparisons, integer division, shifts and reductions of aot/vec against NumPy."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

from aot.backends.cpp.toolchain import find_toolchain
from tests.backends.cpp.vec.build import LEVELS, build, call, levels
from tests.settings import seeded

SOURCE = "arith.cc"
FLOATS = {"float32": np.float32, "float64": np.float64}
INTEGERS = {
    "int64": np.int64, "int32": np.int32, "int16": np.int16, "int8": np.int8, "uint8": np.uint8,
}  # fmt: skip
NUMBERS = {**FLOATS, **INTEGERS}
LANES = dict(zip(LEVELS, (4, 8, 16), strict=True))


@pytest.fixture(params=LEVELS)
def level(request):
    if request.param not in levels():
        pytest.skip(f"this machine has no {request.param}")
    return request.param


@pytest.fixture
def library(level):
    return build(SOURCE, level)


def samples(dtype, count, seed):
    rng = np.random.default_rng(seeded(seed))
    if np.dtype(dtype).kind == "f":
        x = (rng.normal(size=count) * 4).astype(dtype)
        x[::3] = np.round(x[::3])
        x[::17] = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 2.5, -0.5], len(x[::17]))
        return x
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    x[::3] = rng.integers(0, 12, len(x[::3]))
    if info.min < 0:
        x[::5] = rng.integers(-12, 12, len(x[::5]))
    x[::17] = rng.choice(np.array([info.min, info.max, 0, 1, info.min + 1], dtype), len(x[::17]))
    return x


def binary(library, name, dtype, x, y, out=None):
    z = np.zeros(len(x), dtype if out is None else out)
    call(library, f"{name}_{np.dtype(dtype).name}", x, y, z, len(x))
    return z


def unary(library, name, x):
    y = np.zeros_like(x)
    call(library, f"{name}_{x.dtype.name}", x, y, len(x))
    return y


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "minimum": np.minimum, "maximum": np.maximum,
    "select": lambda a, b: np.where(a < b, a, a.dtype.type(7)),
}  # fmt: skip
COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
UNARY = {
    "neg": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.rint, "relu": lambda a: np.maximum(a, a.dtype.type(0)),
    "clamp": lambda a: np.clip(a, a.dtype.type(2), a.dtype.type(5)),
    # torch.sign: 0 for NaN
    "sign": lambda a: ((a > 0).astype(a.dtype) - (a < 0).astype(a.dtype)).astype(a.dtype),
}  # fmt: skip


@pytest.mark.parametrize("dtype", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(library, dtype, name):
    x, y = samples(dtype, 401, 1), samples(dtype, 401, 2)
    with np.errstate(all="ignore"):
        expected = BINARY[name](x, y)
    np.testing.assert_array_equal(binary(library, name, dtype, x, y), expected)


@pytest.mark.parametrize("dtype", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("name", COMPARE)
def test_compare(library, dtype, name):
    x, y = samples(dtype, 401, 3), samples(dtype, 401, 4)
    y[::4] = x[::4]
    np.testing.assert_array_equal(binary(library, name, dtype, x, y, np.uint8), COMPARE[name](x, y))


@pytest.mark.parametrize("dtype", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(library, dtype, name):
    x = samples(dtype, 403, 5)
    if np.dtype(dtype).kind == "i" and name in {"floor", "ceil", "trunc", "round"}:
        expected = x
    else:
        with np.errstate(all="ignore"):
            expected = UNARY[name](x)
    np.testing.assert_array_equal(unary(library, name, x), expected)


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
def test_signs_of_zero(library, dtype):
    x = np.array([-0.0, 0.0, -0.3, 0.3, -0.5, 0.5], dtype)
    for name, expected in (
        ("neg", -x), ("round", np.rint(x)), ("ceil", np.ceil(x)), ("trunc", np.trunc(x)),
    ):  # fmt: skip
        np.testing.assert_array_equal(np.signbit(unary(library, name, x)), np.signbit(expected))


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "signbit"])
def test_classes(library, dtype, name):
    x = samples(dtype, 200, 6)
    actual = np.zeros(200, np.uint8)
    call(library, f"{name}_{np.dtype(dtype).name}", x, actual, 200)
    np.testing.assert_array_equal(actual, getattr(np, name)(x))


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
def test_mask_algebra(library, dtype):
    x, y = samples(dtype, 300, 7), samples(dtype, 300, 8)
    y[::4] = x[::4]
    expected = (~(x < y) & (x != 1)) | ~(x == y)
    np.testing.assert_array_equal(binary(library, "mixed", dtype, x, y, np.uint8), expected)


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
def test_fma_is_fused_from_v3_on(level, library, dtype):
    tiny = np.finfo(dtype).eps
    x = np.array([1 + tiny, 3.0, -(1 + tiny)], dtype)
    y = np.array([1 - tiny, 5.0, -1.0], dtype)
    wide = x.astype(np.longdouble) * y + x if dtype == np.float32 else None
    actual = binary(library, "fma", dtype, x, y)
    if level == "x86-64-v2" or wide is None:
        np.testing.assert_allclose(actual, x * y + x, rtol=4 * tiny, atol=4 * tiny)
    else:
        np.testing.assert_array_equal(actual, wide.astype(dtype))


INTEGER_BINARY = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@pytest.mark.parametrize("dtype", INTEGERS.values(), ids=INTEGERS)
def test_bits(library, dtype):
    x, y = samples(dtype, 300, 9), samples(dtype, 300, 10)
    for name, reference in INTEGER_BINARY.items():
        np.testing.assert_array_equal(binary(library, name, dtype, x, y), reference(x, y))
    np.testing.assert_array_equal(unary(library, "not", x), ~x)
    np.testing.assert_array_equal(unary(library, "left3", x), x << 3)
    np.testing.assert_array_equal(unary(library, "right3", x), x >> 3)


DIVISIONS = ("div_trunc", "div_floor", "fmod", "remainder")


def exact_division(x, y, dtype):
    """(truncated quotient, floored quotient, C remainder, Python remainder); by zero all are 0."""
    out = []
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        if b == 0:
            out.append((0, 0, 0, 0))
            continue
        trunc = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        out.append((trunc, a // b, a - trunc * b, a % b))
    bits = 8 * np.dtype(dtype).itemsize
    columns = np.array(out, dtype=object).T
    low = [np.array([v & ((1 << bits) - 1) for v in column], np.uint64) for column in columns]
    return [column.astype(dtype) for column in low]  # wraps: INT_MIN / -1


@pytest.mark.parametrize("bits", [49, 50, 51, 52, 53])
def test_long_division_at_the_ends_of_what_doubles_hold(library, bits):
    """Quotients next to whole numbers, the greatest ones, and those that no double holds."""
    top, dtype = 1 << bits, np.int64
    divisors = np.array([1, 2, 3, 7, 641, top // 3, top - 1], dtype)
    x, y = (v.ravel() for v in np.meshgrid(np.array([top - 2, top - 1, top], dtype), divisors))
    x = np.concatenate((x // y * y, x // y * y - dtype(1)))  # multiples, and what is below them
    y = np.concatenate((y, y))
    x, y = np.concatenate((x, -x, x, -x)), np.concatenate((y, y, -y, -y))
    for name, expected in zip(DIVISIONS, exact_division(x, y, dtype), strict=True):
        np.testing.assert_array_equal(binary(library, name, dtype, x, y), expected, name)


@pytest.mark.parametrize("dtype", INTEGERS.values(), ids=INTEGERS)
@pytest.mark.parametrize("small", [False, True])
def test_integer_division(library, dtype, small):
    x, y = samples(dtype, 1003, 11), samples(dtype, 1003, 12)
    if small:  # the fast path of 64-bit division needs whole vectors of small values
        shift = 30 if dtype == np.int64 else 1
        x, y = x >> shift, y >> (shift + 2)
    for name, expected in zip(DIVISIONS, exact_division(x, y, dtype), strict=True):
        np.testing.assert_array_equal(binary(library, name, dtype, x, y), expected, name)
    scalar = binary(library, "scalar_floor", dtype, x, y)
    np.testing.assert_array_equal(scalar, exact_division(x, y, dtype)[1])


@pytest.mark.parametrize("dtype", INTEGERS.values(), ids=INTEGERS)
def test_shifts_by_data(library, dtype):
    bits = 8 * np.dtype(dtype).itemsize
    x = samples(dtype, 402, 13)
    count = np.resize(np.array([0, 1, 3, bits - 1, bits, bits + 5, 100, -1, -100]), 402)
    count = np.clip(count, np.iinfo(dtype).min, None).astype(dtype)
    good = (count >= 0) & (count < bits)
    left = np.where(good, x << np.where(good, count, 0).astype(dtype), 0)
    right = np.where(good | (x < 0), x >> np.where(good, count, bits - 1).astype(dtype), 0)
    np.testing.assert_array_equal(binary(library, "shift_left", dtype, x, count), left)
    np.testing.assert_array_equal(binary(library, "shift_right", dtype, x, count), right)


@pytest.mark.parametrize("dtype", INTEGERS.values(), ids=INTEGERS)
def test_shifts_of_all_lanes_alike(library, dtype):
    """As by data; bytes, of which no instruction shifts a vector, get no bit of a neighbour."""
    bits = 8 * np.dtype(dtype).itemsize
    x = samples(dtype, 402, 17)
    for count in (0, 1, 3, bits - 1, bits, bits + 5, 100, -1):
        if np.dtype(dtype).kind == "u" and count < 0:
            continue
        good = 0 <= count < bits
        left = x << dtype(count) if good else np.zeros_like(x)
        right = x >> dtype(count if good else bits - 1)
        right = right if good or np.dtype(dtype).kind == "i" else np.zeros_like(x)
        for name, expected in (("shift_left", left), ("shift_right", right)):
            found = np.zeros_like(x)
            call(library, f"{name}_all_{np.dtype(dtype).name}", x, found, len(x), count)
            np.testing.assert_array_equal(found, expected, f"{name} {count}")


NARROWED = (
    *(("int64", narrow) for narrow in ("int32", "int16", "uint8")),
    *(("uint64", "int8"), ("int32", "uint16"), ("int32", "int8"), ("uint32", "uint8")),
    *(("int16", "int8"), ("uint16", "uint8"), ("float32", "uint8"), ("float64", "int8")),
)


@pytest.mark.parametrize(("source", "target"), NARROWED)
def test_registers_that_are_packed_keep_low_bits(library, source, target):
    wide = np.random.default_rng(seeded(18)).integers(-(1 << 62), 1 << 62, 64)
    wide[::3] = wide[::3] % 256
    if source.startswith("float"):
        wide %= 1 << 20
    x = wide.astype(source)
    expected = wide.astype(target)
    for lanes in (64, 16, 8):
        found = np.zeros(lanes, target)
        call(library, f"narrow_{source}_{target}_{lanes}", x, found)
        np.testing.assert_array_equal(found, expected[:lanes], f"{lanes} lanes")


@pytest.mark.parametrize("dtype", NUMBERS.values(), ids=NUMBERS)
def test_reductions(level, library, dtype):
    for seed in range(20):
        x = samples(dtype, LANES[level], 20 + seed)
        if seed % 2:
            x = np.nan_to_num(x, nan=1, posinf=3, neginf=2).astype(dtype)
        y = np.zeros(1, dtype)
        for name, reference in (("min", np.min), ("max", np.max)):
            call(library, f"reduce_{name}_{np.dtype(dtype).name}", x, y)
            np.testing.assert_array_equal(y[0], reference(x))
        for name, ufunc in (("sum", np.add), ("prod", np.multiply)):
            call(library, f"reduce_{name}_{np.dtype(dtype).name}", x, y)
            part = x
            with np.errstate(all="ignore"):
                while len(part) > 1:  # halves, recursively: the documented order
                    part = ufunc(part[: len(part) // 2], part[len(part) // 2 :])
            np.testing.assert_array_equal(y[0], part[0])


@pytest.mark.parametrize("dtype", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg_reductions(library, dtype, name):
    rng = np.random.default_rng(seeded(14))
    reference = np.argmax if name == "argmax" else np.argmin  # first on ties; NaN wins in both
    for n in [*range(1, 40), 200]:
        for case in range(4):
            x = rng.integers(0, 3 if case == 0 else 100, n).astype(dtype)
            if np.dtype(dtype).kind == "f" and case >= 2:
                x[rng.integers(0, n)] = np.nan
                x[rng.integers(0, n)] = [np.inf, -np.inf, np.nan][n % 3]
            index, value = np.zeros(1, np.int64), np.zeros(1, dtype)
            call(library, f"{name}_{np.dtype(dtype).name}", x, n, index, value)
            assert index[0] == reference(x)
            np.testing.assert_array_equal(value[0], x[reference(x)])
            if dtype == np.float32 and name == "argmax":
                short = np.zeros(1, np.int32)
                call(library, "argmax_float32_i32", x, n, short, value)
                assert short[0] == reference(x)


def test_arg_reduction_of_the_worst_values(library):
    x = np.full(37, -np.inf, np.float32)
    index, value = np.zeros(1, np.int64), np.zeros(1, np.float32)
    call(library, "argmax_float32", x, 37, index, value)
    assert (index[0], value[0]) == (0, -np.inf)


def test_iota(level, library):
    n = LANES[level]
    for name, kind in (("int32", ctypes.c_int32), ("int64", ctypes.c_int64)):
        y = np.zeros(n, NUMBERS[name])
        getattr(library, f"iota_{name}")(kind(-5), kind(3), ctypes.c_void_p(y.ctypes.data))
        np.testing.assert_array_equal(y, np.arange(n) * 3 - 5)
    y = np.zeros(n, np.float32)
    step = (ctypes.c_float(0.5), ctypes.c_float(0.25), ctypes.c_void_p(y.ctypes.data))
    library.iota_float32(*step)
    np.testing.assert_array_equal(y, np.arange(n) * 0.25 + 0.5)


def test_kernels_leave_the_x87_unit_alone(level):
    """MMX registers alias those of x87; gcc uses them for plain moves unless told not to."""
    tools = find_toolchain()
    if tools.family != "gcc":
        pytest.skip("only gcc moves words through MMX registers")
    command = [*tools.command, *tools.compile_flags(level), "-dM", "-E", "-xc++", "/dev/null"]
    macros = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "__SSE4_2__" in macros
    assert "__MMX__" not in macros


def test_masks_have_lanes_as_wide_as_what_was_compared(level, library):
    """Those that meet keep their width, or have the most common one; AVX-512 has bits."""
    widths = np.zeros(8, np.int64)
    call(library, "mask_widths", widths)
    expected = [0] * 8 if level == "x86-64-v4" else [1, 2, 4, 8, 1, 4, 1, 4]
    assert widths.tolist() == expected


@pytest.mark.parametrize("lanes", [4, 8, 16, 32, 64])
def test_masks_of_every_width_become_those_of_every_other(library, lanes):
    rng = np.random.default_rng(seeded(21))
    given = rng.integers(0, 2, lanes).astype(np.uint8)
    for first in (1, 2, 4, 8):
        out, bits = np.full((4, lanes), 9, np.uint8), np.zeros(4, np.uint64)
        call(library, f"mask_lanes_{lanes}_{first}", given, out, bits)
        np.testing.assert_array_equal(out, np.broadcast_to(given, out.shape))
        assert bits.tolist() == [int("".join(map(str, given[::-1])), 2)] * 4
