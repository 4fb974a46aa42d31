"""The matmul template against NumPy in float64: odd shapes, types, strides, splits of the work."""

import ctypes
import itertools

import ml_dtypes
import numpy as np
import pytest

from aot.backends.cpp.packing import pack_matmul_weight
from tests.backends.cpp.tmpl.build import LEVELS, aligned, as_aligned, build, call, levels
from tests.backends.cpp.tmpl.matmul_variants import (
    CHUNKS,
    COMPUTE,
    CONSTANT,
    DIRECT,
    DIVIDED,
    FEW,
    HALVES,
    HEADER,
    ONE_PANEL,
    SMALL,
    TURNED_WEIGHTS,
    VARIANTS,
    VARYING,
)
from tests.settings import seeded


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
