"""The way that a product goes, as each level's compiler prices it."""

from __future__ import annotations

import subprocess

import pytest

from aot.backends.cpp.gemm_heuristic import matmul_blocking
from aot.backends.cpp.toolchain import find_toolchain
from tests.backends.cpp.tmpl.build import INCLUDE, LEVELS
from tests.backends.cpp.tmpl.matmul_variants import HEADER, Variant

ALONG = ("kDepth", "kAcross")
BRINGS = """
using Cut = {name}::Cfg;
static_assert(detail::brings_b<Cut>(detail::direct_cut<Cut>({m}, {n})) == {brings});
"""

BRINGS_A = """
static_assert(detail::matmul_way<{name}::Cfg>() == detail::Way::kDirect);
static_assert(detail::brings_a<{name}::Cfg>() == {brings});
"""

WAYS = """
using Turned = {name}::Cfg;
static_assert(detail::matmul_way<Turned>() == detail::Way::{way});
"""


@pytest.mark.parametrize(
    ("shape", "a", "b", "ways"),
    [
        # At AVX2, at AVX-512.
        ((832, 8, 18), "kDepth", "kAcross", ("kDirect", "kDirect")),
        ((256, 4, 63), "kAcross", "kAcross", ("kTurned", "kTurned")),
        ((155, 32, 256), "kAcross", "kAcross", ("kDirect", "kDirect")),
        ((64, 64, 256), "kAcross", "kAcross", ("kCopies", "kDirect")),
        ((30, 104, 128), "kDepth", "kAcross", ("kDirect", "kDirect")),
        ((121, 479, 504), "kDepth", "kAcross", ("kCopies", "kCopies")),
        ((19, 881, 206), "kDepth", "kAcross", ("kDirect", "kCopies")),  # B is far, and lies across
        ((329, 344, 11), "kDepth", "kAcross", ("kDirect", "kCopies")),
        ((128, 512, 512), "kDepth", "kAcross", ("kCopies", "kCopies")),
        ((20, 32, 60), "kAcross", "kAcross", ("kDirect", "kDirect")),
        ((40, 264, 489), "kAcross", "kAcross", ("kCopies", "kDirect")),  # k's go in pieces
        ((38, 264, 512), "kAcross", "kAcross", ("kCopies", "kDirect")),
        ((32, 40, 200), "kAcross", "kDepth", ("kTurned", "kTurned")),
        ((512, 16, 10), "kAcross", "kDepth", ("kDirect", "kDirect")),  # B is packed
        ((8, 16, 312), "kDepth", "kDepth", ("kDots", "kDots")),
        ((106, 504, 152), "kDepth", "kDepth", ("kCopies", "kCopies")),
        ((256, 1, 256), "kDepth", "kDepth", ("kDots", "kDots")),
        ((106, 504, 152), "kAny", "kAny", ("kCopies", "kCopies")),
    ],
)
def test_the_way_of_a_product_has_the_least_price(shape, a, b, ways, tmp_path):
    """For machines that this one is not, too: nothing is run."""
    blocking = matmul_blocking(
        *shape, a_contiguous=a == "kDepth", b_packed=False, may_turn=a == "kAcross"
    )
    variant = Variant(blocking, "float32", shape, (a, b))
    tools = find_toolchain()
    for level, way in zip(LEVELS, ("kCopies", *ways), strict=True):
        source = tmp_path / f"{level}.cc"
        source.write_text(HEADER + variant.text("v") + WAYS.format(name="v", way=way))
        command = [*tools.command, *tools.compile_flags(level), f"-I{INCLUDE}"]
        subprocess.run([*command, "-fsyntax-only", str(source)], check=True)


@pytest.mark.parametrize(
    ("shape", "dtype", "brings"),
    [
        ((8192, 64, 32), "float32", "true"),
        ((512, 64, 32), "float64", "true"),
        ((8208, 64, 32), "float32", "false"),  # lines of k's lie in sets of their own
        ((8192, 64, 6), "float32", "false"),  # of which the sets that they share keep all
    ],
)
def test_rows_that_lie_pages_apart_are_brought_near(shape, dtype, brings, tmp_path):
    """At AVX2; wider levels read them where they are."""
    blocking = matmul_blocking(*shape, accumulator_bytes=int(dtype[5:]) // 8, a_contiguous=False)
    text = HEADER + Variant(blocking, dtype, shape, ("kAcross", "kAny")).text("v")
    tools = find_toolchain()
    for level, expected in zip(LEVELS[1:], (brings, "false"), strict=True):
        source = tmp_path / f"{level}.cc"
        source.write_text(text + BRINGS_A.format(name="v", brings=expected))
        command = [*tools.command, *tools.compile_flags(level), f"-I{INCLUDE}"]
        subprocess.run([*command, "-fsyntax-only", str(source)], check=True)


@pytest.mark.parametrize(
    ("fixed", "way"),
    [
        ((1, -1, -1), "kDots"),
        ((2, -1, 256), "kDots"),
        ((100, -1, -1), "kCopies"),  # several strips read what was packed
        ((-1, 32, 256), "kCopies"),  # who knows
    ],
)
def test_dot_products_of_few_rows_need_no_other_size(fixed, way, tmp_path):
    """From x86-64-v3 on: below it none are made."""
    blocking = matmul_blocking(
        *(n if n > 0 else 64 for n in fixed),
        m_max=None if fixed[0] > 0 else 1000,
        b_packed=False,
        k_fixed=fixed[2] > 0,
    )
    variant = Variant(blocking, "float32", fixed, ("kDepth", "kDepth"))
    tools = find_toolchain()
    for level, expected in zip(LEVELS, ("kCopies", way, way), strict=True):
        source = tmp_path / f"{level}.cc"
        source.write_text(HEADER + variant.text("v") + WAYS.format(name="v", way=expected))
        command = [*tools.command, *tools.compile_flags(level), f"-I{INCLUDE}"]
        subprocess.run([*command, "-fsyntax-only", str(source)], check=True)


KEEPS = """
using Kept = {name}::Own;
static_assert(detail::direct_packs<Kept>() == {packs} && detail::direct_in_c<Kept>() == {in_c});
"""


@pytest.mark.parametrize(
    ("shape", "packs", "in_c"),
    [
        ((130, 19, 256), True, False),  # vectors cross lines, of B and of results
        ((130, 32, 256), False, True),
        ((20, 19, 256), False, False),  # few strips read B
        ((130, 19, 16), True, True),  # one piece
    ],
)
def test_rows_that_cross_lines_are_packed_and_summed_in_a_tile(shape, packs, in_c, tmp_path):
    """A lies across: strips take K in pieces."""
    blocking = matmul_blocking(*shape, a_contiguous=False, b_packed=False, may_turn=True)
    variant = Variant(blocking, static=shape, along=("kAcross", "kAcross"))
    tools = find_toolchain()
    source = tmp_path / "v4.cc"
    told = {"packs": str(packs).lower(), "in_c": str(in_c).lower()}
    source.write_text(HEADER + variant.text("v") + KEEPS.format(name="v", **told))
    command = [*tools.command, *tools.compile_flags("x86-64-v4"), f"-I{INCLUDE}"]
    subprocess.run([*command, "-fsyntax-only", str(source)], check=True)


@pytest.mark.parametrize(
    ("shape", "brings"),
    [
        ((16, 263, 134), True),  # two strips read 263 columns by groups
        ((9, 64, 232), False),  # one strip reads each element once
        ((64, 32, 64), False),  # one group of columns, row by row
        ((121, 479, 504), False),  # more than stays near
    ],
)
def test_what_strips_read_again_is_brought_near_once(shape, brings, tmp_path):
    """Of machines with many registers: others pass a group of columns strip by strip."""
    variant = Variant(matmul_blocking(*shape, b_packed=False), static=shape, along=ALONG)
    tools = find_toolchain()
    for level in LEVELS:
        source = tmp_path / f"{level}.cc"
        m, n = min(shape[0], variant.blocking.mb), min(shape[1], variant.blocking.nb)
        found = str(brings and level == "x86-64-v4").lower()
        text = BRINGS.format(name="v", m=m, n=n, brings=found)
        source.write_text(HEADER + variant.text("v") + text)
        command = [*tools.command, *tools.compile_flags(level), f"-I{INCLUDE}"]
        subprocess.run([*command, "-fsyntax-only", str(source)], check=True)
