// Few rows by packed float16: a part of matmul.h.
//
// Where one strip has all rows, widened panels would be written to scratch to be read once: that
// takes longer than memory does to give them. The kernels of direct.h read panels where they lie.
#ifndef AOT_TMPL_MATMUL_FEW_H_
#define AOT_TMPL_MATMUL_FEW_H_

#include "aot/tmpl/matmul_call.h"

namespace aot::tmpl {

namespace detail {

template <class Cfg, class Epi>
struct FewRun {
  using A = typename Cfg::A;
  using B = typename Cfg::B;
  using T = compute_t<A>;
  using Source = PanelsOfB<T, B>;
  static constexpr int64_t kAhead = 4096;  // bytes
  static constexpr int kVectors = Simd<T>::kPerPanel;
  static constexpr int64_t kMost =
      min64(kMostDirectRows, (kVectorRegisters - kDirectRest - kVectors) / kVectors);
  static constexpr bool kIs = matmul_may_be_few<Cfg>() && Cfg::M <= kMost;
  static constexpr int64_t kLd = matmul_tile_ld<Cfg>(), kRowLd = matmul_few_ld<Cfg>();

  const MatmulArgs<Cfg>& p;
  T* tile;
  const Epi& epi;

  // Columns [n0, n1) of all rows of batch element b: panels in turn, each of one long stream.
  void columns(int64_t b, int64_t n0, int64_t n1) const {
    T* const rows = tile + Cfg::MC * kLd;
    copy_rows(p.a + b * p.a_batch, p.a_row, p.a_col, Cfg::M, Cfg::K, rows, kRowLd);
    DirectArgs<T, Source> args{rows, kRowLd, 1, {}, Cfg::K, nullptr, kLd, Simd<T>::kLanes, false};
    args.line = kPanel * int64_t(sizeof(B));
    const int64_t panel = Cfg::K * kPanel;
    const B* at = p.b + b * p.b_batch + n0 / kPanel * panel;
    for (int64_t nc = n0; nc < n1; nc += Cfg::NC) {
      const int64_t ne = min64(nc + Cfg::NC, n1);
      for (int64_t n = nc; n < ne; n += kPanel, at += panel) {
        args.b = {at, panel};
        args.c = tile + n - nc;
        // Panels follow each other. Machines look ahead no further than a page.
        args.next = reinterpret_cast<const char*>(at) + kAhead;
        direct_kernel<T, Source, int(Cfg::M), kVectors, false>(args);
      }
      epi(b, 0, Cfg::M, nc, ne, tile, kLd);
    }
  }
};

}  // namespace detail

}  // namespace aot::tmpl

#endif  // AOT_TMPL_MATMUL_FEW_H_
