"""Rows that lie evenly: every piece that a division of the work cuts has its kernel.

Their products are tested by those who call them: test_conv.py, test_winograd.py.
"""

from __future__ import annotations

import subprocess

import pytest

from aot.backends.cpp.toolchain import find_toolchain
from tests.backends.cpp.tmpl.build import INCLUDE, LEVELS

PROOF = """
#include "aot/tmpl/even.h"
using namespace aot::tmpl;
// Whether all pieces are named where units from anywhere to anywhere are joined and cut.
constexpr bool names_all(const DirectShape& shape, int64_t rows, int64_t unit, int64_t block) {
  const DirectCuts named = even_cuts<float>(shape, rows, unit, block);
  const int64_t units = ceil_div(rows, unit);
  for (int64_t i = 0; i < units; ++i) {
    for (int64_t j = i; j < units; ++j) {
      const Blocks blocks(min64((j + 1) * unit, rows) - i * unit, block);
      for (int64_t b = 0; b < blocks.count; ++b) {
        if ((sizes_of(Pieces(blocks.size(b), shape.rows)) & ~named.rows) != 0) return false;
      }
    }
  }
  return named.vectors == (uint32_t{2} << shape.vectors) - 2;
}
constexpr bool complete(int64_t unit, int64_t block, int64_t first, int64_t last) {
  for (int64_t rows = first; rows <= last; ++rows) {
    if (!names_all({14, 2, 0}, rows, unit, block) || !names_all({9, 3, 0}, rows, unit, block)) {
      return false;
    }
  }
  return true;
}
static_assert(complete(32, 32, 90, 130) && complete(48, 128, 190, 250));
static_assert(complete(16, 20, 1, 50) && complete(128, 96, 200, 300));
static_assert(complete(7, 7, 1, 30) && complete(1, 9, 1, 12));
// Of more units than are counted all are named.
static_assert(even_cuts<float>({9, 3, 0}, 5000, 1, 9).rows == 0x3fe);
"""


NEAR = """
#include "aot/tmpl/direct.h"
using namespace aot::tmpl;
// Rows of one set of the cache, of two, of four, and of all.
static_assert(near_rows(4096) == 6 && near_rows(12288) == 6 && near_rows(2048) == 12);
static_assert(near_rows(3072) == 24 && near_rows(64) == 384 && near_rows(100) == 384);
constexpr int64_t height(int64_t apart) { return panel_shape<float>(98, 256, 1024, apart).rows; }
static_assert(height(1024) <= 6 && height(512) <= 12 && height(1024 + 16) == height(16));
static_assert(kFewRegisters || panel_shape<float>(98, 96, 1024, 1024 + 16).rows > 6);
// Of the panels that a group has, strips of a deep block ask for all in time.
constexpr bool asks(int64_t rows, int64_t columns) {
  const DirectShape shape = panel_shape<float>(rows, columns, 512, 512);
  const int64_t panels = ceil_div(shape.vectors, Simd<float>::kPerPanel);
  return Pieces(rows, shape.rows).count >= panels;
}
static_assert(asks(14, 64) && asks(16, 64) && asks(24, 64) && asks(49, 288));
// Few rows read several panels at once: memory bounds them.
static_assert(kFewRegisters || panel_shape<float>(4, 64, 512, 512).vectors == 4);
"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("proof", [PROOF, NEAR], ids=["named", "near"])
def test_by_a_compiler(level, proof, tmp_path):
    """For machines that this one is not, too: nothing is run.

    Every piece that a division of the work cuts is named; rows of a strip stay in the cache.
    """
    source = tmp_path / "t.cc"
    source.write_text(proof)
    tools = find_toolchain()
    command = [*tools.command, *tools.compile_flags(level), f"-I{INCLUDE}"]
    subprocess.run([*command, "-fsyntax-only", str(source)], check=True)
