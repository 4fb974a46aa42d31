// What a convolution is called with, and the sizes that follow: a part of conv.h.
#ifndef AOT_TMPL_CONV_CALL_H_
#define AOT_TMPL_CONV_CALL_H_

#include "aot/tmpl/bf16.h"
#include "aot/tmpl/dots.h"
#include "aot/tmpl/even.h"
#include "aot/tmpl/pieces.h"
#include "aot/tmpl/rounded.h"

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
  static constexpr int64_t COLUMNS = -1;            // of a row of output, or -1: as PIXELS
  static constexpr int64_t MB = 128;                // pixels and channels of a work unit
  static constexpr int64_t NB = 64;
  static constexpr int64_t MC = 128;  // pixels and channels of the epilogue's tile
  static constexpr int64_t NC = 256;  // a multiple of 16
  static constexpr int64_t KB = 256;  // chunk of K
  static constexpr int64_t ROWS = 1;  // with PATCH: the most output rows of a block
  // With PATCH, if positive: the most output columns of a block, a piece of one row (ROWS is 1).
  static constexpr int64_t COLS = 0;
  static constexpr bool PATCH = false;
  // Pixels lie evenly, PIXELS of them with all the channels that a result takes: a kernel of one
  // position without padding or strides over an input without gaps. Without PATCH and TURNED.
  static constexpr bool EVEN = false;
  static constexpr bool TURNED = false;
  static constexpr int64_t SPREAD = 1;   // with TURNED, 2 or 4: see above
  static constexpr bool SHARED = false;  // micro-kernels of all heights are those of SharedTables
  // Whether tiles of bfloat16 multiply floats in pieces where a machine has them (pieces.h), by so
  // many channels, k's and, where those are not all of K, pixels at a time. Not with TURNED.
  static constexpr bool PIECES = false;
  static constexpr int64_t PN = 16, PK = 32, PM = 32;
  // Whether, for tiles, the taps of a pixel are copied side by side from channels that are
  // neighbours (sc = 1): tiles are full where rows are short, and blocks go on where planes end.
  static constexpr bool GATHERED = false;
  // The epilogue only rounds results of pairs to bfloat16, to ConvArgs::out, or adds a channel's
  // number before (ADDS). Not with SPREAD.
  static constexpr bool ROUNDED = false, ADDS = false;
};

template <class Cfg>
struct ConvArgs {
  const typename Cfg::A* x;
  int64_t sn, sc, sd, sh, sw;  // strides of the input in elements
  const typename Cfg::B* w;
  int64_t n, d, h, wd;  // images and input size
  int64_t od, oh, ow;   // output size
  // Where the epilogue stores first: bytes between pixels and channels; null: not known, or near
  // enough. With TURNED for ROUNDED alone: where pixels are neighbours, and images so far apart.
  void* out = nullptr;
  int64_t out_row = 0, out_column = 0, out_image = 0;
  const Bf16* addend = nullptr;  // with ADDS, of all channels
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
  // How pixels that lie evenly are cut.
  static constexpr DirectShape kEvenShape = panel_shape<T>(Cfg::MC, Cfg::NC, kK, Cfg::IC);
  static constexpr DirectCuts kEvenCuts =
      even_cuts<T>(kEvenShape, max64(Cfg::PIXELS, 1), Cfg::MB, Cfg::MC);
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
  // Gathered pixels: elements of a row, whole lines and an odd number of them; rows that stay near.
  static constexpr int64_t kGatherLd = (ceil_div(kK, 32) | 1) * 32;
  static constexpr int64_t kGatherRows =
      min64(max64((1 << 17) / kGatherLd / 32 * 32, 32), round_up(Cfg::MC, 32));
  static constexpr int64_t kGathered = Cfg::GATHERED ? kGatherRows * kGatherLd * 2 : 0;
};

}  // namespace detail

template <class Cfg>
constexpr int64_t conv_scratch(int64_t iw) {
  using S = detail::ConvShape<Cfg>;
  if (Cfg::COLS > 0) iw = (Cfg::COLS - 1) * Cfg::SW + (Cfg::KW - 1) * Cfg::DW + 1;
  const int64_t input = Cfg::PATCH ? Cfg::KD * S::kPatchRows * iw * S::kIc : Cfg::IC;
  return S::kTile + S::kTable + S::kWide + S::kTurned + S::kPieces + S::kGathered +
         input * int64_t(sizeof(typename S::T));
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_CONV_CALL_H_
