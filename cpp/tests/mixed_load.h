// Many threads on many sessions of three packages, as a service has them: runs that succeed and
// runs that fail, swaps of weights, states, observers, clones, forks, and sessions that come and go
// while others use them. Every result is checked.
#ifndef AOT_TESTS_MIXED_LOAD_H_
#define AOT_TESTS_MIXED_LOAD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace aot_test {

struct LoadOptions {
  std::string device = "cpu";
  int sessions = 8;
  int threads = 4;
  int64_t turns = 300;  // of each thread
  double seconds = 0;   // instead of turns, where it is not 0
  bool forks = true;    // not on a GPU
  uint64_t seed = 1;
};

struct LoadCounts {
  int64_t runs = 0;
  int64_t failed_as_told = 0;
  int64_t swaps = 0;
  int64_t made = 0;  // sessions, clones among them
  int64_t forks = 0;
};

struct LoadResult {
  LoadCounts counts;
  int64_t wrong = 0;
  std::vector<std::string> first_wrong;  // the first few, in words
};

// Runs the load to its end. `tick` is called about once a second with the counts so far, from
// another thread; may be empty.
LoadResult run_load(const LoadOptions& options, const std::function<void(const LoadCounts&)>& tick);

}  // namespace aot_test

#endif  // AOT_TESTS_MIXED_LOAD_H_
