// Scaled-dot-product attention, forward: blocked, with the softmax computed online.
//
//   template <class Cfg, class Mod, class Epi>
//   void attention(const AttentionArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
//                  const Mod& mod, const Epi& epi);
//
//   O[b,h,q,:] = softmax_k(mod(scale * Q[b,h,q,:] . K[b,h/group,k,:])) * V[b,h/group,k,:]
//
// Cfg derives from AttentionConfig. Work units are blocks of QB queries of one head:
//   work    = batch * heads * ceil(sq / QB)      (unit = (b * heads + h) * qt + qi)
// or, where few queries leave room for several heads of a group (HB > 1, a divisor of `group`, and
// sq * HB <= QB), all queries of HB heads, so that these read and pack their keys and values once:
//   work    = batch * heads / HB                 (unit = b * (heads / HB) + h / HB)
//   scratch = attention_scratch<Cfg>() bytes, a constant; 64-byte aligned. Python's twin of the
//             formula is attention_heuristic.AttentionBlocking.scratch_bytes.
// Mod changes a tile of scaled scores in place (masks, biases); NoMod leaves them:
//   mod(b, h, q0, q1, k0, k1, T* s, int64_t ld)           s[(q - q0) * ld + (k - k0)]
// Every (q, k) that counts is passed exactly once; with CAUSAL, keys after the query (k > q) are
// masked by the template, and tiles that hold only such keys are skipped.
// Epi gets finished rows, every (b, h, q) once:
//   epi(b, h, q0, q1, const T* tile, int64_t ld)           tile[(q - q0) * ld + d], d < DV
// A row whose scores are all -inf, or without keys, gives zeros, as in PyTorch.
//
// The last dimension of Q, K and V is contiguous; their other strides are free (0 for broadcast).
#ifndef AOT_TMPL_ATTENTION_H_
#define AOT_TMPL_ATTENTION_H_

#include "aot/tmpl/bf16.h"
#include "aot/tmpl/gemm.h"
#include "aot/tmpl/softmax.h"

namespace aot::tmpl {

struct AttentionConfig {
  using A = float;                    // element of Q, K and V in memory
  static constexpr int64_t D = 64;    // size of a query and a key
  static constexpr int64_t DV = 64;   // size of a value
  static constexpr int64_t SQ = -1;   // queries, or -1: given at run time
  static constexpr int64_t QB = 64;   // rows of a work unit: queries of its heads
  static constexpr int64_t HB = 1;    // heads of a work unit
  static constexpr int64_t KB = 192;  // keys of a block, a multiple of 16
  static constexpr bool CAUSAL = false;
  static constexpr bool SHARED = false;  // micro-kernels of all heights are those of SharedTables
};

template <class Cfg>
struct AttentionArgs {
  const typename Cfg::A* q;
  int64_t q_batch, q_head, q_row;  // strides in elements
  const typename Cfg::A* k;
  int64_t k_batch, k_head, k_row;
  const typename Cfg::A* v;
  int64_t v_batch, v_head, v_row;
  int64_t batch, heads, group;  // group: query heads that share a head of K and V
  int64_t sq, sk;
  compute_t<typename Cfg::A> scale;
};

struct NoMod {
  template <class T>
  AOT_INLINE void operator()(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, T*,
                             int64_t) const {}
};

namespace detail {

// The parts of the scratch, in elements.
template <class Cfg>
struct AttentionLayout {
  static constexpr int64_t kD = round_up(Cfg::D, kPanel), kDv = round_up(Cfg::DV, kPanel);
  static constexpr int64_t kQLd = kD + kPanel, kSLd = Cfg::KB + kPanel, kOLd = kDv + kPanel;
  static constexpr int64_t kStrip = 2 * kPanel;         // the most rows of a strip
  static constexpr int64_t kQ = 0;                      // [QB][kQLd] scaled queries
  static constexpr int64_t kK = kQ + Cfg::QB * kQLd;    // [KB/16][D][16] packed keys
  static constexpr int64_t kV = kK + Cfg::KB * Cfg::D;  // [kDv/16][KB][16] packed values
  static constexpr int64_t kO = kV + Cfg::KB * kDv;     // [QB][kOLd] results
  static constexpr int64_t kS = kO + Cfg::QB * kOLd;    // [kStrip][kSLd] scores of a strip
  static constexpr int64_t kStat = kS + kStrip * kSLd;  // [2][QB] maxima and sums
  static constexpr int64_t kEnd = kStat + round_up(2 * Cfg::QB, kPanel);
};

}  // namespace detail

template <class Cfg>
constexpr int64_t attention_scratch() {
  return detail::AttentionLayout<Cfg>::kEnd * int64_t(sizeof(compute_t<typename Cfg::A>));
}

namespace detail {

// Rows of the block whose first query is q0, of `sq` queries.
template <class Cfg>
constexpr int64_t attention_rows(int64_t sq, int64_t q0) {
  return Cfg::HB == 1 ? min64(Cfg::QB, sq - q0) : Cfg::HB * sq;
}

// The heights of strips of the first block and of the last: those between are like the first.
template <class Cfg, class T>
constexpr Heights attention_heights() {
  if (Cfg::SQ <= 0) return kAllHeights;
  const int64_t last = Cfg::HB == 1 ? (Cfg::SQ - 1) / Cfg::QB * Cfg::QB : 0;
  return Strips<T>(attention_rows<Cfg>(Cfg::SQ, 0)).heights() |
         Strips<T>(attention_rows<Cfg>(Cfg::SQ, last)).heights();
}

// One block of queries of one head, or all queries of several: row i is query i % sq of head
// h + i / sq then.
template <class Cfg, class Mod>
struct AttentionBlock {
  using A = typename Cfg::A;
  using T = compute_t<A>;
  using L = AttentionLayout<Cfg>;

  // Keys and values are read where they lie for a few queries (decoding): packing would cost more
  // than the products. Of values that is whole panels.
  static constexpr int64_t kWholeDv = Cfg::DV / kPanel * kPanel;
  static constexpr int64_t kFewRows = min64(4, RegisterBlock<T>::kRows);
  static constexpr Heights kHeights = attention_heights<Cfg, T>() | kSharing<Cfg>;

  const AttentionArgs<Cfg>& p;
  T* room;
  const Mod& mod;
  int64_t b, h, q0, rows;

  AOT_INLINE T* result() const { return room + L::kO; }

  void run() const {
    const bool few = rows <= kFewRows;
    const bool tiles = !few && has_tiles();
    if (!tiles) load_queries();
    T* const best = room + L::kStat;
    T* const sum = best + Cfg::QB;
    for (int64_t i = 0; i < rows; ++i) {
      best[i] = kMinusInfinity<T>;
      sum[i] = 0;
    }
    const int64_t keys = Cfg::CAUSAL ? min64(p.sk, end_query(0, rows)) : p.sk;
    const A* k = p.k + b * p.k_batch + h / p.group * p.k_head;
    const A* v = p.v + b * p.v_batch + h / p.group * p.v_head;
#if defined(AOT_TMPL_BF16_UNITS)
    if constexpr (kTiles) {
      if (tiles) in_tiles(k, v, keys);
    }
#endif
    for (int64_t k0 = 0; k0 < keys && !tiles; k0 += Cfg::KB) {
      const int64_t count = min64(Cfg::KB, keys - k0);
      if (few) {
        few_rows(k + k0 * p.k_row, v + k0 * p.v_row, k0, count);
        continue;
      }
      pack_columns(k + k0 * p.k_row, p.k_row, Cfg::D, count, room + L::kK, Cfg::D * kPanel);
      pack_rows(v + k0 * p.v_row, p.v_row, count, Cfg::DV, room + L::kV, Cfg::KB * kPanel);
      key_block(k0, count);
    }
    for (int64_t i = 0; i < rows; ++i) {
      if (keys == 0) {  // no block has written the results
        zero_row(result() + i * L::kOLd, L::kDv);
      }
      // The sum is 0 only where nothing was attended to.
      row_scale(result() + i * L::kOLd, L::kDv, sum[i] == 0 ? T(0) : T(1) / sum[i]);
    }
  }

  // bfloat16 on machines that multiply it in tiles: the scratch has room for pairs of it in the
  // places of floats where heads are not very small.
  static constexpr bool kTiles = std::is_same_v<A, Bf16> && Cfg::D >= kPanel;
  static AOT_INLINE bool has_tiles() {
#if defined(AOT_TMPL_BF16_UNITS)
    if constexpr (kTiles) return bf16_unit() == kBf16Tiles;
#endif
    return false;
  }

#if defined(AOT_TMPL_BF16_UNITS)
  static constexpr int64_t kTileD = round_up(Cfg::D, Bf16Tiles::kStep);
  static constexpr int64_t kTileKeys = round_up(Cfg::KB, Bf16Tiles::kStep);
  static constexpr int64_t kTileQLd = 2 * L::kQLd, kWeightLd = 2 * L::kSLd;
  static_assert(kTileD <= kTileQLd && kTileKeys <= kWeightLd);

  // All blocks of keys by the machine's tiles: products of bfloat16, of which the second one's left
  // side are the exponentials, rounded, as eager rounds them.
  void in_tiles(const A* k, const A* v, int64_t keys) const {
    Bf16* const queries = reinterpret_cast<Bf16*>(room + L::kQ);
    by_heads(0, rows, [&](int64_t head, int64_t first, int64_t begin, int64_t count) {
      const A* q = p.q + b * p.q_batch + head * p.q_head + first * p.q_row;
      for (int64_t i = 0; i < count; ++i) {
        Bf16* const out = queries + (begin + i) * kTileQLd;
        __builtin_memcpy(out, q + i * p.q_row, Cfg::D * sizeof(Bf16));
        for (int64_t d = Cfg::D; d < kTileD; ++d) out[d] = Bf16{};
      }
    });
    for (int64_t k0 = 0; k0 < keys; k0 += Cfg::KB) {
      const int64_t count = min64(Cfg::KB, keys - k0);
      // Whole tiles of k's, of keys' elements and of values' rows: zeros behind the last ones.
      float* const packed_k = room + L::kK;
      const int64_t k_stride = kTileD / 2 * kPanel, v_stride = kTileKeys / 2 * kPanel;
      const int64_t key_panels = ceil_div(count, kPanel);
      pack_pairs(k + k0 * p.k_row, 1, p.k_row, Cfg::D, count, packed_k, k_stride);
      zero_pairs(packed_k, key_panels, k_stride, ceil_div(Cfg::D, 2), kTileD / 2);
      float* const packed_v = room + L::kV;
      pack_pairs(v + k0 * p.v_row, p.v_row, 1, count, Cfg::DV, packed_v, v_stride);
      zero_pairs(packed_v, L::kDv / kPanel, v_stride, ceil_div(count, 2),
                 round_up(count, Bf16Tiles::kStep) / 2);
      for (int64_t i0 = 0; i0 < rows; i0 += L::kStrip) {
        tile_strip(queries + i0 * kTileQLd, i0, min64(L::kStrip, rows - i0), k0, count);
      }
    }
    Tiles::release();
  }

  static AOT_INLINE void zero_pairs(float* at, int64_t panels, int64_t stride, int64_t from,
                                    int64_t to) {
    for (int64_t j = 0; j < panels; ++j) {
      zero_row(at + j * stride + from * kPanel, (to - from) * kPanel);
    }
  }

  // Rows [i0, i0 + count) by a block of keys.
  AOT_INLINE void tile_strip(const Bf16* queries, int64_t i0, int64_t count, int64_t k0,
                             int64_t block) const {
    const int64_t keys = seen(i0, i0 + count, k0, block);
    if (keys <= 0) return;
    T* const s = room + L::kS;
    const int64_t panels = ceil_div(keys, kPanel), width = panels * kPanel;
    const Bf16* const packed_k = reinterpret_cast<const Bf16*>(room + L::kK);
    Bf16Tiles{queries,  kTileQLd,        count,  kTileD, Bf16Tiles::kStep,
              packed_k, kTileD * kPanel, panels, s,      L::kSLd}
        .run();
    // What changes scores gets them scaled; else that is done with the exponentials.
    constexpr bool kScaled = !std::is_same_v<Mod, NoMod>;
    const bool later = !kScaled && p.scale > 0;
    if (!later) {
      for (int64_t i = 0; i < count; ++i) row_scale(s + i * L::kSLd, width, p.scale);
    }
    // Weights take the places of their row's scores.
    Bf16* const weights = reinterpret_cast<Bf16*>(s);
    const int64_t deep = round_up(keys, Bf16Tiles::kStep);
    for (int64_t i = 0; i < count; i += kPanel) {
      softmax<Bf16>(s + i * L::kSLd, i0 + i, int(min64(kPanel, count - i)), k0, keys,
                    later ? p.scale : T(1));
    }
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = width; j < deep; ++j) weights[i * kWeightLd + j] = Bf16{};
    }
    const Bf16* const packed_v = reinterpret_cast<const Bf16*>(room + L::kV);
    T* const out = result() + i0 * L::kOLd;
    Bf16Tiles{weights,  kWeightLd,          count,           deep, Bf16Tiles::kStep,
              packed_v, kTileKeys * kPanel, L::kDv / kPanel, out,  L::kOLd,
              k0 > 0}
        .run();
  }
#endif

  // Calls part(head, q, i, n) for rows [begin, end): of n rows from i on, the head and the first
  // query.
  template <class Part>
  AOT_INLINE void by_heads(int64_t begin, int64_t end, const Part& part) const {
    if constexpr (Cfg::HB == 1) {
      part(h, q0 + begin, begin, end - begin);
    } else {
      for (int64_t i = begin; i < end;) {
        const int64_t head = i / p.sq, next = min64(end, (head + 1) * p.sq);
        part(h + head, i - head * p.sq, i, next - i);
        i = next;
      }
    }
  }

  void load_queries() const {
    by_heads(0, rows, [&](int64_t head, int64_t first, int64_t begin, int64_t count) {
      const A* q = p.q + b * p.q_batch + head * p.q_head + first * p.q_row;
      for (int64_t i = 0; i < count; ++i) {
        T* out = room + L::kQ + (begin + i) * L::kQLd;
        widen_row(q + i * p.q_row, Cfg::D, out);
        row_scale(out, L::kD, p.scale);  // what lies beyond D is not read
      }
    });
  }

  // The query of a row, and the one behind the last of rows [begin, end).
  AOT_INLINE int64_t query(int64_t i) const { return Cfg::HB == 1 ? q0 + i : i % p.sq; }
  AOT_INLINE int64_t end_query(int64_t begin, int64_t end) const {
    if constexpr (Cfg::HB == 1) return q0 + end;
    return begin / p.sq == (end - 1) / p.sq ? query(end - 1) + 1 : p.sq;
  }

  // The keys of [k0, k0 + count) that some of rows [begin, end) see.
  AOT_INLINE int64_t seen(int64_t begin, int64_t end, int64_t k0, int64_t count) const {
    return Cfg::CAUSAL ? min64(count, end_query(begin, end) - k0) : count;
  }

  // Strip by strip, so that a strip's scores stay in L1 from the first product to the second.
  void key_block(int64_t k0, int64_t count) const {
    const Strips<T> strips(rows);
    for (int64_t s = 0; s < strips.count; ++s) {
      const int64_t i0 = strips.begin(s);
      const int mr = strips.rows(s);
      const int64_t keys = seen(i0, i0 + mr, k0, count);
      if (keys <= 0) continue;
      const T* row[kPanel];
      for (int i = 0; i < mr; ++i) row[i] = room + L::kQ + (i0 + i) * L::kQLd;
      multiply(row, mr, Cfg::D, {room + L::kK, Cfg::D * kPanel, kPanel, nullptr},
               ceil_div(keys, kPanel), room + L::kS, L::kSLd, false);
      softmax<T>(room + L::kS, i0, mr, k0, keys, T(1));
      accumulate(i0, mr, keys, {room + L::kV, Cfg::KB * kPanel, kPanel, nullptr}, k0 > 0, 0,
                 L::kDv / kPanel);
    }
  }

  // All rows at once; scores are dot products along the keys.
  void few_rows(const A* k, const A* v, int64_t k0, int64_t count) const {
    constexpr int kL = Simd<T>::kLanes;
    constexpr int64_t kWhole = Cfg::D / kL * kL;
    const int64_t keys = seen(0, rows, k0, count);
    if (keys <= 0) return;
    // Machines look ahead within a page: not from row to row where heads lie between them, nor down
    // the values, which are walked panel by panel and come while the scores are computed.
    constexpr int64_t kLine = 64 / int64_t(sizeof(A)), kAhead = 2;
    const bool apart = p.k_row > Cfg::D;
    for (int64_t j = 0; j < keys; ++j) {
      const A* key = k + j * p.k_row;
      for (int64_t d = 0; d < Cfg::DV; d += kLine) __builtin_prefetch(v + j * p.v_row + d, 0, 2);
      if (apart) {
        for (int64_t d = 0; d < Cfg::D; d += kLine) {
          __builtin_prefetch(key + kAhead * p.k_row + d);
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        const T* q = room + L::kQ + i * L::kQLd;
        auto sum = Simd<T>::zero();
        for (int64_t d = 0; d < kWhole; d += kL) {
          sum = Simd<T>::fma(Simd<T>::load(q + d), load_widened<T>(key + d), sum);
        }
        T dot = Simd<T>::reduce(sum, [](auto a, auto b) { return a + b; });
        for (int64_t d = kWhole; d < Cfg::D; ++d) dot += q[d] * widen(key[d]);
        room[L::kS + i * L::kSLd + j] = dot;
      }
    }
    softmax<T>(room + L::kS, 0, int(rows), k0, keys, T(1));
    constexpr int64_t kPanels = kWholeDv / kPanel;
    if constexpr (std::is_same_v<A, T>) {
      accumulate(0, int(rows), keys, {v, kPanel, p.v_row, nullptr}, k0 > 0, 0, kPanels);
    } else {
      for (int64_t i = 0; i < rows; ++i) weigh<0>(i, v, keys, k0 > 0);
    }
    if constexpr (kWholeDv < Cfg::DV) {
      pack_rows(v + kWholeDv, p.v_row, keys, Cfg::DV - kWholeDv, room + L::kV, kPanel);
      accumulate(0, int(rows), keys, {room + L::kV, kPanel, kPanel, nullptr}, k0 > 0, kPanels, 1);
    }
  }

  // Scores of a row times whole panels of values of a narrow type from number FROM on, where they
  // lie: at most four at a time, and keys by turns in two sums, or their additions would wait.
  template <int64_t FROM>
  AOT_INLINE void weigh(int64_t i, const A* v, int64_t keys, bool add) const {
    using S = Simd<T>;
    constexpr int64_t kLeft = kWholeDv / kPanel - FROM;
    if constexpr (kLeft > 0) {
      constexpr int64_t kPanels = min64(kLeft, S::kPerPanel == 1 ? 4 : 2);
      constexpr int kVectors = int(kPanels) * S::kPerPanel;
      const T* const s = room + L::kS + i * L::kSLd;
      T* const out = result() + i * L::kOLd + FROM * kPanel;
      const A* at = v + FROM * kPanel;
      typename S::V sum[2][kVectors] = {};
      for (int64_t j = 0; j < keys; ++j, at += p.v_row) {
        const auto weight = S::set1(s[j]);
        AOT_UNROLL for (int n = 0; n < kVectors; ++n) {
          sum[0][n] = S::fma(weight, load_widened<T>(at + n * S::kLanes), sum[0][n]);
        }
        if (++j == keys) break;
        at += p.v_row;
        const auto second = S::set1(s[j]);
        AOT_UNROLL for (int n = 0; n < kVectors; ++n) {
          sum[1][n] = S::fma(second, load_widened<T>(at + n * S::kLanes), sum[1][n]);
        }
      }
      AOT_UNROLL for (int n = 0; n < kVectors; ++n) {
        const auto all = sum[0][n] + sum[1][n];
        S::store(out + n * S::kLanes, add ? S::load(out + n * S::kLanes) + all : all);
      }
      weigh<FROM + kPanels>(i, v, keys, add);
    }
  }

  // Scores of a strip times `panels` panels of values, which are those from `first` on.
  AOT_INLINE void accumulate(int64_t i0, int mr, int64_t keys, const Panels<T>& values, bool add,
                             int64_t first, int64_t panels) const {
    const T* row[kPanel];
    for (int i = 0; i < mr; ++i) row[i] = room + L::kS + i * L::kSLd;
    T* const out = result() + i0 * L::kOLd + first * kPanel;
    multiply(row, mr, keys, values, panels, out, L::kOLd, add);
  }

  // One strip of C (+)= rows * B.
  AOT_INLINE void multiply(const T* const* row, int mr, int64_t kc, const Panels<T>& b,
                           int64_t panels, T* c, int64_t ldc, bool add) const {
    const int widest = RegisterBlock<T>::panels_for(mr);
    for (int64_t j = 0; j < panels;) {
      const int np = next_panels(panels - j, widest);
      const T* at = b.b + j * b.panel_stride;
      micro<MultiplyAdd<T>, kHeights>(
          mr, np, {row, 0, 1, 0, kc, at, b.panel_stride, b.step, c + j * kPanel, ldc, at, 0, add});
      j += np;
    }
  }

  // Turns scores `s` of at most 16 rows from i0 on, times `scale`, into exponentials of type W in
  // the places of their row, keeping each row's maximum and sum, and rescales what these rows have
  // accumulated when their maximum grew.
  template <class W>
  AOT_INLINE void softmax(T* s, int64_t i0, int mr, int64_t k0, int64_t count, T scale) const {
    T* const best = room + L::kStat + i0;
    T* const sum = best + Cfg::QB;
    const int64_t width = round_up(count, kPanel);
    by_heads(i0, i0 + mr, [&](int64_t head, int64_t first, int64_t i, int64_t rows_of) {
      mod(b, head, first, first + rows_of, k0, k0 + count, s + (i - i0) * L::kSLd, L::kSLd);
    });
    T shift[kPanel], change[kPanel] = {}, factor[kPanel];
    for (int i = 0; i < mr; ++i) {
      T* row = s + i * L::kSLd;
      int64_t visible = count;
      if (Cfg::CAUSAL) visible = max64(0, min64(count, query(i0 + i) + 1 - k0));
      for (int64_t k = visible; k < width; ++k) row[k] = kMinusInfinity<T>;
      const T highest = row_max(row, width) * scale, before = best[i];
      best[i] = highest > before ? highest : before;
      // While everything was -inf, any finite shift leaves the exponentials 0.
      shift[i] = best[i] == kMinusInfinity<T> ? T(0) : best[i];
      change[i] = before - shift[i];
    }
    array_exp(change, mr, factor);
    for (int i = 0; i < mr; ++i) {
      T* const row = s + i * L::kSLd;
      sum[i] = sum[i] * factor[i] + row_exp(row, width, scale, shift[i], reinterpret_cast<W*>(row));
      if (k0 > 0 && factor[i] != 1) {
        row_scale(result() + (i0 + i) * L::kOLd, L::kDv, factor[i]);
      }
    }
  }
};

}  // namespace detail

template <class Cfg, class Mod, class Epi>
void attention(const AttentionArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
               const Mod& mod, const Epi& epi) {
  using Block = detail::AttentionBlock<Cfg, Mod>;
  const int64_t qt = Cfg::HB == 1 ? ceil_div(p.sq, Cfg::QB) : 1;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t head = u / qt * Cfg::HB, q0 = u % qt * Cfg::QB;
    const int64_t b = head / p.heads, h = head % p.heads;
    const int64_t rows = detail::attention_rows<Cfg>(p.sq, q0);
    const Block block{p, static_cast<typename Block::T*>(scratch), mod, b, h, q0, rows};
    block.run();
    block.by_heads(0, rows, [&](int64_t of, int64_t first, int64_t i, int64_t count) {
      epi(b, of, first, first + count, block.result() + i * Block::L::kOLd, Block::L::kOLd);
    });
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_ATTENTION_H_
