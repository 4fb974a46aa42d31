// Names for `perf` of code that is in no file: kernels are loaded from memory, so that the profiler
// finds no symbols where the mapping says that they are.
#ifndef AOT_SRC_PERF_MAP_H_
#define AOT_SRC_PERF_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

namespace aot_rt {

struct NamedCode {
  uintptr_t begin = 0;
  std::string name;
};

// Appends a line for each to /tmp/perf-PID.map. A function is taken to end where the next one or
// its mapping does. Throws DEVICE_ERROR: the file cannot be written, or is not this user's own.
void append_perf_map(std::vector<NamedCode> code);

}  // namespace aot_rt

#endif  // AOT_SRC_PERF_MAP_H_
