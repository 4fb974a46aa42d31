// Convolution of two dimensions, 3 by 3, without groups, of strides 1 or 2, by Winograd's
// F(TH x TW, 3x3).
//
//   template <class Cfg, class Epi>
//   void winograd(const WinogradArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
//                 const Epi& epi);
//
// A tile of TH by TW outputs is A' [ (G w G') . (B' d B) ] A, d being the inputs under it, TH + 2
// by TW + 2 without strides (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks): as
// many products in the place of 9 TH TW, so that a convolution is as many matmuls of tiles by
// channels. Of stride 2 a line's even inputs meet the outer taps, which is F(TH, 2), and its odd
// ones the middle tap, whose products are as they were (the polyphase way; 5 products for 6, 9
// for 12).
// Channels of the input are contiguous; A is its own compute type. Rows of tiles are counted
// through all images.
//   work    = ceil(n * ceil(oh / TH) / ROWS) * ceil(ceil(ow / TW) / COLS) * ceil(OC / NB), channels
//             fastest
//   scratch = winograd_scratch<Cfg>() bytes, a constant; 64-byte aligned. Python's twin of the
//             formula is winograd_heuristic.WinogradBlocking.scratch_bytes.
// Epi is called as in conv.h, a row of outputs at a time.
//
// Where a result is no finite number the row of tiles is computed once more, product by product:
// differences of infinite inputs would spoil their neighbours.
//
// W is transformed and packed: [matrices][ceil(OC/16)][IC][16] (packing.pack_winograd_weight).
// Products of stride 2 share matrices: those of a middle tap.
#ifndef AOT_TMPL_WINOGRAD_H_
#define AOT_TMPL_WINOGRAD_H_

#include "aot/tmpl/even.h"

namespace aot::tmpl {

struct WinogradConfig {
  using A = float;                  // element of input and weight
  static constexpr int64_t IC = 1;  // a multiple of 16
  static constexpr int64_t OC = 1;
  static constexpr int64_t PH = 0, PW = 0;  // padding before the data
  static constexpr int TH = 2, TW = 2;      // outputs of a tile, down and across: 2 or 4
  static constexpr int SH = 1, SW = 1;      // strides: 1 or 2
  static constexpr int64_t ROWS = 1;        // the most tiles of a block, down and across
  static constexpr int64_t COLS = 32;
  static constexpr int64_t DOWN = -1;    // tiles of all images down, of one across, or -1:
  static constexpr int64_t ACROSS = -1;  // they follow from the arguments
  static constexpr int64_t NB = 64;      // channels of a unit, a multiple of 16
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

// One dimension of M outputs of stride S: what the kUnder inputs under them become, the outputs of
// as many products, and the three taps from the kTaps transformed ones, of which product i takes
// the tap(i)th. `L` has the vectors.
template <int M, int S, class L>
struct WinogradLine;

// Points 0, 1, -1 and infinity: additions and halves alone.
template <class L>
struct WinogradLine<2, 1, L> {
  using V = typename L::V;
  static constexpr int kUnder = 4, kTaps = 4;
  static constexpr int tap_of(int product) { return product; }
  static AOT_INLINE void input(const V (&d)[4], V (&t)[4]) {
    t[0] = d[0] - d[2];
    t[1] = d[1] + d[2];
    t[2] = d[2] - d[1];
    t[3] = d[1] - d[3];
  }
  static AOT_INLINE void output(const V (&m)[4], V (&y)[2]) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
  }
  template <class At>
  static AOT_INLINE V tap(int a, const At& at) {
    if (a == 1) return at(1) - at(2);
    return at(a / 2 * 3);
  }
};

// Points 0, 5/8, -5/8, 3/2, -3/2 and infinity. Of all simple fractions these amplify roundings
// least (docs/adr/0088-winograd.md); all factors here are exact.
template <class L>
struct WinogradLine<4, 1, L> {
  using V = typename L::V;
  static constexpr int kUnder = 6, kTaps = 6;
  static constexpr int tap_of(int product) { return product; }
  using T = std::remove_reference_t<decltype(V{}[0])>;
  static constexpr T kP = T(0.625), kQ = T(1.5), kP2 = kP * kP, kQ2 = kQ * kQ;
  static AOT_INLINE V times(T factor, V x, V sum) { return L::fma(L::set1(factor), x, sum); }
  static AOT_INLINE void input(const V (&d)[6], V (&t)[6]) {
    const V p = times(-kQ2, d[2], d[4]), u = times(-kQ2, d[1], d[3]);
    const V q = times(-kP2, d[2], d[4]), v = times(-kP2, d[1], d[3]);
    t[0] = times(kP2 * kQ2, d[0], times(-(kP2 + kQ2), d[2], d[4]));
    t[1] = times(kP, u, p);
    t[2] = times(-kP, u, p);
    t[3] = times(kQ, v, q);
    t[4] = times(-kQ, v, q);
    t[5] = times(kP2 * kQ2, d[1], times(-(kP2 + kQ2), d[3], d[5]));
  }
  static AOT_INLINE void output(const V (&m)[6], V (&y)[4]) {
    const V p = m[1] + m[2], u = m[1] - m[2], q = m[3] + m[4], v = m[3] - m[4];
    y[0] = m[0] + (p + q);
    y[1] = times(kP, u, L::set1(kQ) * v);
    y[2] = times(kP2, p, L::set1(kQ2) * q);
    y[3] = times(kP2 * kP, u, times(kQ2 * kQ, v, m[5]));
  }
  template <class At>
  static AOT_INLINE V tap(int a, const At& at) {
    if (a == 0) return L::set1(kP2 * kQ2) * at(0);
    if (a == 1) return L::set1(kP * (kP2 - kQ2)) * (at(1) - at(2));
    return at(5);
  }
};

// Even inputs and the outer taps by F(2, 2), points 0, 1 and infinity; odd ones and the middle tap.
template <class L>
struct WinogradLine<2, 2, L> {
  using V = typename L::V;
  static constexpr int kUnder = 5, kTaps = 4;
  static constexpr int tap_of(int product) { return product < 4 ? product : 3; }
  static AOT_INLINE void input(const V (&d)[5], V (&t)[5]) {
    t[0] = d[0] - d[2];
    t[1] = d[2];
    t[2] = d[4] - d[2];
    t[3] = d[1];
    t[4] = d[3];
  }
  static AOT_INLINE void output(const V (&m)[5], V (&y)[2]) {
    y[0] = m[0] + m[1] + m[3];
    y[1] = m[1] + m[2] + m[4];
  }
  template <class At>
  static AOT_INLINE V tap(int a, const At& at) {
    return at(a == 1 ? 3 : a);
  }
};

// The same by F(4, 2): points 1/2, -1/2, 5/4, -5/4 and infinity amplify roundings least of all
// simple fractions, and a third as much as those of F(4, 3).
template <class L>
struct WinogradLine<4, 2, L> {
  using V = typename L::V;
  using T = std::remove_reference_t<decltype(V{}[0])>;
  static constexpr int kUnder = 9, kTaps = 6;
  static constexpr T kP = T(0.5), kQ = T(1.25), kP2 = kP * kP, kQ2 = kQ * kQ;
  static constexpr int tap_of(int product) { return product < 6 ? product : 5; }
  static AOT_INLINE V times(T factor, V x, V sum) { return L::fma(L::set1(factor), x, sum); }
  static AOT_INLINE void input(const V (&d)[9], V (&t)[9]) {
    const V p = times(-kQ2, d[2], d[6]), u = times(-kQ2, d[0], d[4]);
    const V q = times(-kP2, d[2], d[6]), v = times(-kP2, d[0], d[4]);
    t[0] = times(kP, u, p);
    t[1] = times(-kP, u, p);
    t[2] = times(kQ, v, q);
    t[3] = times(-kQ, v, q);
    t[4] = times(kP2 * kQ2, d[0], times(-(kP2 + kQ2), d[4], d[8]));
    AOT_UNROLL for (int i = 0; i < 4; ++i) t[5 + i] = d[2 * i + 1];
  }
  static AOT_INLINE void output(const V (&m)[9], V (&y)[4]) {
    const V p = m[0] + m[1], u = m[0] - m[1], q = m[2] + m[3], v = m[2] - m[3];
    y[0] = (p + q) + m[5];
    y[1] = times(kP, u, times(kQ, v, m[6]));
    y[2] = times(kP2, p, times(kQ2, q, m[7]));
    y[3] = times(kP2 * kP, u, times(kQ2 * kQ, v, m[4] + m[8]));
  }
  template <class At>
  static AOT_INLINE V tap(int a, const At& at) {
    if (a == 0) return L::set1(kP * (kP2 - kQ2)) * (at(0) - at(1));
    return at(a == 1 ? 5 : 4);
  }
};

// Tiles [q0, q1) down, counted through all images, and [c0, c1) across.
struct WinogradBlock {
  int64_t q0, q1, c0, c1;
  AOT_INLINE int64_t columns() const { return c1 - c0; }
};

// Where a convolution reads: images of h by w, of which each has `down` rows of tiles.
template <class T>
struct WinogradImages {
  const T* x;
  int64_t sn, sh, sw, h, w, ph, pw, down;
  const T* zeros;
  AOT_INLINE bool has_row(int64_t row) const { return uint64_t(row) < uint64_t(h); }
  AOT_INLINE bool has_column(int64_t column) const { return uint64_t(column) < uint64_t(w); }
  // Channels at a place of an image, zeros outside of it.
  AOT_INLINE const T* at(const T* image, int64_t row, int64_t column) const {
    return has_row(row) && has_column(column) ? image + row * sh + column * sw : zeros;
  }
};

// What is done to tiles knows neither all of a configuration nor an epilogue: convolutions that
// differ in what is not named have the same code.
template <class T, int TH, int TW, int SH, int SW>
struct WinogradTiles {
  using L = Simd<T>;
  using V = typename L::V;
  using Down = WinogradLine<TH, SH, L>;
  using Across = WinogradLine<TW, SW, L>;
  static constexpr int kH = Down::kUnder, kW = Across::kUnder;

  // Where `at` is, which goes on by so many elements. Compilers would keep all such places in
  // memory.
  template <class P>
  static AOT_INLINE P* step(P*& at, int64_t size) {
    P* const here = at;
    at += size;
    asm("" : "+r"(at));
    return here;
  }

  // B' d B of each tile of `ic` channels; a matrix has `size` elements.
  static AOT_SHARED void inputs(const WinogradImages<T>& from, const WinogradBlock& b, int64_t ic,
                                int64_t size, T* out) {
    for (int64_t q = b.q0; q < b.q1; ++q) {
      const T* image = from.x + q / from.down * from.sn;
      const int64_t h = q % from.down * (TH * SH) - from.ph;
      for (int64_t c = b.c0; c < b.c1; ++c, out += ic) {
        const int64_t w = c * (TW * SW) - from.pw;
        const T* d[kH][kW];
        for (int i = 0; i < kH; ++i) {
          const T* const row = image + (h + i) * from.sh;
          const bool in = from.has_row(h + i);
          AOT_UNROLL for (int j = 0; j < kW; ++j) {
            d[i][j] = in && from.has_column(w + j) ? row + (w + j) * from.sw : from.zeros;
          }
        }
        for (int64_t k = 0; k < ic; k += L::kLanes) {
          V t[kH][kW];
          AOT_UNROLL for (int j = 0; j < kW; ++j) {
            V column[kH], to[kH];
            AOT_UNROLL for (int i = 0; i < kH; ++i) column[i] = L::load(d[i][j] + k);
            Down::input(column, to);
            AOT_UNROLL for (int i = 0; i < kH; ++i) t[i][j] = to[i];
          }
          T* at = out + k;
          AOT_UNROLL for (int i = 0; i < kH; ++i) {
            V to[kW];
            Across::input(t[i], to);
            AOT_UNROLL for (int j = 0; j < kW; ++j) L::store(step(at, size), to[j]);
          }
        }
      }
    }
  }

  // A' m A of a row of tiles, of which a matrix has `size` elements and rows `ld`; false where a
  // result is no finite number.
  static AOT_SHARED bool outputs(const T* m, int64_t columns, int64_t panels, int64_t ld,
                                 int64_t size, T* out) {
    V spoilt = L::zero();
    for (int64_t c = 0; c < columns; ++c, m += ld) {
      for (int64_t n = 0; n < panels * kPanel; n += L::kLanes) {
        V s[TH][kW];
        AOT_UNROLL for (int j = 0; j < kW; ++j) {
          V from[kH], to[TH];
          const T* at = m + j * size + n;
          AOT_UNROLL for (int i = 0; i < kH; ++i) from[i] = L::load(step(at, kW * size));
          Down::output(from, to);
          AOT_UNROLL for (int i = 0; i < TH; ++i) s[i][j] = to[i];
        }
        AOT_UNROLL for (int i = 0; i < TH; ++i) {
          V to[TW];
          Across::output(s[i], to);
          T* const row = out + (i * columns + c) * TW * ld + n;
          AOT_UNROLL for (int j = 0; j < TW; ++j) {
            L::store(row + j * ld, to[j]);
            spoilt = L::fma(to[j], L::zero(), spoilt);
          }
        }
      }
    }
    return L::reduce(spoilt, [](V a, V b) { return a + b; }) == 0;
  }

  // w[a][b] for channel k of the input, from the transformed weight of matrices of `plane`
  // elements.
  static AOT_INLINE V weight(const T* w, int64_t plane, int a, int b) {
    return Down::tap(a, [&](int i) {
      return Across::tap(b, [&](int j) { return L::load(w + (i * Across::kTaps + j) * plane); });
    });
  }

  // Row q of tiles as sums of products, by panels of `ic` rows each.
  static AOT_SHARED __attribute__((cold)) void by_products(const WinogradImages<T>& from,
                                                           const WinogradBlock& b, int64_t q,
                                                           int64_t ic, const T* panel,
                                                           int64_t plane, int64_t panels, T* out,
                                                           int64_t ld) {
    const T* image = from.x + q / from.down * from.sn;
    const int64_t columns = TW * b.columns();
    for (int64_t i = 0; i < TH; ++i) {
      for (int64_t c = 0; c < columns; ++c) {
        T* const row = out + (i * columns + c) * ld;
        const int64_t h = (q % from.down * TH + i) * SH - from.ph;
        const int64_t w = (b.c0 * TW + c) * SW - from.pw;
        for (int64_t n = 0; n < panels * kPanel; n += L::kLanes) {
          const T* u = panel + n / kPanel * ic * kPanel + n % kPanel;
          V sum = L::zero();
          for (int a = 0; a < 3; ++a) {
            for (int e = 0; e < 3; ++e) {
              const T* const x = from.at(image, h + a, w + e);
              V part = L::zero();
              for (int64_t k = 0; k < ic; ++k) {
                part = L::fma(L::set1(x[k]), weight(u + k * kPanel, plane, a, e), part);
              }
              sum = sum + part;
            }
          }
          L::store(row + n, sum);
        }
      }
    }
  }
};

// Sizes that follow from a configuration, in elements.
template <class Cfg>
struct WinogradShape {
  using T = typename Cfg::A;
  using Down = WinogradLine<Cfg::TH, Cfg::SH, Simd<T>>;
  using Across = WinogradLine<Cfg::TW, Cfg::SW, Simd<T>>;
  static constexpr int kH = Down::kUnder, kW = Across::kUnder;  // inputs under a tile
  static constexpr int64_t kCount = kH * kW;                    // products of a tile
  static constexpr int64_t kTiles = Cfg::ROWS * Cfg::COLS;
  static constexpr int64_t kLd = Cfg::NB + kPanel;
  // A panel more keeps the matrices out of each other's sets of the cache.
  static constexpr int64_t kInput = kTiles * Cfg::IC + kPanel;
  static constexpr int64_t kProduct = kTiles * kLd + kPanel;
  static constexpr int64_t kOutput = Cfg::TH * Cfg::TW * Cfg::COLS * kLd;
  static constexpr int64_t kPanelStride = Cfg::IC * kPanel;
  static constexpr int64_t kPlane = ceil_div(Cfg::OC, kPanel) * kPanelStride;
  // Where the matrix of a product begins.
  static constexpr int64_t matrix(int64_t product) {
    return (Down::tap_of(int(product) / kW) * Across::kTaps + Across::tap_of(int(product) % kW)) *
           kPlane;
  }
};

}  // namespace detail

template <class Cfg>
constexpr int64_t winograd_scratch() {
  using S = detail::WinogradShape<Cfg>;
  return (S::kCount * (S::kInput + S::kProduct) + S::kOutput + Cfg::IC) *
         int64_t(sizeof(typename Cfg::A));
}

namespace detail {

// The sizes of the first pieces and of the last, of `count` in pieces of `most`.
constexpr int64_t first_piece(int64_t count, int64_t most) { return min64(count, most); }
constexpr int64_t last_piece(int64_t count, int64_t most) { return (count - 1) % most + 1; }

// How a block's products are cut. Where its sizes are not constants: pairs of vectors by as many
// rows as fit.
template <class Cfg, class T>
constexpr DirectShape winograd_shape(int64_t tiles, int64_t columns) {
  if (Cfg::DOWN > 0 && Cfg::ACROSS > 0) return panel_shape<T>(tiles, columns, Cfg::IC, Cfg::IC);
  return {min64(kMostDirectRows, (kVectorRegisters - 3) / 2), 2, 0};
}

// The pieces that all blocks are cut into.
template <class Cfg, class T>
constexpr DirectCuts winograd_cuts() {
  if (Cfg::DOWN <= 0 || Cfg::ACROSS <= 0) {
    const DirectShape shape = winograd_shape<Cfg, T>(1, 1);
    return {(uint32_t{2} << shape.rows) - 2, (uint32_t{2} << shape.vectors) - 2};
  }
  DirectCuts found{0, 0};
  for (int i = 0; i < 8; ++i) {
    const auto down = i % 2 == 0 ? first_piece : last_piece;
    const auto across = i / 2 % 2 == 0 ? first_piece : last_piece;
    const auto columns = i / 4 == 0 ? first_piece : last_piece;
    const int64_t tiles = down(Cfg::DOWN, Cfg::ROWS) * across(Cfg::ACROSS, Cfg::COLS);
    const int64_t vectors = ceil_div(columns(Cfg::OC, Cfg::NB), kPanel) * Simd<T>::kPerPanel;
    const DirectShape shape = winograd_shape<Cfg, T>(tiles, vectors * Simd<T>::kLanes);
    found.rows |= sizes_of(Pieces(tiles, shape.rows));
    found.vectors |= sizes_of(Pieces(vectors, shape.vectors));
  }
  return found;
}

template <class Cfg, class Epi>
struct WinogradRun {
  using S = WinogradShape<Cfg>;
  using T = typename S::T;
  using Tiles = WinogradTiles<T, Cfg::TH, Cfg::TW, Cfg::SH, Cfg::SW>;
  using Block = WinogradBlock;
  static constexpr DirectCuts kCuts = winograd_cuts<Cfg, T>();

  const WinogradArgs<Cfg>& p;
  const Epi& epi;
  T* inputs;    // [kCount][kTiles][IC]
  T* products;  // [kCount][kTiles][kLd]
  T* outputs;   // [TH][TW * COLS][kLd]
  const int64_t down, across;
  WinogradImages<T> images;

  WinogradRun(const WinogradArgs<Cfg>& args, void* scratch, const Epi& e)
      : p(args), epi(e), down(ceil_div(args.oh, Cfg::TH)), across(ceil_div(args.ow, Cfg::TW)) {
    inputs = static_cast<T*>(scratch);
    products = inputs + S::kCount * S::kInput;
    outputs = products + S::kCount * S::kProduct;
    T* const zeros = outputs + S::kOutput;
    zero_row(zeros, Cfg::IC);
    images = {p.x, p.sn, p.sh, p.sw, p.h, p.wd, Cfg::PH, Cfg::PW, down, zeros};
  }

  AOT_INLINE void transform_inputs(const Block& b) const {
    Tiles::inputs(images, b, Cfg::IC, S::kInput, inputs);
  }

  // Channels [n0, n1) of the transformed block: the matmuls, then A' m A of each tile.
  void multiply(const Block& b, int64_t n0, int64_t n1) const {
    const int64_t tiles = (b.q1 - b.q0) * b.columns(), panels = ceil_div(n1 - n0, kPanel);
    const T* w = p.w + n0 / kPanel * S::kPanelStride;
    const DirectShape shape = winograd_shape<Cfg, T>(tiles, panels * kPanel);
    for (int64_t e = 0; e < S::kCount; ++e) {
      // Behind the last matrix the channels to come follow in the first.
      const T* const next =
          e + 1 < S::kCount ? w + S::matrix(e + 1) : w + S::matrix(0) + panels * S::kPanelStride;
      const EvenBlock<T> block{inputs + e * S::kInput,
                               Cfg::IC,
                               tiles,
                               Cfg::IC,
                               PackedB<T>{w + S::matrix(e), S::kPanelStride},
                               panels,
                               products + e * S::kProduct,
                               S::kLd};
      even_by_panels<kCuts.rows, kCuts.vectors>(block, shape, Cfg::IC, next);
    }
    for (int64_t q = b.q0; q < b.q1; ++q) {
      const int64_t first = (q - b.q0) * b.columns();
      const T* const m = products + first * S::kLd;
      if (!Tiles::outputs(m, b.columns(), panels, S::kLd, S::kProduct, outputs)) {
        Tiles::by_products(images, b, q, Cfg::IC, w, S::kPlane, panels, outputs, S::kLd);
      }
      const int64_t row = q % down * Cfg::TH, column = b.c0 * Cfg::TW;
      const int64_t pixels = min64(Cfg::TW * b.columns(), p.ow - column);
      for (int64_t i = 0; i < min64(Cfg::TH, p.oh - row); ++i) {
        const int64_t m = ((q / down) * p.oh + row + i) * p.ow + column;
        epi(0, m, m + pixels, n0, n1, outputs + i * Cfg::TW * b.columns() * S::kLd, S::kLd);
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
    const detail::WinogradBlock block{q, min64(q + Cfg::ROWS, rows), c,
                                      min64(c + Cfg::COLS, run.across)};
    if (place != last) run.transform_inputs(block);
    last = place;
    run.multiply(block, n0, min64(n0 + Cfg::NB, Cfg::OC));
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_WINOGRAD_H_
