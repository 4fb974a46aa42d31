// bfloat16 products on machines that have them: dot products of pairs, and tiles.
//
// Both read packed B as it is ([K/2][16][2]) and rows of A where they lie, and add in float. They
// are beyond x86-64-v4, so they are written as instructions, behind a check made once a process.
#ifndef AOT_TMPL_BF16_H_
#define AOT_TMPL_BF16_H_

#include "aot/tmpl/gemm.h"

// Tests define AOT_TMPL_EMULATE_BF16: the units in plain C++, on any machine.
#if defined(AOT_TMPL_EMULATE_BF16)
#define AOT_TMPL_BF16_UNITS 1
#elif defined(__AVX512F__) && defined(__linux__)
#include <cpuid.h>
#define AOT_TMPL_BF16_UNITS 1
#endif

#if defined(AOT_TMPL_BF16_UNITS)
// The best Bf16Unit to use; tests define a lesser one to reach the other paths.
#if !defined(AOT_TMPL_BF16_AT_MOST)
#define AOT_TMPL_BF16_AT_MOST kBf16Tiles
#endif
#endif

namespace aot::tmpl {

#if defined(AOT_TMPL_BF16_UNITS)

enum Bf16Unit : int { kBf16Unknown = 0, kBf16None, kBf16Dot, kBf16Tiles };

#if defined(AOT_TMPL_EMULATE_BF16)
inline Bf16Unit find_bf16_unit() { return AOT_TMPL_BF16_AT_MOST; }
#else
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
#endif

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
  static constexpr bool kFromMemory = true;
  using V = Simd<float>::V;
  static AOT_INLINE V apply(V a, V b, V c) {
#if defined(AOT_TMPL_EMULATE_BF16)
    using W = Simd<float>::Words;
    c += V(W(a) & 0xffff0000u) * V(W(b) & 0xffff0000u);
    return c + V(W(a) << 16) * V(W(b) << 16);
#else
    asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
#endif
  }
  using Low = HalfVector<float>::V;
  static AOT_INLINE Low apply_half(Low a, Low b, Low c) {
#if defined(AOT_TMPL_EMULATE_BF16)
    using H = HalfVector<float>;
    return H::of(apply(H::whole(a), H::whole(b), H::whole(c)));
#else
    asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
#endif
  }
  // Of a pair in memory, for all lanes: of an instruction of its own the broadcast costs as much as
  // the operation.
  static AOT_INLINE V apply_at(const float* a, V b, V c) {
#if defined(AOT_TMPL_EMULATE_BF16)
    return apply(Simd<float>::set1(*a), b, c);
#else
    asm("vdpbf16ps %1%{1to16%}, %2, %0" : "+v"(c) : "m"(*a), "v"(b));
    return c;
#endif
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

// The tile registers: eight of up to 16 rows of 64 bytes. Numbers are constants of instructions.
struct Tiles {
  struct alignas(64) Shape {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };

#if defined(AOT_TMPL_EMULATE_BF16)
  struct State {
    Shape shape;
    uint32_t at[8][16][16];
  };
  static State& state() {
    static thread_local State the;
    return the;
  }
  static void configure(const Shape& shape) {
    state() = State{};
    state().shape = shape;
  }
  static void release() { state() = State{}; }
  template <int T>
  static void zero() {
    __builtin_memset(state().at[T], 0, sizeof(state().at[T]));
  }
  template <int T>
  static void load(const void* from, int64_t bytes) {
    zero<T>();
    for (int r = 0; r < state().shape.rows[T]; ++r) {
      __builtin_memcpy(state().at[T][r], static_cast<const char*>(from) + r * bytes,
                       state().shape.row_bytes[T]);
    }
  }
  template <int T>
  static void store(void* to, int64_t bytes) {
    for (int r = 0; r < state().shape.rows[T]; ++r) {
      __builtin_memcpy(static_cast<char*>(to) + r * bytes, state().at[T][r],
                       state().shape.row_bytes[T]);
    }
  }
  template <int C, int A, int B>
  static void dot() {
    const Shape& shape = state().shape;
    // What the instruction refuses.
    if (shape.row_bytes[A] != 4 * shape.rows[B] || shape.rows[C] != shape.rows[A] ||
        shape.row_bytes[C] != shape.row_bytes[B]) {
      __builtin_trap();
    }
    const auto part = [](uint32_t pair, bool high) {
      return widen(Bf16{uint16_t(high ? pair >> 16 : pair & 0xffff)});
    };
    for (int r = 0; r < shape.rows[C]; ++r) {
      for (int n = 0; n < shape.row_bytes[C] / 4; ++n) {
        float sum;
        __builtin_memcpy(&sum, &state().at[C][r][n], 4);
        for (int k = 0; k < shape.rows[B]; ++k) {
          const uint32_t a = state().at[A][r][k], b = state().at[B][k][n];
          sum += part(a, false) * part(b, false);
          sum += part(a, true) * part(b, true);
        }
        __builtin_memcpy(&state().at[C][r][n], &sum, 4);
      }
    }
  }
#else
  static AOT_INLINE void configure(const Shape& shape) {
    asm volatile("ldtilecfg %0" : : "m"(shape));
  }
  static AOT_INLINE void release() { asm volatile("tilerelease" : :); }
  template <int T>
  static AOT_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(T));
  }
  template <int T>
  static AOT_INLINE void load(const void* from, int64_t bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(bytes), "i"(T) : "memory");
  }
  template <int T>
  static AOT_INLINE void store(void* to, int64_t bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(bytes), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  static AOT_INLINE void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
#endif
};

// C[0..mrows) x [0..panels*16) (+)= A * B with tiles: 32 x 32 results at a time in four of them.
// Whoever has used them releases them (Tiles::release).
struct Bf16Tiles {
  const Bf16* a;
  int64_t a_row;  // elements between rows
  int64_t mrows;
  int64_t k;     // a multiple of `step`
  int64_t step;  // k's of a tile: even, at most kStep
  const Bf16* b;
  int64_t panel_stride;
  int64_t panels;
  float* c;
  int64_t ldc;
  bool add = false;  // to what C has

  static constexpr int64_t kStep = 32;    // the most k's of a tile
  static constexpr int64_t kChunk = 512;  // k's whose panels stay in L1 while all rows pass

  // The step at which equal tiles make a run of k's that comes so many times; 0 where it is better
  // to take whole tiles first and what is left of all runs in a second pass. That one reads and
  // writes C again, which takes the time of about two tiles.
  static constexpr int64_t equal_step(int64_t run, int64_t times) {
    const int64_t least = ceil_div(run, kStep);
    for (int64_t count = least; count > 0 && (count - least) * times <= 2; ++count) {
      if (run % (2 * count) == 0) return run / count;
    }
    return 0;
  }

  // Tiles 0-3 hold C (upper left, upper right, lower left, lower right), 4-5 A, 6-7 B.
  void configure(int64_t upper, int64_t lower) const {
    Tiles::Shape shape{};
    shape.palette = 1;
    const int64_t rows[8] = {upper, upper, lower, lower, upper, lower, step / 2, step / 2};
    for (int i = 0; i < 8; ++i) {
      shape.rows[i] = uint8_t(rows[i]);
      shape.row_bytes[i] = rows[i] == 0 ? 0 : i == 4 || i == 5 ? uint16_t(2 * step) : 64;
    }
    Tiles::configure(shape);
  }

  // A as the tiles of a block read it: the first row of either tile at each tap, `row` elements
  // between rows; k's [from, from + depth) of each tap's `run`.
  struct Taps {
    const float* const* upper;
    const float* const* lower;
    int64_t stride, count;  // between the taps' pointers; taps
    int64_t row, from, depth, run;
  };

  // One block of C, BELOW: it has rows for the lower tiles, RIGHT: two panels.
  template <bool BELOW, bool RIGHT>
  AOT_INLINE void block(const Taps& taps, const Bf16* bt, float* ct, float* ct_below, bool onto,
                        const char* fetch, int64_t lines) const {
    const int64_t c_bytes = ldc * 4, a_bytes = taps.row * 2, b_bytes = 64;
    if (onto) {
      Tiles::load<0>(ct, c_bytes);
      if (RIGHT) Tiles::load<1>(ct + kPanel, c_bytes);
      if (BELOW) Tiles::load<2>(ct_below, c_bytes);
      if (BELOW && RIGHT) Tiles::load<3>(ct_below + kPanel, c_bytes);
    } else {
      Tiles::zero<0>();
      if (RIGHT) Tiles::zero<1>();
      if (BELOW) Tiles::zero<2>();
      if (BELOW && RIGHT) Tiles::zero<3>();
    }
    for (int64_t t = 0; t < taps.count; ++t) {
      const Bf16* const at = reinterpret_cast<const Bf16*>(taps.upper[t * taps.stride]) + taps.from;
      const Bf16* const below =
          reinterpret_cast<const Bf16*>(taps.lower[t * taps.stride]) + taps.from;
      const Bf16* const right = bt + panel_stride;
      for (int64_t s = 0; s < taps.depth; s += step) {
        Tiles::load<6>(bt + s * kPanel, b_bytes);
        Tiles::load<4>(at + s, a_bytes);
        Tiles::dot<0, 4, 6>();
        if (BELOW) {
          Tiles::load<5>(below + s, a_bytes);
          Tiles::dot<2, 5, 6>();
        }
        if (RIGHT) {
          Tiles::load<7>(right + s * kPanel, b_bytes);
          Tiles::dot<1, 4, 7>();
          if (BELOW) Tiles::dot<3, 5, 7>();
        }
        for (int64_t i = 0; i < lines; ++i) __builtin_prefetch(fetch + i * 64, 0, 2);
        fetch += lines * 64;
      }
      bt += taps.run * kPanel;
    }
    Tiles::store<0>(ct, c_bytes);
    if (RIGHT) Tiles::store<1>(ct + kPanel, c_bytes);
    if (BELOW) Tiles::store<2>(ct_below, c_bytes);
    if (BELOW && RIGHT) Tiles::store<3>(ct_below + kPanel, c_bytes);
  }

  AOT_INLINE void any_block(bool below, bool right, const Taps& taps, const Bf16* bt, float* ct,
                            float* ct_below, bool onto, const char* fetch, int64_t lines) const {
    if (right && below) {
      block<true, true>(taps, bt, ct, ct_below, onto, fetch, lines);
    } else if (right) {
      block<false, true>(taps, bt, ct, ct_below, onto, fetch, lines);
    } else if (below) {
      block<true, false>(taps, bt, ct, ct_below, onto, fetch, lines);
    } else {
      block<false, false>(taps, bt, ct, ct_below, onto, fetch, lines);
    }
  }

  // Rows [i0, i0 + 2 * height) and the pair of panels j of a chunk of K.
  AOT_INLINE void pair(int64_t i0, int64_t height, int64_t j, int64_t k0, int64_t depth) const {
    const Bf16* at = a + i0 * a_row + k0;
    const Bf16* bt = b + j * panel_stride + k0 * kPanel;
    float* ct = c + i0 * ldc + j * kPanel;
    // Every strip fetches its share of the next pair: 64 bytes hold two k's of a panel.
    const int64_t strips = ceil_div(mrows, 2 * height), steps = depth / step;
    const int64_t share = ceil_div(depth, strips * steps);
    const int64_t strip = i0 / (2 * height), half = strip * share * steps;
    const Bf16* next = half < depth / 2 ? bt + 2 * panel_stride + half * 32
                                        : bt + 3 * panel_stride + (half - depth / 2) * 32;
    const char* fetch = reinterpret_cast<const char*>(next);
    const float* const upper = reinterpret_cast<const float*>(at);
    const float* const lower = reinterpret_cast<const float*>(at + height * a_row);
    any_block(i0 + height < mrows, j + 1 < panels, {&upper, &lower, 0, 1, a_row, 0, depth, depth},
              bt, ct, ct + height * ldc, add || k0 > 0, fetch, share);
  }

  // Tiles are of one height, as setting another takes long; what is left comes behind all others.
  void run() const {
    const int64_t height = ceil_div(mrows, ceil_div(mrows, 16)), left = mrows % (2 * height);
    const int64_t tail = left == height ? 0 : left, whole = mrows - tail;
    const int64_t chunk = kChunk / step * step;
    for (int64_t k0 = 0; k0 < k; k0 += chunk) {
      const int64_t depth = min64(chunk, k - k0);
      if (whole > 0) {
        if (tail > 0 || k0 == 0) configure(height, height);
        for (int64_t j = 0; j < panels; j += 2) {
          for (int64_t i = 0; i < whole; i += 2 * height) pair(i, height, j, k0, depth);
        }
      }
      if (tail > 0) {
        const int64_t upper = min64(tail, height);
        if (whole > 0 || k0 == 0) configure(upper, tail - upper);
        for (int64_t j = 0; j < panels; j += 2) pair(whole, upper, j, k0, depth);
      }
    }
  }

  // Rows that are `a_row` apart within stretches, stretch_at(i) of which, at most 16, follow row i:
  // each tap's rows begin where rows[t * tap_stride + i] says. `k` are those from `from` on of a
  // tap's `run`, which lie so in B, too. After each strip of so many rows, which takes C's first
  // ones, done(first row, last row).
  template <class Stretch, class Done>
  AOT_INLINE void run_by_taps(const float* const* rows, int64_t tap_stride, int64_t taps,
                              int64_t from, int64_t run, int64_t strip, const Stretch& stretch_at,
                              const Done& done) const {
    int64_t shape[2] = {0, 0};
    for (int64_t s = 0; s < mrows; s += strip) {
      const int64_t end = min64(mrows, s + strip);
      for (int64_t j = 0; j < panels; j += 2) {
        for (int64_t i = s; i < end;) {
          const int64_t upper = min64(stretch_at(i), end - i), below = i + upper;
          const int64_t lower = below < end ? min64(stretch_at(below), end - below) : 0;
          if (upper != shape[0] || lower != shape[1]) configure(upper, lower);
          shape[0] = upper;
          shape[1] = lower;
          const Taps a_taps{
              rows + i, rows + (lower > 0 ? below : i), tap_stride, taps, a_row, from, k, run};
          const Bf16* const bt = b + j * panel_stride + from * kPanel;
          float* const ct = c + (i - s) * ldc + j * kPanel;
          any_block(lower > 0, j + 1 < panels, a_taps, bt, ct, ct + upper * ldc, add,
                    reinterpret_cast<const char*>(bt), 0);
          i = below + lower;
        }
      }
      done(s, end);
    }
  }
};

#endif  // AOT_TMPL_BF16_UNITS

}  // namespace aot::tmpl

#endif  // AOT_TMPL_BF16_H_
