// Convolution in 1 to 3 dimensions with groups, stride and dilation, as an implicit matmul.
//
//   template <class Cfg, class Epi>
//   void conv(const ConvArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Epi& epi);
//
// Cfg derives from ConvConfig. Per group it is C = X (M x K) * W (K x N) with M = output pixels
// (n, od, oh, ow), K = (kd, kh, kw, ic), N = output channels of the group. Rows of X are read
// through pointers, padding points to zeros. Two dimensions are D = 1, one is D = H = 1. Only the
// padding before the data matters; that after it follows from the output sizes.
//   work    = G * ceil(OC / NB) * ceil(M / MB)          (unit = (g * nt + ni) * mt + mi)
//   scratch = conv_scratch<Cfg>(iw) bytes, 64-byte aligned, where iw = (ow - 1) * SW +
//             (KW - 1) * DW + 1 is what a row of output reads; iw does not matter without PATCH.
//             Python's twin of the formula: conv_heuristic.ConvBlocking.scratch_bytes.
// Epi is called as in matmul.h, with b = 0, m = the output pixel (n, od, oh, ow) flattened, and
// n = the output channel among all groups:  epi(0, m0, m1, n0, n1, tile, ld). With TURNED, where
// the output's pixels are contiguous, the tile is tile[(n - n0) * ld + (m - m0)], of one image.
// With SPREAD as well, so many channels that follow each other are phases of a pixel, and pixels
// have these side by side: n counts channels of SPREAD each, and m pixels times SPREAD.
//
// W is packed: [G][ceil(OC/16)][KD][KH][KW][IC][16] (packing.pack_conv_weight), 64-byte aligned.
// Without PATCH, channels must be contiguous (sc = 1) and A its own compute type. With PATCH, the
// rows of input that a block needs are first copied into scratch, padded, widened, channels last:
// for few input channels (then a kernel row is one run of k), other layouts and narrow types. Where
// input and weight are bfloat16 and the machine multiplies that, the copy is not widened; pairs of
// k must not straddle taps then, so an odd number of channels has one of zeros behind it, also in
// W.
#ifndef AOT_TMPL_CONV_H_
#define AOT_TMPL_CONV_H_

#include "aot/tmpl/bf16.h"
#include "aot/tmpl/gemm.h"
#include "aot/tmpl/pieces.h"

namespace aot::tmpl {

struct ConvConfig {
  using A = float;                  // element of the input in memory
  using B = float;                  // element of the packed weight in memory
  static constexpr int64_t G = 1;   // groups
  static constexpr int64_t IC = 1;  // input and output channels of one group
  static constexpr int64_t OC = 1;
  static constexpr int64_t KD = 1, KH = 1, KW = 1;  // kernel
  static constexpr int64_t SD = 1, SH = 1, SW = 1;  // stride
  static constexpr int64_t DD = 1, DH = 1, DW = 1;  // dilation
  static constexpr int64_t PD = 0, PH = 0, PW = 0;  // padding before the data
  static constexpr int64_t PIXELS = -1;             // M, or -1: follows from the arguments
  static constexpr int64_t MB = 128;                // pixels and channels of a work unit
  static constexpr int64_t NB = 64;
  static constexpr int64_t MC = 128;  // pixels and channels of the epilogue's tile
  static constexpr int64_t NC = 256;  // a multiple of 16
  static constexpr int64_t KB = 256;  // chunk of K
  static constexpr int64_t ROWS = 1;  // with PATCH: the most output rows of a block
  static constexpr bool PATCH = false;
  static constexpr bool TURNED = false;
  static constexpr int64_t SPREAD = 1;   // with TURNED, 2 or 4: see above
  static constexpr bool SHARED = false;  // micro-kernels of all heights are those of SharedTables
  // Whether tiles of bfloat16 multiply floats in pieces where a machine has them (pieces.h), by so
  // many channels, k's and, where those are not all of K, pixels at a time. Not with TURNED.
  static constexpr bool PIECES = false;
  static constexpr int64_t PN = 16, PK = 32, PM = 32;
};

template <class Cfg>
struct ConvArgs {
  const typename Cfg::A* x;
  int64_t sn, sc, sd, sh, sw;  // strides of the input in elements
  const typename Cfg::B* w;
  int64_t n, d, h, wd;  // images and input size
  int64_t od, oh, ow;   // output size
  // Where the epilogue stores first, without TURNED: bytes between pixels and channels; null: not
  // known, or near enough.
  const void* out = nullptr;
  int64_t out_row = 0, out_column = 0;
};

namespace detail {

// Sizes that follow from a configuration.
template <class Cfg>
struct ConvShape {
  using T = compute_t<typename Cfg::A>;
  // Both operands are bfloat16: an even number of channels lies in the patch and in W.
  static constexpr bool kPairs =
      std::is_same_v<typename Cfg::A, Bf16> && std::is_same_v<typename Cfg::B, Bf16>;
  static constexpr int64_t kIc = kPairs ? round_up(Cfg::IC, 2) : Cfg::IC;
  // In a patch, neighbouring kernel columns are neighbours in memory unless dilated.
  static constexpr bool kRuns = Cfg::PATCH && Cfg::DW == 1;
  static constexpr int64_t kTaps = Cfg::KD * Cfg::KH * (kRuns ? 1 : Cfg::KW);
  static constexpr int64_t kRun = kIc * (kRuns ? Cfg::KW : 1);
  static constexpr int64_t kK = kTaps * kRun;
  static constexpr int64_t kPatchRows = (Cfg::ROWS - 1) * Cfg::SH + (Cfg::KH - 1) * Cfg::DH + 1;
  static constexpr int64_t kLd = (Cfg::PIECES ? max64(Cfg::NC, Cfg::PN) : Cfg::NC) + kPanel;
  static constexpr bool kWidenB = !std::is_same_v<typename Cfg::B, T>;
  static constexpr int64_t kTableRows =
      Cfg::PIECES ? max64(Cfg::MC, 2 * PieceSizes<3>::kStrip) : Cfg::MC;
  static constexpr int64_t kTable = round_up(kTaps * kTableRows * int64_t(sizeof(T*)), 64);
  // Turned tiles: whole blocks are transposed, so that there are whole blocks of rows.
  static constexpr int64_t kTurn = 64, kTurnLd = kTurn * Cfg::SPREAD + kPanel;
  static constexpr int64_t kRows = Cfg::TURNED   ? round_up(Cfg::MC, kPanel)
                                   : Cfg::PIECES ? max64(Cfg::MC, Cfg::PM)
                                                 : Cfg::MC;
  static constexpr int64_t kTurned = Cfg::TURNED ? Cfg::NC * kTurnLd * int64_t(sizeof(T)) : 0;
  static constexpr int64_t kTile = kRows * kLd * int64_t(sizeof(T));
  static constexpr int64_t kWide = kWidenB ? panel_copy_elements(Cfg::KB) * int64_t(sizeof(T)) : 0;
  static constexpr int64_t kPieces =
      Cfg::PIECES ? PieceSizes<3>::scratch(kK, min64(Cfg::PK, kK), Cfg::PN, Cfg::PM) : 0;
};

}  // namespace detail

template <class Cfg>
constexpr int64_t conv_scratch(int64_t iw) {
  using S = detail::ConvShape<Cfg>;
  const int64_t input = Cfg::PATCH ? Cfg::KD * S::kPatchRows * iw * S::kIc : Cfg::IC;
  return S::kTile + S::kTable + S::kWide + S::kTurned + S::kPieces +
         input * int64_t(sizeof(typename S::T));
}

namespace detail {

template <class Cfg, class Epi>
struct ConvRun {
  using A = typename Cfg::A;
  using B = typename Cfg::B;
  using S = ConvShape<Cfg>;
  using T = typename S::T;
  static_assert(Cfg::PATCH || std::is_same_v<A, T>, "narrow inputs need PATCH");
  static constexpr int64_t kPanelStride = packed_rows<B>(S::kK) * kPanel;
  // With PATCH, units are cut where rows and planes end, with TURNED where images do.
  static constexpr Heights kHeights =
      heights_of_units<T>(Cfg::PATCH || Cfg::TURNED ? -1 : Cfg::PIXELS, Cfg::MB, Cfg::MC) |
      (half_last(Cfg::OC) ? kHalfLast : 0) | kSharing<Cfg>;

  const ConvArgs<Cfg>& p;
  T* tile;
  const T** table;  // [kTaps][kTableRows]
  T* b_copy;
  T* turned;
  char* pieces;
  T* input;  // IC zeros, or the patch
  const Epi& epi;
  bool dots = false;   // the patch holds pairs of bfloat16, for the machine's dot products
  bool tiles = false;  // or for its tiles
  bool lying = false;  // pairs are read where the input has them, not in a patch

  ConvRun(const ConvArgs<Cfg>& args, void* scratch, const Epi& e) : p(args), epi(e) {
    char* at = static_cast<char*>(scratch);
    tile = reinterpret_cast<T*>(at);
    table = reinterpret_cast<const T**>(at + S::kTile);
    b_copy = reinterpret_cast<T*>(at + S::kTile + S::kTable);
    turned = reinterpret_cast<T*>(at + S::kTile + S::kTable + S::kWide);
    pieces = at + S::kTile + S::kTable + S::kWide + S::kTurned;
    input = reinterpret_cast<T*>(pieces + S::kPieces);
    if constexpr (!Cfg::PATCH) {
      zero_row(input, Cfg::IC);
    }
#if defined(AOT_TMPL_BF16_UNITS)
    if constexpr (S::kPairs) {
      dots = bf16_unit() >= kBf16Dot;
      tiles = bf16_unit() == kBf16Tiles && S::kRun >= kLeastRun;
      lying = dots && kPointwise && p.sc == 1;
    }
#endif
  }

  // Where an output pixel is.
  struct Pixel {
    int64_t n, od, oh, ow;
  };
  AOT_INLINE Pixel pixel(int64_t m) const {
    const int64_t row = m / p.ow, plane = row / p.oh;
    return {plane / p.od, plane % p.od, row % p.oh, m % p.ow};
  }
  AOT_INLINE void advance(Pixel& q) const {
    if (++q.ow < p.ow) return;
    q.ow = 0;
    if (++q.oh < p.oh) return;
    q.oh = 0;
    if (++q.od < p.od) return;
    q.od = 0;
    ++q.n;
  }

  // Pixels [m0, m1) of group g, channels [n0, n1) of the group.
  void rectangle(int64_t g, int64_t m0, int64_t m1, int64_t n0, int64_t n1) const {
#if defined(AOT_TMPL_BF16_UNITS)
    if constexpr (Cfg::PIECES) {
      if (bf16_unit() == kBf16Tiles) return in_pieces(g, m0, m1, n0, n1);
    }
#endif
    for (int64_t m = m0; m < m1;) {
      int64_t end = m1;
      if constexpr (Cfg::PATCH) {
        const int64_t row = m / p.ow;  // a patch serves rows of one plane
        end = min64(end, (row + min64(Cfg::ROWS, p.oh - row % p.oh)) * p.ow);
        const int64_t rows = (end - 1) / p.ow - row + 1;
        if (!lying) {
          if (S::kPairs && dots) {
            fill_patch(g, pixel(m), rows, reinterpret_cast<A*>(input));
          } else {
            fill_patch(g, pixel(m), rows, input);
          }
        }
      } else if constexpr (Cfg::TURNED) {
        const int64_t image = p.od * p.oh * p.ow;
        end = min64(end, (m / image + 1) * image);
      }
      const Blocks blocks(end - m, Cfg::MC);
      const int64_t first = m;
      for (int64_t i = 0; i < blocks.count; ++i) {
        const int64_t stop = first + blocks.begin(i + 1);
        block(g, m, stop, n0, n1, first / p.ow);
        m = stop;
      }
    }
  }

  AOT_INLINE void block(int64_t g, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                        int64_t patch_row) const {
    if constexpr (!Cfg::PATCH && kPointwise) {
      pixel_pointers(g, m0, m1, table);
    } else if constexpr (!Cfg::PATCH) {
      input_pointers(g, m0, m1, table);
    } else if (lying) {
      pixel_pointers(g, m0, m1, table);
    } else if (S::kPairs && dots) {
      patch_pointers(m0, m1, patch_row, reinterpret_cast<const A*>(input), table);
    } else {
      patch_pointers<T>(m0, m1, patch_row, input, table);
    }
    for (int64_t nc = n0; nc < n1; nc += Cfg::NC) {
      const int64_t ne = min64(nc + Cfg::NC, n1);
      const B* w = p.w + (g * ceil_div(Cfg::OC, kPanel) + nc / kPanel) * kPanelStride;
      const int64_t c0 = g * Cfg::OC + nc, c1 = g * Cfg::OC + ne;
      const int64_t pixels = m1 - m0, panels = ceil_div(ne - nc, kPanel);
      int64_t done = 0;  // rows that the epilogue has had
      const auto part = [&](int64_t i0, int64_t i1) {
        if constexpr (Cfg::TURNED) {
          done = turn(m0, done, i1, i1 == pixels, c0, c1);
        } else {
          epi(0, m0 + i0, m0 + i1, c0, c1, tile, S::kLd);  // a strip, or all of them
        }
      };
#if defined(AOT_TMPL_BF16_UNITS)
      if constexpr (S::kPairs) {
        if (tiles) {
          in_tiles(m0, pixels, w, panels);
          part(0, pixels);
          continue;
        }
        if (dots) {  // a pair of bfloat16 takes the place of a float
          const PackedB<T> pairs{reinterpret_cast<const T*>(w), kPanelStride / 2};
          multiply<Bf16DotFor<Cfg::OC <= kPanel>>(m0, c0, pixels, S::kRun / 2, pairs, ne - nc,
                                                  part);
          continue;
        }
      }
#endif
      if constexpr (S::kWidenB) {
        block_by_panels<MultiplyAdd<T>, Cfg::KB, kHeights>(
            BlockArgs<T, NarrowB<T, B>>{table, S::kTableRows, pixels, S::kTaps, S::kRun,
                                        NarrowB<T, B>{w, kPanelStride, b_copy}, panels, tile,
                                        S::kLd, half_last(ne - nc)},
            RowsInPlace());
        part(0, pixels);
      } else {
        multiply<MultiplyAdd<T>>(m0, c0, pixels, S::kRun, PackedB<T>{w, kPanelStride}, ne - nc,
                                 part);
      }
    }
  }

#if defined(AOT_TMPL_BF16_UNITS)
  // Pixels from m0 on times panels of W, in tiles of pixels that lie evenly: those of an output
  // row, or of more where its rows follow each other so.
  AOT_INLINE void in_tiles(int64_t m0, int64_t pixels, const B* w, int64_t panels) const {
    constexpr bool kEven = Cfg::KD * Cfg::KH * Cfg::KW == 1 && Cfg::SW == 1 && Cfg::SH == 1;
    const int64_t step = Cfg::SW * (lying ? p.sw : S::kIc);
    const bool even = lying ? Cfg::SH * p.sh == p.ow * step : kEven;
    int64_t stretch = even ? p.oh * p.ow : p.ow;
    if (lying && even && Cfg::SD * p.sd == stretch * step) {
      stretch *= p.od;
      if (p.sn == stretch * step) stretch *= p.n;
    }
    const auto pass = [&](int64_t from, int64_t k, int64_t k_step) {
      const Bf16Tiles part{nullptr,
                           step,
                           pixels,
                           k,
                           k_step,
                           reinterpret_cast<const Bf16*>(w),
                           kPanelStride,
                           panels,
                           reinterpret_cast<float*>(tile),
                           S::kLd,
                           from > 0};
      part.run_by_taps(reinterpret_cast<const float* const*>(table), S::kTableRows, S::kTaps, from,
                       S::kRun, [&](int64_t i) {
                         const int64_t left = stretch - (m0 + i) % stretch;
                         return min64(kPanel, min64(left, pixels - i));
                       });
    };
    constexpr int64_t kEqual = Bf16Tiles::equal_step(S::kRun, S::kTaps);
    constexpr int64_t kTail = kEqual > 0 ? 0 : S::kRun % Bf16Tiles::kStep;
    pass(0, S::kRun - kTail, kEqual > 0 ? kEqual : Bf16Tiles::kStep);
    if (kTail > 0) pass(S::kRun - kTail, kTail, kTail);
    Tiles::release();
  }

  // The least of a tap's k's for tiles, which take their time however few they have: that of dot
  // products of four.
  static constexpr int64_t kLeastRun = 8;

  // The same rectangle by pieces of floats.
  AOT_INLINE void in_pieces(int64_t g, int64_t m0, int64_t m1, int64_t n0, int64_t n1) const {
    static_assert(!Cfg::PIECES || (std::is_same_v<T, float> && !Cfg::TURNED && !S::kWidenB));
    constexpr bool kAtOnce = Cfg::PK >= S::kK;
    const PieceProduct<3, T, T, S::kTaps, S::kRun, Cfg::PK> product(
        table, S::kTableRows, tile, S::kLd, pieces, Cfg::PN, Cfg::PM);
    for (int64_t nc = n0; nc < n1; nc += Cfg::PN) {
      const int64_t ne = min64(nc + Cfg::PN, n1), c0 = g * Cfg::OC + nc, c1 = g * Cfg::OC + ne;
      const PiecePanels<T> w{p.w + (g * ceil_div(Cfg::OC, kPanel) + nc / kPanel) * kPanelStride,
                             kPanelStride, kPanel, round_up(ne - nc, kPanel)};
      for (int64_t m = m0; m < m1;) {
        int64_t end = kAtOnce ? m1 : min64(m1, m + Cfg::PM);
        const int64_t row = m / p.ow;
        if constexpr (Cfg::PATCH) {
          end = min64(end, (row + min64(Cfg::ROWS, p.oh - row % p.oh)) * p.ow);
          fill_patch(g, pixel(m), (end - 1) / p.ow - row + 1, input);
        }
        const auto point = [&](int64_t i0, int64_t i1, int64_t place) {
          if constexpr (Cfg::PATCH) {
            patch_pointers<T>(m + i0, m + i1, row, input, table + place);
          } else if constexpr (kPointwise) {
            pixel_pointers(g, m + i0, m + i1, table + place);
          } else {
            input_pointers(g, m + i0, m + i1, table + place);
          }
        };
        const auto part = [&](int64_t i0, int64_t i1, const T* strip) {
          epi(0, m + i0, m + i1, c0, c1, strip, S::kLd);
        };
        product.run(end - m, w, ceil_div(ne - nc, kPanel), m == m0, point, part);
        m = end;
      }
    }
    product.release();
  }
#endif

  // Hands rows [done, end) of the tile, whose first is pixel m0, to the epilogue, turned and a good
  // run of pixels at a time; the rest wait unless they are the last. Returns those handed over.
  AOT_INLINE int64_t turn(int64_t m0, int64_t done, int64_t end, bool last, int64_t c0,
                          int64_t c1) const {
    constexpr int64_t kL = Simd<T>::kLanes, kS = Cfg::SPREAD;
    while (end - done >= S::kTurn || (last && done < end)) {
      const int64_t count = min64(S::kTurn, end - done);
      for (int64_t r = 0; r < count; r += kL) {
        for (int64_t c = 0; c < c1 - c0; c += kL) {
          const T* const from = tile + (done + r) * S::kLd + c;
          T* const to = turned + c / kS * S::kTurnLd + r * kS;
          if constexpr (kS > 1) {
            transpose_units<kS>(from, S::kLd, to, S::kTurnLd);
          } else {
            transpose_block(from, S::kLd, to, S::kTurnLd);
          }
        }
      }
      epi(0, (m0 + done) * kS, (m0 + done + count) * kS, c0 / kS, c1 / kS, turned, S::kTurnLd);
      done += count;
    }
    return done;
  }

  // Pixels from m0 on times columns of W from channel c0 on, that are read in place; `kc` k's a
  // tap, as Op counts them. Calls part(i0, i1) with rows of the tile as they are finished.
  template <class Op, class Part>
  AOT_INLINE void multiply(int64_t m0, int64_t c0, int64_t pixels, int64_t kc, const PackedB<T>& w,
                           int64_t columns, const Part& part) const {
    const char* const out =
        p.out == nullptr ? nullptr
                         : static_cast<const char*>(p.out) + m0 * p.out_row + c0 * p.out_column;
    const BlockArgs<T, PackedB<T>> args{table,
                                        S::kTableRows,
                                        pixels,
                                        S::kTaps,
                                        kc,
                                        w,
                                        ceil_div(columns, kPanel),
                                        tile,
                                        S::kLd,
                                        half_last(columns),
                                        !Cfg::TURNED,
                                        out,
                                        p.out_row,
                                        p.out_column * kPanel};
    if (S::kTaps * kc <= Cfg::KB && p.n * p.od * p.oh * p.ow > 4 * Cfg::MC) {
      // Many pixels per unit of W mean that it is warm: finish strip by strip.
      block_by_strips<Op, kHeights>(args, part);
    } else {
      block_by_panels<Op, Cfg::KB, kHeights>(args, RowsInPlace());
      part(0, pixels);
    }
  }

  // All positions of a kernel dimension are inside the data.
  static AOT_INLINE bool inside(int64_t first, int64_t kernel, int64_t dilation, int64_t size) {
    return first >= 0 && first + (kernel - 1) * dilation < size;
  }

  // table[tap][i]: IC contiguous inputs under pixel m0 + i at a kernel position, or zeros.
  void input_pointers(int64_t g, int64_t m0, int64_t m1, const T** to) const {
    Pixel q = pixel(m0);
    for (int64_t i = 0; i < m1 - m0; ++i, advance(q)) {
      const int64_t d0 = q.od * Cfg::SD - Cfg::PD, h0 = q.oh * Cfg::SH - Cfg::PH;
      const int64_t w0 = q.ow * Cfg::SW - Cfg::PW;
      const T* base = p.x + q.n * p.sn + d0 * p.sd + h0 * p.sh + w0 * p.sw + g * Cfg::IC;
      const T** out = to + i;
      if (inside(d0, Cfg::KD, Cfg::DD, p.d) && inside(h0, Cfg::KH, Cfg::DH, p.h) &&
          inside(w0, Cfg::KW, Cfg::DW, p.wd)) {
        for (int64_t kd = 0; kd < Cfg::KD; ++kd) {
          for (int64_t kh = 0; kh < Cfg::KH; ++kh) {
            const T* line = base + kd * Cfg::DD * p.sd + kh * Cfg::DH * p.sh;
            for (int64_t kw = 0; kw < Cfg::KW; ++kw, out += S::kTableRows) {
              *out = line + kw * Cfg::DW * p.sw;
            }
          }
        }
        continue;
      }
      for (int64_t kd = 0; kd < Cfg::KD; ++kd) {
        const bool d_in = uint64_t(d0 + kd * Cfg::DD) < uint64_t(p.d);
        for (int64_t kh = 0; kh < Cfg::KH; ++kh) {
          const bool h_in = d_in && uint64_t(h0 + kh * Cfg::DH) < uint64_t(p.h);
          const T* line = base + kd * Cfg::DD * p.sd + kh * Cfg::DH * p.sh;
          for (int64_t kw = 0; kw < Cfg::KW; ++kw, out += S::kTableRows) {
            const bool in = h_in && uint64_t(w0 + kw * Cfg::DW) < uint64_t(p.wd);
            *out = in ? line + kw * Cfg::DW * p.sw : input;
          }
        }
      }
    }
  }

  // table[0][i]: where the input has pixel m0 + i of a kernel of one position, without padding.
  static constexpr bool kPointwise = Cfg::KD * Cfg::KH * Cfg::KW == 1 && Cfg::PD == 0 &&
                                     Cfg::PH == 0 && Cfg::PW == 0 && S::kIc == Cfg::IC;
  AOT_INLINE void pixel_pointers(int64_t g, int64_t m0, int64_t m1, const T** to) const {
    for (int64_t i = 0; i < m1 - m0;) {
      const Pixel q = pixel(m0 + i);
      const A* at = p.x + q.n * p.sn + q.od * Cfg::SD * p.sd + q.oh * Cfg::SH * p.sh +
                    q.ow * Cfg::SW * p.sw + g * Cfg::IC;
      const int64_t end = min64(m1 - m0, i + p.ow - q.ow);  // of a row of output
      for (; i < end; ++i, at += Cfg::SW * p.sw) to[i] = reinterpret_cast<const T*>(at);
    }
  }

  AOT_INLINE int64_t patch_width() const {
    return (p.ow - 1) * Cfg::SW + (Cfg::KW - 1) * Cfg::DW + 1;
  }

  // patch[kd][row][column][c]: what `rows` output rows from q's on read, zeros where that is
  // outside the data; of T or, as they are, of A.
  template <class E>
  void fill_patch(int64_t g, const Pixel& q, int64_t rows, E* patch) const {
    const int64_t width = patch_width();
    const int64_t used = (rows - 1) * Cfg::SH + (Cfg::KH - 1) * Cfg::DH + 1;
    for (int64_t kd = 0; kd < Cfg::KD; ++kd) {
      const int64_t d = q.od * Cfg::SD - Cfg::PD + kd * Cfg::DD;
      for (int64_t r = 0; r < used; ++r) {
        const int64_t h = q.oh * Cfg::SH - Cfg::PH + r;
        E* out = patch + (kd * S::kPatchRows + r) * width * S::kIc;
        if (uint64_t(d) < uint64_t(p.d) && uint64_t(h) < uint64_t(p.h)) {
          patch_line(p.x + q.n * p.sn + d * p.sd + h * p.sh + g * Cfg::IC * p.sc, width, out);
        } else {
          zero_row(out, width * S::kIc);
        }
      }
    }
  }

  template <class E>
  AOT_INLINE void patch_line(const A* line, int64_t width, E* out) const {
    const int64_t left = min64(Cfg::PW, width), right = max64(left, min64(width, p.wd + Cfg::PW));
    zero_row(out, left * S::kIc);
    zero_row(out + right * S::kIc, (width - right) * S::kIc);
    out += left * S::kIc;
    line += (left - Cfg::PW) * p.sw;
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

  // table[tap][i]: into the patch, whose first row belongs to output row `patch_row`.
  template <class E>
  void patch_pointers(int64_t m0, int64_t m1, int64_t patch_row, const E* patch,
                      const T** to) const {
    const int64_t width = patch_width();
    int64_t row = m0 / p.ow - patch_row, ow = m0 % p.ow;
    for (int64_t i = 0; i < m1 - m0; ++i) {
      const E* base = patch + (row * Cfg::SH * width + ow * Cfg::SW) * S::kIc;
      const T** out = to + i;
      for (int64_t kd = 0; kd < Cfg::KD; ++kd) {
        for (int64_t kh = 0; kh < Cfg::KH; ++kh) {
          const int64_t line = (kd * S::kPatchRows + kh * Cfg::DH) * width;
          for (int64_t kw = 0; kw < (S::kRuns ? 1 : Cfg::KW); ++kw, out += S::kTableRows) {
            *out = reinterpret_cast<const T*>(base + (line + kw * Cfg::DW) * S::kIc);
          }
        }
      }
      if (++ow == p.ow) {
        ow = 0;
        ++row;
      }
    }
  }
};

}  // namespace detail

template <class Cfg, class Epi>
void conv(const ConvArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Epi& epi) {
  if (begin >= end) return;
  const detail::ConvRun<Cfg, Epi> run(p, scratch, epi);
  const int64_t m = p.n * p.od * p.oh * p.ow;
  const int64_t mt = ceil_div(m, Cfg::MB), nt = ceil_div(Cfg::OC, Cfg::NB);
  for (int64_t u = begin; u < end;) {
    // Units are joined into the largest rectangle, as in matmul.
    const int64_t column = u / mt, g = column / nt, ni = column % nt, mi = u % mt;
    const int64_t rows = min64(mt - mi, end - u);
    const int64_t cols = rows == mt ? min64(nt - ni, (end - u) / mt) : 1;
    run.rectangle(g, mi * Cfg::MB, min64(m, (mi + rows) * Cfg::MB), ni * Cfg::NB,
                  min64(Cfg::OC, (ni + cols) * Cfg::NB));
    u += rows * cols;
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_CONV_H_
