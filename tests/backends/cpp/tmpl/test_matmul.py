"""The matmul template against NumPy in float64: odd shapes, types, strides, splits of the work."""

import ctypes
import itertools
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest

from aot.backends.cpp.gemm_heuristic import MatmulBlocking, matmul_blocking
from aot.backends.cpp.packing import pack_matmul_weight
from tests.backends.cpp.tmpl.build import LEVELS, aligned, as_aligned, build, call, levels
from tests.settings import seeded

CTYPES = {
    "float32": "float",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bfloat16": "Bf16",
    "float16": "F16",
}
COMPUTE = {"bfloat16": np.float32, "float16": np.float32}

HEADER = """
#include "aot/tmpl/matmul.h"
using namespace aot::tmpl;
#define EXPORT extern "C" __attribute__((visibility("default")))
"""
VARIANT = """
namespace {name} {{
struct Cfg : MatmulConfig {{
  using A = {a};
  using B = {b};
  static constexpr int64_t M = {m}, N = {n}, K = {k};
  static constexpr int64_t MB = {mb}, NB = {nb}, MC = {mc}, NC = {nc}, KB = {kb};
  static constexpr bool COPY_A = {copy}, STRIDED_B = {strided};
  static constexpr int64_t PACKED = {packed};
  static constexpr Along A_ALONG = Along::{a_along}, B_ALONG = Along::{b_along};
}};
using T = compute_t<Cfg::A>;
// An epilogue with a bias and a transposed store, so that every index is checked.
struct Epilogue {{
  T* c;
  const T* bias;
  int64_t c_batch, c_col;
  void operator()(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1, const T* tile,
                  int64_t ld) const {{
    for (int64_t m = m0; m < m1; ++m) {{
      for (int64_t n = n0; n < n1; ++n) {{
        c[b * c_batch + n * c_col + m] = T(tile[(m - m0) * ld + n - n0] + bias[n]);
      }}
    }}
  }}
}};
EXPORT int64_t scratch_{name}() {{ return matmul_scratch<Cfg>(); }}
EXPORT void run_{name}(const Cfg::A* a, int64_t a_batch, int64_t a_row, int64_t a_col,
                       const Cfg::B* b, int64_t b_batch, int64_t b_row, int64_t b_col, int64_t m,
                       int64_t n, int64_t k, T* c, const T* bias, int64_t begin, int64_t end,
                       void* scratch) {{
  const MatmulArgs<Cfg> p{{a, a_batch, a_row, a_col, b, b_batch, b_row, b_col, m, n, k}};
  matmul<Cfg>(p, begin, end, scratch, Epilogue{{c, bias, m * n, m}});
}}
EXPORT void plain_{name}(const Cfg::A* a, int64_t a_batch, int64_t a_row, int64_t a_col,
                         const Cfg::B* b, int64_t b_batch, int64_t b_row, int64_t b_col, int64_t m,
                         int64_t n, int64_t k, T* c, int64_t c_row, int64_t begin, int64_t end,
                         void* scratch) {{
  const MatmulArgs<Cfg> p{{a, a_batch, a_row, a_col, b, b_batch, b_row, b_col, m, n, k}};
  matmul<Cfg>(p, begin, end, scratch, StoreRows<T>{{c, m * c_row, c_row}});
}}
// Results as they are, of one matrix: what need not pass through a tile is written by kernels.
struct Own : Cfg {{
  static constexpr bool PLAIN = std::is_same_v<A, T>;
}};
EXPORT void own_{name}(const Cfg::A* a, int64_t a_row, int64_t a_col, const Cfg::B* b,
                       int64_t b_row, int64_t b_col, int64_t m, int64_t n, int64_t k, T* c,
                       int64_t c_row, int64_t begin, int64_t end, void* scratch) {{
  const int64_t row = c_row * sizeof(T);
  const MatmulArgs<Own> p{{a, 0, a_row, a_col, b, 0, b_row, b_col, m, n, k, c, row, sizeof(T)}};
  const auto store = [=](int64_t, int64_t m0, int64_t m1, int64_t n0, int64_t n1, const T* tile,
                         int64_t ld) {{
    for (int64_t i = m0; i < m1; ++i) {{
      for (int64_t j = n0; j < n1; ++j) c[i * c_row + j] = tile[(i - m0) * ld + j - n0];
    }}
  }};
  matmul<Own>(p, begin, end, scratch, store);
}}
}}  // namespace {name}
"""


@dataclass(frozen=True)
class Variant:
    """One instantiation of the template."""

    blocking: MatmulBlocking
    dtype: str = "float32"
    static: tuple[int, int, int] = (-1, -1, -1)
    along: tuple[str, str] = ("kAny", "kAny")

    def text(self, name: str) -> str:
        blocking = self.blocking
        return VARIANT.format(
            name=name,
            a=CTYPES[self.dtype],
            b=CTYPES[self.dtype],
            m=self.static[0],
            n=self.static[1],
            k=self.static[2],
            mb=blocking.mb,
            nb=blocking.nb,
            mc=blocking.mc,
            nc=blocking.nc,
            kb=blocking.kb,
            copy="true" if blocking.copy_a else "false",
            strided="true" if blocking.strided_b else "false",
            packed=blocking.packed,
            a_along=self.along[0],
            b_along=self.along[1],
        )


SMALL = MatmulBlocking(
    mb=32,
    nb=48,
    mc=32,
    nc=64,
    kb=24,
    grain=1,
    copy_a=False,
    accumulator_bytes=4,
    narrow_a=False,
    narrow_b=False,
)
DIVIDED = (75, 70, 30)
ONE_PANEL = [(300, 8, 157), (9, 16, 64), (200, 5, 31)]
DIRECT = [
    (dtype, shape, a, b)
    for dtype, shape in [
        ("float32", (37, 8, 18)),
        ("float32", (200, 40, 300)),
        ("float32", (19, 131, 7)),
        ("float32", (300, 5, 140)),
        ("float32", (3, 20, 33)),
        ("float64", (150, 11, 130)),
        ("float64", (21, 70, 9)),
        ("float16", (4, 108, 185)),
        ("float16", (30, 50, 60)),
        ("float32", (8, 16, 312)),
        ("float32", (31, 100, 290)),
        ("float32", (100, 21, 60)),
        ("float64", (17, 40, 150)),
        ("float32", (7, 9, 56)),
        ("float64", (5, 3, 75)),
        ("bfloat16", (9, 33, 40)),
        ("float32", (41, 1, 100)),
        ("float64", (2, 37, 75)),
        ("float32", (150, 16, 10)),
        ("float32", (130, 19, 256)),  # A across, B is packed, and sums of pieces stay in a tile
    ]
    for a in ("kDepth", "kAcross")
    for b in ("kAcross", "kDepth")
]
"""Products of constant sizes with what operands' neighbours in memory are."""
CHUNKS = [("float64", (120, 300, 90)), ("float64", (20, 250, 128)), ("float32", (600, 32, 300))]
"""Large tiles of one chunk, and a deep product by strips, as B stays warm."""
TURNED_WEIGHTS = [
    ("float32", (50, 16, 300)),
    ("float64", (37, 40, 30)),
    ("float32", (140, 64, 9)),
    ("float32", (104, 45, 300)),  # sums of pieces stay in a tile
    ("float32", (150, 700, 20)),  # rows are copied once for several tiles' columns
    ("float64", (70, 1300, 90)),  # once for those of them whose panels stay near
    ("float32", (1024, 64, 30)),  # k's a page apart are copied beside each other
    ("float32", (1024, 40, 300)),  # in pieces
    ("float64", (516, 24, 70)),
]
FEW = [(1, 300, 700), (3, 40, 64), (7, 33, 1), (14, 500, 270), (15, 50, 40)]
"""Rows of halves by packed ones that are read where they lie, but for the last."""
HALVES = ("float16", "bfloat16")
VARYING = {"varying": 301, "varying_far": 7000}
"""The depth of products of a varying number of such rows: twelve at most, and nine."""
CONSTANT = [(8, 16, 16), (5, 48, 7), (129, 100, 300), (1, 64, 500)]


def variants() -> dict[str, Variant]:
    table = {
        "small": Variant(SMALL),
        "wide": Variant(matmul_blocking(11, 128, 10, m_max=200)),
        "k_outer": Variant(matmul_blocking(140, 64, 600, m_max=200, a_contiguous=False)),
        "k_outer_bfloat16": Variant(
            matmul_blocking(140, 64, 600, m_max=200, a_contiguous=False, a_bytes=2, b_bytes=2),
            "bfloat16",
        ),
    }
    for dtype in ("float64", "int64", "int32", "int16", "int8", "uint8"):
        size = np.dtype(dtype).itemsize
        table[dtype] = Variant(matmul_blocking(40, 64, 33, m_max=64, accumulator_bytes=size), dtype)
    for dtype in ("bfloat16", "float16"):
        table[dtype] = Variant(matmul_blocking(40, 64, 600, m_max=64, a_bytes=2, b_bytes=2), dtype)
    for dtype in ("float32", "bfloat16", "int32"):
        half = 2 if dtype == "bfloat16" else None
        blocking = matmul_blocking(
            40, 40, 40, m_max=200, a_bytes=half, b_bytes=half, b_packed=False, k_fixed=False
        )
        table[f"plain_b_{dtype}"] = Variant(blocking, dtype)
    for dtype, k in (("float32", 60), ("int32", 60), ("float32", 600)):
        blocking = matmul_blocking(300, 100, k, m_max=1000, b_packed=False, a_contiguous=k > 60)
        assert blocking.packed == 112 * k
        table[f"rectangle_{dtype}_{k}"] = Variant(blocking, dtype)
    for k, k_outer in ((64, False), (61, False), (30, True), (600, True)):
        blocking = matmul_blocking(
            *(300, 100, k),
            m_max=1000,
            a_bytes=2,
            b_bytes=2,
            b_packed=False,
            a_contiguous=not k_outer,
        )
        assert blocking.packed == 112 * (k + k % 2)
        table[f"rectangle_bfloat16_{k}"] = Variant(blocking, "bfloat16")
    for i, shape in enumerate(CONSTANT):
        table[f"constant{i}"] = Variant(matmul_blocking(*shape), "float32", shape)
    table["divided"] = Variant(replace(SMALL, mc=20), static=DIVIDED)
    for i, (dtype, shape) in enumerate(CHUNKS):
        size = np.dtype(dtype).itemsize
        table[f"chunks{i}"] = Variant(matmul_blocking(*shape, accumulator_bytes=size), dtype, shape)
    for i, (dtype, shape) in enumerate(TURNED_WEIGHTS):
        blocking = matmul_blocking(
            *shape, accumulator_bytes=np.dtype(dtype).itemsize, a_contiguous=False
        )
        table[f"turned{i}"] = Variant(blocking, dtype, shape, ("kAcross", "kAny"))
    for i, (dtype, shape, *along) in enumerate(DIRECT):
        size = np.dtype(dtype).itemsize if dtype != "bfloat16" else 2
        turned = along[0] == "kAcross" and size > 2
        blocking = matmul_blocking(
            *shape,
            accumulator_bytes=max(size, 4),
            a_bytes=size,
            b_bytes=size,
            a_contiguous=along[0] == "kDepth",
            b_packed=False,
            may_turn=turned,
        )
        table[f"direct{i}"] = Variant(blocking, dtype, shape, tuple(along))
    for i, shape in enumerate(FEW):
        for dtype in HALVES:
            blocking = matmul_blocking(
                *shape, a_bytes=2, b_bytes=2, float16=dtype == "float16", halves=True
            )
            assert (blocking.few > 0) == (shape[0] < 15)
            table[f"few{i}_{dtype}"] = Variant(replace(blocking, pieces=None), dtype, shape)
    for name, k in VARYING.items():
        for dtype in HALVES:
            blocking = matmul_blocking(4, 70, k, m_max=64, a_bytes=2, b_bytes=2, halves=True)
            table[f"{name}_{dtype}"] = Variant(blocking, dtype, (-1, -1, k))
    for i, shape in enumerate(ONE_PANEL):
        blocking = matmul_blocking(*shape, a_bytes=2, b_bytes=2, b_packed=False)
        table[f"one_panel{i}"] = Variant(blocking, "bfloat16", shape)
    return table


VARIANTS = variants()


def library_of(name: str, level: str, ahead: str = "") -> ctypes.CDLL:
    return build(HEADER + VARIANTS[name].text(name), level, ahead)


@pytest.fixture(params=LEVELS)
def level(request):
    if request.param not in levels():
        pytest.skip(f"this machine does not run {request.param}")
    return request.param


def random(shape, dtype, seed):
    rng = np.random.default_rng(seeded(seed))
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(max(info.min, -9), min(info.max, 9) + 1, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def split(work: int, pieces: int) -> list[tuple[int, int]]:
    edges = [work * i // pieces for i in range(pieces + 1)]
    return list(itertools.pairwise(edges))


def check(
    level,
    name,
    shape,
    *,
    batch=1,
    k_outer=False,
    shared_b=False,
    b_layout="packed",
    pieces=1,
    ahead="",
):
    """Runs a variant with the epilogue and with the plain store, and compares both."""
    m, n, k = shape
    blocking, dtype = VARIANTS[name].blocking, VARIANTS[name].dtype
    element = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    compute = COMPUTE.get(dtype, element)
    a = random((batch, m, k), element, 1)
    b = random((1 if shared_b else batch, k, n), element, 2)
    bias = random((n,), compute, 3)
    b_stored, b_strides = lay_out(b, b_layout)
    stored = as_aligned(np.ascontiguousarray(a.swapaxes(1, 2)) if k_outer else a)
    strides = (m * k, 1, m) if k_outer else (m * k, k, 1)
    library = library_of(name, level, ahead)
    assert library[f"scratch_{name}"]() == blocking.scratch_bytes
    scratch = aligned((blocking.scratch_bytes,), np.uint8)
    integral = np.dtype(compute).kind in "iu"
    wide = np.int64 if integral else np.float64
    product = np.matmul(a.astype(wide), b.astype(wide))
    bound = None if integral else np.matmul(np.abs(a.astype(wide)), np.abs(b.astype(wide)))
    ranges = split(blocking.work(batch, m, n), pieces)
    common = (stored, *strides, b_stored, 0 if shared_b else b_stored[0].size, *b_strides, m, n, k)

    out = aligned((batch, n, m), compute)
    for begin, end in ranges:
        call(library[f"run_{name}"], *common, out, bias, begin, end, scratch)
    compare(out.swapaxes(1, 2), product + bias.astype(wide), bound, k)
    row = n + 5
    rows = aligned((batch, m, row), compute)
    untouched = rows[:, :, n:].copy()
    for begin, end in ranges:
        call(library[f"plain_{name}"], *common, rows, row, begin, end, scratch)
    compare(rows[:, :, :n], product, bound, k)
    np.testing.assert_array_equal(rows[:, :, n:], untouched)
    own = aligned((batch, m, row), compute)
    for i in range(batch):
        there = (b_stored[0 if shared_b else i], *b_strides, m, n, k)
        for begin, end in split(blocking.work(1, m, n), pieces):
            function = library[f"own_{name}"]
            call(function, stored[i], *strides[1:], *there, own[i], row, begin, end, scratch)
    compare(own[:, :, :n], product, bound, k)
    np.testing.assert_array_equal(own[:, :, n:], untouched)


def lay_out(b, layout):
    """B (batch, k, n) as it lies in memory, and the element strides of k and n there."""
    n = b.shape[2]
    if layout == "packed":
        return as_aligned(np.stack([pack_matmul_weight(x) for x in b])), (0, 0)
    if layout == "columns":
        return as_aligned(b.swapaxes(1, 2)), (1, b.shape[1])
    if layout == "rows":
        return as_aligned(b), (n, 1)
    return as_aligned(np.repeat(b, 2, axis=2)), (2 * n, 2)


def compare(actual, expected, bound, k):
    if bound is None:
        np.testing.assert_array_equal(actual, expected.astype(actual.dtype))
        return
    epsilon = np.finfo(actual.dtype).eps
    # Rounding errors of k sums grow like a random walk, far below the worst case of k * eps.
    assert actual.shape == expected.shape
    limit = epsilon * (np.abs(expected) + bound * (2 + np.sqrt(k)) / 2 + 1)
    assert np.all(np.abs(actual.astype(np.float64) - expected) <= limit)


SHAPES = [
    (0, 5, 5),
    (5, 0, 5),
    (5, 5, 0),
    (1, 1, 1),
    (8, 16, 16),
    (1, 100, 37),
    (2, 33, 24),
    (3, 65, 25),
    (13, 17, 23),
    (33, 49, 48),
    (64, 96, 72),
    (97, 131, 101),
    (150, 64, 20),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_shapes(level, shape):
    check(level, "small", shape)


@pytest.mark.parametrize("rows", range(1, 21))
def test_every_strip_height(level, rows):
    check(level, "small", (rows, 80, 30))


@pytest.mark.parametrize("panels", range(1, 9))
def test_every_panel_count(level, panels):
    check(level, "wide", (11, 16 * panels - 3, 10))


@pytest.mark.parametrize("pieces", [2, 3, 7, 100])
def test_splits_give_the_same_bytes(level, pieces):
    m, n, k = 75, 150, 60
    a, b = random((m, k), np.float32, 1), random((k, n), np.float32, 2)
    packed, stored = as_aligned(pack_matmul_weight(b)), as_aligned(a)
    run = library_of("small", level).run_small
    scratch = aligned((SMALL.scratch_bytes,), np.uint8)
    bias = np.zeros(n, np.float32)
    results = []
    for count in (1, pieces):
        out = aligned((n, m), np.float32)
        for begin, end in split(SMALL.work(1, m, n), count):
            call(run, stored, 0, k, 1, packed, 0, 0, 0, m, n, k, out, bias, begin, end, scratch)
        results.append(out)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("dtype", ["float64", "int64", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("shape", [(13, 35, 29), (40, 64, 33), (1, 17, 5)])
def test_other_types(level, dtype, shape):
    check(level, dtype, shape)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    "shape",
    [
        (13, 35, 29),
        (40, 64, 600),
        (1, 100, 31),
        (3, 16, 0),
        (1, 20, 32),
        (50, 40, 64),
        (70, 100, 1120),
    ],
)
def test_half_types_compute_in_float32(level, dtype, shape):
    check(level, dtype, shape)


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("i", range(len(FEW)))
@pytest.mark.parametrize("dtype", HALVES)
def test_few_rows_read_packed_halves_where_they_lie(level, dtype, i, pieces):
    check(level, f"few{i}_{dtype}", FEW[i], batch=2, shared_b=i == 1, pieces=pieces)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("rows", [1, 2, 6, 7, 12, 13])
def test_as_many_rows_as_are_few_in_a_run_read_packed_halves_where_they_lie(level, dtype, rows):
    check(level, f"varying_{dtype}", (rows, 70, VARYING["varying"]), batch=2, pieces=2)


@pytest.mark.parametrize("rows", [9, 10])
def test_few_rows_that_are_long_stay_near(level, rows):
    """Beyond nine copies of 7000 floats panels are widened, and rows cut into chunks."""
    check(level, "varying_far_bfloat16", (rows, 70, VARYING["varying_far"]))


@pytest.mark.parametrize("unit", ["kBf16Dot", "kBf16None"])
@pytest.mark.parametrize(
    "shape", [(1, 20, 32), (50, 40, 1034), (13, 70, 29), (40, 33, 1037), (3, 16, 0)]
)
def test_lesser_bfloat16_units(level, unit, shape):
    check(level, "bfloat16", shape, ahead=f"#define AOT_TMPL_BF16_AT_MOST {unit}\n")


@pytest.mark.parametrize("name", ["k_outer", "k_outer_bfloat16"])
@pytest.mark.parametrize(
    "shape",
    [
        (13, 35, 29),
        (140, 64, 600),
        (9, 20, 1031),
        (140, 200, 100),  # rows are copied once for several tiles' columns
    ],
)
def test_strided_k_is_copied(level, shape, name):
    check(level, name, shape, k_outer=True, batch=2)


@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
@pytest.mark.parametrize(
    "shape",
    [
        (0, 5, 5),
        (1, 70, 60),
        (3, 16, 5),
        (40, 37, 60),
        (150, 100, 0),
        (21, 70, 1037),
        (7, 64, 1100),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_plain_b(level, layout, shape, dtype):
    check(level, f"plain_b_{dtype}", shape, b_layout=layout, batch=2, pieces=2)


@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
@pytest.mark.parametrize(
    "shape", [(300, 100, 60), (700, 37, 59), (129, 150, 1), (40, 64, 0), (150, 33, 7), (37, 20, 13)]
)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_plain_b_for_all_rows_of_a_rectangle(level, layout, shape, dtype):
    check(level, f"rectangle_{dtype}_60", shape, b_layout=layout, batch=2, k_outer=True, pieces=2)


@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
@pytest.mark.parametrize("k", [64, 61, 30, 600])
@pytest.mark.parametrize("rows", [300, 37])
def test_pairs_are_packed_for_all_rows(level, layout, k, rows):
    turned = k in (30, 600)  # a's rows are neighbours in memory: pairs of them are transposed
    name = f"rectangle_bfloat16_{k}"
    check(level, name, (rows, 75, k), b_layout=layout, batch=2, k_outer=turned, pieces=3)


@pytest.mark.parametrize("i", range(len(DIRECT)), ids=lambda i: "-".join(map(str, DIRECT[i])))
def test_operands_are_read_where_they_lie(level, i):
    dtype, shape, a, b = DIRECT[i]
    none = "#define AOT_TMPL_BF16_AT_MOST kBf16None\n" if dtype == "bfloat16" else ""
    layout = "rows" if b == "kAcross" else "columns"
    turned = a == "kAcross"
    check(
        level, f"direct{i}", shape, k_outer=turned, b_layout=layout, batch=2, pieces=2, ahead=none
    )


@pytest.mark.parametrize("i", range(len(CHUNKS)))
def test_tiles_are_finished_by_groups_of_panels_or_by_strips(level, i):
    check(level, f"chunks{i}", CHUNKS[i][1], pieces=3)


@pytest.mark.parametrize("i", range(len(TURNED_WEIGHTS)))
def test_few_columns_read_depth_first_rows_in_place(level, i):
    check(level, f"turned{i}", TURNED_WEIGHTS[i][1], k_outer=True, batch=2, pieces=2)


@pytest.mark.parametrize("i", range(len(ONE_PANEL)))
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_one_panel_of_bfloat16(level, layout, i):
    check(level, f"one_panel{i}", ONE_PANEL[i], b_layout=layout, batch=2, pieces=2)


def check_same_bytes(level, name, dtype, k, pieces):
    """A product in one piece and in several, which take other ways through what is packed."""
    m, n = 700, 150
    a, b = random((m, k), dtype, 1), random((k, n), dtype, 2)
    stored, matrix = as_aligned(a), as_aligned(b)
    run, blocking = library_of(name, level)[f"plain_{name}"], VARIANTS[name].blocking
    scratch = aligned((blocking.scratch_bytes,), np.uint8)
    results = []
    for count in (1, pieces):
        out = aligned((m, n), np.float32)
        for begin, end in split(blocking.work(1, m, n), count):
            sizes = (0, k, 1, matrix, 0, n, 1, m, n, k)
            call(run, stored, *sizes, out, n, begin, end, scratch)
        results.append(out)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("k", [64, 61])
@pytest.mark.parametrize("pieces", [2, 3, 100])
def test_pairs_of_a_rectangle_or_a_tile_give_the_same_bytes(level, pieces, k):
    check_same_bytes(level, f"rectangle_bfloat16_{k}", ml_dtypes.bfloat16, k, pieces)


@pytest.mark.parametrize("k", [600, 300])
@pytest.mark.parametrize("pieces", [2, 3, 100])
def test_packed_for_a_rectangle_or_a_tile_gives_the_same_bytes(level, pieces, k):
    check_same_bytes(level, "rectangle_float32_600", np.float32, k, pieces)


@pytest.mark.parametrize("shared_b", [False, True])
def test_batches(level, shared_b):
    check(level, "small", (40, 70, 30), batch=3, shared_b=shared_b, pieces=4)


@pytest.mark.parametrize("i", range(len(CONSTANT)))
def test_constant_sizes(level, i):
    check(level, f"constant{i}", CONSTANT[i])


@pytest.mark.parametrize("pieces", [1, 2, 3, 4, 100])
def test_constant_sizes_are_divided_in_any_way(level, pieces):
    check(level, "divided", DIVIDED, pieces=pieces)


def test_many_rows_finish_strip_by_strip(level):
    check(level, "small", (300, 100, 20), pieces=3)


FETCHED = (
    HEADER
    + """
// Marks the cache lines that the strips of a chunk ask for; `lines`: one a row and panel.
EXPORT void fetched(int64_t strips, int64_t panels, int64_t depth, uint8_t* lines) {
  static const float next[1 << 14] = {};
  const Panels<float> view{next, depth * kPanel, kPanel, next};
  for (int64_t s = 0; s < strips && s < kFetchers; ++s) {
    MicroArgs<float> m{};
    fetch_part(view, s, strips, depth, m);
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t j = 0; j < panels; ++j) {
        const int64_t at = m.prefetch - next + k * m.prefetch_step + j * m.prefetch_stride;
        if (at / kPanel < panels * depth) lines[at / kPanel] = 1;
      }
    }
  }
}
"""
)


@pytest.mark.parametrize(("panels", "depth"), [(1, 192), (3, 256), (2, 7), (4, 1)])
def test_strips_fetch_all_of_the_next_panels(level, panels, depth):
    library = build(FETCHED, level)
    for strips in range(2, 20):
        lines = aligned((panels * depth,), np.uint8, 0)
        call(library.fetched, strips, panels, depth, lines)
        assert lines.all(), (strips, np.flatnonzero(lines == 0))
