// Resizing of images of bytes along two axes, in fixed point: whole weights of at most 16 bits,
// sums in 32, each axis rounded to bytes. Exact: any order of the sums gives the same bytes.
//
//   template <int PIXEL, class W, class Epi>
//   void resample_bytes(const ResampleBytesArgs<W>& p, int64_t begin, int64_t end, void* scratch,
//                       const Epi& epi);
//
// PIXEL: elements that lie together in a pixel (1, 3 or 4; 0: any number, p.pixel). Work units are
// kByteRows rows of results of an image. The inner axis comes first: rows of its results live in a
// ring, so that units in turn of one image compute each row once. Two weights at a time meet two
// bytes (widened to 16 bits) in one multiplication, four rows of the image side by side where
// vectors are that long.
//   epi(0, m0, m1, 0, n, const uint8_t* tile, int64_t ld)   m: rows of results over all images
// Starts are clamped to the image: nothing is read outside of it, whatever the tables hold.
#ifndef AOT_TMPL_RESAMPLE_BYTES_H_
#define AOT_TMPL_RESAMPLE_BYTES_H_

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "aot/kernel/prelude.h"
#include "aot/tmpl/bytes.h"

namespace aot::tmpl {

inline constexpr int64_t kByteRows = 16;   // rows of results of a work unit
inline constexpr int64_t kByteSpare = 64;  // bytes that may be read or written behind a row

// starts (out,), weights (out, taps), both contiguous: whole numbers, or fractions of 2^bits.
template <class W>
struct ByteAxis {
  const int64_t* starts;
  const W* weights;
  int64_t out, taps, size;
  int32_t bits;
};

template <class W>
struct ResampleBytesArgs {
  const uint8_t* x;
  int64_t outer, planes;           // images are outer * planes
  int64_t outer_step, plane_step;  // elements between images, and between rows
  int64_t row_step;
  int64_t pixel;              // elements of a pixel
  ByteAxis<W> rows, columns;  // the outer axis and the inner one
};

namespace detail {

using ByteRows = const uint8_t* const (&)[kByteLanes];
using ByteOuts = uint8_t* const (&)[kByteLanes];

// Taps that one load of 16 bytes serves, and the pairs of weights for them.
template <int PIXEL>
inline constexpr int64_t kByteTaps = PIXEL == 1 ? 8 : 4;

AOT_INLINE int64_t byte_groups(int64_t taps, int64_t each) { return (taps + each - 1) / each; }

// Where an output's inputs begin.
template <class W>
AOT_INLINE int64_t byte_start(const ByteAxis<W>& axis, int64_t o) {
  return std::clamp<int64_t>(axis.starts[o], 0, axis.size - axis.taps);
}

// A weight as a whole number; 0 beyond the last one.
template <class W>
AOT_INLINE uint32_t byte_weight(const ByteAxis<W>& axis, int64_t o, int64_t tap) {
  if (tap >= axis.taps) return 0;
  const W w = axis.weights[o * axis.taps + tap];
  if constexpr (std::is_floating_point_v<W>) {
    return uint16_t(int32_t(w * W(int64_t(1) << axis.bits)));
  } else {
    return uint16_t(w);
  }
}

// Two weights as the multiplication takes them.
template <class W>
AOT_INLINE uint32_t byte_pair(const ByteAxis<W>& axis, int64_t o, int64_t tap) {
  return byte_weight(axis, o, tap) | byte_weight(axis, o, tap + 1) << 16;
}

AOT_INLINE uint8_t byte_rounded(int32_t total, int32_t bits) {
  const int32_t whole = bits > 0 ? (total + (int32_t(1) << (bits - 1))) >> bits : total;
  return uint8_t(std::clamp(whole, 0, 255));
}

// The sums of one pixel of 3 or 4 elements, in each lane of 4 numbers.
template <int PIXEL>
AOT_INLINE ByteVector byte_pixel(ByteRows x, int64_t at, const uint32_t* pairs, int64_t groups,
                                 ByteVector half) {
  constexpr char Z = char(0x80);
  const ByteVector first =
      byte_all(PIXEL == 3 ? _mm_setr_epi8(0, Z, 3, Z, 1, Z, 4, Z, 2, Z, 5, Z, Z, Z, Z, Z)
                          : _mm_setr_epi8(0, Z, 4, Z, 1, Z, 5, Z, 2, Z, 6, Z, 3, Z, 7, Z));
  const ByteVector second =
      byte_all(PIXEL == 3 ? _mm_setr_epi8(6, Z, 9, Z, 7, Z, 10, Z, 8, Z, 11, Z, Z, Z, Z, Z)
                          : _mm_setr_epi8(8, Z, 12, Z, 9, Z, 13, Z, 10, Z, 14, Z, 11, Z, 15, Z));
  ByteVector total = half;
  for (int64_t g = 0; g < groups; ++g) {
    const ByteVector bytes = byte_gather(x, at + g * 4 * PIXEL);
    const ByteVector low = byte_madd(byte_shuffle(bytes, first), byte_set(int32_t(pairs[2 * g])));
    const ByteVector high =
        byte_madd(byte_shuffle(bytes, second), byte_set(int32_t(pairs[2 * g + 1])));
    total = byte_add(total, byte_add(low, high));
  }
  return total;
}

// The partial sums of one element, four in each lane.
AOT_INLINE ByteVector byte_element(ByteRows x, int64_t at, const uint32_t* pairs, int64_t groups) {
  ByteVector total = byte_zero();
  for (int64_t g = 0; g < groups; ++g) {
    const ByteVector bytes = byte_low8(byte_gather(x, at + g * 8), byte_zero());
    const __m128i weights = _mm_loadu_si128((const __m128i*)(pairs + 4 * g));
    total = byte_add(total, byte_madd(bytes, byte_all(weights)));
  }
  return total;
}

// Rows of images, kByteLanes of them, along the inner axis. `at`: the offset of each output's first
// input; `pairs`: `groups` loads' weights an output. 16 bytes behind a result may be written.
template <int PIXEL>
AOT_INLINE void byte_inner(ByteRows x, ByteOuts y, int64_t out, const int64_t* at,
                           const uint32_t* pairs, int64_t groups, int32_t bits) {
  const ByteVector half = byte_set(bits > 0 ? int32_t(1) << (bits - 1) : 0);
  const __m128i shift = _mm_cvtsi32_si128(bits);
  const int64_t each = groups * (kByteTaps<PIXEL> / 2);
  const auto sums = [&](int64_t o) {
    const int64_t k = std::min(o, out - 1);
    if constexpr (PIXEL == 1) {
      return byte_element(x, at[k], pairs + k * each, groups);
    } else {
      return byte_pixel<PIXEL>(x, at[k], pairs + k * each, groups, half);
    }
  };
  for (int64_t o = 0; o < out; o += PIXEL == 1 ? 16 : 4) {
    ByteVector four[4];
    if constexpr (PIXEL == 1) {
      for (int q = 0; q < 4; ++q) {
        const ByteVector a = sums(o + 4 * q), b = sums(o + 4 * q + 1);
        const ByteVector c = sums(o + 4 * q + 2), d = sums(o + 4 * q + 3);
        const ByteVector ab = byte_add(byte_low32(a, b), byte_high32(a, b));
        const ByteVector cd = byte_add(byte_low32(c, d), byte_high32(c, d));
        const ByteVector all = byte_add(byte_low64(ab, cd), byte_high64(ab, cd));
        four[q] = byte_shift(byte_add(all, half), shift);
      }
    } else {
      for (int q = 0; q < 4; ++q) four[q] = byte_shift(sums(o + q), shift);
    }
    ByteVector packed = byte_pack(four[0], four[1], four[2], four[3]);
    if constexpr (PIXEL == 3) {
      packed = byte_shuffle(
          packed, byte_all(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, char(0x80),
                                         char(0x80), char(0x80), char(0x80))));
    }
    byte_scatter(packed, y, o * PIXEL);
  }
}

// The same for pixels of any number of elements, a row at a time.
template <class W>
AOT_INLINE void byte_inner_any(const uint8_t* x, uint8_t* y, const ByteAxis<W>& axis, int64_t pixel,
                               const int64_t* at, const uint32_t* pairs) {
  const int64_t each = byte_groups(axis.taps, 2);
  for (int64_t o = 0; o < axis.out; ++o) {
    for (int64_t c = 0; c < pixel; ++c) {
      int32_t total = 0;
      for (int64_t t = 0; t < axis.taps; ++t) {
        const int32_t w = int16_t(pairs[o * each + t / 2] >> (t % 2 * 16));
        total += w * x[at[o] + t * pixel + c];
      }
      y[o * pixel + c] = byte_rounded(total, axis.bits);
    }
  }
}

// Two taps of a row of results: their rows in the ring, and their weights.
struct ByteTaps {
  const uint8_t *first, *second;
  uint32_t pair;
};

// The taps of an output of the outer axis; a last odd one meets a weight of 0.
template <class W>
AOT_INLINE void byte_taps(ByteTaps* taps, const uint8_t* ring, int64_t ld, int64_t ring_rows,
                          int64_t first, const ByteAxis<W>& axis, int64_t o) {
  const auto row = [&](int64_t t) {
    return ring + (first + std::min(t, axis.taps - 1)) % ring_rows * ld;
  };
  for (int64_t t = 0; t < axis.taps; t += 2)
    taps[t / 2] = {row(t), row(t + 1), byte_pair(axis, o, t)};
}

// A row of results from rows of the ring: whole vectors, up to kByteSpare bytes more.
AOT_INLINE void byte_outer(const ByteTaps* taps, int64_t count, int32_t bits, uint8_t* y,
                           int64_t n) {
  const ByteVector half = byte_set(bits > 0 ? int32_t(1) << (bits - 1) : 0), zero = byte_zero();
  const __m128i shift = _mm_cvtsi32_si128(bits);
  for (int64_t i = 0; i < n; i += 16 * kByteLanes) {
    ByteVector a = half, b = half, c = half, d = half;
    for (int64_t t = 0; t < count; ++t) {
      const ByteVector x = byte_load(taps[t].first + i), z = byte_load(taps[t].second + i);
      const ByteVector w = byte_set(int32_t(taps[t].pair));
      const ByteVector low = byte_low8(x, z), high = byte_high8(x, z);
      a = byte_add(a, byte_madd(byte_low8(low, zero), w));
      b = byte_add(b, byte_madd(byte_high8(low, zero), w));
      c = byte_add(c, byte_madd(byte_low8(high, zero), w));
      d = byte_add(d, byte_madd(byte_high8(high, zero), w));
    }
    byte_store(y + i, byte_pack(byte_shift(a, shift), byte_shift(b, shift), byte_shift(c, shift),
                                byte_shift(d, shift)));
  }
}

// What a worker keeps: tables of the inner axis, rows of the ring, of results, and copies of the
// rows at the end of the images, behind which nothing may be read.
struct ByteRoom {
  int64_t ld, line, ring_rows, starts, pairs, taps, ring, tile, edge, bytes;

  constexpr ByteRoom(int64_t out, int64_t row_bytes, int64_t pixel, int64_t taps_inner,
                     int64_t taps_outer)
      : ld((out * pixel + 127) / 64 * 64),
        line((row_bytes + 127) / 64 * 64),
        ring_rows(taps_outer + kMost),
        starts(0),
        pairs(starts + (out * 8 + 63) / 64 * 64),
        taps(pairs + (out * ((taps_inner + 7) / 8 * 16) + 63) / 64 * 64),
        ring(taps + ((taps_outer + 1) / 2 * 24 + 63) / 64 * 64),
        tile(ring + (ring_rows + 1) * ld),
        edge(tile + kByteRows * ld),
        bytes(edge + kMost * line) {}

  static constexpr int64_t kMost = 4;  // lanes of any level
};

}  // namespace detail

template <int PIXEL, class W, class Epi>
AOT_INLINE void resample_bytes(const ResampleBytesArgs<W>& p, int64_t begin, int64_t end,
                               void* scratch, const Epi& epi) {
  constexpr int L = detail::kByteLanes;
  const int64_t pixel = PIXEL ? PIXEL : p.pixel;
  const int64_t n = p.columns.out * pixel, row_bytes = p.columns.size * pixel;
  const detail::ByteRoom room(p.columns.out, row_bytes, pixel, p.columns.taps, p.rows.taps);
  uint8_t* const base = static_cast<uint8_t*>(scratch);
  int64_t* const at = reinterpret_cast<int64_t*>(base + room.starts);
  uint32_t* const pairs = reinterpret_cast<uint32_t*>(base + room.pairs);
  detail::ByteTaps* const taps = reinterpret_cast<detail::ByteTaps*>(base + room.taps);
  uint8_t *const ring = base + room.ring, *const tile = base + room.tile;
  const int64_t groups = detail::byte_groups(p.columns.taps, PIXEL ? detail::kByteTaps<PIXEL> : 2);
  const int64_t each = PIXEL ? groups * (detail::kByteTaps<PIXEL> / 2) : groups;
  for (int64_t o = 0; o < p.columns.out; ++o) {
    at[o] = detail::byte_start(p.columns, o) * pixel;
    for (int64_t k = 0; k < each; ++k) pairs[o * each + k] = detail::byte_pair(p.columns, o, 2 * k);
  }
  // The last byte that belongs to an image: rows that end less than kByteSpare before it are
  // copied.
  const uint8_t* const last = p.x + (p.outer - 1) * p.outer_step + (p.planes - 1) * p.plane_step +
                              (p.rows.size - 1) * p.row_step + row_bytes;
  const auto row_of = [&](const uint8_t* image, int64_t r, int lane) -> const uint8_t* {
    const uint8_t* const row = image + std::min(r, p.rows.size - 1) * p.row_step;
    if (last - row >= row_bytes + kByteSpare) return row;
    uint8_t* const copy = base + room.edge + lane * room.line;
    std::memcpy(copy, row, size_t(row_bytes));
    return copy;
  };
  const int64_t blocks = (p.rows.out + kByteRows - 1) / kByteRows;
  int64_t current = -1, from = 0, next = 0;  // the ring has rows [from, next) of image `current`
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t picture = unit / blocks, o0 = unit % blocks * kByteRows;
    const int64_t o1 = std::min(o0 + kByteRows, p.rows.out);
    const uint8_t* const image =
        p.x + picture / p.planes * p.outer_step + picture % p.planes * p.plane_step;
    for (int64_t o = o0; o < o1; ++o) {
      const int64_t first = detail::byte_start(p.rows, o);
      if (picture != current || first < from || first > next) {
        current = picture;
        from = next = first;
      }
      while (next < first + p.rows.taps) {
        const uint8_t* x[L];
        uint8_t* y[L];
        for (int k = 0; k < L; ++k) {
          x[k] = row_of(image, next + k, k);
          // Rows behind the image's last one go where nobody reads.
          y[k] = ring +
                 (next + k < p.rows.size ? (next + k) % room.ring_rows : room.ring_rows) * room.ld;
        }
        if constexpr (PIXEL != 0) {
          detail::byte_inner<PIXEL>(x, y, p.columns.out, at, pairs, groups, p.columns.bits);
        } else {
          for (int k = 0; k < L; ++k) {
            detail::byte_inner_any(x[k], y[k], p.columns, pixel, at, pairs);
          }
        }
        next += L;
      }
      from = std::max(from, next - room.ring_rows);
      detail::byte_taps(taps, ring, room.ld, room.ring_rows, first, p.rows, o);
      detail::byte_outer(taps, (p.rows.taps + 1) / 2, p.rows.bits, tile + (o - o0) * room.ld, n);
    }
    const int64_t m = picture * p.rows.out;
    epi(0, m + o0, m + o1, 0, n, tile, room.ld);
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_RESAMPLE_BYTES_H_
