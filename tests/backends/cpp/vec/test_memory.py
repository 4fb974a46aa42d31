"""Loads, stores, gathers, conversions and transposes of aot/vec against NumPy.

Every array ends at the last byte of a page whose successor is not mapped, or starts at the first
byte after such a page, so that touching one byte too many ends the test.
"""

from __future__ import annotations

import ctypes
import mmap

import ml_dtypes
import numpy as np
import pytest

from tests.backends.cpp.vec.build import LEVELS, build, call, levels
from tests.settings import seeded

SOURCE = "memory.cc"
ELEMENTS = {
    "float32": np.float32, "float64": np.float64, "int64": np.int64, "int32": np.int32,
    "int16": np.int16, "uint16": np.uint16, "int8": np.int8, "uint8": np.uint8,
    "uint8_wide": np.uint8, "uint8_float": np.uint8, "int8_int64": np.int8,
    "bool_float": np.bool_, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16,
    "float32_one": np.float32, "float64_one": np.float64, "uint8_one": np.uint8,
    "int64_two": np.int64, "float32_two": np.float32,
}  # fmt: skip
NUMBERS = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8"]
PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Fenced:
    """Arrays between two pages that no one may touch."""

    def __init__(self):
        self._blocks = []

    def array(self, values, at_end=True):
        """A copy of `values` whose last (or first) byte borders on a forbidden page."""
        values = np.ascontiguousarray(values)
        pages = -(-max(values.nbytes, 1) // PAGE)
        size = (pages + 2) * PAGE
        base = _LIBC.mmap(None, size, 3, 0x22, -1, 0)
        assert base not in (None, ctypes.c_void_p(-1).value)
        for fence in (base, base + (pages + 1) * PAGE):
            assert _LIBC.mprotect(fence, PAGE, 0) == 0
        self._blocks.append((base, size))
        start = base + PAGE + (pages * PAGE - values.nbytes if at_end else 0)
        raw = (ctypes.c_char * values.nbytes).from_address(start)
        copy = np.frombuffer(raw, values.dtype).reshape(values.shape)
        copy[...] = values
        return copy

    def close(self):
        for base, size in self._blocks:
            _LIBC.munmap(base, size)


@pytest.fixture
def fenced():
    arena = Fenced()
    yield arena
    arena.close()


@pytest.fixture(params=LEVELS)
def library(request):
    if request.param not in levels():
        pytest.skip(f"this machine has no {request.param}")
    return build(SOURCE, request.param)


def values(dtype, count, seed=0):
    rng = np.random.default_rng(seeded(seed))
    if dtype == np.bool_:
        return rng.integers(0, 2, count).astype(np.bool_)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    return rng.normal(size=count).astype(dtype)


@pytest.mark.parametrize("how", ["copy", "stream"])
@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("at_end", [True, False])
def test_copy_of_any_length(library, fenced, how, name, at_end):
    dtype = ELEMENTS[name]
    for n in [*range(1, 40), 64, 67, 129, 255]:
        x = fenced.array(values(dtype, n, n), at_end)
        y = fenced.array(np.zeros(n, dtype), at_end)
        call(library, f"{how}_{name}", x, y, n)
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("name", ELEMENTS)
def test_tail_counts_out_of_range(library, name):
    dtype = ELEMENTS[name]
    x, y = values(dtype, 128, 3), np.zeros(128, dtype)
    for n in (0, -1, -1000):
        call(library, f"tail_{name}", x, y, n)
        assert not y.any()
    call(library, f"tail_{name}", x, y, 1 << 40)
    lanes = int(np.max(np.nonzero(y != np.zeros(1, dtype))[0])) + 1
    assert lanes <= 64
    np.testing.assert_array_equal(y[:lanes], x[:lanes])


@pytest.mark.parametrize("name", ELEMENTS)
def test_masked(library, fenced, name):
    dtype = ELEMENTS[name]
    places = np.arange(77)
    runs = (places >= 0, places < 0, places >= 1, places < 63, (places > 2) & (places < 34))
    some = (
        np.random.default_rng(seeded(n)).integers(0, 2, n).astype(bool) for n in (1, 3, 8, 31, 77)
    )
    for keep in (*runs, *some):
        n = len(keep)
        x, old = fenced.array(values(dtype, n, n)), values(dtype, n, n + 1)
        y, filled = fenced.array(old), fenced.array(np.ones(n, dtype))
        call(library, f"masked_{name}", x, y, filled, fenced.array(keep.astype(np.uint8)), n)
        np.testing.assert_array_equal(y, np.where(keep, x, old))
        np.testing.assert_array_equal(filled, np.where(keep, x, np.zeros(1, dtype)))


@pytest.mark.parametrize("name", ELEMENTS)
def test_strided(library, fenced, name):
    dtype = ELEMENTS[name]
    for n in (1, 2, 7, 16, 33, 65):
        for dx, dy in ((1, 1), (3, 1), (1, 5), (2, 3)):
            x = fenced.array(values(dtype, (n - 1) * dx + 1, n))
            y = fenced.array(np.zeros((n - 1) * dy + 1, dtype))
            call(library, f"strided_{name}", x, dx, y, dy, n)
            np.testing.assert_array_equal(y[::dy], x[::dx])
            assert np.count_nonzero(y) == np.count_nonzero(x[::dx])


@pytest.mark.parametrize("name", ELEMENTS)
def test_near_strides(library, fenced, name):
    """Known ones are read by loads of neighbours, never beyond the last element."""
    dtype = ELEMENTS[name]
    for n in (16, 32, 67, 128):
        for step in range(2, 9):
            x = fenced.array(values(dtype, (n - 1) * step + 1, n))
            y = fenced.array(np.zeros(n, dtype))
            call(library, f"near_{name}", x, step, y, n)
            np.testing.assert_array_equal(y, x[::step])


def test_negative_and_zero_strides(library):
    x, y = values(np.float32, 64), np.zeros(40, np.float32)
    for dx, expected in ((-1, x[63:23:-1]), (0, np.repeat(x[63], 40))):
        last = np.frombuffer(x, np.float32)[63:]
        call(library, "strided_float32", last, dx, y, 1, 40)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("name", ELEMENTS)
def test_gather_and_scatter(library, fenced, name):
    dtype = ELEMENTS[name]
    for n in (1, 5, 16, 63, 100):
        rng = np.random.default_rng(seeded(n))
        x = fenced.array(values(dtype, 41, n))
        index = rng.integers(0, 41, n)
        for width, integer in (("32", np.int32), ("64", np.int64)):
            y = fenced.array(np.zeros(n, dtype))
            call(library, f"gather{width}_{name}", x, fenced.array(index.astype(integer)), y, n)
            np.testing.assert_array_equal(y, x[index])
        source, target = fenced.array(values(dtype, n, 7)), fenced.array(np.zeros(41, dtype))
        call(library, f"scatter_{name}", source, fenced.array(index), target, n)
        expected = np.zeros(41, dtype)
        for at, value in zip(index, source, strict=True):
            expected[at] = value  # the later of two equal indices wins
        np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("name", ELEMENTS)
def test_broadcast(library, name):
    x, y = values(ELEMENTS[name], 1, 5), np.zeros(64, ELEMENTS[name])
    x[0] = 1 if x[0] == 0 else x[0]
    call(library, f"broadcast_{name}", x, y)
    lanes = np.count_nonzero(y)
    assert lanes in {1, 2, 4, 8, 16, 32, 64}
    assert (y[:lanes] == x[0]).all()


FLOAT_EDGES = [0.0, -0.0, 0.5, -0.5, 1.9, -1.9, 127.0, 128.0, 255.0, 256.0, -1.0, 300.7, -300.2]
FLOAT_EDGES += [65535.0, 1e5, -1e5, 2147483520.0, -2147483648.0, np.nan, np.inf, -np.inf]
FLOAT_EDGES += [3e9, -3e9, 9.2e18, -9.2e18, 1e19, 1e30, 1e-40]


def c_cast(x, dtype):
    """What the library promises: x86 truncation (NaN and overflow give the smallest integer of
    the instruction), then the low bits."""
    if x.dtype.kind != "f" or np.dtype(dtype).kind == "f":
        return x.astype(dtype)
    through_64 = dtype == np.int64 or (x.dtype == np.float64 and dtype == np.uint8)
    wide, bits = (np.int64, 63) if through_64 else (np.int32, 31)
    fits = (np.trunc(x) >= -(2.0**bits)) & (np.trunc(x) < 2.0**bits)
    return np.where(fits, x, -(2.0**bits)).astype(wide).astype(dtype)


@pytest.mark.parametrize("source", NUMBERS)
@pytest.mark.parametrize("target", NUMBERS)
def test_convert(library, source, target):
    x = values(ELEMENTS[source], 203, 2)
    if source.startswith("float"):
        edges = np.array(FLOAT_EDGES).astype(ELEMENTS[source])
        x = np.concatenate([x, x * 50, x * 1e6, x * 1e15, edges])
    y = np.zeros(len(x), ELEMENTS[target])
    call(library, f"convert_{source}_{target}", x, y, len(x))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, c_cast(x, ELEMENTS[target]))


@pytest.mark.parametrize("source", NUMBERS)
def test_truth(library, source):
    x = values(ELEMENTS[source], 100, 2)
    x[::3] = 0
    if source.startswith("float"):
        x[1:4] = [np.nan, -0.0, 1e-45]
    y, z = np.zeros(100, np.uint8), np.zeros(100, x.dtype)
    call(library, f"truth_{source}", x, y, z, 100)
    np.testing.assert_array_equal(y, x != 0)
    np.testing.assert_array_equal(z, x != 0)


def float_patterns(count=200_000):
    """Floats of every kind, and those around the rounding boundaries of the half types."""
    bits = np.random.default_rng(seeded(4)).integers(0, 2**32, count, dtype=np.uint32)
    near = (bits & np.uint32(0xFFFFE000)) + np.arange(-3, 4, dtype=np.int64)[:, None].astype(
        np.uint32
    )
    ordinary = np.random.default_rng(seeded(5)).normal(size=count).astype(np.float32) * 1e-5
    return np.concatenate([bits, near.ravel(), ordinary.view(np.uint32)]).view(np.float32)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_half_types_round_and_widen(library, name):
    dtype = ELEMENTS[name]
    every = np.arange(65536, dtype=np.uint16)
    wide = np.zeros(65536, np.float32)
    call(library, f"widen_{name}", every, wide, 65536)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(wide, every.view(dtype).astype(np.float32))
        x = float_patterns()
        narrow = np.zeros(len(x), np.uint16)
        call(library, f"narrow_float32_{name}", x, narrow, len(x))
        expected = x.astype(dtype)
    got = narrow.view(dtype)
    same = (narrow == expected.view(np.uint16)) | (np.isnan(got) & np.isnan(expected))
    assert same.all(), x[~same][:5]


def test_integers_round_to_bfloat16(library):
    x = values(np.int64, 100) >> 30
    y = np.zeros(100, np.uint16)
    call(library, "narrow_int64_bfloat16", x, y, 100)
    np.testing.assert_array_equal(
        y.view(ml_dtypes.bfloat16), x.astype(np.float32).astype(ml_dtypes.bfloat16)
    )


def test_mask_facts(library):
    facts = np.zeros(6, np.int64)
    lanes = {2: 4, 3: 8, 4: 16}[LEVELS.index(level_of(library)) + 2]
    for n in range(1, lanes + 1):
        for seed in range(6):
            x = values(np.float32, n, seed) + (seed - 3)
            call(library, "mask_facts", x, n, facts)
            on = x > 0
            expected = [on.any(), on.all(), on.sum(), n - on.sum(), 0, 2]
            np.testing.assert_array_equal(facts, expected)


def level_of(library):
    return next(level for level in LEVELS if library is build(SOURCE, level))


@pytest.mark.parametrize("name", ["uint8", "uint16", "float32", "int64"])
def test_transpose(library, fenced, name):
    dtype = ELEMENTS[name]
    side = getattr(library, f"side_{name}")()
    assert side in {2, 4, 8, 16}
    x = fenced.array(values(dtype, (side, side + 3)))
    y = fenced.array(np.zeros((side, side + 1), dtype))
    call(library, f"transpose_{name}", x, side + 3, y, side + 1)
    np.testing.assert_array_equal(y[:, :side], x[:, :side].T)
    assert not y[:, side].any()
    for height in range(1, side + 1):
        for width in range(1, side + 1):
            tile = fenced.array(values(dtype, (height, width)))
            out = fenced.array(np.zeros((width, height), dtype))
            call(library, f"corner_{name}", tile, width, out, height, height, width)
            np.testing.assert_array_equal(out, tile.T)
