"""Products of float16 and float32 in pieces of bfloat16, by the machine's tiles and emulated."""

from dataclasses import replace

import numpy as np
import pytest

from aot.backends.cpp.gemm_heuristic import matmul_blocking
from aot.backends.cpp.packing import pack_matmul_weight
from aot.backends.cpp.pieces_heuristic import Pieces, piece_lines
from tests.backends.cpp.tmpl import test_matmul as matmul
from tests.backends.cpp.tmpl.build import aligned, as_aligned, build, call, emulated, levels
from tests.backends.cpp.tmpl.matmul_variants import HEADER, Variant

LEVEL = levels()[-1]
EMULATED = emulated("kBf16Tiles")


class Cut(Variant):
    """A product in pieces."""

    def text(self, name: str) -> str:
        lines = piece_lines(self.blocking.pieces)
        return (
            super()
            .text(name)
            .replace(
                "  static constexpr int64_t PACKED",
                "\n".join(lines) + "\n  static constexpr int64_t PACKED",
            )
        )


def cut(dtype, shape, columns, depth, rows, *, a="kDepth", b="packed"):
    """`shape`: m, n, k; `b`: "packed", or what neighbours of a plain matrix are."""
    size, pieces = np.dtype(dtype).itemsize, {"float16": 2, "float32": 3}[dtype]
    blocking = matmul_blocking(
        *shape,
        a_bytes=size,
        b_bytes=size,
        a_contiguous=a == "kDepth",
        b_packed=b == "packed",
        b_across=b == "kAcross",
    )
    blocking = replace(blocking, pieces=Pieces(columns, depth, rows, shape[2], pieces))
    return Cut(blocking, dtype, shape, (a, "kAny" if b == "packed" else b))


CASES = {
    "weight": cut("float16", (75, 100, 90), 112, 96, 32),
    "weight_few_columns_at_a_time": cut("float16", (40, 100, 61), 32, 64, 32),
    "weight_by_chunks": cut("float16", (150, 50, 150), 64, 64, 40),
    "rows": cut("float16", (37, 70, 64), 80, 64, 32, b="kAcross"),
    "columns": cut("float16", (64, 35, 129), 48, 160, 32, b="kDepth"),
    "any": cut("float16", (33, 17, 31), 32, 32, 32, b="kAny"),
    "turned_rows": cut("float16", (70, 40, 100), 48, 128, 32, a="kAcross", b="kAcross"),
    "one_panel": cut("float16", (206, 16, 264), 16, 288, 32, b="kAcross"),
    "few_rows": cut("float16", (9, 40, 64), 48, 64, 32, b="kAcross"),
    "floats": cut("float32", (70, 50, 75), 32, 96, 32, b="kAcross"),
    "floats_by_chunks": cut("float32", (90, 33, 100), 48, 32, 64),
}
LAYOUTS = {"kAcross": "rows", "kDepth": "columns", "kAny": "spread"}


@pytest.fixture
def variants(monkeypatch):
    """The helpers of other products find these by their names."""
    monkeypatch.setattr(matmul, "VARIANTS", CASES)


@pytest.mark.parametrize("ahead", ["", EMULATED], ids=["machine", "emulated"])
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("variants")
def test_matches_the_product(name, pieces, ahead):
    case = CASES[name]
    a, b = case.along
    layout = LAYOUTS[b] if case.blocking.strided_b else "packed"
    matmul.check(
        LEVEL,
        name,
        case.static,
        batch=2,
        k_outer=a == "kAcross",
        b_layout=layout,
        pieces=pieces,
        ahead=ahead,
    )


def product(name, a, b, pieces=1):
    """A packed weight's case, emulated."""
    case = CASES[name]
    (m, n, k), blocking = case.static, case.blocking
    library = build(HEADER + case.text(name), LEVEL, EMULATED)
    out, bias = aligned((n, m), np.float32), np.zeros(n, np.float32)
    scratch = aligned((blocking.scratch_bytes,), np.uint8)
    packed, stored = as_aligned(pack_matmul_weight(b)), as_aligned(a)
    for begin, end in matmul.split(blocking.work(1, m, n), pieces):
        args = (stored, 0, k, 1, packed, 0, 0, 0, m, n, k, out, bias, begin, end, scratch)
        call(library[f"run_{name}"], *args)
    return out.T


NAMES = ["weight", "weight_few_columns_at_a_time", "weight_by_chunks"]


def operands(name):
    m, n, k = CASES[name].static
    return matmul.random((m, k), np.float16, 1), matmul.random((k, n), np.float16, 2)


@pytest.mark.parametrize("name", NAMES)
def test_all_finite_numbers_of_float16_are_exact(name):
    a, b = operands(name)
    a[3], a[5, ::2] = 65504, 6e-8
    b[:, 7] = 6e-8
    b[1::2, 9] = -65504
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    assert np.all(np.abs(product(name, a, b) - exact) <= 1e-6 * bound)


@pytest.mark.parametrize("name", NAMES)
def test_infinities_and_nan_stay_in_their_rows_and_columns(name):
    a, b = operands(name)
    clean = product(name, a, b)
    a[5, 7], a[38, 60], b[9, 20] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    out = product(name, a, b)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))
    infinite = np.isinf(expected)
    np.testing.assert_array_equal(out[infinite], expected[infinite].astype(np.float32))
    rows = np.delete(np.arange(len(a)), (5, 38))
    columns = np.r_[0:16, 32 : b.shape[1]]  # panels without an infinity
    np.testing.assert_array_equal(out[np.ix_(rows, columns)], clean[np.ix_(rows, columns)])


@pytest.mark.parametrize("name", NAMES)
def test_bits_do_not_depend_on_how_work_is_divided(name):
    a, b = operands(name)
    a[33, 4] = np.inf
    np.testing.assert_array_equal(product(name, a, b), product(name, a, b, pieces=4))
