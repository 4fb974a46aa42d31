// Threads for parallel steps: one pool per process, lent to sessions as crews.
//
// A crew is one session's party of threads: the caller of run() and up to `threads - 1` helpers.
// Helpers join when work is published, poll for more while steps follow each other closely, and
// go back to the pool (asleep) when there has been none for a while. Helpers block all signals: the
// program's own threads handle them. A forked process has no helpers: a crew gets new ones there.
// Chunks are claimed one by one from an atomic counter, so a run is right, and finishes, with any
// number of helpers, also none.
#ifndef AOT_SRC_THREAD_POOL_H_
#define AOT_SRC_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "aot/abi.h"

namespace aot_rt {

// Does chunk `chunk` of a job in the party's seat `seat` (0: the caller of run).
using ChunkFn = void (*)(void* job, int32_t seat, int64_t chunk);

// Physical cores that this process may use: affinity mask and control-group quota respected.
int32_t usable_cores();

class Crew {
 public:
  // A crew of `threads` (>= 1) from the process's pool, or on the caller's executor.
  Crew(int32_t threads, const aot_executor* executor);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int32_t threads() const { return threads_; }

  // Does all chunks of a job and returns when all are done. One call at a time. `chunks` < 2^32.
  void run(ChunkFn function, void* job, int64_t chunks);

  struct Shared;  // what helpers see; outlives the crew while a helper still polls it

 private:
  void run_on_executor(int64_t chunks);
  void finish();
  void join_pool();

  int32_t threads_;
  aot_executor executor_{};  // run == nullptr: the pool
  std::shared_ptr<Shared> shared_;
  uint32_t forks_ = 0;  // forks() when it was joined to the pool
};

}  // namespace aot_rt

#endif  // AOT_SRC_THREAD_POOL_H_
