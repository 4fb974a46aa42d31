// The mixed load for minutes: `soak [--minutes 10] [--sessions 64] [--threads 8] [--device cpu]
// [--seed 1] [--no-forks]`. Ends with 1 if a result was wrong, or if memory has grown; prints what
// was done. With `--device cuda` it needs the fake driver, by LD_LIBRARY_PATH.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "mixed_load.h"

namespace {

using aot_test::LoadCounts;
using aot_test::LoadOptions;
using aot_test::LoadResult;

constexpr double kAllowedGrowth = 1.05;
constexpr int64_t kAllowedBytes = 8 << 20;

// Bytes of this process in memory.
int64_t resident() {
  int64_t all = 0;
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

bool parse(int count, char** arguments, LoadOptions* options) {
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--no-forks") {
      options->forks = false;
      continue;
    }
    if (++i == count) return false;
    const char* const value = arguments[i];
    if (name == "--minutes") {
      options->seconds = 60 * std::atof(value);
    } else if (name == "--sessions") {
      options->sessions = std::atoi(value);
    } else if (name == "--threads") {
      options->threads = std::atoi(value);
    } else if (name == "--device") {
      options->device = value;
    } else if (name == "--seed") {
      options->seed = std::strtoull(value, nullptr, 10);
    } else {
      return false;
    }
  }
  return options->seconds > 0 && options->sessions > 0 && options->threads > 0;
}

// The greatest of a part of the samples, from `begin` to before `end` as shares of all.
int64_t greatest(const std::vector<int64_t>& samples, double begin, double end) {
  const auto at = [&samples](double share) {
    return samples.begin() +
           static_cast<std::ptrdiff_t>(share * static_cast<double>(samples.size()));
  };
  return at(begin) == at(end) ? 0 : *std::max_element(at(begin), at(end));
}

void print_counts(const LoadCounts& counts) {
  std::printf("%lld runs (%lld told to fail), %lld swaps of weights, %lld sessions, %lld forks",
              static_cast<long long>(counts.runs), static_cast<long long>(counts.failed_as_told),
              static_cast<long long>(counts.swaps), static_cast<long long>(counts.made),
              static_cast<long long>(counts.forks));  // NOLINT(google-runtime-int)
}

}  // namespace

int main(int count, char** arguments) {
  LoadOptions options;
  options.sessions = 64;
  options.threads = 8;
  options.seconds = 600;
  if (!parse(count, arguments, &options)) {
    std::fprintf(stderr,
                 "usage: soak [--minutes N] [--sessions N] [--threads N] [--device cpu|cuda] "
                 "[--seed N] [--no-forks]\n");
    return 2;
  }
  std::vector<int64_t> samples;
  const LoadResult result = aot_test::run_load(options, [&samples](const LoadCounts& counts) {
    samples.push_back(resident());
    if (samples.size() % 30 != 0) return;
    print_counts(counts);
    std::printf(", %.1f MB\n", megabytes(samples.back()));
    std::fflush(stdout);
  });
  // The first third fills pools and caches; the second is what memory is at its most.
  const int64_t before = greatest(samples, 1.0 / 3, 2.0 / 3);
  const int64_t after = greatest(samples, 2.0 / 3, 1);
  const bool grew =
      static_cast<double>(after) > kAllowedGrowth * static_cast<double>(before) + kAllowedBytes;
  print_counts(result.counts);
  std::printf("\nmemory: at most %.1f MB in the second third, %.1f MB in the last%s\n",
              megabytes(before), megabytes(after), grew ? ": it GROWS" : "");
  for (const std::string& text : result.first_wrong) std::printf("wrong: %s\n", text.c_str());
  std::printf("%lld wrong results\n",
              static_cast<long long>(result.wrong));  // NOLINT(google-runtime-int)
  return result.wrong == 0 && !grew && samples.size() > 2 ? 0 : 1;
}
