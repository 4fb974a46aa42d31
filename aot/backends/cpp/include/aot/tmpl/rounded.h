// Results that are rounded to bfloat16 by a machine's own conversion, where it has products of
// that.
//
// In other instructions rounding takes ten operations for a vector. Dot products of pairs and tiles
// leave no number that is too small for a normal one, so that rounding loses none, as the
// instruction otherwise would.
#ifndef AOT_TMPL_ROUNDED_H_
#define AOT_TMPL_ROUNDED_H_

#include "aot/tmpl/bf16.h"

namespace aot::tmpl {

#if defined(AOT_TMPL_BF16_UNITS)

struct Rounded {
  using S = Simd<float>;
  using V = S::V;
  static constexpr int kL = S::kLanes;

  // A row of NV vectors, of the last one `last` elements.
  template <int NV>
  static AOT_INLINE void store(Bf16* to, const V (&row)[NV], int64_t last) {
    AOT_UNROLL for (int j = 0; j + 1 < NV; j += 2) {
      if (j + 2 < NV || last == kL) {
        two(to + j * kL, row[j], row[j + 1]);
      } else {
        one(to + j * kL, row[j], kL);
        one(to + (j + 1) * kL, row[j + 1], last);
      }
    }
    if constexpr (NV % 2 != 0) one(to + (NV - 1) * kL, row[NV - 1], last);
  }

  // `rows` rows of `columns` floats, `ld` apart, to rows `to_row` bytes apart. ADDS: a column's own
  // number is added before.
  template <bool ADDS>
  static AOT_INLINE void rows(const float* from, int64_t ld, int64_t rows, int64_t columns,
                              char* to, int64_t to_row, const Bf16* addend) {
    for (int64_t n = 0; n < columns; n += 2 * kL) {
      const Bf16* const own = ADDS ? addend + n : nullptr;
      char* const corner = to + n * int64_t(sizeof(Bf16));
      const int64_t more = columns - n - kL;
      if (more <= 0) {
        down<1, ADDS>(from + n, ld, rows, columns - n, corner, to_row, own);
      } else {
        down<2, ADDS>(from + n, ld, rows, min64(more, kL), corner, to_row, own);
      }
    }
  }

  // The same of lines of pixels, where a number for each line is added.
  template <bool ADDS>
  static AOT_INLINE void lines(const float* from, int64_t ld, int64_t lines, int64_t pixels,
                               char* to, int64_t to_line, const Bf16* addend) {
    for (int64_t i = 0; i < lines; ++i, from += ld, to += to_line) {
      const V own = ADDS ? S::set1(widen(addend[i])) : S::zero();
      Bf16* const line = reinterpret_cast<Bf16*>(to);
      for (int64_t n = 0; n < pixels; n += 2 * kL) {
        const int64_t more = pixels - n - kL;
        if (more <= 0) {
          const V one[1] = {S::load(from + n) + own};
          store(line + n, one, pixels - n);
        } else {
          const V both[2] = {S::load(from + n) + own, S::load(from + n + kL) + own};
          store(line + n, both, min64(more, kL));
        }
      }
    }
  }

 private:
  // NV vectors of columns, of the last one so many elements.
  template <int NV, bool ADDS>
  static AOT_INLINE void down(const float* from, int64_t ld, int64_t rows, int64_t there, char* to,
                              int64_t to_row, const Bf16* addend) {
    V own[NV] = {};
    if constexpr (ADDS) {
      AOT_UNROLL for (int j = 0; j + 1 < NV; ++j) own[j] = load_widened<float>(addend + j * kL);
      own[NV - 1] = V(load_first_words(addend + (NV - 1) * kL, there) << 16);
    }
    for (int64_t i = 0; i < rows; ++i, from += ld, to += to_row) {
      V row[NV];
      AOT_UNROLL for (int j = 0; j < NV; ++j) row[j] = S::load(from + j * kL) + own[j];
      store(reinterpret_cast<Bf16*>(to), row, there);
    }
  }

#if defined(AOT_TMPL_EMULATE_BF16)
  static AOT_INLINE void one(Bf16* to, V v, int64_t count) {
    Bf16 all[kL];
    store_rounded(all, v);
    __builtin_memcpy(to, all, uint64_t(count) * sizeof(Bf16));
  }
  static AOT_INLINE void two(Bf16* to, V low, V high) {
    one(to, low, kL);
    one(to + kL, high, kL);
  }
#else
  static AOT_INLINE void one(Bf16* to, V v, int64_t count) {
    __m256i half;
    asm("vcvtneps2bf16 %1, %0" : "=v"(half) : "v"(v));
    if (count == kL) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
    } else {
      _mm256_mask_storeu_epi16(to, __mmask16((1u << count) - 1), half);
    }
  }
  static AOT_INLINE void two(Bf16* to, V low, V high) {
    __m512i both;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(low), "v"(high));
    _mm512_storeu_si512(to, both);
  }
#endif
};

#endif  // AOT_TMPL_BF16_UNITS

}  // namespace aot::tmpl

#endif  // AOT_TMPL_ROUNDED_H_
