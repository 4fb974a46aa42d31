// The rows of input that a block of a convolution reads, copied: a part of conv.h.
#ifndef AOT_TMPL_CONV_PATCH_H_
#define AOT_TMPL_CONV_PATCH_H_

#include "aot/tmpl/conv_order.h"

namespace aot::tmpl {

namespace detail {

template <class Cfg>
struct ConvPatch {
  using A = typename Cfg::A;
  using S = ConvShape<Cfg>;
  using T = typename S::T;
  const ConvArgs<Cfg>& p;
  int64_t first, rows;   // output rows that it is for
  int64_t ow0, columns;  // of these: all, or a piece of one row

  // What pixels [m, end) need, which end where `piece_end` says.
  static AOT_INLINE ConvPatch of(const ConvArgs<Cfg>& p, int64_t m, int64_t end) {
    if constexpr (Cfg::COLS > 0) return {p, m / p.ow, 1, m % p.ow, end - m};
    return {p, m / p.ow, (end - 1) / p.ow - m / p.ow + 1, 0, p.ow};
  }

  // Where a patch for pixels from m on ends, at m1 at most: behind some rows of a plane, or behind
  // a piece of a row, all of which are about as long.
  static AOT_INLINE int64_t piece_end(const ConvArgs<Cfg>& p, int64_t m, int64_t m1) {
    if constexpr (Cfg::COLS > 0) {
      return m + Blocks(min64(m1 - m, p.ow - m % p.ow), Cfg::COLS).begin(1);
    }
    const int64_t row = m / p.ow;
    return min64(m1, (row + min64(Cfg::ROWS, p.oh - row % p.oh)) * p.ow);
  }

  static AOT_INLINE int64_t under(int64_t outputs) {
    return (outputs - 1) * Cfg::SW + (Cfg::KW - 1) * Cfg::DW + 1;
  }
  // Columns of a row of the patch: as many for each piece, so that tables of pointers stay true.
  AOT_INLINE int64_t width() const { return under(Cfg::COLS > 0 ? Cfg::COLS : columns); }

  // patch[kd][row][column][c]: what its pixels read, zeros where that is outside the data; of T or,
  // as they are, of A.
  template <class E>
  void fill(int64_t g, E* patch) const {
    const int64_t width = this->width(), plane = first / p.oh, n = plane / p.od;
    const int64_t d0 = plane % p.od * Cfg::SD - Cfg::PD, h0 = first % p.oh * Cfg::SH - Cfg::PH;
    const int64_t used = (rows - 1) * Cfg::SH + (Cfg::KH - 1) * Cfg::DH + 1;
    for (int64_t kd = 0; kd < Cfg::KD; ++kd) {
      const int64_t d = d0 + kd * Cfg::DD;
      for (int64_t r = 0; r < used; ++r) {
        const int64_t h = h0 + r;
        E* out = patch + (kd * S::kPatchRows + r) * width * S::kIc;
        if (uint64_t(d) < uint64_t(p.d) && uint64_t(h) < uint64_t(p.h)) {
          copy_line(p.x + n * p.sn + d * p.sd + h * p.sh + g * Cfg::IC * p.sc, under(columns), out);
        } else {
          zero_row(out, under(columns) * S::kIc);
        }
      }
    }
  }

  template <class E>
  AOT_INLINE void copy_line(const A* line, int64_t width, E* out) const {
    const int64_t first = ow0 * Cfg::SW - Cfg::PW, left = min64(max64(-first, 0), width);
    const int64_t right = max64(left, min64(width, p.wd - first));
    zero_row(out, left * S::kIc);
    zero_row(out + right * S::kIc, (width - right) * S::kIc);
    out += left * S::kIc;
    line += (left + first) * p.sw;
    const int64_t columns = right - left;
    constexpr bool kPadded = std::is_same_v<A, E> && Cfg::IC != S::kIc;  // pairs
    constexpr bool kFew = std::is_same_v<A, E> && sizeof(E) == 2 && S::kIc <= 8;
    if (p.sc == 1 && p.sw == Cfg::IC && Cfg::IC == S::kIc) {
      copy_row(line, columns * Cfg::IC, out);
    } else if (kPadded && p.sc == 1 && p.sw == Cfg::IC) {
      if constexpr (kPadded) pad_channels<Cfg::IC>(line, columns, out);
    } else if (kFew && p.sc == 1) {
      if constexpr (kFew) copy_few_channels<Cfg::IC, S::kIc>(line, p.sw, columns, out);
    } else if (p.sc == 1) {
      for (int64_t i = 0; i < columns; ++i) {
        copy_row(line + i * p.sw, Cfg::IC, out + i * S::kIc);
        if (S::kIc != Cfg::IC) zero_row(out + i * S::kIc + Cfg::IC, S::kIc - Cfg::IC);
      }
    } else if (p.sw == 1) {
      interleave<Cfg::IC, S::kIc>(line, p.sc, columns, out);
    } else {
      for (int64_t i = 0; i < columns; ++i) {
        for (int64_t c = 0; c < S::kIc; ++c) {
          out[i * S::kIc + c] = c < Cfg::IC ? as<E>(line[c * p.sc + i * p.sw]) : as<E>(A{});
        }
      }
    }
  }

  // taps[tap]: where pixel m has it in the patch; null: outside the data, as the whole line is.
  template <class E>
  AOT_INLINE void taps(int64_t m, const E* patch, const E** to) const {
    const int64_t row = m / p.ow - first, ow = m % p.ow - ow0, width = this->width();
    const int64_t h0 = first % p.oh * Cfg::SH - Cfg::PH;
    const int64_t d0 = first / p.oh % p.od * Cfg::SD - Cfg::PD;
    for (int64_t kd = 0; kd < Cfg::KD; ++kd) {
      for (int64_t kh = 0; kh < Cfg::KH; ++kh) {
        const int64_t d = d0 + kd * Cfg::DD, down = row * Cfg::SH + kh * Cfg::DH;
        const bool in = uint64_t(d) < uint64_t(p.d) && uint64_t(h0 + down) < uint64_t(p.h);
        const E* const line = patch + (kd * S::kPatchRows + down) * width * S::kIc;
        for (int64_t kw = 0; kw < (S::kRuns ? 1 : Cfg::KW); ++kw) {
          *to++ = in ? line + (ow * Cfg::SW + kw * Cfg::DW) * S::kIc : nullptr;
        }
      }
    }
  }

  // table[tap][i]: into the patch. Lines outside the data are all the same one, which is returned;
  // null where there are none. With `place` pixel i is at place[i], and columns outside the data
  // are the same line's.
  template <class E>
  const T* pointers(int64_t m0, int64_t m1, const E* patch, const T** to,
                    const int16_t* place) const {
    const int64_t width = this->width(), h0 = first % p.oh * Cfg::SH - Cfg::PH;
    const int64_t d0 = first / p.oh % p.od * Cfg::SD - Cfg::PD;
    const int64_t count = m1 - m0;
    // A patch begins with padding where there is any on the left.
    const T* zeros = place == nullptr ? nullptr : reinterpret_cast<const T*>(patch);
    int64_t row = m0 / p.ow - first, ow = m0 % p.ow - ow0;
    for (int64_t i = 0, run; i < count; i += run, ow = 0, ++row) {
      run = min64(count - i, columns - ow);
      const T** out = to + i;
      for (int64_t kd = 0; kd < Cfg::KD; ++kd) {
        const bool d_in = uint64_t(d0 + kd * Cfg::DD) < uint64_t(p.d);
        for (int64_t kh = 0; kh < Cfg::KH; ++kh) {
          const int64_t down = row * Cfg::SH + kh * Cfg::DH;
          const E* const line = patch + (kd * S::kPatchRows + down) * width * S::kIc;
          const bool in = d_in && uint64_t(h0 + down) < uint64_t(p.h);
          if (!in && zeros == nullptr) zeros = reinterpret_cast<const T*>(line);
          for (int64_t kw = 0; kw < (S::kRuns ? 1 : Cfg::KW); ++kw, out += S::kTableRows) {
            const E* const at = line + (ow * Cfg::SW + kw * Cfg::DW) * S::kIc;
            if (place != nullptr) {
              const int64_t w0 = (ow0 + ow) * Cfg::SW + kw * Cfg::DW - Cfg::PW;
              for (int64_t q = 0; q < run; ++q) {
                const bool here = in && uint64_t(w0 + q * Cfg::SW) < uint64_t(p.wd);
                out[place[i + q] - i] =
                    here ? reinterpret_cast<const T*>(at + q * Cfg::SW * S::kIc) : zeros;
              }
              continue;
            }
            for (int64_t q = 0; q < run; ++q) {
              out[q] = in ? reinterpret_cast<const T*>(at + q * Cfg::SW * S::kIc) : zeros;
            }
          }
        }
      }
    }
    return zeros;
  }
};

// Remembers which pointers a table has. They are the same for each group, and for all images and
// planes whose lines outside the data are the same ones: of few channels, writing them takes as
// long as a sixth of the products.
template <class Cfg>
class PatchTable {
 public:
  using T = typename ConvShape<Cfg>::T;

  // As ConvPatch::pointers; `patch`, `to` and `order` are always the same.
  template <class E>
  AOT_INLINE const T* pointers(const ConvPatch<Cfg>& from, int64_t m0, int64_t m1, const E* patch,
                               const T** to, PixelOrder<Cfg>& order) {
    const ConvArgs<Cfg>& p = from.p;
    const int64_t first = from.first;
    const int64_t h0 = first % p.oh * Cfg::SH - Cfg::PH, start = m0 - first * p.ow - from.ow0;
    const int64_t d0 = first / p.oh % p.od * Cfg::SD - Cfg::PD;
    const int64_t lines = ((m1 - 1) / p.ow - first) * Cfg::SH + (Cfg::KH - 1) * Cfg::DH + 1;
    const int64_t planes = (Cfg::KD - 1) * Cfg::DD + 1;
    const Key key{start, m1 - m0, outside(h0, lines, p.h), outside(d0, planes, p.d)};
    if (!(key == known_)) {
      known_ = key;
      if (order.pays()) order.find(m0, m1);
      zeros_ = from.pointers(m0, m1, patch, to, order.places());
    }
    return zeros_;
  }

 private:
  // How many of `count` places from `begin` on are before the data and behind it.
  struct Outside {
    int64_t before, behind;
    AOT_INLINE bool operator==(const Outside& o) const {
      return before == o.before && behind == o.behind;
    }
  };
  static AOT_INLINE Outside outside(int64_t begin, int64_t count, int64_t size) {
    return {max64(0, -begin), max64(0, begin + count - size)};
  }
  struct Key {
    int64_t start, count;
    Outside lines, planes;
    AOT_INLINE bool operator==(const Key& o) const {
      return start == o.start && count == o.count && lines == o.lines && planes == o.planes;
    }
  };
  Key known_{-1, 0, {0, 0}, {0, 0}};
  const T* zeros_ = nullptr;
};

}  // namespace detail

}  // namespace aot::tmpl

#endif  // AOT_TMPL_CONV_PATCH_H_
