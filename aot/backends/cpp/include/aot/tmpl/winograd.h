// Convolution of two dimensions, 3 by 3, without strides or groups, by Winograd's F(2x2, 3x3).
//
//   template <class Cfg, class Epi>
//   void winograd(const WinogradArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
//                 const Epi& epi);
//
// A tile of 2 by 2 outputs is A' [ (G w G') . (B' d B) ] A, d being the 4 by 4 inputs under it
// (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks): 16 products in the place of
// 36, so that a convolution is 16 matmuls of tiles by channels. Channels of the input are
// contiguous; A is its own compute type. Rows of tiles are counted through all images.
//   work    = ceil(n * ceil(oh / 2) / ROWS) * ceil(ceil(ow / 2) / COLS) * ceil(OC / NB), channels
//             fastest
//   scratch = winograd_scratch<Cfg>() bytes, a constant; 64-byte aligned. Python's twin of the
//             formula is conv_heuristic.WinogradBlocking.scratch_bytes.
// Epi is called as in conv.h, a row of outputs at a time.
//
// Where a result is no finite number the row of tiles is computed once more, product by product:
// differences of infinite inputs would spoil their neighbours.
//
// W is transformed and packed: [16][ceil(OC/16)][IC][16] (packing.pack_winograd_weight).
#ifndef AOT_TMPL_WINOGRAD_H_
#define AOT_TMPL_WINOGRAD_H_

#include "aot/tmpl/gemm.h"

namespace aot::tmpl {

struct WinogradConfig {
  using A = float;                  // element of input and weight
  static constexpr int64_t IC = 1;  // a multiple of 16
  static constexpr int64_t OC = 1;
  static constexpr int64_t PH = 0, PW = 0;  // padding before the data
  static constexpr int64_t ROWS = 1;        // the most tiles of a block, down and across
  static constexpr int64_t COLS = 32;
  static constexpr int64_t NB = 64;  // channels of a unit, a multiple of 16
  static constexpr int64_t KB = 256;
};

template <class Cfg>
struct WinogradArgs {
  const typename Cfg::A* x;
  int64_t sn, sh, sw;  // strides of the input in elements
  const typename Cfg::A* w;
  int64_t n, h, wd;  // images and input size
  int64_t oh, ow;    // output size
};

namespace detail {

// Sizes that follow from a configuration, in elements.
template <class Cfg>
struct WinogradShape {
  using T = typename Cfg::A;
  static constexpr int64_t kTiles = Cfg::ROWS * Cfg::COLS;
  static constexpr int64_t kLd = Cfg::NB + kPanel;
  // A panel more keeps the 16 matrices out of each other's sets of the cache.
  static constexpr int64_t kInput = kTiles * Cfg::IC + kPanel;
  static constexpr int64_t kProduct = kTiles * kLd + kPanel;
  static constexpr int64_t kOutput = 2 * 2 * Cfg::COLS * kLd;
  static constexpr int64_t kTable = round_up(16 * kTiles * int64_t(sizeof(T*)), 64);
  static constexpr int64_t kPanelStride = Cfg::IC * kPanel;
  static constexpr int64_t kPlane = ceil_div(Cfg::OC, kPanel) * kPanelStride;
};

}  // namespace detail

template <class Cfg>
constexpr int64_t winograd_scratch() {
  using S = detail::WinogradShape<Cfg>;
  return S::kTable +
         (16 * (S::kInput + S::kProduct) + S::kOutput + Cfg::IC) * int64_t(sizeof(typename Cfg::A));
}

namespace detail {

// One of the 16 matrices of W; behind its last panel comes the first of the next.
template <class T>
struct WinogradB {
  const T* b;
  int64_t panel_stride;
  const T* after;
  AOT_INLINE Panels<T> view(int64_t j, int np, int64_t count, int64_t k, int64_t) const {
    const T* at = b + j * panel_stride + k * kPanel;
    return {at, panel_stride, kPanel, j + np < count ? at + np * panel_stride : after};
  }
};

template <class Cfg, class Epi>
struct WinogradRun {
  using S = WinogradShape<Cfg>;
  using T = typename S::T;
  using L = Simd<T>;
  using V = typename L::V;

  const WinogradArgs<Cfg>& p;
  const Epi& epi;
  const T** table;  // [16][kTiles]
  T* inputs;        // [16][kTiles][IC]
  T* products;      // [16][kTiles][kLd]
  T* outputs;       // [2][2 * COLS][kLd]
  T* zeros;         // [IC]
  const int64_t down, across;

  // Tiles [q0, q1) down, counted through all images, and [c0, c1) across.
  struct Block {
    int64_t q0, q1, c0, c1;
    AOT_INLINE int64_t columns() const { return c1 - c0; }
  };

  WinogradRun(const WinogradArgs<Cfg>& args, void* scratch, const Epi& e)
      : p(args), epi(e), down(ceil_div(args.oh, 2)), across(ceil_div(args.ow, 2)) {
    table = static_cast<const T**>(scratch);
    inputs = reinterpret_cast<T*>(static_cast<char*>(scratch) + S::kTable);
    products = inputs + 16 * S::kInput;
    outputs = products + 16 * S::kProduct;
    zeros = outputs + S::kOutput;
    zero_row(zeros, Cfg::IC);
    for (int64_t e16 = 0; e16 < 16; ++e16) {
      for (int64_t t = 0; t < S::kTiles; ++t) {
        table[e16 * S::kTiles + t] = inputs + e16 * S::kInput + t * Cfg::IC;
      }
    }
  }

  // Channels of the input at a place of an image, zeros outside of it.
  AOT_INLINE const T* at(const T* image, int64_t h, int64_t w) const {
    const bool in = uint64_t(h) < uint64_t(p.h) && uint64_t(w) < uint64_t(p.wd);
    return in ? image + h * p.sh + w * p.sw : zeros;
  }

  // B' d B of each tile.
  void transform_inputs(const Block& b) const {
    T* out = inputs;
    for (int64_t q = b.q0; q < b.q1; ++q) {
      const T* image = p.x + q / down * p.sn;
      const int64_t h = q % down * 2 - Cfg::PH;
      for (int64_t c = b.c0; c < b.c1; ++c, out += Cfg::IC) {
        const int64_t w = c * 2 - Cfg::PW;
        const T* d[4][4];
        AOT_UNROLL for (int i = 0; i < 4; ++i) {
          AOT_UNROLL for (int j = 0; j < 4; ++j) d[i][j] = at(image, h + i, w + j);
        }
        for (int64_t k = 0; k < Cfg::IC; k += L::kLanes) {
          V t[4][4];
          AOT_UNROLL for (int j = 0; j < 4; ++j) {
            const V a = L::load(d[0][j] + k), e = L::load(d[1][j] + k);
            const V f = L::load(d[2][j] + k), g = L::load(d[3][j] + k);
            t[0][j] = a - f;
            t[1][j] = e + f;
            t[2][j] = f - e;
            t[3][j] = e - g;
          }
          AOT_UNROLL for (int i = 0; i < 4; ++i) {
            T* const row = out + 4 * i * S::kInput + k;
            L::store(row, t[i][0] - t[i][2]);
            L::store(row + S::kInput, t[i][1] + t[i][2]);
            L::store(row + 2 * S::kInput, t[i][2] - t[i][1]);
            L::store(row + 3 * S::kInput, t[i][1] - t[i][3]);
          }
        }
      }
    }
  }

  // Channels [n0, n1) of the transformed block: 16 matmuls, then A' m A of each tile.
  void multiply(const Block& b, int64_t n0, int64_t n1) const {
    const int64_t tiles = (b.q1 - b.q0) * b.columns(), panels = ceil_div(n1 - n0, kPanel);
    const T* w = p.w + n0 / kPanel * S::kPanelStride;
    for (int64_t e = 0; e < 16; ++e) {
      const T* own = w + e * S::kPlane;
      const WinogradB<T> source{own, S::kPanelStride, e < 15 ? own + S::kPlane : w};
      block_by_panels<MultiplyAdd<T>, Cfg::KB>(
          BlockArgs<T, WinogradB<T>>{table + e * S::kTiles, 0, tiles, 1, Cfg::IC, source, panels,
                                     products + e * S::kProduct, S::kLd},
          RowsInPlace());
    }
    for (int64_t q = b.q0; q < b.q1; ++q) {
      const int64_t first = (q - b.q0) * b.columns();
      if (!transform_outputs(products + first * S::kLd, b.columns(), panels)) {
        by_products(b, q, n0, panels);
      }
      const int64_t row = q % down * 2;
      const int64_t pixels = min64(2 * b.columns(), p.ow - 2 * b.c0);
      for (int64_t i = 0; i < min64(2, p.oh - row); ++i) {
        const int64_t m = ((q / down) * p.oh + row + i) * p.ow + 2 * b.c0;
        epi(0, m, m + pixels, n0, n1, outputs + i * 2 * b.columns() * S::kLd, S::kLd);
      }
    }
  }

  // A' m A of a row of tiles; false where a result is no finite number.
  bool transform_outputs(const T* m, int64_t columns, int64_t panels) const {
    V spoilt = L::zero();
    for (int64_t c = 0; c < columns; ++c, m += S::kLd) {
      for (int64_t n = 0; n < panels * kPanel; n += L::kLanes) {
        V s[2][4];
        AOT_UNROLL for (int j = 0; j < 4; ++j) {
          const T* const column = m + j * S::kProduct + n;
          const V a = L::load(column), e = L::load(column + 4 * S::kProduct);
          const V f = L::load(column + 8 * S::kProduct), g = L::load(column + 12 * S::kProduct);
          s[0][j] = a + e + f;
          s[1][j] = e - f - g;
        }
        AOT_UNROLL for (int i = 0; i < 2; ++i) {
          T* const out = outputs + (i * 2 * columns + 2 * c) * S::kLd + n;
          const V left = s[i][0] + s[i][1] + s[i][2], right = s[i][1] - s[i][2] - s[i][3];
          L::store(out, left);
          L::store(out + S::kLd, right);
          spoilt = L::fma(left, L::zero(), spoilt);
          spoilt = L::fma(right, L::zero(), spoilt);
        }
      }
    }
    return L::reduce(spoilt, [](V a, V b) { return a + b; }) == 0;
  }

  // w[a][b] for channel k of the input, from the transformed weight.
  static AOT_INLINE V weight(const T* w, int a, int b) {
    const auto row = [&](int i) {
      const T* const u = w + 4 * i * S::kPlane;
      if (b != 1) return L::load(u + b / 2 * 3 * S::kPlane);
      return L::load(u + S::kPlane) - L::load(u + 2 * S::kPlane);
    };
    return a != 1 ? row(a / 2 * 3) : row(1) - row(2);
  }

  // Row q of tiles as sums of products.
  __attribute__((noinline)) void by_products(const Block& b, int64_t q, int64_t n0,
                                             int64_t panels) const {
    const T* image = p.x + q / down * p.sn;
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t c = 0; c < 2 * b.columns(); ++c) {
        T* const out = outputs + (i * 2 * b.columns() + c) * S::kLd;
        const int64_t h = q % down * 2 + i - Cfg::PH, w = 2 * b.c0 + c - Cfg::PW;
        for (int64_t n = 0; n < panels * kPanel; n += L::kLanes) {
          const T* u = p.w + (n0 + n) / kPanel * S::kPanelStride + n % kPanel;
          V sum = L::zero();
          for (int a = 0; a < 3; ++a) {
            for (int e = 0; e < 3; ++e) {
              const T* const x = at(image, h + a, w + e);
              V part = L::zero();
              for (int64_t k = 0; k < Cfg::IC; ++k) {
                part = L::fma(L::set1(x[k]), weight(u + k * kPanel, a, e), part);
              }
              sum = sum + part;
            }
          }
          L::store(out + n, sum);
        }
      }
    }
  }
};

}  // namespace detail

template <class Cfg, class Epi>
void winograd(const WinogradArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
              const Epi& epi) {
  if (begin >= end) return;
  const detail::WinogradRun<Cfg, Epi> run(p, scratch, epi);
  const int64_t rows = p.n * run.down, nt = ceil_div(Cfg::OC, Cfg::NB);
  const int64_t columns = ceil_div(run.across, Cfg::COLS);
  for (int64_t u = begin, last = -1; u < end; ++u) {
    const int64_t place = u / nt, n0 = u % nt * Cfg::NB;
    const int64_t q = place / columns * Cfg::ROWS, c = place % columns * Cfg::COLS;
    const typename detail::WinogradRun<Cfg, Epi>::Block block{q, min64(q + Cfg::ROWS, rows), c,
                                                              min64(c + Cfg::COLS, run.across)};
    if (place != last) run.transform_inputs(block);
    last = place;
    run.multiply(block, n0, min64(n0 + Cfg::NB, Cfg::OC));
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_WINOGRAD_H_
