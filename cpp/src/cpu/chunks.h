// How the units of a launch are cut into chunks for several workers.
//
// The caller claims chunks from the front, helpers from the back (thread_pool.h). So the units are
// cut into the caller's share and the helpers' first, and each share into a few chunks for each
// worker, the last to be claimed the smallest: workers that are as fast as each other end together,
// and what one that is slowed down leaves to the others is small. Where the cuts are depends on the
// units, the grain and the number of threads alone, so that a run gives the same bits whoever does
// what.
#ifndef AOT_SRC_CPU_CHUNKS_H_
#define AOT_SRC_CPU_CHUNKS_H_

#include <cstdint>

namespace aot_rt {

class Chunks {
 public:
  Chunks() = default;  // of nothing
  // Cuts `units` (>= 0) for `threads` (>= 1), of which each wants `grain` (>= 1) units at least.
  Chunks(int64_t units, int64_t grain, int32_t threads);

  // 1 at least; below 2^15.
  int32_t count() const { return workers_ * pieces_; }

  // The first unit of a chunk; of chunk count(): the number of units. A chunk may have none.
  int64_t begin(int64_t chunk) const;

 private:
  int64_t units_ = 0;
  int32_t workers_ = 1;  // that have a share
  int32_t pieces_ = 1;   // of each worker's share
};

}  // namespace aot_rt

#endif  // AOT_SRC_CPU_CHUNKS_H_
