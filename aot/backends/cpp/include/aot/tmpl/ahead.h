// What the next matrices of a batch are made of, brought near while these are multiplied.
#ifndef AOT_TMPL_AHEAD_H_
#define AOT_TMPL_AHEAD_H_

#include <cstdint>

#include "aot/tmpl/simd.h"

namespace aot::tmpl {

// Memory that is used soon. Kernels ask for a line of it at each k, to the second level of cache:
// what comes while they multiply need not be waited for afterwards. Any address is harmless.
class Ahead {
 public:
  static constexpr int64_t kLine = 64;
  // Bytes of the next operands and results that the second level has room for beside these.
  static constexpr int64_t kMost = 3 << 18;

  // So many bytes from here on, after those that were added before.
  AOT_INLINE void add(const void* at, int64_t bytes) {
    const int64_t there = min64(bytes, kMost - all_);
    if (count_ == kRuns || there <= 0) return;
    runs_[count_++] = {static_cast<const char*>(at), there};
    all_ += there;
  }

  // Spreads them over so many times that kernels ask. Where these are far fewer than there are
  // lines, products wait for memory anyway, and more requests only take each other's places.
  AOT_INLINE void spread(int64_t asked) {
    constexpr int64_t kFewer = 3;
    if (all_ > kFewer * kLine * asked) count_ = 0;
    if (count_ > 0) step_ = min64(kLine, round_up(ceil_div(all_, asked), 8));
  }

  // Whether there is more to come.
  AOT_INLINE bool any() const { return at_ < count_; }
  // Bytes from what is asked for at one k to the next.
  AOT_INLINE int64_t step() const { return step_; }
  // Where `asked` times begin.
  AOT_INLINE const char* take(int64_t asked) {
    Run& run = runs_[at_];
    const char* const here = run.at;
    const int64_t bytes = asked * step_;
    run.at += bytes;
    run.bytes -= bytes;
    if (run.bytes <= 0) ++at_;
    return here;
  }

 private:
  static constexpr int kRuns = 3;
  struct Run {
    const char* at;
    int64_t bytes;
  };
  Run runs_[kRuns];
  int count_ = 0, at_ = 0;
  int64_t all_ = 0, step_ = 0;
};

}  // namespace aot::tmpl

#endif  // AOT_TMPL_AHEAD_H_
