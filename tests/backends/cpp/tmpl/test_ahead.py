"""What comes next in a batch is asked for while its products are multiplied."""

from __future__ import annotations

import ctypes
import re
import subprocess

import pytest

from aot.backends.cpp.gemm_heuristic import matmul_blocking
from aot.backends.cpp.toolchain import find_toolchain
from tests.backends.cpp.tmpl.build import INCLUDE
from tests.backends.cpp.tmpl.matmul_variants import HEADER, Variant

MOST = 3 << 18
ASKS = """
#include "aot/tmpl/ahead.h"
using namespace aot::tmpl;
// Runs of so many bytes, a MiB apart; what is asked for, eight k's at a time, as (from, step).
extern "C" __attribute__((visibility("default"))) int64_t asks(const int64_t* bytes, int64_t runs,
                                                               int64_t times, int64_t* found) {
  Ahead ahead;
  const auto at = [](int64_t i) { return reinterpret_cast<const char*>((i + 1) << 20); };
  for (int64_t i = 0; i < runs; ++i) ahead.add(at(i), bytes[i]);
  ahead.spread(times);
  int64_t count = 0;
  for (; ahead.any(); ++count) {
    found[2 * count + 1] = ahead.step();
    found[2 * count] = reinterpret_cast<int64_t>(ahead.take(8));
  }
  return count;
}
"""


def _asked(runs: list[int], times: int, folder) -> list[tuple[int, int]]:
    source, library = folder / "asks.cc", folder / "asks.so"
    source.write_text(ASKS)
    tools = find_toolchain()
    command = [*tools.command, "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{INCLUDE}"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    found = (ctypes.c_int64 * 100_000)()
    bytes_ = (ctypes.c_int64 * len(runs))(*runs)
    count = ctypes.CDLL(str(library)).asks(bytes_, len(runs), ctypes.c_int64(times), found)
    return [(found[2 * i], found[2 * i + 1]) for i in range(count)]


@pytest.mark.parametrize("times", [48, 100, 1000, 8000])
def test_every_line_is_asked_for_once_or_more(times, tmp_path):
    runs = [5000, 64, 3000]
    lines = set()
    for start, step in _asked(runs, times, tmp_path):
        lines |= {(start + k * step) // 64 for k in range(8)}
    for i, size in enumerate(runs):
        first = (i + 1) << 20
        asked = sum(first // 64 <= line <= (first + size - 1) // 64 for line in lines)
        assert asked == -(-size // 64) or times * 64 < sum(runs)


def test_what_is_asked_for_has_room_and_is_worth_it(tmp_path):
    """The rest of what is too much is left out, and all of it where kernels ask too seldom."""
    asked = _asked([MOST - 6400, 64000], MOST // 64, tmp_path)
    assert sum(8 * step for start, step in asked if start >= 2 << 20) == pytest.approx(
        6400, abs=512
    )
    assert _asked([64000], 400, tmp_path)
    assert _asked([64000], 300, tmp_path) == []


NEXT = """
using Cfg = {name}::Cfg;
struct Batch : Cfg {{ static constexpr bool BATCH = true; }};
static_assert(detail::matmul_way<Cfg>() == detail::Way::{alone});
static_assert(detail::matmul_way<Batch>() == detail::Way::{batch});
EXPORT void many(const MatmulArgs<Batch>& p, int64_t end, void* scratch, double* c) {{
  matmul<Batch>(p, 0, end, scratch, StoreRows<double>{{c, 0, Cfg::N}});
}}
"""


def test_matrices_of_a_batch_are_brought_near_and_read_where_they_lie(tmp_path):
    """At AVX-512, whose kernels have room for one more load at each k; nothing is run."""
    shape = (108, 132, 168)
    blocking = matmul_blocking(*shape, accumulator_bytes=8, b_packed=False, b_across=True)
    text = HEADER + Variant(blocking, "float64", shape, ("kDepth", "kAcross")).text("v")
    tools = find_toolchain()
    for level, ways, asks in (
        ("x86-64-v3", ("kDirect", "kDirect"), False),
        ("x86-64-v4", ("kCopies", "kDirect"), True),
    ):
        source, out = tmp_path / f"{level}.cc", tmp_path / f"{level}.s"
        source.write_text(text + NEXT.format(name="v", alone=ways[0], batch=ways[1]))
        command = [*tools.command, *tools.compile_flags(level), f"-I{INCLUDE}", "-S"]
        subprocess.run([*command, str(source), "-o", str(out)], check=True)
        body = r"^\S*direct_kernel\S*:\n(.*?)\n\t\.size"
        kernels = re.findall(body, out.read_text(), re.S | re.M)
        assert kernels and all(("prefetcht1" in kernel) == asks for kernel in kernels)
