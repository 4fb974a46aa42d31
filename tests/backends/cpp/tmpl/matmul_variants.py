"""Instantiations of the matmul template that its tests call, each by a name."""

from dataclasses import dataclass, replace

import numpy as np

from aot.backends.cpp.gemm_heuristic import MatmulBlocking, matmul_blocking

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


def _of_varying_sizes() -> dict[str, Variant]:
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
    return table


def _of_constant_sizes() -> dict[str, Variant]:
    table: dict[str, Variant] = {}
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


VARIANTS = {**_of_varying_sizes(), **_of_constant_sizes()}
