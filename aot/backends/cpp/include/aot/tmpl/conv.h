// Convolution in 1 to 3 dimensions with groups, stride and dilation, as an implicit matmul.
//
//   template <class Cfg, class Epi>
//   void conv(const ConvArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Epi& epi);
//
// Cfg derives from ConvConfig. Per group it is C = X (M x K) * W (K x N) with M = output pixels
// (n, od, oh, ow), K = (kd, kh, kw, ic), N = output channels of the group. Rows of X are read
// through pointers, padding points to zeros. Two dimensions are D = 1, one is D = H = 1. Only the
// padding before the data matters; that after it follows from the output sizes.
//   work    = G * ceil(OC / NB) * ceil(M / MB)          (unit = (g * nt + ni) * mt + mi, or, where
//             groups go together, mi * G + g)
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

#include "aot/tmpl/conv_rows.h"

namespace aot::tmpl {

namespace detail {

template <class Cfg, class Epi>
struct ConvRun {
  using A = typename Cfg::A;
  using B = typename Cfg::B;
  using S = ConvShape<Cfg>;
  using T = typename S::T;
  static_assert(Cfg::PATCH || std::is_same_v<A, T>, "narrow inputs need PATCH");
  using Rows = PatchRows<Cfg>;
  static constexpr int64_t kPanelStride = packed_rows<B>(S::kK) * kPanel;
  // With PATCH, units are cut where rows and planes end, with TURNED where images do.
  static constexpr Heights kHeights =
      heights_of_units<T>(Cfg::PATCH || Cfg::TURNED ? -1 : Cfg::PIXELS, Cfg::MB, Cfg::MC) |
      half_of<T>(Cfg::OC, Cfg::NC) | kSharing<Cfg>;

  const ConvArgs<Cfg>& p;
  T* tile;
  const T** table;  // [kTaps][kTableRows]
  T* b_copy;
  T* turned;
  char* pieces;
  A* gathered;
  T* input;  // IC zeros, or the patch
  const Epi& epi;
  bool dots = false;     // the patch holds pairs of bfloat16, for the machine's dot products
  bool tiles = false;    // or for its tiles
  bool lying = false;    // pairs are read where the input has them, not in a patch
  bool gathers = false;  // as Cfg::GATHERED, where the machine has tiles
  mutable PatchTable<Cfg> pointed;
  mutable PixelOrder<Cfg> order;  // of a block's pixels, where that pays

  ConvRun(const ConvArgs<Cfg>& args, void* scratch, const Epi& e) : p(args), epi(e), order(args) {
    char* at = static_cast<char*>(scratch);
    tile = reinterpret_cast<T*>(at);
    table = reinterpret_cast<const T**>(at + S::kTile);
    b_copy = reinterpret_cast<T*>(at + S::kTile + S::kTable);
    turned = reinterpret_cast<T*>(at + S::kTile + S::kTable + S::kWide);
    pieces = at + S::kTile + S::kTable + S::kWide + S::kTurned;
    gathered = reinterpret_cast<A*>(pieces + S::kPieces);
    input = reinterpret_cast<T*>(pieces + S::kPieces + S::kGathered);
    if constexpr (!Cfg::PATCH) {
      zero_row(input, Cfg::IC);
    }
#if defined(AOT_TMPL_BF16_UNITS)
    if (Cfg::PIECES && bf16_unit() == kBf16Tiles) order.leave();
    if constexpr (S::kPairs) {
      dots = bf16_unit() >= kBf16Dot;
      tiles = bf16_unit() == kBf16Tiles && S::kRun >= kLeastRun;
      lying = dots && kPointwise && p.sc == 1;
      gathers = Cfg::GATHERED && bf16_unit() == kBf16Tiles;
      if (tiles || gathers) order.leave();
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
      if (gathers) {
        if (Cfg::TURNED) end = min64(end, image_end(m));
      } else if constexpr (Cfg::PATCH) {
        end = ConvPatch<Cfg>::piece_end(p, m, m1);
        const auto patch = ConvPatch<Cfg>::of(p, m, end);
        if (!lying) {
          if (S::kPairs && dots) {
            patch.fill(g, reinterpret_cast<A*>(input));
          } else {
            patch.fill(g, input);
          }
        }
      } else if constexpr (Cfg::TURNED) {
        end = min64(end, image_end(m));
      }
      const Blocks blocks(end - m, Cfg::MC);
      const int64_t first = m;
      for (int64_t i = 0; i < blocks.count; ++i) {
        const int64_t stop = first + blocks.begin(i + 1);
        block(g, m, stop, n0, n1, ConvPatch<Cfg>::of(p, first, end));
        m = stop;
      }
    }
  }

  AOT_INLINE int64_t image_end(int64_t m) const {
    const int64_t image = p.od * p.oh * p.ow;
    return (m / image + 1) * image;
  }

  AOT_INLINE void block(int64_t g, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                        const ConvPatch<Cfg>& patch) const {
    if constexpr (Cfg::EVEN) return even(g, m0, m1, n0, n1);
    const T* zeros = nullptr;  // where taps outside the data point to
    const bool rows = Rows::goes(p, m0, m1);
    if (gathers || rows) {  // pixels have no pointers
    } else if constexpr (!Cfg::PATCH && kPointwise) {
      pixel_pointers(g, m0, m1, table);
    } else if constexpr (!Cfg::PATCH) {
      if (order.pays()) order.find(m0, m1);
      input_pointers(g, m0, m1, table);
      zeros = input;
    } else if (lying) {
      pixel_pointers(g, m0, m1, table);
    } else if (S::kPairs && dots) {
      zeros = pointed.pointers(patch, m0, m1, reinterpret_cast<const A*>(input), table, order);
    } else {
      zeros = pointed.pointers(patch, m0, m1, input, table, order);
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
          finish(m0 + i0, m0 + i1, c0, c1);  // a strip, or all of them
        }
      };
      if constexpr (Rows::kMay) {
        if (rows) {
          Rows::run(patch, input, m0, m1, PackedB<T>{w, kPanelStride}, ne - nc, tile,
                    result(m0, c0), part);
          continue;
        }
      }
#if defined(AOT_TMPL_BF16_UNITS)
      if constexpr (S::kPairs) {
        if (gathers) {
          in_gathered_tiles(g, m0, pixels, w, panels);
          part(0, pixels);
          continue;
        }
        if (tiles) {
          in_tiles(m0, pixels, w, panels, [&](int64_t i0, int64_t i1) {
            if constexpr (Cfg::TURNED) {
              turn(m0 + i0, 0, i1 - i0, true, c0, c1);
            } else {
              finish(m0 + i0, m0 + i1, c0, c1);
            }
          });
          continue;
        }
        if (dots) {  // a pair of bfloat16 takes the place of a float
          const PackedB<T> pairs{reinterpret_cast<const T*>(w), kPanelStride / 2};
          multiply<Bf16DotFor<Cfg::OC <= kPanel>>(m0, c0, pixels, S::kRun / 2, pairs, ne - nc,
                                                  zeros, part);
          continue;
        }
      }
#endif
      if constexpr (S::kWidenB) {
        block_by_panels<MultiplyAdd<T>, Cfg::KB, kHeights>(
            BlockArgs<T, NarrowB<T, B>>{table, S::kTableRows, pixels, S::kTaps, S::kRun,
                                        NarrowB<T, B>{w, kPanelStride, b_copy}, panels, tile,
                                        S::kLd, half_last(ne - nc), false, nullptr, 0, 0, zeros},
            RowsInPlace());
        part(0, pixels);
      } else {
        multiply<MultiplyAdd<T>>(m0, c0, pixels, S::kRun, PackedB<T>{w, kPanelStride}, ne - nc,
                                 zeros, part);
      }
    }
  }

#if defined(AOT_TMPL_BF16_UNITS)
  // Pixels from m0 on times panels of W, in tiles of pixels that lie evenly: those of an output
  // row, or of more where its rows follow each other so.
  template <class Part>
  AOT_INLINE void in_tiles(int64_t m0, int64_t pixels, const B* w, int64_t panels,
                           const Part& part) const {
    constexpr bool kEven = Cfg::KD * Cfg::KH * Cfg::KW == 1 && Cfg::SW == 1 && Cfg::SH == 1;
    const int64_t step = Cfg::SW * (lying ? p.sw : S::kIc);
    const bool even = lying ? Cfg::SH * p.sh == p.ow * step : kEven;
    int64_t stretch = even ? p.oh * p.ow : p.ow;
    if (lying && even && Cfg::SD * p.sd == stretch * step) {
      stretch *= p.od;
      if (p.sn == stretch * step) stretch *= p.n;
    }
    constexpr int64_t kEqual = Bf16Tiles::equal_step(S::kRun, S::kTaps);
    constexpr int64_t kTail = kEqual > 0 ? 0 : S::kRun % Bf16Tiles::kStep;
    constexpr int64_t kWhole = S::kRun - kTail, kStep = kEqual > 0 ? kEqual : Bf16Tiles::kStep;
    // Strips are finished while they are in the first levels of cache, where W is near.
    const bool near = panels * S::kK * kPanel * 2 <= kWarm;
    const int64_t strip = near ? kStrip : pixels;
    // Pixels [i, i + count) to C's first rows, some at a time; k's [from, from + k) of each tap.
    const auto pass = [&](int64_t i, int64_t count, int64_t from, int64_t k, int64_t k_step,
                          const auto& done) {
      const Bf16Tiles tiles_of{nullptr,
                               step,
                               count,
                               k,
                               k_step,
                               reinterpret_cast<const Bf16*>(w),
                               kPanelStride,
                               panels,
                               reinterpret_cast<float*>(tile),
                               S::kLd,
                               from > 0};
      tiles_of.run_by_taps(
          reinterpret_cast<const float* const*>(table) + i, S::kTableRows, S::kTaps, from, S::kRun,
          strip,
          [&](int64_t q) {
            const int64_t left = stretch - (m0 + i + q) % stretch;
            return min64(kPanel, min64(left, count - q));
          },
          done);
    };
    if constexpr (kTail > 0) {
      for (int64_t i = 0; i < pixels; i += strip) {
        const int64_t count = min64(strip, pixels - i);
        pass(i, count, 0, kWhole, kStep, [](int64_t, int64_t) {});
        pass(i, count, kWhole, kTail, kTail, [&](int64_t q0, int64_t q1) { part(i + q0, i + q1); });
      }
    } else {
      pass(0, pixels, 0, kWhole, kStep, part);
    }
    Tiles::release();
  }

  // The same of pixels whose taps are gathered first.
  AOT_INLINE void in_gathered_tiles(int64_t g, int64_t m0, int64_t pixels, const B* w,
                                    int64_t panels) const {
    constexpr int64_t kEqual = Bf16Tiles::equal_step(S::kK, 1);
    constexpr int64_t kTail = kEqual > 0 ? 0 : S::kK % Bf16Tiles::kStep, kWhole = S::kK - kTail;
    constexpr int64_t kStep = kEqual > 0 ? kEqual : Bf16Tiles::kStep;
    for (int64_t i = 0; i < pixels; i += S::kGatherRows) {
      const int64_t count = min64(S::kGatherRows, pixels - i);
      gather(g, m0 + i, count, gathered);
      float* const c = reinterpret_cast<float*>(tile) + i * S::kLd;
      const Bf16* const b = reinterpret_cast<const Bf16*>(w);
      const Bf16* const a = reinterpret_cast<const Bf16*>(gathered);
      Bf16Tiles part{a, S::kGatherLd, count, kWhole, kStep, b, kPanelStride, panels, c, S::kLd};
      if (kWhole > 0) part.run();
      if (kTail == 0) continue;
      part.a += kWhole;
      part.b += kWhole * kPanel;
      part.k = part.step = kTail;
      part.add = kWhole > 0;
      part.run();
    }
    Tiles::release();
  }

  // All taps of `count` pixels from m0 on, side by side as W has them; zeros outside the data.
  void gather(int64_t g, int64_t m0, int64_t count, A* to) const {
    const bool near = Cfg::DW == 1 && Cfg::IC == S::kIc && p.sw == Cfg::IC;
    Pixel q = pixel(m0);
    for (int64_t i = 0; i < count; ++i, advance(q), to += S::kGatherLd) {
      const int64_t d0 = q.od * Cfg::SD - Cfg::PD, h0 = q.oh * Cfg::SH - Cfg::PH;
      const int64_t w0 = q.ow * Cfg::SW - Cfg::PW;
      const bool within = near && w0 >= 0 && w0 + Cfg::KW <= p.wd;
      const A* const base = p.x + q.n * p.sn + w0 * p.sw + g * Cfg::IC;
      A* out = to;
      for (int64_t kd = 0; kd < Cfg::KD; ++kd) {
        const int64_t d = d0 + kd * Cfg::DD;
        for (int64_t kh = 0; kh < Cfg::KH; ++kh, out += Cfg::KW * S::kIc) {
          const int64_t h = h0 + kh * Cfg::DH;
          const A* const line = base + d * p.sd + h * p.sh;
          if (uint64_t(d) >= uint64_t(p.d) || uint64_t(h) >= uint64_t(p.h)) {
            __builtin_memset(out, 0, Cfg::KW * S::kIc * sizeof(A));
          } else if (within) {
            __builtin_memcpy(out, line, Cfg::KW * S::kIc * sizeof(A));
          } else {
            gather_row(line, w0, out);
          }
        }
      }
    }
  }
  AOT_INLINE void gather_row(const A* line, int64_t w0, A* out) const {
    for (int64_t kw = 0; kw < Cfg::KW; ++kw, out += S::kIc) {
      const int64_t at = kw * Cfg::DW;
      if (uint64_t(w0 + at) < uint64_t(p.wd)) {
        __builtin_memcpy(out, line + at * p.sw, Cfg::IC * sizeof(A));
        if (Cfg::IC != S::kIc) out[Cfg::IC] = A{};
      } else {
        __builtin_memset(out, 0, S::kIc * sizeof(A));
      }
    }
  }

  // Pixels of a strip in tiles, and bytes of W that stay in the second level of cache meanwhile.
  static constexpr int64_t kStrip = 64, kWarm = 3 << 18;

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
        if constexpr (Cfg::PATCH) {
          end = ConvPatch<Cfg>::piece_end(p, m, end);
          ConvPatch<Cfg>::of(p, m, end).fill(g, input);
        }
        const auto point = [&](int64_t i0, int64_t i1, int64_t place) {
          if constexpr (Cfg::PATCH) {
            ConvPatch<Cfg>::of(p, m, end).pointers(m + i0, m + i1, input, table + place, nullptr);
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
      finish_turned(m0 + done, count, c0, c1);
      done += count;
    }
    return done;
  }

  AOT_INLINE const Bf16* addend(int64_t c) const { return Cfg::ADDS ? p.addend + c : nullptr; }

  // The tile's first rows are pixels [m0, m1) of channels [c0, c1).
  AOT_INLINE void finish(int64_t m0, int64_t m1, int64_t c0, int64_t c1) const {
#if defined(AOT_TMPL_BF16_UNITS)
    if constexpr (Cfg::ROUNDED && S::kPairs) {
      if (dots) {
        char* const to = static_cast<char*>(p.out) + m0 * p.out_row + c0 * int64_t(sizeof(Bf16));
        return Rounded::rows<Cfg::ADDS>(tile, S::kLd, m1 - m0, c1 - c0, to, p.out_row, addend(c0));
      }
    }
#endif
    epi(0, m0, m1, c0, c1, tile, S::kLd);
  }

  // `count` pixels from m0 on lie turned.
  AOT_INLINE void finish_turned(int64_t m0, int64_t count, int64_t c0, int64_t c1) const {
    constexpr int64_t kS = Cfg::SPREAD;
#if defined(AOT_TMPL_BF16_UNITS)
    if constexpr (Cfg::ROUNDED && S::kPairs && kS == 1) {
      if (dots) {
        const int64_t image = p.od * p.oh * p.ow, n = m0 / image;
        char* const to = static_cast<char*>(p.out) + n * p.out_image + c0 * p.out_row +
                         (m0 - n * image) * int64_t(sizeof(Bf16));
        return Rounded::lines<Cfg::ADDS>(turned, S::kTurnLd, c1 - c0, count, to, p.out_row,
                                         addend(c0));
      }
    }
#endif
    epi(0, m0 * kS, (m0 + count) * kS, c0 / kS, c1 / kS, turned, S::kTurnLd);
  }

  // Sums of one chunk of k's are finished strip by strip (by_strips), and those are as fast.
  static constexpr bool kByDots = takes_dots<T>(Cfg::OC, S::kRun) && S::kK > Cfg::KB;

  // Many pixels per unit of W mean that it is warm, where it is one chunk: strips are finished one
  // by one.
  AOT_INLINE bool by_strips(int64_t k) const {
    return k <= Cfg::KB && p.n * p.od * p.oh * p.ow > 4 * Cfg::MC;
  }
  AOT_INLINE const char* result(int64_t m, int64_t c) const {
    if (Cfg::TURNED || p.out == nullptr) return nullptr;
    return static_cast<const char*>(p.out) + m * p.out_row + c * p.out_column;
  }

  // The rectangle of pixels that lie evenly.
  AOT_INLINE void even(int64_t g, int64_t m0, int64_t m1, int64_t n0, int64_t n1) const {
    for (int64_t nc = n0; nc < n1; nc += Cfg::NC) {
      const int64_t ne = min64(nc + Cfg::NC, n1), panels = ceil_div(ne - nc, kPanel);
      const int64_t c0 = g * Cfg::OC + nc, c1 = g * Cfg::OC + ne;
      const T* const w = p.w + (g * ceil_div(Cfg::OC, kPanel) + nc / kPanel) * kPanelStride;
      const T* const x = p.x + m0 * p.sw + g * Cfg::IC;
      EvenBlock<T> block{x, p.sw, m1 - m0, S::kK, {w, kPanelStride}, panels, tile, S::kLd};
      block.out = result(m0, c0), block.out_row = p.out_row;
      block.out_panel = p.out_column * kPanel;
      if (by_strips(S::kK)) {
        even_by_strips<S::kEvenCuts.rows, S::kEvenCuts.vectors>(
            block, S::kEvenShape,
            [&](int64_t i0, int64_t i1) { epi(0, m0 + i0, m0 + i1, c0, c1, tile, S::kLd); });
      } else {
        even_by_panels<S::kEvenCuts.rows, S::kEvenCuts.vectors>(block, S::kEvenShape, Cfg::KB,
                                                                w + panels * kPanelStride);
        epi(0, m0, m1, c0, c1, tile, S::kLd);
      }
    }
  }

  // Pixels from m0 on times columns of W from channel c0 on, that are read in place; `kc` k's a
  // tap, as Op counts them. Calls part(i0, i1) with rows of the tile as they are finished.
  template <class Op, class Part>
  AOT_INLINE void multiply(int64_t m0, int64_t c0, int64_t pixels, int64_t kc, const PackedB<T>& w,
                           int64_t columns, const T* zeros, const Part& part) const {
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
                                        result(m0, c0),
                                        p.out_row,
                                        p.out_column * kPanel,
                                        zeros};
    if constexpr (kByDots && std::is_same_v<Op, MultiplyAdd<T>>) {
      block_by_dots(args);
      if (order.pays()) order.restore(tile, S::kLd, pixels, columns);
      part(0, pixels);
    } else if (!order.pays() && by_strips(S::kTaps * kc)) {
      block_by_strips<Op, kHeights>(args, part);
    } else {
      block_by_panels<Op, Cfg::KB, kHeights>(args, RowsInPlace());
      if (order.pays()) order.restore(tile, S::kLd, pixels, columns);
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
    const int16_t* const place = order.places();
    for (int64_t i = 0; i < m1 - m0; ++i, advance(q)) {
      const int64_t d0 = q.od * Cfg::SD - Cfg::PD, h0 = q.oh * Cfg::SH - Cfg::PH;
      const int64_t w0 = q.ow * Cfg::SW - Cfg::PW;
      const T* base = p.x + q.n * p.sn + d0 * p.sd + h0 * p.sh + w0 * p.sw + g * Cfg::IC;
      const T** out = to + (place == nullptr ? i : place[i]);
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
};

}  // namespace detail

template <class Cfg, class Epi>
void conv(const ConvArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Epi& epi) {
  if (begin >= end) return;
  const detail::ConvRun<Cfg, Epi> run(p, scratch, epi);
  const int64_t m = p.n * p.od * p.oh * p.ow;
  const int64_t mt = ceil_div(m, Cfg::MB), nt = ceil_div(Cfg::OC, Cfg::NB);
  if constexpr (detail::groups_together<Cfg>()) {
    // Pixels outermost: units follow each other by groups.
    constexpr int64_t kJoined = max64(1, Cfg::MC / Cfg::MB);
    for (int64_t u = begin; u < end;) {
      const int64_t mi = u / Cfg::G, g0 = u % Cfg::G;
      const int64_t whole = g0 == 0 ? min64((end - u) / Cfg::G, kJoined) : 0;
      const int64_t rows = max64(1, whole),
                    groups = whole > 0 ? Cfg::G : min64(Cfg::G - g0, end - u);
      for (int64_t g = g0; g < g0 + groups; ++g) {
        run.rectangle(g, mi * Cfg::MB, min64(m, (mi + rows) * Cfg::MB), 0, Cfg::OC);
      }
      u += rows * groups;
    }
    return;
  }
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
