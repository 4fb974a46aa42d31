// bfloat16 products on machines that have them: dot products of pairs, and tiles.
//
// Both read packed B as it is ([K/2][16][2]) and rows of A where they lie, and add in float. They
// are beyond x86-64-v4, so they are written as instructions, behind a check made once a process.
#ifndef AOT_TMPL_BF16_H_
#define AOT_TMPL_BF16_H_

#include "aot/tmpl/gemm.h"

#if defined(__AVX512F__) && defined(__linux__)
#include <cpuid.h>
#define AOT_TMPL_BF16_UNITS 1
// The best Bf16Unit to use; tests define a lesser one to reach the other paths.
#if !defined(AOT_TMPL_BF16_AT_MOST)
#define AOT_TMPL_BF16_AT_MOST kBf16Tiles
#endif
#endif

namespace aot::tmpl {

#if defined(AOT_TMPL_BF16_UNITS)

enum Bf16Unit : int { kBf16Unknown = 0, kBf16None, kBf16Dot, kBf16Tiles };

// Linux gives a process the tile registers on request only.
inline bool request_tiles() {
  constexpr long kArchPrctl = 158, kRequestPermission = 0x1023, kTileData = 18;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(kArchPrctl), "D"(kRequestPermission), "S"(kTileData)
               : "rcx", "r11", "memory");
  return result == 0;
}

inline Bf16Unit find_bf16_unit() {
  unsigned a, b, c, d, xcr_low, xcr_high;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return kBf16None;
  const bool tiles = (d >> 22 & 1) && (d >> 24 & 1);
  asm volatile("xgetbv" : "=a"(xcr_low), "=d"(xcr_high) : "c"(0));
  if (AOT_TMPL_BF16_AT_MOST >= kBf16Tiles && tiles && (xcr_low >> 17 & 3) == 3 && request_tiles())
    return kBf16Tiles;
  if (AOT_TMPL_BF16_AT_MOST >= kBf16Dot && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
      (a >> 5 & 1)) {
    return kBf16Dot;
  }
  return kBf16None;
}

// The best unit of this machine. Finding it twice at a time is harmless.
inline Bf16Unit bf16_unit() {
  static int found = kBf16Unknown;
  int unit = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (unit == kBf16Unknown) {
    unit = find_bf16_unit();
    __atomic_store_n(&found, unit, __ATOMIC_RELAXED);
  }
  return Bf16Unit(unit);
}

// Every float of A and B is the bits of a pair of bfloat16: c + a0 * b0 + a1 * b1.
struct Bf16Dot {
  using Type = float;
  static constexpr int kChains = 1;
  using V = Simd<float>::V;
  static AOT_INLINE V apply(V a, V b, V c) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
  }
};

// Of products with a single panel, by which nine rows are too few sums at a time. What is chosen by
// less than all columns would let results depend on how work is divided.
struct Bf16DotByTurns : Bf16Dot {
  static constexpr int kChains = 2;
};
template <bool ONE_PANEL>
using Bf16DotFor = std::conditional_t<ONE_PANEL, Bf16DotByTurns, Bf16Dot>;

// B as a matrix of bfloat16 of any strides, packed into `copy` as pairs; k's count pairs.
struct PairsB {
  const Bf16* b;        // the first column at k = 0
  int64_t row, column;  // strides in elements
  int64_t n, k;         // columns that exist from b on; rows, which are no pairs
  float* copy;
  AOT_INLINE Panels<float> view(int64_t j, int np, int64_t, int64_t from, int64_t depth) const {
    pack_pairs(b + 2 * from * row + j * kPanel * column, row, column,
               min64(2 * depth, k - 2 * from), min64(np * kPanel, n - j * kPanel), copy,
               depth * kPanel);
    return {copy, depth * kPanel, kPanel, copy};
  }
};

// C[0..mrows) x [0..panels*16) = A * B with tiles: 32 x 32 results at a time in four of them.
struct Bf16Tiles {
  const Bf16* a;
  int64_t a_row;  // elements between rows
  int64_t mrows;
  int64_t k;  // a multiple of 32
  const Bf16* b;
  int64_t panel_stride;
  int64_t panels;
  float* c;
  int64_t ldc;

  static constexpr int64_t kStep = 32;    // k's of a tile
  static constexpr int64_t kChunk = 512;  // k's whose panels stay in L1 while all rows pass

  struct alignas(64) Shape {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };

  // Tiles 0-3 hold C (upper left, upper right, lower left, lower right), 4-5 A, 6-7 B.
  static void configure(int64_t upper, int64_t lower) {
    Shape shape{};
    shape.palette = 1;
    const int64_t rows[8] = {upper, upper, lower, lower, upper, lower, kPanel, kPanel};
    for (int i = 0; i < 8; ++i) {
      shape.rows[i] = uint8_t(rows[i]);
      shape.row_bytes[i] = rows[i] == 0 ? 0 : 64;
    }
    asm volatile("ldtilecfg %0" : : "m"(shape));
  }

  // A as the tiles of a block read it: the first row of either tile at each tap, `row` elements
  // between rows, `depth` k's of a tap.
  struct Taps {
    const float* const* upper;
    const float* const* lower;
    int64_t stride, count;  // between the taps' pointers; taps
    int64_t row, depth;
  };

  // One block of C, BELOW: it has rows for the lower tiles, RIGHT: two panels.
  template <bool BELOW, bool RIGHT>
  AOT_INLINE void block(const Taps& taps, const Bf16* bt, float* ct, float* ct_below, bool add,
                        const char* fetch, int64_t lines) const {
    const int64_t c_bytes = ldc * 4, a_bytes = taps.row * 2, b_bytes = 64;
    if (add) {
      asm volatile("tileloadd (%0,%1,1), %%tmm0" : : "r"(ct), "r"(c_bytes) : "memory");
      if (RIGHT) asm volatile("tileloadd (%0,%1,1), %%tmm1" : : "r"(ct + 16), "r"(c_bytes));
      if (BELOW) asm volatile("tileloadd (%0,%1,1), %%tmm2" : : "r"(ct_below), "r"(c_bytes));
      if (BELOW && RIGHT) {
        asm volatile("tileloadd (%0,%1,1), %%tmm3" : : "r"(ct_below + 16), "r"(c_bytes));
      }
    } else {
      asm volatile("tilezero %%tmm0" : :);
      if (RIGHT) asm volatile("tilezero %%tmm1" : :);
      if (BELOW) asm volatile("tilezero %%tmm2" : :);
      if (BELOW && RIGHT) asm volatile("tilezero %%tmm3" : :);
    }
    for (int64_t t = 0; t < taps.count; ++t) {
      const Bf16* const at = reinterpret_cast<const Bf16*>(taps.upper[t * taps.stride]);
      const Bf16* const below = reinterpret_cast<const Bf16*>(taps.lower[t * taps.stride]);
      const Bf16* const right = bt + panel_stride;
      for (int64_t s = 0; s < taps.depth; s += kStep) {
        asm volatile("tileloadd (%0,%1,1), %%tmm6"
                     :
                     : "r"(bt + s * kPanel), "r"(b_bytes)
                     : "memory");
        asm volatile("tileloadd (%0,%1,1), %%tmm4" : : "r"(at + s), "r"(a_bytes));
        asm volatile("tdpbf16ps %%tmm6, %%tmm4, %%tmm0" : :);
        if (BELOW) {
          asm volatile("tileloadd (%0,%1,1), %%tmm5" : : "r"(below + s), "r"(a_bytes));
          asm volatile("tdpbf16ps %%tmm6, %%tmm5, %%tmm2" : :);
        }
        if (RIGHT) {
          asm volatile("tileloadd (%0,%1,1), %%tmm7" : : "r"(right + s * kPanel), "r"(b_bytes));
          asm volatile("tdpbf16ps %%tmm7, %%tmm4, %%tmm1" : :);
          if (BELOW) asm volatile("tdpbf16ps %%tmm7, %%tmm5, %%tmm3" : :);
        }
        for (int64_t i = 0; i < lines; ++i) __builtin_prefetch(fetch + i * 64, 0, 2);
        fetch += lines * 64;
      }
      bt += taps.depth * kPanel;
    }
    asm volatile("tilestored %%tmm0, (%0,%1,1)" : : "r"(ct), "r"(c_bytes) : "memory");
    if (RIGHT)
      asm volatile("tilestored %%tmm1, (%0,%1,1)" : : "r"(ct + 16), "r"(c_bytes) : "memory");
    if (BELOW)
      asm volatile("tilestored %%tmm2, (%0,%1,1)" : : "r"(ct_below), "r"(c_bytes) : "memory");
    if (BELOW && RIGHT) {
      asm volatile("tilestored %%tmm3, (%0,%1,1)" : : "r"(ct_below + 16), "r"(c_bytes) : "memory");
    }
  }

  AOT_INLINE void any_block(bool below, bool right, const Taps& taps, const Bf16* bt, float* ct,
                            float* ct_below, bool add, const char* fetch, int64_t lines) const {
    if (right && below) {
      block<true, true>(taps, bt, ct, ct_below, add, fetch, lines);
    } else if (right) {
      block<false, true>(taps, bt, ct, ct_below, add, fetch, lines);
    } else if (below) {
      block<true, false>(taps, bt, ct, ct_below, add, fetch, lines);
    } else {
      block<false, false>(taps, bt, ct, ct_below, add, fetch, lines);
    }
  }

  // Rows [i0, i0 + 32) and the pair of panels j of a chunk of K.
  AOT_INLINE void pair(int64_t i0, int64_t j, int64_t k0, int64_t depth) const {
    const Bf16* at = a + i0 * a_row + k0;
    const Bf16* bt = b + j * panel_stride + k0 * kPanel;
    float* ct = c + i0 * ldc + j * kPanel;
    // Every strip fetches its share of the next pair: 64 bytes hold two k's of a panel.
    const int64_t strips = ceil_div(mrows, 32), steps = depth / kStep;
    const int64_t share = ceil_div(depth, strips * steps);
    const int64_t strip = i0 / 32, half = strip * share * steps;
    const Bf16* next = half < depth / 2 ? bt + 2 * panel_stride + half * 32
                                        : bt + 3 * panel_stride + (half - depth / 2) * 32;
    const char* fetch = reinterpret_cast<const char*>(next);
    const float* const upper = reinterpret_cast<const float*>(at);
    const float* const lower = reinterpret_cast<const float*>(at + 16 * a_row);
    any_block(i0 + 16 < mrows, j + 1 < panels, {&upper, &lower, 0, 1, a_row, depth}, bt, ct,
              ct + 16 * ldc, k0 > 0, fetch, share);
  }

  void run() const {
    const int64_t tail = mrows % 32, whole = mrows - tail;
    for (int64_t k0 = 0; k0 < k; k0 += kChunk) {
      const int64_t depth = min64(kChunk, k - k0);
      for (int64_t j = 0; j < panels; j += 2) {
        if (whole > 0) {
          if (tail > 0 || (k0 == 0 && j == 0)) configure(16, 16);
          for (int64_t i = 0; i < whole; i += 32) pair(i, j, k0, depth);
        }
        if (tail > 0) {
          if (whole > 0 || (k0 == 0 && j == 0)) configure(min64(tail, 16), max64(0, tail - 16));
          pair(whole, j, k0, depth);
        }
      }
    }
    asm volatile("tilerelease" : :);
  }

  // Rows that are `a_row` apart within runs, run_at(i) of which, at most 16, follow row i: each
  // tap's rows begin where rows[t * tap_stride + i] says. `k` are those of a tap, of `taps`.
  template <class Run>
  AOT_INLINE void run_by_taps(const float* const* rows, int64_t tap_stride, int64_t taps,
                              const Run& run_at) const {
    int64_t shape[2] = {0, 0};
    for (int64_t j = 0; j < panels; j += 2) {
      for (int64_t i = 0; i < mrows;) {
        const int64_t upper = run_at(i), below = i + upper;
        const int64_t lower = below < mrows ? run_at(below) : 0;
        if (upper != shape[0] || lower != shape[1]) configure(upper, lower);
        shape[0] = upper;
        shape[1] = lower;
        const Taps a_taps{rows + i, rows + (lower > 0 ? below : i), tap_stride, taps, a_row, k};
        const Bf16* const bt = b + j * panel_stride;
        float* const ct = c + i * ldc + j * kPanel;
        any_block(lower > 0, j + 1 < panels, a_taps, bt, ct, ct + upper * ldc, false,
                  reinterpret_cast<const char*>(bt), 0);
        i = below + lower;
      }
    }
    asm volatile("tilerelease" : :);
  }
};

#endif  // AOT_TMPL_BF16_UNITS

}  // namespace aot::tmpl

#endif  // AOT_TMPL_BF16_H_
